"""The gateway, put together. This package only wires: what each part does stands in its own package."""

from bailiwick.app.beginning import open_gateway
from bailiwick.app.serving import serve

__all__ = ["open_gateway", "serve"]

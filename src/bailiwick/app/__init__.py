"""The gateway, put together. This package only wires: what each part does stands in its own package."""

from bailiwick.app.gateway import Gateway
from bailiwick.app.serving import serve

__all__ = ["Gateway", "serve"]

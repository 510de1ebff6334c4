"""Logs, metrics and traces."""

import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    # structlog takes rich along for tracebacks that we never let it draw (they would show local variables).
    # Logs are imported before Spark is begun, where a tenth of a second counts: so it is told there is none.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]

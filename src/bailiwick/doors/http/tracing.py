"""HTTP requests as spans: each joins the trace of its `traceparent`, or begins one.

It wraps an ASGI application, which need not know. What is asked all day (health, numbers, heartbeats) is
left alone. A span tells the method and the status, never the path: paths hold names.
"""

from collections.abc import MutableMapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bailiwick.telemetry.trace_context import TRACEPARENT, TRACESTATE, TraceContext, read
from bailiwick.telemetry.traces import Traces

QUIET_PATHS: Final = ("/healthz", "/readyz", "/metrics", "/internal/")


class TracedApp:
    def __init__(self, app: ASGIApp, traces: Traces) -> None:
        self._app = app
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(QUIET_PATHS):
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        with self._traces.call(f"HTTP {method}", _caller(scope), {"http.request.method": method}) as span:

            async def note(message: Message) -> None:
                if span is not None and message["type"] == "http.response.start":
                    status = int(message["status"])
                    span.attributes["http.response.status_code"] = status
                    span.failure = str(status) if status >= 500 else None
                await send(message)

            await self._app(scope, receive, note)


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


def _caller(scope: MutableMapping[str, Any]) -> TraceContext | None:
    def values(name: str) -> list[str]:
        return [value.decode("latin-1") for key, value in scope["headers"] if key == name.encode()]

    return read(values(TRACEPARENT), values(TRACESTATE))

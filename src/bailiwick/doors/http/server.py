"""The HTTP port: an ASGI application on every address, on the same port, inside our own event loop."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

import uvicorn
from starlette.types import ASGIApp

from bailiwick.doors.http.tracing import TracedApp
from bailiwick.doors.listening import listen
from bailiwick.doors.tls import Tls
from bailiwick.telemetry.traces import NO_TRACES, Traces

_BACKLOG = 2048


class HttpServer:
    """Start it once, stop it once. Signals are the application's business, not its."""

    def __init__(
        self,
        addresses: Sequence[str],
        port: int,
        app: ASGIApp,
        *,
        tls: Tls | None = None,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._wanted = (tuple(addresses), port)
        self._server = _Server(
            uvicorn.Config(
                TracedApp(app, traces) if traces.is_on else app,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                backlog=_BACKLOG,
                ssl_context_factory=None if tls is None else lambda _config, _default: tls.http_context(),
            )
        )
        self._serving: asyncio.Task[None] | None = None
        self.addresses: tuple[str, ...] = ()
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises CannotListenError."""
        sockets = listen(*self._wanted)
        self.addresses = tuple(each.getsockname()[0] for each in sockets)
        self.port = sockets[0].getsockname()[1]
        self._serving = asyncio.create_task(self._server.serve(sockets=sockets), name="http server")
        started = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._serving, started}, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._serving.done():
            await self._serving

    async def stop(self, grace_s: float) -> None:
        """Take no new requests, let running ones go on for `grace_s`, then end them."""
        if self._serving is None:
            return
        self._server.config.timeout_graceful_shutdown = max(0, round(grace_s))
        self._server.should_exit = True
        await self._serving


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets=sockets)  # type: ignore[arg-type]
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

"""The facade's own thread and event loop, so that no stream of results ever delays a table load."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bailiwick.catalog.calls import CATALOG, Calls
from bailiwick.catalog.facade import PATH_LENGTH_MAX, Facade, Joined, Leases, Observer, nobody_joined
from bailiwick.catalog.ownership import Ownership
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.staging import StagedCalls, Staging
from bailiwick.policy.stamp import StampKey

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 10.0
_BACKLOG = 256
_THREADS = 8
_KEEP_ALIVE_S = 3600
"""Engines keep connections for long; one closed under a commit would leave it unknown."""
_GRACE_S = 3


@dataclass(frozen=True, slots=True)
class EncryptedListener:
    """Where engines of other machines call: a socket that is bound, and the certificate to show there."""

    socket: socket.socket
    context: ssl.SSLContext


class FacadeServer:
    """Serves one catalog to engines. `start` and `stop` block, and are called once each.

    It takes calls at `listening`, or at a socket of its own, and with TLS at `encrypted`; all are closed by
    `stop`. `stamp_key` gives the key that seals stamps for the gateway's own engine as it lives now, `joined`
    knows the others; `ownership` keeps account of who made what.
    """

    def __init__(
        self,
        service: CatalogService,
        leases: Leases,
        engine_credential: str,
        *,
        listening: socket.socket | None = None,
        encrypted: EncryptedListener | None = None,
        joined: Joined = nobody_joined,
        catalog: str = CATALOG,
        stamp_key: Callable[[], StampKey | None] = lambda: None,
        ownership: Ownership | None = None,
        table_config: Mapping[str, str] | None = None,
        observer: Observer | None = None,
        staging: Staging | None = None,
    ) -> None:
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="catalog")
        settings: dict[str, Any] = {
            "catalog": catalog,
            "stamp_key": stamp_key,
            "ownership": ownership,
            "table_config": table_config,
        }
        calls = Calls(service, **settings) if staging is None else StagedCalls(service, staging, **settings)
        facade = Facade(
            calls,
            leases,
            engine_credential,
            self._executor,
            joined=joined,
            observer=observer,
        )
        self._server = _Server(_settings(facade))
        self._socket = listening
        self._encrypted = encrypted
        self._encrypted_server = None if encrypted is None else _Server(_settings(facade, encrypted.context))
        self._thread = threading.Thread(target=self._run, name="catalog-facade", daemon=True)

    def start(self) -> int:
        """The port, once calls are answered there."""
        if self._socket is None:
            self._socket = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._thread.start()
        for server in self._servers:
            if not server.is_listening.wait(START_TIMEOUT_S):
                raise RuntimeError("the catalog facade did not start")
        return int(self._socket.getsockname()[1])

    def stop(self) -> None:
        """Finish the calls that run, refuse others, end the thread. Fine if it never started."""
        for server in self._servers:
            server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT_S)
        self._executor.shutdown(wait=True, cancel_futures=True)
        for bound in (self._socket, self._encrypted.socket if self._encrypted else None):
            if bound is not None:
                bound.close()

    @property
    def _servers(self) -> list["_Server"]:
        return [self._server] if self._encrypted_server is None else [self._server, self._encrypted_server]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as serving:
            serving.create_task(self._server.serve(sockets=[self._socket] if self._socket else None))
            if self._encrypted is not None and self._encrypted_server is not None:
                serving.create_task(self._encrypted_server.serve(sockets=[self._encrypted.socket]))


def _settings(facade: Facade, context: ssl.SSLContext | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        facade,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_context_factory=None if context is None else lambda _config, _default: context,
    )


class _Protocol(HttpToolsProtocol):
    """Keeps no more of a path than it takes to see that it is too long: the facade has an answer for that."""

    def on_url(self, url: bytes) -> None:
        super().on_url(url[: max(0, PATH_LENGTH_MAX + 1 - len(self.url))])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_listening = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_listening.set()

"""A gateway from its first moment: Spark is begun before the rest of the gateway is even imported.

Both take seconds, and neither needs the other until the catalog is asked. So the catalog's port is taken
first, Spark started with it, and everything else is brought up meanwhile. This module is imported by the
command line before all others: keep what it imports small.
"""

import asyncio
import importlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bailiwick import __version__
from bailiwick.config import Config, ServerConfig
from bailiwick.database.lock import DirectoryLock
from bailiwick.doors.listening import listen
from bailiwick.engines.embedded import Channel, EmbeddedEngine
from bailiwick.secrets import Secret, new_secret
from bailiwick.telemetry import logs

if TYPE_CHECKING:
    from bailiwick.app.gateway import Gateway

Report = Callable[[str], None]
"""Told what is being done, a line a step, for people who wait."""

_BACKLOG = 256

_log = logs.logger(__name__)


@dataclass(frozen=True, slots=True)
class BegunEngine:
    """Spark on its way up, and what the catalog needs to be found by it."""

    engine: EmbeddedEngine | None
    """None where the gateway is to have none of its own."""
    catalog_socket: socket.socket
    credential: Secret

    @classmethod
    async def open(
        cls, stack: AsyncExitStack, config: Config, data_dir: Path, report: Report
    ) -> "BegunEngine":
        """Started, not waited for. A call to the catalog waits in the socket's queue until it is served."""
        listening = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        stack.callback(listening.close)
        credential = new_secret()
        if not config.fleet.embedded:
            return cls(None, listening, credential)
        report("starting Spark")
        engine = EmbeddedEngine(
            config.engine,
            data_dir,
            catalog_uri=f"http://127.0.0.1:{listening.getsockname()[1]}/iceberg",
            credential=credential.reveal(),
            connect=_channel,
            report=report,
        )
        stack.push_async_callback(engine.stop)
        await engine.begin()
        return cls(engine, listening, credential)


@asynccontextmanager
async def open_gateway(
    config: Config, data_dir: Path, report: Report = lambda _line: None
) -> AsyncIterator["Gateway"]:
    """Everything up and warm inside the block; everything down after it, in the opposite order."""
    _log.info("opening", version=__version__)
    async with AsyncExitStack() as stack:
        data_dir = await asyncio.to_thread(_made, data_dir)
        stack.enter_context(DirectoryLock.acquire(data_dir))
        _check_ports(config.server)
        begun = await BegunEngine.open(stack, config, data_dir, report)
        gateway = await asyncio.to_thread(importlib.import_module, "bailiwick.app.gateway")
        yield await gateway.open_around(stack, config, data_dir, begun, report)


def _channel(address: str, token: str) -> Channel:
    # By now the rest of the gateway has imported it.
    from bailiwick.engines.spark_connect import SparkConnectChannel

    return SparkConnectChannel(address, token)


def _check_ports(server: ServerConfig) -> None:
    """A taken port should be told now, not after Spark has started. Raises CannotListenError."""
    for port in (server.grpc_port, server.http_port):
        for bound in listen(server.bind, port):
            bound.close()


def _made(data_dir: Path) -> Path:
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    return data_dir.resolve()

"""The door before an engine: what comes in over TLS goes to the engine's loopback port, and back.

Bytes only. It neither parses what passes nor keeps or logs any of it: both sides of the talk trust it no
more than the wire. Who has no certificate of our authority is turned away before a byte is passed on. Without
certificates it serves loopback addresses only.
"""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Final

from bailiwick.doors.listening import is_loopback, listen, shown
from bailiwick.doors.tls import Tls
from bailiwick.errors import CannotStartError
from bailiwick.telemetry.logs import logger

CONNECTIONS_MAX: Final = 64
HANDSHAKE_TIMEOUT_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 5.0
LAST_WORDS_S: Final = 2.0
IDLE_PROBE_S: Final = 60
CHUNK_BYTES: Final = 256 * 1024
_BACKLOG: Final = 64
_LOOPBACK: Final = "127.0.0.1"

_log = logger(__name__)


class Forwarder:
    """Listens from `start` to `stop`; where to, `aim` says. Nothing is passed on while there is no aim."""

    def __init__(
        self, host: str, port: int = 0, *, tls: Tls | None, connections_max: int = CONNECTIONS_MAX
    ) -> None:
        if tls is None and not is_loopback(host):
            raise CannotStartError(
                f"{host}: without certificates an engine is served on loopback only: give --certificate, "
                "--key and --authority"
            )
        self._host = host
        self._wanted_port = port
        self._tls = tls
        self._connections_max = connections_max
        self._listening: socket.socket | None = None
        self._aim: int | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises CannotListenError."""
        (self._listening,) = await asyncio.to_thread(listen, [self._host], self._wanted_port)
        self._listening.listen(_BACKLOG)
        self._listening.setblocking(False)
        self.port = self._listening.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(self._listening), name="forwarder")

    async def stop(self) -> None:
        """End every connection, and listen no more. Fine if it never started."""
        tasks = [*self._connections, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()

    @property
    def address(self) -> str:
        """As the gateway is told it."""
        return shown(self._host, self.port)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def aim(self, port: int | None) -> None:
        """From now on pass to that port of this machine, or to none. Connections to another one are ended."""
        if port != self._aim:
            self._aim = port
            for task in self._connections:
                task.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                # Too many open files, most likely. It passes; without a pause it would only burn the machine.
                _log.warning("forwarder_cannot_accept", reason=error.strerror)
                await asyncio.sleep(0.1)
                continue
            if self._aim is None or len(self._connections) >= self._connections_max:
                accepted.close()
                continue
            # A gateway that vanished must not hold its place for ever.
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_PROBE_S)
            task = asyncio.create_task(self._serve(accepted, self._aim))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, accepted: socket.socket, port: int) -> None:
        # Whatever breaks on one side, the other sees its connection end, and that is all there is to say.
        with suppress(OSError, TimeoutError, EOFError):
            outside = await self._received(accepted)
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    inside = await asyncio.open_connection(_LOOPBACK, port, limit=CHUNK_BYTES)
                try:
                    await _pass(outside, inside)
                    await _closed(outside[1])
                finally:
                    inside[1].transport.abort()
            finally:
                outside[1].transport.abort()

    async def _received(self, accepted: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection once its certificate has been seen. Raises OSError or TimeoutError without one."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=CHUNK_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._context(),
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_TIMEOUT_S,
            )
        except BaseException:
            accepted.close()
            raise
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _context(self) -> ssl.SSLContext | None:
        if self._tls is None:
            return None
        context = self._tls.current.context
        # gRPC takes nothing else.
        context.set_alpn_protocols(["h2"])
        return context


async def _pass(
    outside: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    inside: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Both ways, until either side ends."""
    ways = [
        asyncio.create_task(_copy(outside[0], inside[1])),
        asyncio.create_task(_copy(inside[0], outside[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            # No more is read than the other side takes.
            await writer.drain()


async def _closed(writer: asyncio.StreamWriter) -> None:
    """What is still to be sent goes out first: an engine's last words matter."""
    writer.close()
    async with asyncio.timeout(LAST_WORDS_S):
        await writer.wait_closed()

"""A TCP connection between a client and a door that breaks without a word when a test wants it to."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_LINGER_NOT = struct.pack("ii", 1, 0)
"""SO_LINGER: on, for no time. Closing then resets."""


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    writer.transport.abort()


class Line:
    """A TCP connection's way to the door, which can be cut."""

    def __init__(self, port: int) -> None:
        self._door_port = port
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Line"]:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await server.wait_closed()

    def cut(self) -> None:
        for writer in self._writers:
            reset(writer)
        self._writers.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._door_port)
        self._writers += (writer, far_writer)
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # The line was cut, or one end left: what is on its way is lost, as it should be.
    finally:
        writer.close()

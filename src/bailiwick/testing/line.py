"""A line between two parts that talk by TCP, which breaks when a test wants it to.

It carries bytes and knows nothing of what they mean. It lives in a thread of its own, so that whoever breaks
it may block meanwhile. What is broken holds for connections of before and for new ones until `mend`, except
`reset`, which is over as soon as it has happened.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

Target = Callable[[], tuple[str, int]]
"""Where the line leads now; asked anew for each connection, as a restarted part has another port."""

_CHUNK_BYTES = 1 << 14
_CHUNKS_UNDER_WAY_MAX = 64
_COMMAND_S = 10.0
_LINGER_NOT = struct.pack("ii", 1, 0)
"""SO_LINGER: on, for no time. Closing then resets."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How quickly a direction of a connection carries. 0 bytes a second means as quickly as it can."""

    bytes_per_s: float = 0.0
    latency_s: float = 0.0


@dataclass(slots=True)
class _State:
    """What the line does at present. Only its own thread touches it."""

    flows: asyncio.Event = field(default_factory=asyncio.Event)
    refuses: bool = False
    pace: Pace = field(default_factory=Pace)
    turn: asyncio.TimerHandle | None = None
    """When it flaps: the next time."""


class Line:
    """The near end listens on loopback at `port`; use `laid` to have one."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._state = _State()
        self._state.flows.set()
        self.port = 0
        self.connections = 0
        """How many were made in all."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def reset(self) -> None:
        """Break every connection there is, with what was under way on it. New ones pass."""
        self._do(self._reset_all)

    def cut(self) -> None:
        """Break every connection, and every new one as soon as it is made."""
        self._do(self._refuse)

    def hang(self) -> None:
        """Carry nothing more, in either direction, while all connections stay open."""
        self._do(self._state.flows.clear)

    def slow(self, *, bytes_per_s: float = 0.0, latency_s: float = 0.0) -> None:
        """Carry at this pace in each direction of each connection; bytes arrive `latency_s` late."""
        pace = Pace(bytes_per_s, latency_s)
        self._do(lambda: setattr(self._state, "pace", pace))

    def flap(self, *, every_s: float) -> None:
        """Be cut and whole by turns, beginning with a cut."""
        self._do(lambda: self._flap(every_s, is_cut=True))

    def mend(self) -> None:
        """Be whole again: what hung flows on, what was slow is quick, new connections pass."""
        self._do(self._restore)

    def _do(self, command: Callable[[], None]) -> None:
        """Have the line's own thread do it, and wait until it is done."""

        async def act() -> None:
            command()

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(_COMMAND_S)

    def _flap(self, every_s: float, *, is_cut: bool) -> None:
        if is_cut:
            self._refuse()
        else:
            self._state.refuses = False
        self._state.turn = self._loop.call_later(every_s, partial(self._flap, every_s, is_cut=not is_cut))

    def _restore(self) -> None:
        if self._state.turn is not None:
            self._state.turn.cancel()
        self._state.turn = None
        self._state.refuses = False
        self._state.pace = Pace()
        self._state.flows.set()

    def _refuse(self) -> None:
        self._state.refuses = True
        self._reset_all()

    def _reset_all(self) -> None:
        for writer in self._writers:
            _reset(writer)
        self._writers.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target())
        except (OSError, LookupError):
            _reset(writer)  # Nobody is there: the near side sees what it would see without a line.
            return
        self._writers |= {writer, far_writer}
        if self._state.refuses:
            self._reset_all()  # There are no others: all were broken when the line was cut.
            return
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            self._writers -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one direction to its end. Reading and writing are apart, so that latency takes no width."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS_UNDER_WAY_MAX)
        carrying = asyncio.create_task(self._deliver(under_way, writer))
        try:
            with suppress(OSError):  # One end left, or was cut off: then this direction is at its end.
                while data := await reader.read(_CHUNK_BYTES):
                    await under_way.put((self._loop.time() + self._state.pace.latency_s, data))
            await under_way.put((0.0, b""))
            await carrying
        finally:
            carrying.cancel()
            writer.close()

    async def _deliver(
        self, under_way: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter
    ) -> None:
        is_broken = False
        while True:
            due, data = await under_way.get()
            await self._state.flows.wait()
            await asyncio.sleep(due - self._loop.time())
            if not data:
                return
            if self._state.pace.bytes_per_s:
                await asyncio.sleep(len(data) / self._state.pace.bytes_per_s)
            # What comes after a break is taken and dropped: else the reading side would wait for ever.
            is_broken = is_broken or not await _written(writer, data)

    async def _serve(self, is_open: threading.Event, is_over: asyncio.Event) -> None:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        is_open.set()
        await is_over.wait()
        server.close()
        self._restore()
        self._reset_all()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@contextmanager
def laid(target: Target) -> Iterator[Line]:
    """A line to `target`, until the block ends."""
    line, is_open, is_over = Line(target), threading.Event(), asyncio.Event()
    loop = line._loop
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(line._serve(is_open, is_over)), name="line"
    )
    thread.start()
    try:
        if not is_open.wait(_COMMAND_S):
            raise OSError("the line could not be laid")
        yield line
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()
        loop.close()


async def _written(writer: asyncio.StreamWriter, data: bytes) -> bool:
    try:
        writer.write(data)
        await writer.drain()
    except OSError:
        return False
    return True


def _reset(writer: asyncio.StreamWriter) -> None:
    near = writer.get_extra_info("socket")
    with suppress(OSError):  # Closed a moment ago: then there is nothing to break.
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    writer.transport.abort()

"""What one operation has answered so far, kept until its client says that it has it.

Spark does not slow down for a slow client, so neither does this: what its window in memory cannot hold goes
to the spool. A client may read from any response that it has not released, as often as its wire breaks; one
reader at a time, and a newer one takes the place of an older.

It lives on one event loop. It knows nothing of operations: why one ended arrives as an error.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from bailiwick.doors.spark_connect.errors import cursor
from bailiwick.errors import BailiwickError
from bailiwick.results.spool import Spool, SpoolFile, no_room_error, storage_error

ENTRY_OVERHEAD_BYTES = 300
"""What a response's own objects weigh, so that a million tiny ones are not counted as nothing."""
SHRINKS_BY = 8
"""While memory is short, a window is so many times smaller."""


@dataclass(slots=True)
class SharedMemory:
    """What the windows of all logs may hold together. Beyond it they hold nothing, and the spool all."""

    bytes_max: int = 256 << 20
    held_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LogLimits:
    window_bytes: int = 16 << 20
    spool_bytes_max: int = 8 << 30
    memory: SharedMemory = field(default_factory=SharedMemory)


class _File:
    """A spool file with the count of responses in it that nobody has released yet."""

    __slots__ = ("end", "file", "kept")

    def __init__(self, file: SpoolFile) -> None:
        self.file = file
        self.end = 0
        self.kept = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    """One response: in memory, or where it lies on disk."""

    data: bytes | None
    length: int
    file: _File | None = None
    offset: int = 0

    @property
    def weight_bytes(self) -> int:
        return ENTRY_OVERHEAD_BYTES + (self.length if self.data is not None else 0)


class ResponseLog:
    def __init__(self, spool: Spool, limits: LogLimits) -> None:
        self._spool = spool
        self._limits = limits
        self._secret = secrets.token_hex(8)
        self._entries: deque[_Entry] = deque()
        self._released = 0
        self._memory_bytes = 0
        self._disk_bytes = 0
        self._file: _File | None = None
        self._files: set[_File] = set()
        self._is_finished = False
        self._is_closed = False
        self._error: BailiwickError | None = None
        self._broken_off_by: BailiwickError | None = None
        self._changed = asyncio.Event()
        self._appending = asyncio.Lock()
        self._reader = 0

    @property
    def count(self) -> int:
        """How many responses there have been, the released ones too."""
        return self._released + len(self._entries)

    @property
    def memory_bytes(self) -> int:
        return self._memory_bytes

    @property
    def disk_bytes(self) -> int:
        return self._disk_bytes

    @property
    def error(self) -> BailiwickError | None:
        return self._error

    @property
    def is_ended(self) -> bool:
        return self._is_finished or self._is_closed or self._error is not None

    async def append(self, named: Callable[[str], bytes]) -> None:
        """Keep the response that `named` makes of its name, which cannot be guessed.

        Waits at most for the disk, and for who appends meanwhile: no two have one name. After the end it is
        dropped.
        """
        async with self._appending:
            if self.is_ended:
                return
            data = named(self._name(self.count))
            entry = _Entry(data, len(data)) if self._fits(len(data)) else await self._spooled(data)
            if not self._is_gone():
                self._keep(entry)

    async def _spooled(self, data: bytes) -> _Entry:
        file = self._file_for(len(data))
        entry = _Entry(None, len(data), file, file.end)
        file.end += len(data)
        file.kept += 1
        try:
            await self._spool.run(file.file.write, entry.offset, [data])
        except OSError as error:
            if not self._is_gone():
                raise storage_error(error) from error
        return entry

    def _fits(self, size_bytes: int) -> bool:
        memory = self._limits.memory
        window_bytes = self._limits.window_bytes
        if self._spool.is_memory_short():
            window_bytes //= SHRINKS_BY
        is_in_window = self._memory_bytes + size_bytes <= window_bytes
        return is_in_window and memory.held_bytes + size_bytes <= memory.bytes_max

    def finish(self) -> None:
        """Nothing more will come. What is here stays for the reader."""
        self._is_finished = True
        self._wake()

    def fail(self, error: BailiwickError) -> None:
        """Nothing more will come: the reader gets `error` after what is here. The first end counts."""
        if not self.is_ended:
            self._error = error
            self._wake()

    def break_off(self, error: BailiwickError) -> None:
        """Whoever reads it gets `error` in the place of what they have not read yet."""
        self._broken_off_by = error
        self._wake()

    def close(self) -> None:
        """Forget everything."""
        self._is_closed = True
        self._released += len(self._entries)
        self._entries.clear()
        self._hold(-self._memory_bytes)
        for file in list(self._files):
            self._give_back(file)
        self._wake()

    def release(self, until: str) -> None:
        """Forget this response and those before it. One that is released already is fine."""
        position = self._position(until)
        while self._entries and self._released <= position:
            self._forget(self._entries.popleft())
            self._released += 1

    async def read(self, after: str | None = None, *, idle_s: float = 1.0) -> AsyncIterator[bytes | None]:
        """Responses from the one behind `after`, or from the first, each as soon as it is there.

        None where nothing came for `idle_s`. Raises what the operation ended with, INVALID_CURSOR where what
        is asked for was released, and where a newer reader took over.
        """
        position = 0 if after is None else self._position(after) + 1
        if position < self._released and not self._is_closed:
            raise cursor("POSITION_NOT_AVAILABLE", "What is asked for was released before.")
        self._reader += 1
        reader = self._reader
        self._wake()
        while True:
            if reader != self._reader:
                raise cursor("DISCONNECTED", "Another call reads this operation now.")
            if self._is_closed:
                raise cursor("DISCONNECTED", "The operation was released.")
            if self._broken_off_by is not None:
                raise self._broken_off_by
            if position < self.count:
                yield await self._fetch(max(position, self._released))
                position += 1
            elif self._error is not None:
                raise self._error
            elif self._is_finished:
                return
            elif not await self._wait(idle_s):
                yield None

    async def _fetch(self, position: int) -> bytes:
        entry = self._entries[position - self._released]
        if entry.data is not None:
            return entry.data
        assert entry.file is not None  # noqa: S101 - what is not in memory lies in a file
        try:
            return bytes(await self._spool.run(entry.file.file.read, entry.offset, entry.length))
        except OSError as error:
            if self._is_closed:
                raise cursor("DISCONNECTED", "The operation was released.") from None
            raise storage_error(error) from error

    def _is_gone(self) -> bool:
        """Asked anew after each wait."""
        return self._is_closed

    async def _wait(self, timeout_s: float) -> bool:
        """True when something has changed."""
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        self._changed.set()

    def _keep(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._hold(entry.weight_bytes)
        self._wake()

    def _hold(self, more_bytes: int) -> None:
        self._memory_bytes += more_bytes
        self._limits.memory.held_bytes += more_bytes

    def _forget(self, entry: _Entry) -> None:
        self._hold(-entry.weight_bytes)
        if entry.file is not None:
            entry.file.kept -= 1
            if entry.file.kept == 0 and entry.file is not self._file:
                self._give_back(entry.file)

    def _file_for(self, length: int) -> _File:
        if self._disk_bytes + length > self._limits.spool_bytes_max:
            raise no_room_error(f"outgrew the {self._limits.spool_bytes_max} bytes that one result may hold")
        if not self._spool.reserve(length):
            raise no_room_error("the room on disk that all results share is used up")
        self._disk_bytes += length
        if self._file is None or self._file.end + length > self._spool.file_bytes_max:
            full, self._file = self._file, _File(self._spool.new_file())
            self._files.add(self._file)
            if full is not None and full.kept == 0:
                self._give_back(full)
        return self._file

    def _give_back(self, file: _File) -> None:
        self._files.discard(file)
        if self._file is file:
            self._file = None
        self._disk_bytes -= file.end
        self._spool.release(file.end)
        self._spool.dismiss(file.file)

    def _name(self, position: int) -> str:
        return f"{position:x}-{self._secret}"

    def _position(self, name: str) -> int:
        number, _, secret = name.partition("-")
        try:
            position = int(number, 16)
        except ValueError:
            position = -1
        if (
            not secrets.compare_digest(secret.encode(), self._secret.encode())
            or not 0 <= position < self.count
        ):
            raise cursor("POSITION_NOT_FOUND", "There is no such response of this operation.")
        return position

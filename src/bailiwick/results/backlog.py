"""The part of a result that its window does not hold: oldest on disk, newest still in memory.

Frames are gathered in segments. A full segment is written by a thread while the next one fills; until it is
written it can still be taken from memory. Taking goes strictly in order, segment by segment. Files are given
back as they are read through, so a result holds on disk what is unread, give or take one file.

It lives on one event loop, with one task appending and one taking.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Iterable

from bailiwick.results.batches import Frame, FrameKind
from bailiwick.results.spool import Bytes, Spool, SpoolFile, no_room_error, storage_error

FRAME_OVERHEAD_BYTES = 512
"""What a frame's own objects weigh, so that a million tiny frames are not counted as nothing."""

_LENGTHS = struct.Struct("<BxxxIQ")


def weight_bytes(frame: Frame) -> int:
    """What a frame holds in memory."""
    return frame.size_bytes + FRAME_OVERHEAD_BYTES


class _File:
    """A spool file with the count of segments in it that nobody has taken yet."""

    __slots__ = ("end", "file", "unread")

    def __init__(self, file: SpoolFile) -> None:
        self.file = file
        self.end = 0
        self.unread = 0


class _Segment:
    __slots__ = ("file", "frames", "length", "offset", "weight")

    def __init__(self) -> None:
        self.frames: deque[Frame] | None = deque()
        self.weight = 0
        self.length = 0
        self.file: _File | None = None
        self.offset = 0

    def add(self, frame: Frame) -> None:
        assert self.frames is not None  # noqa: S101 - only the open segment is added to
        self.frames.append(frame)
        self.weight += weight_bytes(frame)
        self.length += frame.size_bytes + _LENGTHS.size


class Backlog:
    """What waits behind the window."""

    def __init__(self, spool: Spool, *, bytes_max: int, segment_bytes: int) -> None:
        self._spool = spool
        self._bytes_max = bytes_max
        self._segment_bytes = segment_bytes
        self._sealed: deque[_Segment] = deque()
        self._open = _Segment()
        self._file: _File | None = None
        self._files: set[_File] = set()
        self._writing: asyncio.Future[None] | None = None
        self._write_error: OSError | None = None
        self._is_taking = False
        self.memory_bytes = 0
        self.disk_bytes = 0
        self.spooled_bytes = 0
        """All that ever went to disk, for whoever measures."""

    @property
    def is_empty(self) -> bool:
        """Whether the window may take the next frame without overtaking anything."""
        return not self._sealed and not self._open.frames and not self._is_taking

    async def append(self, frame: Frame) -> None:
        """Put `frame` at the end. Waits for the disk when it falls behind; never for the reader."""
        if self._write_error is not None:
            raise storage_error(self._write_error)
        self._open.add(frame)
        self.memory_bytes += weight_bytes(frame)
        if self._open.weight < self._segment_bytes:
            return
        if self._writing is not None:
            # One segment fills while one is written, and no more: that bounds the memory.
            await asyncio.wait([self._writing])
        if self._open.weight >= self._segment_bytes:
            self._seal()

    async def take(self) -> deque[Frame]:
        """The oldest frames, a segment of them. Not to be called when there are none."""
        if not self._sealed:
            segment, self._open = self._open, _Segment()
        else:
            segment = self._sealed.popleft()
        if segment.frames is not None:
            return self._taken_from_memory(segment)
        self._is_taking = True
        try:
            return await self._read(segment)
        finally:
            self._is_taking = False

    def discard(self) -> None:
        """Forget everything, and give back memory and disk."""
        self._sealed.clear()
        self._open = _Segment()
        self.memory_bytes = 0
        for file in list(self._files):
            self._give_back(file)

    def _seal(self) -> None:
        segment, self._open = self._open, _Segment()
        file = self._file_for(segment.length)
        segment.file, segment.offset = file, file.end
        file.end += segment.length
        file.unread += 1
        self._sealed.append(segment)
        writing = self._spool.run(file.file.write, segment.offset, _pieces(segment.frames or ()))
        self._writing = writing
        writing.add_done_callback(lambda done: self._written(segment, done))

    def _written(self, segment: _Segment, done: asyncio.Future[None]) -> None:
        self._writing = None
        if done.cancelled():
            return
        error = done.exception()
        if isinstance(error, OSError) and segment.file in self._files:
            # The frames stay in memory: what was appended is not lost, but nothing more is accepted.
            self._write_error = error
        elif segment.frames is not None and segment in self._sealed:
            segment.frames = None
            self.memory_bytes -= segment.weight
            self.spooled_bytes += segment.length

    def _file_for(self, length: int) -> _File:
        if self.disk_bytes + length > self._bytes_max:
            raise no_room_error(f"outgrew the {self._bytes_max} bytes that one result may hold on disk")
        if not self._spool.reserve(length):
            raise no_room_error("the room on disk that all results share is used up")
        self.disk_bytes += length
        if self._file is None or self._file.end + length > self._spool.file_bytes_max:
            self._file = _File(self._spool.new_file())
            self._files.add(self._file)
        return self._file

    def _taken_from_memory(self, segment: _Segment) -> deque[Frame]:
        frames = segment.frames or deque()
        self.memory_bytes -= segment.weight
        self._read_through(segment)
        return frames

    async def _read(self, segment: _Segment) -> deque[Frame]:
        file = segment.file
        assert file is not None  # noqa: S101 - a segment that is not in memory has been written
        try:
            data = await self._spool.run(file.file.read, segment.offset, segment.length)
        except OSError as error:
            raise storage_error(error) from error
        self._read_through(segment)
        return _frames(data)

    def _read_through(self, segment: _Segment) -> None:
        file = segment.file
        if file is None:
            return
        file.unread -= 1
        if file.unread == 0 and file in self._files:
            self._give_back(file)

    def _give_back(self, file: _File) -> None:
        self._files.discard(file)
        if self._file is file:
            self._file = None
        self.disk_bytes -= file.end
        self._spool.release(file.end)
        self._spool.dismiss(file.file)


def _pieces(frames: Iterable[Frame]) -> list[Bytes]:
    """Each frame behind its kind and lengths: the index lies with the data, not in memory."""
    pieces: list[Bytes] = []
    for frame in frames:
        pieces.append(_LENGTHS.pack(frame.kind, len(frame.header), len(frame.body)))
        pieces.append(frame.header)
        pieces.append(frame.body)
    return pieces


def _frames(data: memoryview) -> deque[Frame]:
    frames: deque[Frame] = deque()
    offset = 0
    while offset < len(data):
        kind, header_length, body_length = _LENGTHS.unpack_from(data, offset)
        header_at = offset + _LENGTHS.size
        body_at = header_at + header_length
        offset = body_at + body_length
        frames.append(Frame(FrameKind(kind), data[header_at:body_at], data[body_at:offset]))
    return frames

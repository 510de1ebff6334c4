"""Room on disk for results that come faster than their readers take them.

`Spool` is shared by all results: it counts what they hold together, owns the threads that touch the disk, and
clears what a crash left behind. `SpoolFile` is one file of one result. A file loses its name as soon as it
is open, so nothing of it outlives the process. Neither knows what the bytes mean or who reads them.
"""

import asyncio
import errno
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from bailiwick.errors import BailiwickError, Code

Bytes = bytes | bytearray | memoryview
P = ParamSpec("P")
T = TypeVar("T")

FILE_BYTES_MAX = 256 << 20
"""A result that needs more takes several files, so that what has been read can be given back."""

_PREFIX = "result-"
_PIECES_PER_CALL = 512
"""Below IOV_MAX (1024) everywhere we run."""


class Spool:
    """The room all results share."""

    def __init__(
        self,
        directory: Path,
        *,
        total_bytes_max: int,
        file_bytes_max: int = FILE_BYTES_MAX,
        threads: int = 2,
        is_memory_short: Callable[[], bool] = lambda: False,
    ) -> None:
        """While `is_memory_short`, results hold less in memory and more here."""
        self.is_memory_short = is_memory_short
        self.file_bytes_max = file_bytes_max
        self._directory = directory
        self._total_bytes_max = total_bytes_max
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="spool")
        self._is_closed = False
        self.held_bytes = 0
        """What all results hold on disk now."""

    def clear_leftovers(self) -> int:
        """Remove what a crash left in the moment before it lost its name. Blocks; for the start."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        leftovers = [path for path in self._directory.glob(f"{_PREFIX}*") if path.is_file()]
        for path in leftovers:
            path.unlink(missing_ok=True)
        return len(leftovers)

    def reserve(self, size_bytes: int) -> bool:
        """Take room for `size_bytes`, or none of it."""
        if self.held_bytes + size_bytes > self._total_bytes_max:
            return False
        self.held_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        self.held_bytes -= size_bytes

    def new_file(self) -> "SpoolFile":
        return SpoolFile(self._directory)

    def run(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Do something blocking in one of the spool's threads."""
        return asyncio.get_running_loop().run_in_executor(self._executor, lambda: action(*args, **kwargs))

    def dismiss(self, file: "SpoolFile") -> None:
        """Close a file in the background: giving back its blocks can take a while."""
        if self._is_closed:
            file.close()
        else:
            self._executor.submit(file.close)

    def close(self) -> None:
        """End the threads, after what they are doing."""
        self._is_closed = True
        self._executor.shutdown(wait=True)


class SpoolFile:
    """One file without a name. Its methods block, and may be called from several threads.

    It is closed when nobody is inside any more: a closed descriptor's number may belong to another file at
    once, and a late write must not find that one.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._users = 0
        self._is_closing = False

    def write(self, offset: int, pieces: Sequence[Bytes]) -> None:
        """Write all of `pieces`, one after the other, at `offset`."""
        descriptor = self._enter()
        try:
            for start in range(0, len(pieces), _PIECES_PER_CALL):
                offset = _write_all(descriptor, offset, pieces[start : start + _PIECES_PER_CALL])
        finally:
            self._leave()

    def read(self, offset: int, length: int) -> memoryview:
        """Read exactly `length` bytes. Raises OSError if the file has fewer."""
        view = memoryview(bytearray(length))
        descriptor = self._enter()
        try:
            done = 0
            while done < length:
                count = os.preadv(descriptor, [view[done:]], offset + done)
                if count == 0:
                    raise OSError(errno.EIO, "the spool file is shorter than what was written to it")
                done += count
        finally:
            self._leave()
        return view

    def close(self) -> None:
        """Give the room back. Fine to call twice, or before anything was written."""
        with self._lock:
            self._is_closing = True
            self._close_if_unused()

    def _enter(self) -> int:
        with self._lock:
            if self._is_closing:
                raise OSError(errno.EBADF, "the spool file is closed")
            if self._descriptor is None:
                self._descriptor = _open_nameless(self._directory)
            self._users += 1
            return self._descriptor

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_closing and self._users == 0 and self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def storage_error(
    error: OSError, lost: str = "the result could not be kept for its reader"
) -> BailiwickError:
    """What a client is told when the spool's disk fails. Trying again does not empty a disk."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return BailiwickError(
        Code.STORAGE_ERROR,
        f"The gateway's disk {'is full' if full else 'failed'}: {lost}.",
        retryable=False,
        details={"reason": "disk_full" if full else "disk_error"},
        cause_text=f"{type(error).__name__}: {error}",
    )


def no_room_error(because: str) -> BailiwickError:
    """What a client is told when its result outgrew the room that the settings allow."""
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED,
        f"The result was read more slowly than it came, and {because}. Read it faster, or ask for less.",
        retryable=False,
        details={"reason": "spool_full"},
    )


def _open_nameless(directory: Path) -> int:
    # mkstemp makes it with mode 0600.
    descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=directory)
    Path(name).unlink()
    return descriptor


def _write_all(descriptor: int, offset: int, pieces: Sequence[Bytes]) -> int:
    rest = [memoryview(piece) for piece in pieces if len(piece)]
    while rest:
        count = os.pwritev(descriptor, rest, offset)
        offset += count
        while rest and count >= len(rest[0]):
            count -= len(rest.pop(0))
        if rest and count:
            rest[0] = rest[0][count:]
    return offset

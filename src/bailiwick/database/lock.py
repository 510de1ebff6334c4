"""One gateway a data directory.

The lock is the kernel's (flock on `DIR/lock`), so it ends with the process, however that ends. The file's
content only tells people who holds it.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from bailiwick.database.errors import DirectoryInUseError


class DirectoryLock:
    """Held from `acquire` to `release`. Child processes do not inherit it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, directory: Path) -> Self:
        """Take the lock of `directory`, or raise `DirectoryInUseError` at once."""
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _holder(descriptor)
            os.close(descriptor)
            raise DirectoryInUseError(pid) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Let go; twice is fine. The file stays: were it removed, two processes could lock two files."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def _holder(descriptor: int) -> int | None:
    content = os.pread(descriptor, 32, 0).strip()
    return int(content) if content.isdigit() else None

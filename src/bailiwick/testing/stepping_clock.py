"""A process whose wall clock a test sets while it runs. What counts from some moment on goes on as ever.

Nothing of it is in the product: Python imports `sitecustomize` when it starts, before anything reads a clock.
Only our own clock is changed. Whoever asks the system past it sees the machine's: engines, and gRPC, whose
deadlines would be in the past if half of it believed in another time.
"""

import os
import time
from pathlib import Path

from bailiwick.testing.site import installing

_FILE = "CLOCK_IS_OFF_BY"


class SteppingClock:
    """The test's side."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "off-by-s"
        self._installing = installing("stepping_clock", directory)
        self.set(0.0)

    @property
    def settings(self) -> dict[str, str]:
        """What the environment of the process must have."""
        return {**self._installing, _FILE: str(self._file)}

    def set(self, off_by_s: float) -> None:
        """From now on it is wrong by so much, forwards or backwards."""
        fresh = self._file.with_suffix(".fresh")
        fresh.write_text(repr(off_by_s))
        fresh.replace(self._file)


def install() -> None:
    """Called once, in the process, before anything of it runs."""
    from bailiwick import clock

    file = os.environ[_FILE]
    right, right_ns = clock.wall, time.time_ns

    def off_by_s() -> float:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            return float(os.read(descriptor, 64))
        finally:
            os.close(descriptor)

    clock.wall = lambda: right() + off_by_s()
    time.time_ns = lambda: right_ns() + int(off_by_s() * 1e9)

"""One life of one engine's Java process, and the log it leaves.

A thread of its own reads what the process writes, so that a busy event loop never blocks the engine's log.
Starting it again, and what its end means, is decided elsewhere.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from bailiwick.clock import Clock, monotonic

_LISTENING = re.compile(rb"^bailiwick-engine listening on (\d+)\s*$")
_MEASURES = b"bailiwick-engine measures "
_LINE_BYTES_MAX = 64 * 1024
_NUMBER_MAX: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class EngineMeasures:
    """What the engine says of itself every few seconds, and when it said so.

    It comes from the engine, where users' code runs: good for deciding how much to ask of it, for no more.
    """

    unified_used: int
    unified_max: int
    heap_after_full_gc: int
    """0 before the first full collection."""
    heap_max: int
    active_operations: int
    told_at: float

    @classmethod
    def parse(cls, text: bytes, told_at: float) -> Self | None:
        """None for anything but whole numbers under just these names."""
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            return None
        names = cls.__slots__[:-1]
        if not isinstance(told, dict) or told.keys() != set(names):
            return None
        if not all(type(value) is int and 0 <= value <= _NUMBER_MAX for value in told.values()):
            return None
        return cls(**told, told_at=told_at)


class BoundedLog:
    """A file that is set aside when it is full; the one set aside before is dropped."""

    def __init__(self, path: Path, *, bytes_max: int = 8 << 20) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._file = path.open("ab")

    def write(self, line: bytes) -> None:
        if self._file.tell() + len(line) > self._bytes_max:
            self._file.close()
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._file = self._path.open("ab")
        self._file.write(line)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class EngineProcess:
    """A running Java. It ends when our end of its standard input closes, that is, whenever we do."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", log: BoundedLog, *, clock: Clock = monotonic
    ) -> None:
        self._process = process
        self._log = log
        self._clock = clock
        self.measures: EngineMeasures | None = None
        """The newest, from a thread of its own; None before the first."""
        self._loop = asyncio.get_running_loop()
        self.pid = process.pid
        self.port: asyncio.Future[int] = self._loop.create_future()
        """Where it listens; never done if it ends before."""
        self.exited: asyncio.Future[int] = self._loop.create_future()
        """Its exit code; negative for a signal."""
        threading.Thread(target=self._follow, name=f"engine-{self.pid}", daemon=True).start()

    @classmethod
    async def start(
        cls, command: Sequence[str], *, environment: Mapping[str, str], directory: Path, log: Path
    ) -> "EngineProcess":
        bounded = await asyncio.to_thread(BoundedLog, log)
        process = await asyncio.to_thread(_spawn, command, environment, directory)
        return cls(process, bounded)

    async def end(self, grace_s: float) -> int:
        """Ask it to stop; after `grace_s`, make it. Returns the exit code, also of one that has ended."""
        self._signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(asyncio.shield(self.exited), grace_s)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            return await asyncio.shield(self.exited)

    def _signal(self, number: signal.Signals) -> None:
        # A session of its own: its group is the process and all it may have started. A stopped one must be
        # continued to notice that it should end.
        if not self.exited.done():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
                os.killpg(self.pid, signal.SIGCONT)

    def _follow(self) -> None:
        output = self._process.stdout
        assert output is not None  # noqa: S101 - we asked for the pipe
        with output:
            self._copy(output)
        code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._log.close()
        self._tell(self.exited, code)

    def _copy(self, output: IO[bytes]) -> None:
        while line := output.readline(_LINE_BYTES_MAX):
            if line.startswith(_MEASURES):
                self.measures = self._measured(line) or self.measures
                continue
            with suppress(OSError):  # A full disk must not stop the engine: it would block on a full pipe.
                self._log.write(line)
            if (match := _LISTENING.match(line)) and not self.port.done():
                self._tell(self.port, int(match.group(1)))

    def _measured(self, line: bytes) -> EngineMeasures | None:
        return EngineMeasures.parse(line.removeprefix(_MEASURES), self._clock())

    def _tell(self, future: asyncio.Future[int], value: int) -> None:
        def settle() -> None:
            if not future.done():
                future.set_result(value)

        with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(settle)


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], directory: Path
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        env=environment,
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        bufsize=-1,
    )

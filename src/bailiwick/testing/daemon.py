"""A server as a child process, which says on its output when it is up.

It has a process group of its own, to which all belong that it starts; they are ended by that group's id.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

START_S = 120.0
STOP_S = 30.0
POLL_S = 0.05


class NotStartedError(Exception):
    """A server ended, or said nothing in time. The text ends with what it printed."""


@dataclass(slots=True)
class Daemon:
    process: "subprocess.Popen[bytes]"
    log: Path

    @classmethod
    def start(
        cls, directory: Path, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> "Daemon":
        """Run `command` in `directory`; what it prints goes to a file there."""
        directory.mkdir(parents=True, exist_ok=True)
        log = directory / f"{name}.{time.time_ns()}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process, log)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: str, timeout_s: float = START_S) -> re.Match[str]:
        """What it printed that matches. Raises NotStartedError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.is_alive:
            if match := re.search(pattern, self.printed(), re.MULTILINE):
                return match
            time.sleep(POLL_S)
        raise NotStartedError(self.printed()[-2000:])

    def end(self) -> None:
        """Politely first, so that what it started ends with it; then all of its group. Also if it is dead."""
        if self.is_alive:
            self.process.terminate()
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

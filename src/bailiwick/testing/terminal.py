"""A program at a real pseudo-terminal: what a person types goes in, what a person sees comes out."""

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

EXPECT_S = 30.0
_POLL_S = 0.05
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9]|[=>78MDE])")
# Keys such as Ctrl-C reach only a program whose own terminal it is.
_AT_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
_CTRL_C, _CTRL_D = "\x03", "\x04"


class Terminal:
    """What was shown stands in `seen`, without colours and cursor movements."""

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
        self._process = process
        self._descriptor = descriptor
        self._raw = ""
        self._read_to = 0

    @property
    def seen(self) -> str:
        return _ESCAPE.sub("", self._raw).replace("\r", "")

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def enter(self, text: str) -> None:
        """Type a line; the Enter key sends a carriage return."""
        self.type(f"{text}\r")

    def press_ctrl_c(self) -> None:
        self.type(_CTRL_C)

    def press_ctrl_d(self) -> None:
        self.type(_CTRL_D)

    def expect(self, pattern: str, timeout_s: float = EXPECT_S) -> str:
        """Wait until `pattern` is shown, after what was expected before. Gives everything up to its end."""
        deadline = time.monotonic() + timeout_s
        while True:
            shown = self.seen
            if found := re.compile(pattern, re.MULTILINE).search(shown, self._read_to):
                part = shown[self._read_to : found.end()]
                self._read_to = found.end()
                return part
            if not self._read(deadline):
                raise AssertionError(f"{pattern!r} was not shown; this was:\n{shown[self._read_to :]}")

    def wait(self, timeout_s: float = EXPECT_S) -> int:
        """The exit code, once the program has ended."""
        deadline = time.monotonic() + timeout_s
        while self._process.poll() is None and time.monotonic() < deadline:
            self._read(min(deadline, time.monotonic() + _POLL_S))
        return self._process.wait(0)

    def _read(self, deadline: float) -> bool:
        """Take in what is there. False: nothing more came in time, or ever will."""
        ready, _, _ = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            content = os.read(self._descriptor, 1 << 16)
        except OSError:
            # Linux says so when the other end is closed.
            return False
        self._raw += content.decode(errors="replace")
        return bool(content)


@contextmanager
def at_terminal(
    command: Sequence[str], environment: Mapping[str, str], *, columns: int = 100, rows: int = 40
) -> Iterator[Terminal]:
    """Run `command` at a terminal of its own until the block ends."""
    ours, theirs = os.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    # Nobody here answers when the program asks the terminal where its cursor is.
    settings = {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_TERMINAL, *command],
        env={**environment, **settings},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)

"""A server of a test is known to be up by what it prints, and nothing of it outlives its end."""

import sys
from pathlib import Path

import psutil
import pytest

from bailiwick.testing.asking import wait_until
from bailiwick.testing.daemon import Daemon, NotStartedError
from bailiwick.testing.processes import is_running

# Starts a child in its own process group, tells its id, and waits.
PARENT = """
import subprocess, sys

child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(f"up with {child.pid}", flush=True)
child.wait()
"""


def start(directory: Path, script: str, *arguments: str) -> Daemon:
    return Daemon.start(directory, "daemon", [sys.executable, "-c", script, *arguments], {"PATH": "/usr/bin"})


def test_what_a_daemon_started_ends_with_it_also_when_it_was_killed(tmp_path: Path) -> None:
    daemon = start(tmp_path, PARENT)
    child = int(daemon.wait_for(r"^up with (\d+)$").group(1))
    assert daemon.is_alive
    daemon.process.kill()
    daemon.process.wait()
    assert psutil.pid_exists(child)
    daemon.end()
    wait_until("the child gone", lambda: not is_running(child))


def test_a_daemon_that_ends_before_it_is_up_tells_what_it_printed(tmp_path: Path) -> None:
    daemon = start(tmp_path, "print('no such thing')")
    with pytest.raises(NotStartedError, match="no such thing"):
        daemon.wait_for("up")
    daemon.end()


def test_a_daemon_that_says_nothing_is_not_waited_for_forever(tmp_path: Path) -> None:
    daemon = start(tmp_path, PARENT)
    with pytest.raises(NotStartedError):
        daemon.wait_for("never printed", timeout_s=0.5)
    daemon.end()
    assert not daemon.is_alive

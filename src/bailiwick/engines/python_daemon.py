"""Spark's daemon for Python, such that a task of a user's code begins soon, and ends with its task.

Each task gets a process of its own, forked from this one, so what most code imports is imported here. And
each has Python look anew at all places of its path; Spark puts archives of its own there, whose whole
directory is read then. What is in them is installed beside us, so they are left out.

Spark hangs up on the process of a task that is interrupted, and looks after it no further. Code that reads
and writes nothing would never notice; so a thread of each process does.

Spark runs it as `python -m bailiwick.engines.python_daemon pyspark.worker`.
"""

import importlib
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any


def _end_with(connection: socket.socket) -> None:
    """Wait until Spark hangs up, and take the whole process along."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLRDHUP)
    while not waiting.poll():
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def _watched(daemon: Any) -> Any:
    worker = daemon.worker

    def watched(connection: socket.socket, authenticated: bool) -> Any:
        # A connection of its own to wait at, which nobody closes meanwhile.
        threading.Thread(target=_end_with, args=(connection.dup(),), daemon=True).start()
        return worker(connection, authenticated)

    return watched


if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()
    for name in ("pyarrow", "pandas", "pyspark.sql.pandas.serializers"):
        with suppress(ImportError):
            importlib.import_module(name)
    forking = importlib.import_module("pyspark.daemon")
    forking.worker = _watched(forking)  # type: ignore[attr-defined]
    forking.manager()

"""Processes, as tests ask after them. Any may end while it is looked at."""

from contextlib import suppress

import psutil


def is_running(pid: int) -> bool:
    """One that is dead, but that its parent has not asked after yet, runs no more."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def java_below(pid: int) -> int:
    """The Java that runs below that process. LookupError while there is none."""
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.name() == "java" and is_running(child.pid):
                return int(child.pid)
    raise LookupError(f"no Java runs below the process {pid}")

"""A disk of a few megabytes: full for real, not by pretence."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def why_not() -> str | None:
    """Why this machine cannot have one; None if it can."""
    return None if os.geteuid() == 0 else "only root can mount a small disk"


@contextmanager
def small_disk(path: Path, *, megabytes: int) -> Iterator[None]:
    """The directory `path` is a file system of its own, of that size, until the block ends."""
    path.mkdir(parents=True)
    size = ("-o", f"size={megabytes}m")
    subprocess.run(["mount", "-t", "tmpfs", *size, "tmpfs", str(path)], check=True)
    try:
        yield
    finally:
        # Lazily: who was killed may hold a file of it for a moment.
        subprocess.run(["umount", "--lazy", str(path)], check=True)

"""Which files of a data directory a process opens, written down by Python's own audit events as it runs.

Python raises such an event for every file that its code opens. Libraries that open files by themselves raise
none, so the modules that would be needed for that are written down when they are imported. Nothing of it is
in the product: Python imports `sitecustomize` when it starts.
"""

import os
import sys
from pathlib import Path

from bailiwick.testing.site import installing

_LOG = "OPENED_FILES"
_ROOT = "OPENED_BELOW"
_IMPORTED = "import "
_OPENED = "open "
_TABLES = ("warehouse", "staging")
"""Where a data directory has tables: those of the lake, and those that are being filled."""

READERS = frozenset(
    {
        "pyarrow.parquet",
        "pyarrow.dataset",
        "pyarrow.fs",
        "pyarrow.orc",
        "pyarrow.csv",
        "pyarrow.feather",
        "polars",
        "pyiceberg",
        "fsspec",
    }
)
"""Modules that read data files past Python's own `open`. pandas is none of them: it uses `open`, or these."""


class OpenedFiles:
    """The test's side: what a process has opened below `root`, each file once. Directories do not count."""

    def __init__(self, directory: Path, root: Path) -> None:
        self.root = root.resolve()
        self._log = directory / "opened"
        self._installing = installing("opened_files", directory)

    @property
    def settings(self) -> dict[str, str]:
        """What the environment of the process must have."""
        return {**self._installing, _LOG: str(self._log), _ROOT: str(self.root)}

    def opened(self) -> list[Path]:
        return [Path(word) for word in self._told(_OPENED)]

    def data_files(self) -> list[Path]:
        """Those of tables that are no metadata: what rows stand in, and whatever else lies there."""
        of_tables = [path for path in self.opened() if path.relative_to(self.root).parts[0] in _TABLES]
        return [path for path in of_tables if not is_metadata(path)]

    def readers(self) -> list[str]:
        """Modules that it has, by which files could be opened unseen."""
        return self._told(_IMPORTED)

    def _told(self, kind: str) -> list[str]:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return [line.removeprefix(kind) for line in lines if line.startswith(kind)]


def is_metadata(path: Path) -> bool:
    return path.parent.name == "metadata" and path.name.endswith((".metadata.json", ".avro"))


def install() -> None:
    """Called once, in the process that is watched, before anything of it runs."""
    root = Path(os.environ[_ROOT]).resolve()
    log = os.open(os.environ[_LOG], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    seen: set[str] = set()

    def note(line: str) -> None:
        if line not in seen:
            seen.add(line)
            os.write(log, f"{line}\n".encode(errors="surrogateescape"))

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = Path(os.fsdecode(arguments[0])).resolve()
            if path.is_relative_to(root) and not path.is_dir():
                note(f"{_OPENED}{path}")
        elif event == "import" and arguments[0] in READERS:
            note(f"{_IMPORTED}{arguments[0]}")

    sys.addaudithook(hear)

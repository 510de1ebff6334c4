"""What was typed into the shell, kept for the next time, for its owner alone.

A line a entry, as JSON. Entries with a password are not kept anywhere, not even in memory; nor is one that
begins with a blank. Where the file cannot be used, the shell works without.
"""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prompt_toolkit.history import History

ENTRIES_MAX: Final = 5_000
ENTRY_CHARS_MAX: Final = 64 << 10
FILE_BYTES_MAX: Final = 16 << 20
_TELLING: Final = re.compile(r"\bpassword\b|\b(?:create|alter)\s+(?:or\s+replace\s+)?user\b", re.IGNORECASE)
_COMMENTS: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def history_file(environment: dict[str, str] | None = None) -> Path:
    """In the user's state directory, as the XDG rules have it."""
    variables = os.environ if environment is None else environment
    state = variables.get("XDG_STATE_HOME") or ""
    base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return base / "bailiwick" / "history"


def may_be_kept(entry: str) -> bool:
    """Whether an entry tells no secret, as far as anyone can see, and is not held back by a blank."""
    is_wanted = bool(entry.strip()) and not entry[0].isspace() and len(entry) <= ENTRY_CHARS_MAX
    # Also with comments between its words.
    return is_wanted and not _TELLING.search(entry) and not _TELLING.search(_COMMENTS.sub(" ", entry))


class KeptHistory(History):
    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def append_string(self, string: str) -> None:
        if may_be_kept(string) and string != next(iter(self._loaded_strings), None):
            super().append_string(string)

    def load_history_strings(self) -> Iterable[str]:
        """Newest first. Lines that are none of ours are passed over."""
        try:
            content = self._read()
        except OSError:
            return []
        lines = content.decode("utf-8", errors="replace").split("\n")
        entries = [entry for entry in map(_entry, lines) if entry is not None]
        if len(entries) > 2 * ENTRIES_MAX:
            self._rewrite(entries[-ENTRIES_MAX:])
        return reversed(entries[-ENTRIES_MAX:])

    def store_string(self, string: str) -> None:
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._append(self._file, [string])
        except OSError:
            return

    def _read(self) -> bytes:
        with self._file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - FILE_BYTES_MAX))
            return stream.read(FILE_BYTES_MAX)

    def _rewrite(self, entries: list[str]) -> None:
        beside = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            self._append(beside, entries)
            beside.replace(self._file)
        except OSError:
            beside.unlink(missing_ok=True)

    def _append(self, file: Path, entries: list[str]) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        descriptor = os.open(file, flags, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, "".join(f"{json.dumps(entry)}\n" for entry in entries).encode())
        finally:
            os.close(descriptor)


def _entry(line: str) -> str | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, str) else None

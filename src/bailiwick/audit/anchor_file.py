"""The newest place of the chain, kept in a file of its own beside the database.

Whoever cuts the end off the log, or puts an older copy of the database back, leaves this file behind, and
the next look notices. It is no protection against somebody who changes both: for that, keep anchors elsewhere
(the gateway's log tells them, and so does `bailiwick audit verify`). Everything here blocks on the disk.
"""

import contextlib
import os
import secrets
from pathlib import Path

from bailiwick.audit.chain import Anchor

NAME = "audit-anchor"
_BYTES_MAX = 200


class AnchorFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Anchor | None:
        """What was written last; None where nothing ever was. Raises ValueError for anything else."""
        try:
            with self._path.open("rb") as file:
                content = file.read(_BYTES_MAX)
        except FileNotFoundError:
            return None
        return Anchor.parse(content.decode("ascii", errors="replace").strip())

    def write(self, anchor: Anchor) -> None:
        """Put it in place of the one before. A reader, also after a crash, sees the old or the new one."""
        temporary = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(f"{anchor}\n".encode())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()

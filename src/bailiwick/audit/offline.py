"""Looking at the audit log of a data directory without its gateway, which need not be believed.

The database is opened for reading only: nothing is migrated, repaired or locked. A gateway may be running.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from bailiwick.audit.anchor_file import NAME, AnchorFile
from bailiwick.audit.chain import Anchor, Verification, Verifier
from bailiwick.audit.store import look_at, verified

DATABASE = "bailiwick.db"


class UnreadableError(Exception):
    """There is no audit log to look at. The message says why."""


def verify_directory(data_dir: Path, anchors: Sequence[Anchor] = ()) -> Verification:
    """Look at every entry, and whether the anchor file and `anchors` are met. Raises UnreadableError."""
    path = data_dir / DATABASE
    if not path.is_file():
        raise UnreadableError(f"there is no {DATABASE} in {data_dir}")
    try:
        return verified(lambda known: _verify(path, known), AnchorFile(data_dir / NAME), anchors)
    except (sqlite3.Error, OSError) as error:
        raise UnreadableError(f"{DATABASE} cannot be read: {error}") from error


def _verify(path: Path, anchors: Sequence[Anchor]) -> Verification:
    verifier = Verifier(anchors)
    with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        for row in connection.execute("SELECT * FROM audit ORDER BY sequence"):
            look_at(verifier, row)
    return verifier.end()

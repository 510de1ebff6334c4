"""Databases for tests that are about what is kept in them, not about how their schema came to be.

Making the schema is most of what it takes to open a new one, and the disk is waited for at every step of it.
So it is made once in each process, and each test gets a copy of the file. That a new file is made up to date
is proven in tests/unit/test_database.py.
"""

import tempfile
from functools import cache
from pathlib import Path

from bailiwick.database.database import Database


def opened_database(path: Path) -> Database:
    """As `Database.open` does it, only quicker where there is no file yet. Blocks."""
    if not path.exists():
        path.write_bytes(_new_file())
    return Database.open(path)


@cache
def _new_file() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bailiwick.db"
        database = Database.open(path)
        # Only these two were used; the last to go folds the log into the file.
        database.synchronous_reads.dispose()
        database.synchronous.dispose()
        return path.read_bytes()

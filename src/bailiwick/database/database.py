"""The one transactional store: users, tokens, policies, the catalog's pointers, queries, the audit log.

It hands out SQLAlchemy engines and knows nothing of what is stored. There are four of them, by two choices:
on an event loop or in a thread, and changing or only reading.

- `asynchronous` and `synchronous` hold the database's one write lock from when a transaction begins until it
  ends. One that reads first and writes later never fails halfway, nor loses what somebody else wrote in
  between. Each has a single connection: writers queue for it. Do not open one inside another.
- `asynchronous_reads` and `synchronous_reads` see a snapshot, never wait for writers, and cannot write.

What was committed survives a crash. SQLite (`sqlite.py`) belongs to one gateway, PostgreSQL (`postgresql.py`)
may be shared by several: then what one holds in memory can be changed by another, see `changes.py`.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy import Engine
from sqlalchemy.exc import DatabaseError
from sqlalchemy.ext.asyncio import AsyncEngine

from bailiwick.database import sqlite
from bailiwick.database.config import DatabaseConfig
from bailiwick.database.errors import UnusableDatabaseError
from bailiwick.database.migrations import migrate
from bailiwick.errors import BailiwickError

IN_THE_DATA_DIRECTORY = DatabaseConfig()


@dataclass(frozen=True, slots=True)
class Database:
    """Four engines over one store. See the module's docstring for which to take."""

    asynchronous: AsyncEngine
    asynchronous_reads: AsyncEngine
    synchronous: Engine
    synchronous_reads: Engine
    config: DatabaseConfig = IN_THE_DATA_DIRECTORY

    @classmethod
    def open(cls, path: Path, config: DatabaseConfig = IN_THE_DATA_DIRECTORY) -> Self:
        """The database that `config` names, else the SQLite file at `path`, with its schema up to date.

        The file is created if need be (mode 0600). Blocks.
        """
        return cls._open_postgresql(config) if config.is_shared else cls._open_sqlite(path)

    @property
    def is_shared(self) -> bool:
        """Whether other gateways may be at work on it."""
        return self.config.is_shared

    async def close(self) -> None:
        """Close every connection. To be called on the loop that used the asynchronous engines."""
        await self.asynchronous.dispose()
        await self.asynchronous_reads.dispose()
        self._dispose_synchronous()

    @classmethod
    def _open_sqlite(cls, path: Path) -> Self:
        sqlite.create_private(path)
        database = cls(
            asynchronous=sqlite.asynchronous_engine(path, writes=True),
            asynchronous_reads=sqlite.asynchronous_engine(path, writes=False),
            synchronous=sqlite.synchronous_engine(path, writes=True),
            synchronous_reads=sqlite.synchronous_engine(path, writes=False),
        )
        return database._prepared(sqlite.use_log, f"{path.name} cannot be opened as a database")

    @classmethod
    def _open_postgresql(cls, config: DatabaseConfig) -> Self:
        # Whoever keeps to SQLite need not wait for this to be imported.
        from bailiwick.database import postgresql

        given = config.parameters()
        database = cls(
            asynchronous=postgresql.asynchronous_engine(given, writes=True),
            asynchronous_reads=postgresql.asynchronous_engine(given, writes=False),
            synchronous=postgresql.synchronous_engine(given, writes=True),
            synchronous_reads=postgresql.synchronous_engine(given, writes=False),
            config=config,
        )
        return database._prepared(postgresql.check_server, "the PostgreSQL of database.url cannot be used")

    def _prepared(self, check: Callable[[Engine], None], problem: str) -> Self:
        try:
            check(self.synchronous)
            migrate(self.synchronous)
        except (DatabaseError, sqlite3.DatabaseError, BailiwickError) as error:
            self._dispose_synchronous()
            raise UnusableDatabaseError(f"{problem}: {_reason(error)}") from error
        except UnusableDatabaseError:
            self._dispose_synchronous()
            raise
        return self

    def _dispose_synchronous(self) -> None:
        # The reader first: the last connection to go folds SQLite's log into the file, and a reader may not.
        self.synchronous_reads.dispose()
        self.synchronous.dispose()


def _reason(error: Exception) -> str:
    if isinstance(error, BailiwickError):
        return error.cause_text or error.message
    original = getattr(error, "orig", None)
    return str(original if original is not None else error)

"""The one transactional store: users, tokens, the catalog's pointers, the history of queries.

It hands out SQLAlchemy engines and knows nothing of what is stored. There are four of them over one file, by
two choices: on an event loop or in a thread, and changing or only reading.

- `asynchronous` and `synchronous` take the write lock when a transaction begins (BEGIN IMMEDIATE). One that
  reads first and writes later never fails halfway because somebody else wrote in between. Each has a single
  connection: writers of one side queue in its pool, which is fair, and not in SQLite's busy handler, which is
  not. Do not open one inside another.
- `asynchronous_reads` and `synchronous_reads` see a snapshot, never wait for writers, and cannot write.

Durability: WAL with synchronous=FULL, one fsync a commit (0.4 ms where it was measured, NORMAL 0.02 ms). With
NORMAL a power failure may take back commits already acknowledged: a table's new rows, a revoked token.
"""

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, QueuePool

from bailiwick.database.errors import UnusableDatabaseError
from bailiwick.database.migrations import migrate

BUSY_TIMEOUT_S = 15.0
READ_CONNECTIONS_MAX = 4


@dataclass(frozen=True, slots=True)
class Database:
    """Four engines over one store. See the module's docstring for which to take."""

    asynchronous: AsyncEngine
    asynchronous_reads: AsyncEngine
    synchronous: Engine
    synchronous_reads: Engine

    @classmethod
    def open(cls, path: Path) -> Self:
        """Create the file if need be (mode 0600) and bring its schema up to date. Blocks."""
        _create_private(path)
        database = cls(
            asynchronous=_asynchronous_engine(path, writes=True),
            asynchronous_reads=_asynchronous_engine(path, writes=False),
            synchronous=_synchronous_engine(path, writes=True),
            synchronous_reads=_synchronous_engine(path, writes=False),
        )
        try:
            _prepare(database.synchronous)
        except (DatabaseError, sqlite3.DatabaseError) as error:
            database._dispose_synchronous()
            raise UnusableDatabaseError(
                f"{path.name} cannot be opened as a database: {_reason(error)}"
            ) from error
        except UnusableDatabaseError:
            database._dispose_synchronous()
            raise
        return database

    async def close(self) -> None:
        """Close every connection. To be called on the loop that used the asynchronous engines."""
        await self.asynchronous.dispose()
        await self.asynchronous_reads.dispose()
        self._dispose_synchronous()

    def _dispose_synchronous(self) -> None:
        # The reader first: the last connection to go folds the log into the file, and a reader may not.
        self.synchronous_reads.dispose()
        self.synchronous.dispose()


def _create_private(path: Path) -> None:
    # SQLite gives its side files (-wal, -shm) the mode of the file itself.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _prepare(engine: Engine) -> None:
    raw = engine.raw_connection()
    try:
        cursor = raw.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        (mode,) = cursor.fetchone() or ("",)
        cursor.close()
    finally:
        raw.close()
    if mode != "wal":
        raise UnusableDatabaseError(
            "the data directory must lie on a local file system (SQLite's log needs one)"
        )
    migrate(engine)


def _synchronous_engine(path: Path, *, writes: bool) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=QueuePool,
        connect_args={"check_same_thread": False},
        **_options(writes=writes),
    )
    _configure(engine, writes=writes)
    return engine


def _asynchronous_engine(path: Path, *, writes: bool) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        poolclass=AsyncAdaptedQueuePool,
        **_options(writes=writes),
    )
    _configure(engine.sync_engine, writes=writes)
    return engine


def _options(*, writes: bool) -> dict[str, Any]:
    return {
        "pool_size": 1 if writes else READ_CONNECTIONS_MAX,
        "max_overflow": 0,
        "pool_timeout": BUSY_TIMEOUT_S * 2,
        # Errors end in logs, and parameters may be hashes of secrets or a user's SQL.
        "hide_parameters": True,
    }


def _configure(engine: Engine, *, writes: bool) -> None:
    """Pragmas for each connection, and transactions begun by us: the driver would begin them too late."""

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={int(BUSY_TIMEOUT_S * 1000)}")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        if not writes:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _reason(error: Exception) -> str:
    original = getattr(error, "orig", None)
    return str(original if original is not None else error)

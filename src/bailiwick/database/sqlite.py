"""SQLite in a file: engines whose transactions are what `database.py` promises.

One that may write takes the file's write lock when it begins (BEGIN IMMEDIATE), and has a single connection:
writers of one side queue in its pool, which is fair, and not in SQLite's busy handler, which is not.

Durability: WAL with synchronous=FULL, one fsync a commit (0.4 ms where it was measured, NORMAL 0.02 ms). With
NORMAL a power failure may take back commits already acknowledged: a table's new rows, a revoked token.
"""

import os
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, QueuePool

from bailiwick.database.errors import UnusableDatabaseError

BUSY_TIMEOUT_S = 15.0
READ_CONNECTIONS_MAX = 4


def create_private(path: Path) -> None:
    """An empty file, if there is none; in any case one that nobody else may read."""
    # SQLite gives its side files (-wal, -shm) the mode of the file itself.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def use_log(engine: Engine) -> None:
    """Readers and writers shall not wait for one another. Raises UnusableDatabaseError if they must."""
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


def synchronous_engine(path: Path, *, writes: bool) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=QueuePool,
        connect_args={"check_same_thread": False},
        **_options(writes=writes),
    )
    _configure(engine, writes=writes)
    return engine


def asynchronous_engine(path: Path, *, writes: bool) -> AsyncEngine:
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

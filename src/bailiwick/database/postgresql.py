"""PostgreSQL: engines whose transactions are what `database.py` promises, for several gateways at once.

One that may write begins by taking the one write lock of the database, an advisory lock that ends with the
transaction, however that ends. So all that is written, by whichever gateway, is written one after the other,
and who read first and writes later has seen the latest: as in SQLite, and with the same code above. A gateway
that stands still inside a transaction is thrown out of it after `IDLE_S`, and the others go on.

A lost server, one that hangs, one that starts or stops, and a lock that is not to be had in time are all one
typed error, CATALOG_UNAVAILABLE. Connections are tried before they are used, so everything goes on when it is
back.

PostgreSQL's texts cannot hold the character NUL. What has one is kept with U+FFFD in its place.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout
from psycopg.types.string import StrDumperUnknown
from psycopg.waiting import wait_async
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, QueuePool

from bailiwick.database.errors import UnusableDatabaseError, unavailable

LOCK_WAIT_S: Final = 15.0
IDLE_S: Final = 15.0
STATEMENT_S: Final = 20.0
ANSWER_S: Final = 25.0
"""A server that lives has answered by then, if only with the end of its own patience."""
CONNECT_S: Final = 5
SILENCE_S: Final = 10.0
"""A server that confirms nothing for so long counts as lost."""
READ_CONNECTIONS_MAX: Final = 4
SERVER_VERSION_MIN: Final = 13_00_00

WRITE_LOCK: Final = 0x6261_696C_6977_6963
"""The key of the advisory lock: any number that others who use the same database do not take."""

Value = TypeVar("Value")

_URL: Final = "postgresql+psycopg://"
_READ_ONLY_NOW: Final = "25006"
_DEFAULTS: Final = {
    "application_name": "bailiwick",
    "connect_timeout": str(CONNECT_S),
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": str(int(SILENCE_S * 1000)),
    # Of several hosts the one that takes writes; readers must not see an older state either.
    "target_session_attrs": "primary",
    "client_encoding": "utf8",
}


def connect_parameters(given: Mapping[str, str], *, writes: bool) -> dict[str, Any]:
    """What libpq is told, from what the URL says."""
    settings = {
        "lock_timeout": f"{LOCK_WAIT_S:g}s",
        "idle_in_transaction_session_timeout": f"{IDLE_S:g}s",
        "statement_timeout": f"{STATEMENT_S:g}s",
        # Each statement of a transaction that has the write lock sees all that was written before.
        "default_transaction_isolation": "read\\ committed" if writes else "repeatable\\ read",
        "default_transaction_read_only": "off" if writes else "on",
        # Whatever the server's default: what was acknowledged survives.
        "synchronous_commit": "on",
    }
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return {**_DEFAULTS, **given, "options": f"{given.get('options', '')} {options}".strip()}


def check_server(engine: Engine) -> None:
    """Raises UnusableDatabaseError for a server that cannot keep what we promise."""
    with engine.connect() as connection:
        version = int(connection.execute(text("SHOW server_version_num")).scalar_one())
        encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if version < SERVER_VERSION_MIN:
        raise UnusableDatabaseError(
            f"PostgreSQL {SERVER_VERSION_MIN // 10_000} or later is needed, not {version // 10_000}"
        )
    if encoding != "UTF8":
        raise UnusableDatabaseError(
            f"the PostgreSQL database is encoded in {encoding}: create one with ENCODING 'UTF8'"
        )


def synchronous_engine(parameters: Mapping[str, str], *, writes: bool) -> Engine:
    given = connect_parameters(parameters, writes=writes)
    engine = create_engine(
        _URL,
        poolclass=QueuePool,
        creator=lambda: BoundedConnection.connect(**given),
        **_options(writes=writes),
    )
    _configure(engine, writes=writes)
    return engine


def asynchronous_engine(parameters: Mapping[str, str], *, writes: bool) -> AsyncEngine:
    given = connect_parameters(parameters, writes=writes)
    engine = create_async_engine(
        _URL,
        poolclass=AsyncAdaptedQueuePool,
        connect_args={**given, "async_creator_fn": BoundedAsyncConnection.connect},
        **_options(writes=writes),
    )
    _configure(engine.sync_engine, writes=writes)
    return engine


class BoundedConnection(psycopg.Connection[Any]):
    """Gives up on a server that hangs; the driver itself would wait for ever."""

    def wait(self, gen: PQGen[Value], interval: float = 0.1, timeout: float | None = None) -> Value:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, ANSWER_S)
        except _WaitTimeout as error:
            raise _given_up(self) from error


class BoundedAsyncConnection(psycopg.AsyncConnection[Any]):
    """The same on an event loop. Whoever is cancelled does not wait for the server, nor go on with it."""

    async def wait(self, gen: PQGen[Value], interval: float = 0.1, timeout: float | None = None) -> Value:
        patience_s = ANSWER_S if timeout is None else timeout
        try:
            return await wait_async(gen, self.pgconn.socket, interval=interval, timeout=patience_s)
        except asyncio.CancelledError:
            # The driver would ask the server to stop and wait for that: with one that is lost it would take
            # long, and in the end the server's error would stand where the cancellation was.
            self.pgconn.finish()
            raise
        except _WaitTimeout as error:
            if timeout is not None:
                raise
            raise _given_up(self) from error


def _given_up(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> Exception:
    connection.pgconn.finish()
    return psycopg.OperationalError(f"the server gave no answer within {ANSWER_S:g} s")


def _options(*, writes: bool) -> dict[str, Any]:
    return {
        # Writers queue here: were there more, they would queue for the lock.
        "pool_size": 1 if writes else READ_CONNECTIONS_MAX,
        "max_overflow": 0,
        "pool_timeout": LOCK_WAIT_S * 2,
        "pool_pre_ping": True,
        "hide_parameters": True,
    }


def _configure(engine: Engine, *, writes: bool) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        driver = getattr(connection, "driver_connection", connection)
        driver.adapters.register_dumper(str, _WithoutNul)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if writes:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITE_LOCK})")

    @event.listens_for(engine, "handle_error")
    def translate(context: ExceptionContext) -> None:
        error = context.original_exception
        # A connection that fails its trial is replaced: there is something to say only if that fails, too.
        if context.is_pre_ping or not isinstance(error, psycopg.Error):
            return
        if error.sqlstate == _READ_ONLY_NOW and writes:
            # The server has become a replica: another is the one to ask, by another connection.
            context.is_disconnect = True
        if context.is_disconnect or isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            raise unavailable(f"{type(error).__name__}: {error}") from error


class _WithoutNul(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\ufffd") if "\0" in obj else obj)

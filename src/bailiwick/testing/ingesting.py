"""A client that brings rows at the pace a test wants."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import DEVNULL, Popen
from typing import Any

import pyarrow as pa

from bailiwick.engines.write import ArrowRows
from bailiwick.testing.asking import in_background, wait_until
from bailiwick.testing.gateway import RunningGateway

BATCH_ROWS = 20_000
"""Four megabytes, as they are here: four batches make a chunk."""
_PADDING = "x" * 200
_CLIENT = """
import sys, threading
from adbc_driver_flightsql import dbapi
from bailiwick.testing.ingesting import batches, SCHEMA
import pyarrow as pa
uri, password, schema, table, count = sys.argv[1:]
connection = dbapi.connect(uri, db_kwargs={"username": "admin", "password": password}, autocommit=True)
reader = pa.RecordBatchReader.from_batches(SCHEMA, batches(int(count), then=threading.Event()))
with connection.cursor() as cursor:
    cursor.adbc_ingest(table, reader, mode="create_append", db_schema_name=schema)
"""

SCHEMA = pa.schema([("id", pa.int64()), ("label", pa.string())])


def batches(
    count: int, *, then: threading.Event | None = None, more: int = 0, rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """`count` batches, then a wait for `then`, then `more`. Ids count from 0 and never repeat."""
    for number in range(count + more):
        if number == count and then is not None:
            then.wait()
        ids = range(number * rows, (number + 1) * rows)
        yield pa.record_batch([list(ids), [f"row {id_} {_PADDING}" for id_ in ids]], schema=SCHEMA)
    if not more and then is not None:
        then.wait()


def bring(
    gateway: RunningGateway,
    table: str,
    rows: Any,
    mode: str = "create",
    schema: str = "ingest",
    *,
    user: str = "admin",
    password: str | None = None,
) -> int:
    """`adbc_ingest`, over a connection of its own. Gives the number of rows that the gateway tells."""
    with gateway.connect(user, password) as connection, connection.cursor() as cursor:
        return int(cursor.adbc_ingest(table, rows, mode=mode, db_schema_name=schema))


@contextmanager
def halfway(
    gateway: RunningGateway, table: str, mode: str, *, staged: int = 12, more: int = 4
) -> Iterator[tuple[Any, threading.Event]]:
    """An ingest that has begun to stage its rows, and goes on when the event is set: its future, and that."""
    go_on = threading.Event()
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches(staged, then=go_on, more=more))
    with in_background(lambda: bring(gateway, table, reader, mode)) as future:
        try:
            wait_until("rows staged", lambda: staged_files(gateway) or future.done())
            yield future, go_on
        finally:
            go_on.set()


def start_bringing(gateway: RunningGateway, schema: str, table: str, count: int = 12) -> "Popen[bytes]":
    """A client in a process of its own, that brings some batches and then waits for ever. To be killed."""
    arguments = [
        sys.executable,
        "-c",
        _CLIENT,
        gateway.uri,
        gateway.admin_password,
        schema,
        table,
        str(count),
    ]
    return Popen(arguments, stderr=DEVNULL)


def staged_files(gateway: RunningGateway) -> list[str]:
    """The files of ingests that are going on, or were not cleared away."""
    directory = gateway.data_dir / "staging"
    return [path.name for path in directory.rglob("*.parquet") if path.is_file()]


def unpacked(rows: ArrowRows) -> pa.Table:
    """The rows that were packed, as Spark makes them out of it."""
    lists = pa.ipc.open_stream(rows.data).read_all()
    flat = [column.combine_chunks().flatten() for column in lists.columns]
    return pa.table(flat, names=list(rows.columns))

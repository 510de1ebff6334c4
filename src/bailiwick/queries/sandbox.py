"""DuckDB, shut in: it sees the tables it is handed and nothing else.

What users write runs here, inside the gateway's process. So each statement gets a database of its own in
memory, with no way to files, network, extensions or Python's variables, with settings that can no longer be
changed, and with bounds on memory, threads, time and the size of the answer. All of it happens in a few
threads.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.routing import Tree

T = TypeVar("T")

Tables = Mapping[tuple[str, str], pa.Table]
"""What a statement may read, by schema and name inside the sandbox."""

THREADS = 2
MEMORY_LIMIT = "256MB"
RESULT_ROWS_MAX = 1_000_000
RESULT_BYTES_MAX = 128 << 20
MESSAGE_CHARACTERS_MAX = 2000

_SETTINGS: Mapping[str, str] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
    "temp_directory": "",
    "threads": "1",
    "memory_limit": MEMORY_LIMIT,
}
_BATCH_ROWS = 10_000
_INTERRUPT_EVERY_S = 0.1


class Sandbox:
    """Runs single SELECT statements over tables that are given with them."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="system-tables")
        # On its own: statements that are not for us at all must not wait behind those that are.
        self._parsing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="system-tables-parser")
        # Opening a database takes longer than most statements over system tables. From the first one on, a
        # fresh one is always kept ready for the next.
        self._spare: Future[Any] | None = None
        self._parser: Future[Any] | None = None
        self._is_closed = False

    async def parse(self, sql: str) -> Tree | None:
        """The tree of one SELECT statement; None for anything else."""
        if self._parser is None:
            self._parser = self._parsing.submit(_open)
        parser = await asyncio.shield(asyncio.wrap_future(self._parser))
        return await asyncio.wrap_future(self._parsing.submit(_parse, parser.cursor(), sql))

    async def query(self, tree: Tree, tables: Tables, parameters: Sequence[Any] = ()) -> pa.Table:
        """Answer the statement. Cancelling interrupts DuckDB."""
        return await self._ask(tree, tables, parameters, _read)

    async def schema(self, tree: Tree, tables: Tables, parameters: Sequence[Any] = ()) -> pa.Schema:
        """What the answer's columns would be. Reads no rows."""
        return await self._ask(tree, tables, parameters, _schema)

    def close(self) -> None:
        """Take nothing on any more. What runs ends by itself."""
        self._is_closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._parsing.shutdown(wait=False, cancel_futures=True)

    async def _ask(
        self, tree: Tree, tables: Tables, parameters: Sequence[Any], read: Callable[[Any], T]
    ) -> T:
        fresh = self._spare or self._executor.submit(_open)
        self._spare = self._executor.submit(_open)
        connection = await asyncio.wrap_future(fresh)

        def ask() -> T:
            _fill(connection, tables)
            return read(connection.sql(_text(connection, tree), params=list(parameters)))

        work = self._executor.submit(ask)
        try:
            return await asyncio.wrap_future(work)
        except duckdb.Error as error:
            raise classify(error) from error
        finally:
            self._end(connection, work)

    def _end(self, connection: Any, work: Future[Any]) -> None:
        """Close the database. A thread cannot be cancelled, but what it waits for can be ended.

        Again and again: an interrupt that comes between two statements finds nothing to end.
        """
        if work.done():
            if self._is_closed:
                connection.close()
            else:
                self._executor.submit(connection.close)
            return
        connection.interrupt()
        asyncio.get_running_loop().call_later(_INTERRUPT_EVERY_S, self._end, connection, work)


def plain(table: pa.Table) -> pa.Table:
    """The same table in types that every client reads."""
    for index, field in enumerate(table.schema):
        target = _plain_type(field.type)
        if target != field.type:
            column = table.column(index)
            if pa.types.is_interval(field.type):
                column = pa.chunked_array([[_interval_text(value) for value in column.to_pylist()]], target)
            table = table.set_column(index, pa.field(field.name, target), column.cast(target))
    return table.replace_schema_metadata(None)


def classify(error: duckdb.Error) -> BailiwickError:
    """DuckDB's failures in our words. Its own are shown only where they are about the statement."""
    code = _code(error)
    message = _MESSAGES.get(code) or str(error).split("\n\n")[0].partition(": ")[2].strip()
    return BailiwickError(
        code,
        message[:MESSAGE_CHARACTERS_MAX] or "The statement could not be answered.",
        retryable=False,
        cause_text=f"{type(error).__name__}: {error}",
    )


_MESSAGES: Mapping[Code, str] = {
    Code.ACCESS_DENIED: "System tables are answered without any way to files or network.",
    Code.RESOURCE_EXHAUSTED: f"The statement needs more than the {MEMORY_LIMIT} it may use. Ask for less.",
    Code.QUERY_CANCELLED: "The statement was interrupted.",
    Code.INTERNAL_ERROR: "The statement could not be answered.",
}
# The first that fits counts: some are kinds of others.
_CODES: tuple[tuple[type[Exception], Code], ...] = (
    (duckdb.InterruptException, Code.QUERY_CANCELLED),
    (duckdb.OutOfMemoryException, Code.RESOURCE_EXHAUSTED),
    (duckdb.PermissionException, Code.ACCESS_DENIED),
    (duckdb.IOException, Code.ACCESS_DENIED),
    (duckdb.ParserException, Code.SYNTAX_ERROR),
    (duckdb.SyntaxException, Code.SYNTAX_ERROR),
    (duckdb.ConversionException, Code.INVALID_CAST),
    (duckdb.OutOfRangeException, Code.INVALID_CAST),
    (duckdb.NotImplementedException, Code.NOT_SUPPORTED),
    (duckdb.InvalidInputException, Code.INVALID_ARGUMENTS),
    (duckdb.InvalidTypeException, Code.TYPE_MISMATCH),
    (duckdb.TypeMismatchException, Code.TYPE_MISMATCH),
)


def _code(error: duckdb.Error) -> Code:
    text = str(error)
    if isinstance(error, duckdb.CatalogException):
        return Code.FUNCTION_NOT_FOUND if "Function with name" in text else Code.TABLE_NOT_FOUND
    if isinstance(error, duckdb.BinderException):
        return Code.COLUMN_NOT_FOUND if "not found" in text and "column" in text else Code.SEMANTIC_ERROR
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.INTERNAL_ERROR)


def _open() -> Any:
    connection = duckdb.connect(":memory:", config=dict(_SETTINGS))
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _fill(connection: Any, tables: Tables) -> None:
    """Copy the tables in, then close the door behind them."""
    for (schema, table), rows in tables.items():
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        connection.register("rows_of_the_table", rows)
        connection.execute(f'CREATE TABLE "{schema}"."{table}" AS FROM rows_of_the_table')
        connection.unregister("rows_of_the_table")
    connection.execute("SET lock_configuration = true")


def _parse(connection: Any, sql: str) -> Tree | None:
    try:
        (text,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0]
        tree = json.loads(text)
    except (duckdb.Error, RecursionError, ValueError):
        return None
    finally:
        connection.close()
    if not isinstance(tree, dict) or tree.get("error") or len(tree.get("statements", ())) != 1:
        return None
    return tree


def _text(connection: Any, tree: Tree) -> str:
    (text,) = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchall()[0]
    return str(text)


def _read(relation: Any) -> pa.Table:
    reader = relation.to_arrow_reader(_BATCH_ROWS)
    batches: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in reader:
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows > RESULT_ROWS_MAX or size_bytes > RESULT_BYTES_MAX:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"The answer has more than {RESULT_ROWS_MAX} rows or {RESULT_BYTES_MAX} bytes.",
                retryable=False,
                details={"reason": "result_too_large"},
            )
        batches.append(batch)
    return plain(pa.Table.from_batches(batches, schema=reader.schema))


def _schema(relation: Any) -> pa.Schema:
    return plain(relation.limit(0).to_arrow_table()).schema


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return type_.value_type
    if pa.types.is_null(type_) or pa.types.is_interval(type_):
        return pa.string()
    return type_


def _interval_text(value: Any) -> str | None:
    if value is None:
        return None
    return f"{value.months} months {value.days} days {value.nanoseconds / 1e9:.9g} seconds"

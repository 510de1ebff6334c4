"""Rows that a client brings: however many, they become visible in one commit, or not at all.

The rows are cut into chunks that Spark can hold. If there is only one, it is written to the table as it is.
If there are more, each is written to a table that nobody can see (`catalog/staging.py`), and when the last
one is there, Spark writes all of them to where they belong in one statement. That is a commit like any
other: what somebody else did to the table meanwhile, it meets as any INSERT would.

The client is never more than a few chunks ahead of Spark. An ingest lives as a query does: it is listed,
recorded, and ended by a cancel, by a deadline that begins anew with every step forward, or by its client.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, assert_never

import pyarrow as pa

from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.staging import NAMESPACE as STAGING_NAMESPACE
from bailiwick.catalog.staging import Staging
from bailiwick.engines.description import Kind, full_name
from bailiwick.engines.write import WriteMode
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.placement import Placement
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId
from bailiwick.names import InvalidNameError, checked_table
from bailiwick.queries import describing
from bailiwick.queries.ingest_chunks import ChunkSource
from bailiwick.queries.ingest_columns import for_new_table, for_table
from bailiwick.queries.ingest_stream import Chunk
from bailiwick.queries.ingest_writing import Stages, Writing
from bailiwick.queries.local_life import GATEWAY
from bailiwick.queries.machine import Admitted
from bailiwick.queries.running import Running
from bailiwick.queries.service import Work
from bailiwick.queries.spark_side import Loss, SparkSide
from bailiwick.queries.statement import Result, Statement
from bailiwick.queries.verdict import CATALOGS, Verdict
from bailiwick.results.batches import read_schema
from bailiwick.telemetry.logs import logger

DEFAULT_NAMESPACE = ("default",)
"""What Spark means by a name without a schema where no schema is current."""

INGESTS_MAX = 8
"""So many hold chunks in memory at once; others wait before their rows are read."""

_THREADS = 2
_ABSENT = frozenset({Code.TABLE_NOT_FOUND, Code.VIEW_NOT_FOUND, Code.SCHEMA_NOT_FOUND})
_log = logger(__name__)


class IfMissing(StrEnum):
    CREATE = "create"
    FAIL = "fail"


class IfExists(StrEnum):
    FAIL = "fail"
    APPEND = "append"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """Whose rows go where."""

    principal: Principal
    door: str
    table: str
    catalog: str
    namespace: tuple[str, ...]
    if_missing: IfMissing
    if_exists: IfExists
    timeout_s: float | None = None
    """How long it may take without getting on; None for the configured default."""
    placement: Placement | None = None
    """Where it may run; None for what roles and the server say."""


class Queries(Protocol):
    """The query service, as far as an ingest needs it."""

    def run(
        self, statement: Statement, *, query_id: QueryId | None = None, work: Work | None = None
    ) -> AbstractAsyncContextManager[Result]: ...


MayWrite = Callable[[Principal, tuple[str, ...]], Verdict]
"""Whether somebody may bring rows to the table of that full name, or make it where there is none."""


class IngestService:
    """`close` it after the query service has ended what runs."""

    def __init__(
        self,
        queries: Queries,
        catalog: CatalogService,
        staging: Staging,
        *,
        client_idle_s: float,
        may_write: MayWrite,
    ) -> None:
        self._may_write = may_write
        self._queries = queries
        self._catalog = catalog
        self._stages = Stages(staging)
        self._client_idle_s = client_idle_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ingest")
        self._places = asyncio.Semaphore(INGESTS_MAX)

    async def close(self) -> None:
        await self._stages.end()
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)

    async def ingest(
        self, request: IngestRequest, messages: AsyncIterator[bytes], *, query_id: QueryId | None = None
    ) -> int:
        """Write all rows of `messages` (encapsulated Arrow IPC, schema first), and say how many they were.

        When this returns, all of them are in the table. When it raises, none is, unless the error's details
        say `outcome=unknown`.
        """
        target = _target(request)
        statement = Statement(
            f"INGEST INTO {full_name(target)}",
            request.principal,
            request.door,
            timeout_s=request.timeout_s,
            placement=request.placement,
        )

        async def work(running: Running, side: SparkSide) -> None:
            source = ChunkSource(
                messages, self._threads, idle_s=self._client_idle_s, on_message=running.renew_deadline
            )
            try:
                async with self._places:
                    await self._live(request, target, source, running, side)
            finally:
                source.close()

        async with self._queries.run(statement, query_id=query_id, work=work) as result:
            async for _ in result.frames():
                pass
            return result.affected_rows

    async def _live(
        self,
        request: IngestRequest,
        target: tuple[str, ...],
        source: ChunkSource,
        running: Running,
        side: SparkSide,
    ) -> None:
        # Better now than after all rows have come; the catalog asks again with each commit.
        self._may_write(request.principal, target).enforce()
        stream = await source.schema()
        table = await self._find(request, target, running.statement, side)
        mode = mode_for(request.if_missing, request.if_exists, target, is_there=table is not None)
        is_append = table is not None and mode is WriteMode.APPEND
        source.start(for_table(stream, table) if is_append else for_new_table(stream))
        first = await source.next()
        if first is None and is_append:
            await _finish_without_rows(running, side)
            return
        second = await source.next()
        ahead = deque(chunk for chunk in (first or source.empty(), second) if chunk is not None)
        del first, second
        await self._write(target, mode, ahead, source, running, side)

    async def _write(
        self,
        target: tuple[str, ...],
        mode: WriteMode,
        ahead: deque[Chunk],
        source: ChunkSource,
        running: Running,
        side: SparkSide,
    ) -> None:
        began_at = side.wall()
        async with side.pool.lease(
            running.statement.principal, running.id, side.work_of(running.statement, ())
        ) as lease:
            running.apply(Admitted(side.wall(), lease.engine.node_id, lease.is_fallback))
            writing = Writing(running, side, lease)
            running.writes, running.policy_version = (full_name(target),), lease.policy_version
            with Loss(lease) as loss:
                try:
                    await side.begin_change(running)
                    await lease.session.localise(time_zone="UTC", double_quoted_identifiers=False)
                    if len(ahead) == 1:
                        await writing.write_at_once(target, mode, ahead.popleft())
                    else:
                        await writing.write_by_stages(target, mode, _all(ahead, source), self._stages)
                    running.affected_rows = running.rows
                    await running.complete()
                except BailiwickError as error:
                    running.fail(error, by_engine=True)
                    return
        if loss.cause is not None:
            running.fail((await loss.told(side)).error)
            return
        _report(running, writing.chunks, side.wall() - began_at)

    async def _find(
        self, request: IngestRequest, target: tuple[str, ...], statement: Statement, side: SparkSide
    ) -> pa.Schema | None:
        """The table's columns, as Spark sees them; None if there is no such table, but could be."""
        question = replace(statement, sql=f"SELECT * FROM {full_name(target)}")  # noqa: S608  (quoted)
        try:
            description = await describing.prepare(question, side, side.limits.timeout_s)
        except BailiwickError as error:
            if error.code not in _ABSENT:
                raise
            # Better now than after all rows have come.
            self._catalog.namespace_properties(request.namespace or DEFAULT_NAMESPACE)
            return None
        if description.schema is None:
            raise BailiwickError(
                Code.NOT_SUPPORTED, f"{full_name(target)} has columns of types that no rows can be sent for."
            )
        return read_schema(description.schema)


def mode_for(
    if_missing: IfMissing, if_exists: IfExists, target: tuple[str, ...], *, is_there: bool
) -> WriteMode:
    """How to write, or why not. Raises DUPLICATE_TABLE or TABLE_NOT_FOUND."""
    if not is_there and if_missing is IfMissing.FAIL:
        raise BailiwickError(Code.TABLE_NOT_FOUND, f"There is no table {full_name(target)}.")
    match if_exists:
        case IfExists.REPLACE if if_missing is IfMissing.CREATE:
            return WriteMode.CREATE_OR_REPLACE
        case IfExists.REPLACE:
            return WriteMode.REPLACE
        case IfExists.APPEND if is_there:
            return WriteMode.APPEND
        case IfExists.FAIL if is_there:
            raise BailiwickError(Code.DUPLICATE_TABLE, f"There is a table {full_name(target)} already.")
        case IfExists.APPEND | IfExists.FAIL:
            return WriteMode.CREATE
    assert_never(if_exists)


def _target(request: IngestRequest) -> tuple[str, ...]:
    if request.catalog not in CATALOGS:
        raise BailiwickError(Code.CATALOG_NOT_FOUND, f"Rows can be brought to {', '.join(CATALOGS)} only.")
    try:
        table = checked_table(request.namespace or DEFAULT_NAMESPACE, request.table)
    except InvalidNameError as error:
        raise BailiwickError(Code.INVALID_ARGUMENTS, f"The table's name cannot be one: {error}.") from error
    if table.namespace[0] == STAGING_NAMESPACE:
        raise BailiwickError(Code.SCHEMA_NOT_FOUND, "There is no such schema.")
    return (request.catalog, *table.parts)


async def _all(ahead: deque[Chunk], source: ChunkSource) -> AsyncIterator[Chunk]:
    """The chunks that were waited for, and then the rest. None is held for longer than it takes."""
    while ahead:
        yield ahead.popleft()
    while (chunk := await source.next()) is not None:
        yield chunk


async def _finish_without_rows(running: Running, side: SparkSide) -> None:
    running.apply(Admitted(side.wall(), GATEWAY))
    await running.start(Kind.CHANGE)
    running.affected_rows = 0
    await running.complete()


def _report(running: Running, chunks: int, seconds: float) -> None:
    _log.info(
        "ingested",
        query_id=running.id,
        rows=running.rows,
        bytes=running.bytes,
        chunks=chunks,
        seconds=round(seconds, 3),
        rows_per_s=round(running.rows / max(seconds, 0.001)),
    )

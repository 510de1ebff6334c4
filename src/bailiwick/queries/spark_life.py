"""How Spark answers one statement: lease, describe, decide, run, drain.

The life of such a query is one task. It holds an engine session from the moment it is admitted to the
moment Spark is done, however slowly its client reads. It is ended by cancelling it: it leaves its lease, and
the pool sees to it that Spark stops.

An engine that is lost under a query is excluded, and another one tries it, as long as nobody has seen a row
and nothing can have been changed. A user's own error is never tried again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol, assert_never

import pyarrow as pa

from bailiwick.clock import Clock
from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Batch, Completed, Engine, EngineLost, EngineSession, Progress
from bailiwick.errors import OUT_OF_MEMORY, BailiwickError, Code
from bailiwick.fleet.schedule import ANYWHERE, Work
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, OperationId, QueryId, new_operation_id
from bailiwick.queries import failures
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.descriptions import Descriptions, Key
from bailiwick.queries.machine import Admitted, Retried
from bailiwick.queries.pulse import Pulse
from bailiwick.queries.query import Failure
from bailiwick.queries.running import Running
from bailiwick.queries.statement import Statement
from bailiwick.queries.verdict import decide
from bailiwick.results.batches import Frame, FrameKind, frames, read_schema, schema_message
from bailiwick.telemetry.breadcrumbs import breadcrumb

RETRY_PAUSE_S: Final = 0.1
"""Before the first retry; twice that before the second, and so on."""

_EXPLAIN = "ExplainCommand"
_VIEW_COMMANDS = frozenset({"CreateView", "CreateIcebergView", "AlterViewAs"})

_TURNS_TO_SETTLE = 3
"""Turns of the event loop within which an operation that has told its end is over."""


class Lease(Protocol):
    """The sole use of one engine session, for one query."""

    @property
    def id(self) -> LeaseId: ...

    @property
    def session(self) -> EngineSession: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def heap_bytes(self) -> int: ...

    @property
    def is_fallback(self) -> bool: ...

    @property
    def policy_version(self) -> int:
        """Of the policies under which this query runs, to its end."""

    def spoil(self, reason: str) -> None:
        """The session is not fit for another query."""


class SessionPool(Protocol):
    """Lends sessions. Who leaves a lease early need not wait: the pool stops what is left running."""

    def lease(
        self, principal: Principal, query_id: QueryId | None = None, work: Work = ANYWHERE
    ) -> AbstractAsyncContextManager[Lease]: ...

    def could_run(self, work: Work) -> bool: ...

    def position(self, query_id: QueryId) -> int | None: ...


WorkOf = Callable[[Statement, Sequence[str]], Work]
"""Where a statement may run, and how much it has to do if it reads these tables."""


@dataclass(frozen=True, slots=True)
class SparkSide:
    """What lives of Spark queries share."""

    pool: SessionPool
    tasks: asyncio.TaskGroup
    limits: LimitsConfig
    message_bytes_max: int
    catalog_version: Callable[[], int]
    policy_version: Callable[[], int]
    affected_rows: Callable[[LeaseId], int]
    """How many rows the commits of a lease added or removed; -1 where nobody knows exactly."""
    descriptions: Descriptions
    begin_change: Callable[[Running], Awaitable[None]]
    """Puts on record that a change starts, and raises if that cannot be done."""
    wall: Clock
    work_of: WorkOf = lambda _statement, _reads: ANYWHERE

    def key(self, statement: Statement) -> Key:
        """Under what a description of the statement holds now."""
        return Key.of(statement, self.policy_version(), self.catalog_version())

    def work(self, statement: Statement) -> Work:
        """What is known of it before an engine has looked at it: much, if it was prepared or asked before."""
        known = self.descriptions.find(self.key(statement))
        return self.work_of(statement, () if known is None else known.reads)


@dataclass(frozen=True, slots=True)
class _Lost:
    """How an attempt ended that another engine may take up."""

    engine: Engine
    error: BailiwickError
    heap_bytes_min: int = 0
    """What another engine needs to fare better."""


async def live(running: Running, side: SparkSide) -> None:
    """Answer the statement of `running`."""
    work = side.work(running.statement)
    while (lost := await _attempt(running, side, work)) is not None:
        lost.engine.note_trouble(lost.error.message)
        work = replace(
            work,
            excluded=work.excluded | {lost.engine.node_id},
            heap_bytes_min=max(work.heap_bytes_min, lost.heap_bytes_min),
        )
        if not _may_retry(running, side, work):
            running.fail(failures.after_attempts(lost.error, running.query.attempts))
            return
        pause_s = RETRY_PAUSE_S * 2 ** len(running.query.attempts)
        running.apply(Retried(side.wall(), Failure.of(lost.error)))
        await asyncio.sleep(pause_s)


async def _attempt(running: Running, side: SparkSide, work: Work) -> _Lost | None:
    """One engine's try. None if it has come to its end, good or bad."""
    async with side.pool.lease(running.statement.principal, running.id, work) as lease:
        running.apply(Admitted(side.wall(), lease.engine.node_id, lease.is_fallback))
        try:
            await _answer(running, lease, side)
        except EngineLost as error:
            lease.spoil("engine lost")
            lost = error
        except _Silence:
            lease.spoil("no sign of life")
            return _Lost(lease.engine, failures.stalled(side.limits.stream_idle_s))
        except BailiwickError as error:
            running.fail(error, by_engine=True)
            await _wait_settled(lease)
            return None
        else:
            await _wait_settled(lease)
            return None
    # Only now, for it may take a moment, and the session is of no use to wait for it.
    told = failures.engine_lost(await lease.engine.explain_loss(), str(lost))
    is_too_small = told.details.get("reason") == OUT_OF_MEMORY
    return _Lost(lease.engine, told, lease.heap_bytes + 1 if is_too_small else 0)


def _may_retry(running: Running, side: SparkSide, work: Work) -> bool:
    query = running.query
    return (
        not running.is_ended
        and len(query.attempts) < side.limits.retries
        and running.schema is None
        and not query.may_have_written
        and side.pool.could_run(work)
    )


async def prepare(statement: Statement, side: SparkSide, timeout_s: float) -> Description:
    """What Spark says the statement is, and whether this principal may run it. Runs nothing."""
    known = side.descriptions.find(side.key(statement))
    if known is None:
        known = await _describe_alone(statement, side, timeout_s)
    check(statement, known, side.limits)
    return known


async def _describe_alone(statement: Statement, side: SparkSide, timeout_s: float) -> Description:
    work = side.work(statement)
    try:
        async with asyncio.timeout(timeout_s):
            asked = await _ask(statement, side, work)
            if isinstance(asked, _Lost):
                # Asking runs nothing, so who met a dying engine may ask the next one, or the same again.
                breadcrumb("asked a dying engine")
                other = replace(work, excluded=work.excluded | {asked.engine.node_id})
                asked = await _ask(statement, side, other if side.pool.could_run(other) else work)
    except TimeoutError:
        raise failures.timed_out(timeout_s) from None
    if isinstance(asked, _Lost):
        raise asked.error
    return asked


async def _ask(statement: Statement, side: SparkSide, work: Work) -> Description | _Lost:
    async with side.pool.lease(statement.principal, None, work) as lease:
        try:
            async with _patience(lease, side):
                await _set_up(lease, statement)
                description = await describe(statement, lease, side)
            await _wait_settled(lease)
            return description
        except EngineLost as error:
            lease.spoil("engine lost")
            lost = error
        except _Silence:
            lease.spoil("no sign of life")
            return _Lost(lease.engine, failures.stalled(side.limits.stream_idle_s))
    reason = await lease.engine.explain_loss()
    return _Lost(lease.engine, failures.engine_lost(reason, str(lost)))


class _Silence(Exception):  # noqa: N818  (it says what was heard)
    """The engine shows no sign of life."""


@asynccontextmanager
async def _patience(lease: Lease, side: SparkSide) -> AsyncIterator[Pulse]:
    """Inside, work goes on for as long as the engine gives signs of life. Raises _Silence."""
    try:
        async with asyncio.timeout(None) as ended:
            pulse = Pulse(
                lease.engine,
                side.tasks,
                idle_s=side.limits.stream_idle_s,
                on_silence=lambda: ended.reschedule(0.0),
            )
            try:
                yield pulse
            finally:
                pulse.stop()
    except TimeoutError:
        if ended.expired():
            raise _Silence from None
        raise


async def describe(statement: Statement, lease: Lease, side: SparkSide) -> Description:
    """What Spark says the statement is; from memory if nothing has changed since it said so."""
    key = side.key(statement)
    known = side.descriptions.find(key)
    if known is not None:
        return known
    # The deadline that counts is the query's own, and it ends this from outside.
    timeout_s = side.limits.timeout_max_s + 1.0
    description = await lease.session.describe(
        statement.sql,
        lease=lease.id,
        timeout_s=timeout_s,
        parameters=statement.parameters,
        principal=statement.principal.name,
    )
    if side.key(statement) == key:
        side.descriptions.keep(key, description)
    return description


async def _set_up(lease: Lease, statement: Statement) -> None:
    """Let the session mean by names, times and quotes what the statement's author means."""
    await lease.session.use(statement.catalog, statement.namespace, lease=lease.id)
    await lease.session.localise(
        time_zone=statement.time_zone,
        double_quoted_identifiers=statement.double_quoted_identifiers,
        compressed=statement.compressed,
    )


def check(statement: Statement, description: Description, limits: LimitsConfig) -> None:
    """Refuse what this principal may not run, and results that would be too wide for anyone."""
    decide(statement.principal, description).enforce()
    if statement.double_quoted_identifiers and description.command in _VIEW_COMMANDS:
        raise failures.view_of_quotes()
    if description.schema is not None:
        check_columns(description.schema, limits)


def check_columns(schema: bytes, limits: LimitsConfig) -> None:
    columns = _column_count(schema)
    if columns > limits.result_columns_max:
        raise failures.too_many_columns(columns, limits.result_columns_max)


@lru_cache(maxsize=64)
def _column_count(schema: bytes) -> int:
    return len(read_schema(schema))


async def _answer(running: Running, lease: Lease, side: SparkSide) -> None:
    statement = running.statement
    async with _patience(lease, side) as pulse:
        await _set_up(lease, statement)
        description = await describe(statement, lease, side)
        pulse.beat()
        breadcrumb("described", kind=description.kind.value, command=description.command)
        running.reads, running.writes = description.reads, description.writes
        running.policy_version = lease.policy_version
        check(statement, description, side.limits)
        if description.kind is Kind.CHANGE:
            await side.begin_change(running)
            pulse.beat()
        operation = new_operation_id()
        await running.start(description.kind, operation)
        await _drain(running, lease, operation, description, side, pulse)
        await _complete(running, lease, description, side)


async def _drain(
    running: Running,
    lease: Lease,
    operation: OperationId,
    description: Description,
    side: SparkSide,
    pulse: Pulse,
) -> None:
    """Take everything as fast as Spark gives it."""
    is_change = description.kind is Kind.CHANGE
    events = lease.session.execute(
        running.statement.sql,
        operation=operation,
        lease=lease.id,
        reattachable=is_change,
        parameters=running.statement.parameters,
        principal=running.statement.principal.name,
        may_call=running.statement.principal.is_admin,
        explains=description.command == _EXPLAIN,
        query_id=running.id,
    )
    async for event in events:
        pulse.beat()
        match event:
            case Batch(data):
                for frame in frames(data):
                    await _take(running, frame, side)
                if not is_change and running.schema is not None:
                    # The caller of a change wants to know that it has happened, not that it has begun.
                    running.tell_ready()
            case Progress(done, total):
                running.tasks_done, running.tasks_total = done, total
            case Completed():
                pass
            case _:
                assert_never(event)


async def _take(running: Running, frame: Frame, side: SparkSide) -> None:
    match frame.kind:
        case FrameKind.SCHEMA:
            # Each of Spark's batches brings the same schema again.
            if running.schema is None:
                _accept_schema(running, frame.encapsulated(), side.limits)
        case FrameKind.BATCH:
            _count(running, frame, side)
            await running.delivery.put(frame)
        case FrameKind.DICTIONARY:
            raise BailiwickError(Code.NOT_SUPPORTED, "Results with dictionaries are not supported.")
        case _:
            assert_never(frame.kind)


def _accept_schema(running: Running, schema: bytes, limits: LimitsConfig) -> None:
    check_columns(schema, limits)
    expected = running.expected_schema
    if expected is not None and expected != schema and not read_schema(expected).equals(read_schema(schema)):
        raise failures.schema_changed()
    running.schema = schema
    breadcrumb("schema")


def _count(running: Running, frame: Frame, side: SparkSide) -> None:
    limits = side.limits
    rows, size_bytes = frame.rows, frame.content_bytes
    running.rows += rows
    running.bytes += size_bytes
    if size_bytes > side.message_bytes_max:
        raise failures.message_too_large(size_bytes, rows, side.message_bytes_max)
    if limits.result_rows_max and running.rows > limits.result_rows_max:
        raise failures.too_many_rows(limits.result_rows_max)
    if limits.result_bytes_max and running.bytes > limits.result_bytes_max:
        raise failures.too_many_bytes(limits.result_bytes_max)


async def _complete(running: Running, lease: Lease, description: Description, side: SparkSide) -> None:
    if running.schema is None:
        _accept_schema(running, description.schema or schema_message(pa.schema([])), side.limits)
    if description.kind is Kind.CHANGE:
        running.affected_rows = side.affected_rows(lease.id)
    await running.complete()


async def _wait_settled(lease: Lease) -> None:
    """Let an operation that has told its end come to it: a clean session goes back without a question."""
    for _ in range(_TURNS_TO_SETTLE):
        if lease.session.is_settled:
            return
        await asyncio.sleep(0)

"""How Spark answers one statement: lease, describe, decide, run, drain.

The life of such a query is one task. It holds an engine session from the moment it is admitted to the
moment Spark is done, however slowly its client reads. It is ended by cancelling it: it leaves its lease, and
the pool sees to it that Spark stops.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, assert_never

import pyarrow as pa

from bailiwick.clock import Clock
from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Batch, Completed, Engine, EngineLost, EngineSession, Progress
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, OperationId, QueryId, new_operation_id
from bailiwick.queries import failures
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.descriptions import Descriptions, Key
from bailiwick.queries.machine import Admitted
from bailiwick.queries.pulse import Pulse
from bailiwick.queries.running import Running
from bailiwick.queries.statement import Statement
from bailiwick.queries.verdict import decide
from bailiwick.results.batches import Frame, FrameKind, frames, read_schema, schema_message
from bailiwick.telemetry.breadcrumbs import breadcrumb

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
    def policy_version(self) -> int:
        """Of the policies under which this query runs, to its end."""

    def spoil(self, reason: str) -> None:
        """The session is not fit for another query."""


class SessionPool(Protocol):
    """Lends sessions. Who leaves a lease early need not wait: the pool stops what is left running."""

    def lease(
        self, principal: Principal, query_id: QueryId | None = None
    ) -> AbstractAsyncContextManager[Lease]: ...

    def position(self, query_id: QueryId) -> int | None: ...


@dataclass(frozen=True, slots=True)
class SparkSide:
    """What lives of Spark queries share."""

    pool: SessionPool
    engine: Engine
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

    def key(self, statement: Statement) -> Key:
        """Under what a description of the statement holds now."""
        return Key.of(statement, self.policy_version(), self.catalog_version())


async def live(running: Running, side: SparkSide) -> None:
    """Answer the statement of `running`."""
    try:
        async with side.pool.lease(running.statement.principal, running.id) as lease:
            running.apply(Admitted(side.wall(), side.engine.node_id))
            try:
                await _answer(running, lease, side)
            except EngineLost:
                lease.spoil("engine lost")
                raise
            except BailiwickError as error:
                running.fail(error, by_engine=True)
            await _wait_settled(lease)
    except EngineLost as lost:
        running.fail(failures.engine_lost(await side.engine.explain_loss(), str(lost)))


async def prepare(statement: Statement, side: SparkSide, timeout_s: float) -> Description:
    """What Spark says the statement is, and whether this principal may run it. Runs nothing."""
    known = side.descriptions.find(side.key(statement))
    if known is None:
        try:
            known = await _describe_alone(statement, side, timeout_s)
        except EngineLost as lost:
            raise failures.engine_lost(await side.engine.explain_loss(), str(lost)) from lost
    check(statement, known, side.limits)
    return known


async def _describe_alone(statement: Statement, side: SparkSide, timeout_s: float) -> Description:
    why = failures.timed_out(timeout_s)
    try:
        async with asyncio.timeout(timeout_s) as deadline:

            def give_up() -> None:
                nonlocal why
                why = failures.stalled(side.limits.stream_idle_s)
                deadline.reschedule(0.0)

            try:
                return await _ask(statement, side, give_up)
            except EngineLost:
                # Asking runs nothing, so who met a dying engine may ask the next one.
                breadcrumb("asked a dying engine")
                return await _ask(statement, side, give_up)
    except TimeoutError:
        raise why from None


async def _ask(statement: Statement, side: SparkSide, give_up: Callable[[], None]) -> Description:
    async with side.pool.lease(statement.principal) as lease:

        def spoil() -> None:
            lease.spoil("no sign of life")
            give_up()

        pulse = Pulse(side.engine, side.tasks, idle_s=side.limits.stream_idle_s, on_silence=spoil)
        try:
            await _set_up(lease, statement)
            description = await describe(statement, lease, side)
            await _wait_settled(lease)
            return description
        except EngineLost:
            lease.spoil("engine lost")
            raise
        finally:
            pulse.stop()


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
    def give_up() -> None:
        lease.spoil("no sign of life")
        running.fail(failures.stalled(side.limits.stream_idle_s))

    statement = running.statement
    pulse = Pulse(side.engine, side.tasks, idle_s=side.limits.stream_idle_s, on_silence=give_up)
    try:
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
    finally:
        pulse.stop()


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

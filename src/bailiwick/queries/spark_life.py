"""How Spark answers one statement: lease, describe, decide, run, drain.

The life of such a query is one task. It holds an engine session from the moment it is admitted to the
moment Spark is done, however slowly its client reads. It is ended by cancelling it: it leaves its lease, and
the pool sees to it that Spark stops.

An engine that is lost under a query is excluded, and another one tries it, as long as nobody has seen a row
and nothing can have been changed. A user's own error is never tried again. An engine that ran out of memory
is not to blame: whoever was alone there needs a larger one, and of several each gets one more chance.
"""

import asyncio
from dataclasses import replace
from typing import Final, assert_never

import pyarrow as pa

from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Batch, Completed, Progress
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.schedule import Work
from bailiwick.ids import OperationId, new_operation_id
from bailiwick.queries import failures
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.describing import check, check_columns, describe, set_up
from bailiwick.queries.machine import Admitted, Retried
from bailiwick.queries.pulse import Pulse
from bailiwick.queries.query import Failure
from bailiwick.queries.running import Running
from bailiwick.queries.spark_side import Lease, Loss, Lost, SparkSide, patience, wait_settled
from bailiwick.results.batches import Frame, FrameKind, frames, read_schema, schema_message
from bailiwick.telemetry.breadcrumbs import breadcrumb

RETRY_PAUSE_S: Final = 0.1
"""Before the first retry; twice that before the second, and so on."""

_EXPLAIN = "ExplainCommand"


async def live(running: Running, side: SparkSide) -> None:
    """Answer the statement of `running`."""
    work, is_suspect = side.work(running.statement), False
    while (lost := await _chance(running, side, work, is_suspect=is_suspect)) is not None:
        lost.engine.note_trouble(lost.error.message)
        is_suspect = lost.is_suspect
        work = replace(
            work,
            excluded=work.excluded if is_suspect else work.excluded | {lost.engine.node_id},
            heap_bytes_min=max(work.heap_bytes_min, lost.heap_bytes_min),
        )
        if not _may_retry(running, side, work, lost):
            running.fail(failures.after_attempts(lost.error, running.query.attempts))
            return
        pause_s = RETRY_PAUSE_S * 2 ** len(running.query.attempts)
        running.apply(Retried(side.wall(), Failure.of(lost.error)))
        await asyncio.sleep(pause_s)


async def _chance(running: Running, side: SparkSide, work: Work, *, is_suspect: bool) -> Lost | None:
    """One engine's try. None if it has come to its end, good or bad."""
    async with (
        side.suspects.chance(is_suspect=is_suspect),
        side.pool.lease(running.statement.principal, running.id, work) as lease,
    ):
        running.apply(Admitted(side.wall(), lease.engine.node_id, lease.is_fallback))
        with side.suspects.staying(lease.engine.node_id) as stay:
            loss = await _attempt(running, lease, side)
            has_company = side.suspects.has_company(lease.engine.node_id, stay)
    # Who is a suspect already, and is there again when an engine runs out of memory, is found guilty.
    return None if loss is None else await loss.told(side, is_suspect=has_company and not is_suspect)


async def _attempt(running: Running, lease: Lease, side: SparkSide) -> Loss | None:
    with Loss(lease) as loss:
        try:
            await _answer(running, lease, side)
        except BailiwickError as error:
            running.fail(error, by_engine=True)
        await wait_settled(lease)
        return None
    return loss


def _may_retry(running: Running, side: SparkSide, work: Work, lost: Lost) -> bool:
    query = running.query
    return (
        not running.is_ended
        and len(query.attempts) < side.limits.retries
        and running.schema is None
        and not query.may_have_written
        and (side.pool.could_run(work) or (lost.is_suspect and side.pool.is_returning(lost.engine.node_id)))
    )


async def _answer(running: Running, lease: Lease, side: SparkSide) -> None:
    statement = running.statement
    async with patience(lease, side) as pulse:
        await set_up(lease, statement)
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
            side.count(running, frame)
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


async def _complete(running: Running, lease: Lease, description: Description, side: SparkSide) -> None:
    if running.schema is None:
        _accept_schema(running, description.schema or schema_message(pa.schema([])), side.limits)
    if description.kind is Kind.CHANGE:
        running.affected_rows = side.affected_rows(lease.id)
    await running.complete()

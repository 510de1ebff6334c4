"""What a statement is, as Spark says, and whether it may run. Runs nothing."""

import asyncio
from dataclasses import replace
from functools import lru_cache

from bailiwick.engines.description import Description
from bailiwick.fleet.schedule import Work
from bailiwick.queries import failures
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.spark_side import Lease, Loss, Lost, SparkSide, patience, wait_settled
from bailiwick.queries.statement import Statement
from bailiwick.queries.verdict import decide
from bailiwick.results.batches import read_schema
from bailiwick.telemetry.breadcrumbs import breadcrumb

_VIEW_COMMANDS = frozenset({"CreateView", "CreateIcebergView", "AlterViewAs"})


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
            if isinstance(asked, Lost):
                # Asking runs nothing, so who met a dying engine may ask the next one, or the same again.
                breadcrumb("asked a dying engine")
                other = replace(work, excluded=work.excluded | {asked.engine.node_id})
                asked = await _ask(statement, side, other if side.pool.could_run(other) else work)
    except TimeoutError:
        raise failures.timed_out(timeout_s) from None
    if isinstance(asked, Lost):
        raise asked.error
    return asked


async def _ask(statement: Statement, side: SparkSide, work: Work) -> Description | Lost:
    async with side.pool.lease(statement.principal, None, work) as lease:
        with Loss(lease) as loss:
            async with patience(lease, side):
                await set_up(lease, statement)
                description = await describe(statement, lease, side)
            await wait_settled(lease)
    return description if loss.cause is None else await loss.told(side)


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


async def set_up(lease: Lease, statement: Statement) -> None:
    """Let the session mean by names, times and quotes what the statement's author means."""
    await lease.session.use(statement.catalog, statement.namespace, lease=lease.id)
    await lease.session.localise(
        time_zone=statement.time_zone,
        double_quoted_identifiers=statement.double_quoted_identifiers,
    )
    await lease.session.compress(statement.compressed)


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

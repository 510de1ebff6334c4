"""`system.runtime.tasks`: what Spark's tasks do and did, as far as engines remember.

Engines are asked when somebody looks, and not more often than twice a second however many look. Each tells
its newest few thousand tasks; one that does not answer in time, or is gone, tells none. So nothing is
kept here, and a query costs nothing more for being looked at later.

Everyone sees the tasks of the queries that they see. How many rows and bytes a task read tells of rows that
a filter hides, and of tables that are not the viewer's to read. So counts are shown to admins, and for their
own queries to those for whom nothing was restricted; where that is not known, they are NULL.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from bailiwick.clock import Clock, monotonic
from bailiwick.engines.engine import Engine, EngineLost, EngineSession
from bailiwick.engines.task import EngineTask
from bailiwick.errors import BailiwickError
from bailiwick.identity.abilities import Whose, seen_by
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId, QueryId
from bailiwick.queries.policy_decisions import DECISIONS_PER_QUERY_MAX, PolicyDecision
from bailiwick.queries.query import Query
from bailiwick.queries.routing import SystemName
from bailiwick.queries.system_tables import SystemTable

ASKED_EVERY_S: Final = 0.5
ANSWER_S: Final = 2.0

TASKS: SystemName = ("system", "runtime", "tasks")
TASKS_SCHEMA = pa.schema(
    [
        pa.field("query_id", pa.string()),
        pa.field("task_id", pa.string()),
        pa.field("node_id", pa.string()),
        pa.field("stage_id", pa.int64()),
        pa.field("executor_id", pa.string()),
        pa.field("state", pa.string()),
        pa.field("attempt", pa.int64()),
        pa.field("elapsed_ms", pa.int64()),
        pa.field("input_rows", pa.int64()),
        pa.field("output_rows", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("spilled_bytes", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class NodeTask:
    node_id: NodeId
    task: EngineTask


class TaskReader:
    """Asks all engines for their tasks, in sessions of its own. Belongs to one event loop."""

    def __init__(
        self,
        engines: Callable[[], Iterable[Engine]],
        *,
        clock: Clock = monotonic,
        every_s: float = ASKED_EVERY_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._engines = engines
        self._clock = clock
        self._every_s = every_s
        self._answer_s = answer_s
        self._lock = asyncio.Lock()
        self._asked_at: float | None = None
        self._told: list[NodeTask] = []
        self._closing: set[asyncio.Task[None]] = set()

    async def read(self) -> Sequence[NodeTask]:
        """What they tell now, or told a moment ago. Whoever comes meanwhile waits for the same answer."""
        async with self._lock:
            if self._asked_at is None or self._clock() - self._asked_at >= self._every_s:
                ready = [engine for engine in self._engines() if engine.is_ready]
                told = await asyncio.gather(*map(self._ask, ready))
                self._told = [task for tasks in told for task in tasks]
                self._asked_at = self._clock()
            return self._told

    async def _ask(self, engine: Engine) -> list[NodeTask]:
        session: EngineSession | None = None
        try:
            async with asyncio.timeout(self._answer_s):
                session = await engine.open_session()
                tasks = await session.tasks(self._answer_s)
                return [NodeTask(engine.node_id, task) for task in tasks]
        except (TimeoutError, EngineLost, BailiwickError):
            return []
        finally:
            if session is not None:
                self._close_soon(session)

    def _close_soon(self, session: EngineSession) -> None:
        """Nobody waits for it: an engine that hangs takes its time."""
        closing = asyncio.create_task(session.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def tasks_table(
    read: Callable[[], Awaitable[Sequence[NodeTask]]],
    queries: Callable[[Whose], Awaitable[Sequence[Query]]],
    decided: Callable[[QueryId], Sequence[PolicyDecision]],
) -> SystemTable:
    """`system.runtime.tasks`. `decided` tells what policy decided for a query, if that is still known."""

    async def rows(principal: Principal) -> pa.Table:
        told = await read()
        visible = {query.id: query for query in await queries(seen_by(principal))} if told else {}
        return await asyncio.to_thread(_table, principal, told, visible, decided)

    return SystemTable(TASKS, TASKS_SCHEMA, rows)


def is_unrestricted(decisions: Sequence[PolicyDecision]) -> bool:
    """Whether policy is known to have left out nothing. Too many decisions are not all remembered."""
    is_known = 0 < len(decisions) < DECISIONS_PER_QUERY_MAX
    return is_known and not any(decision.rules for decision in decisions)


def _table(
    principal: Principal,
    told: Sequence[NodeTask],
    visible: Mapping[QueryId, Query],
    decided: Callable[[QueryId], Sequence[PolicyDecision]],
) -> pa.Table:
    shown = [each for each in told if each.task.query_id in visible]
    own = Whose(principal.tenant, principal.name)
    counted = {
        query_id
        for query_id in {each.task.query_id for each in shown}
        if principal.is_admin
        or (
            own.covers(visible[query_id].principal, visible[query_id].tenant)
            and is_unrestricted(decided(query_id))
        )
    }
    rows = [_row(each, is_counted=each.task.query_id in counted) for each in shown]
    return pa.Table.from_pylist(rows, schema=TASKS_SCHEMA)


def _row(told: NodeTask, *, is_counted: bool) -> dict[str, Any]:
    task = told.task
    return {
        "query_id": task.query_id,
        "task_id": task.id,
        "node_id": told.node_id,
        "stage_id": task.stage,
        "executor_id": task.executor,
        "state": task.state,
        "attempt": task.attempt,
        "elapsed_ms": task.elapsed_ms,
        "input_rows": task.input_rows if is_counted else None,
        "output_rows": task.output_rows if is_counted else None,
        "bytes": task.read_bytes if is_counted else None,
        "spilled_bytes": task.spilled_bytes if is_counted else None,
    }

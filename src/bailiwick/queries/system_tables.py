"""The gateway's own tables: how they are answered, and `system.runtime.queries` and `.nodes` themselves.

They are made anew for each statement, from what is known at that moment, and hold only what the asking
principal may see, by `identity/abilities.py`: what another tenant does is not there. No engine takes part, so
they can be read when none answers. How a statement over them is run is the sandbox's affair.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bailiwick.clock import Clock
from bailiwick.engines.parameters import ParameterValue
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.abilities import Whose, seen_by
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId
from bailiwick.queries import failures
from bailiwick.queries.narrowing import NOTHING_KNOWN, Narrowing, narrowing
from bailiwick.queries.query import Attempt, Query, State
from bailiwick.queries.routing import SystemName, SystemQuery, mentions_system, route, sandbox_name
from bailiwick.queries.sandbox import Sandbox

ANSWER_S = 30.0

_TIME = pa.timestamp("us", tz="UTC")

QUERIES: SystemName = ("system", "runtime", "queries")
NODES: SystemName = ("system", "runtime", "nodes")

QUERIES_SCHEMA = pa.schema(
    [
        pa.field("query_id", pa.string()),
        pa.field("principal", pa.string()),
        pa.field("tenant", pa.string()),
        pa.field("actor", pa.string()),
        pa.field("door", pa.string()),
        pa.field("state", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("sql", pa.string()),
        pa.field("node_id", pa.string()),
        pa.field("queue_position", pa.int32()),
        pa.field("created_at", _TIME),
        pa.field("started_at", _TIME),
        pa.field("finished_at", _TIME),
        pa.field("elapsed_ms", pa.float64()),
        pa.field("queued_ms", pa.float64()),
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("tasks_done", pa.int32()),
        pa.field("tasks_total", pa.int32()),
        pa.field("error_code", pa.string()),
        pa.field("error_message", pa.string()),
        pa.field("attempts", pa.int32()),
        pa.field("failed_attempts", pa.list_(pa.string())),
        pa.field("is_fallback", pa.bool_()),
    ]
)
NODES_SCHEMA = pa.schema(
    [
        pa.field("node_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("state", pa.string()),
        pa.field("master", pa.string()),
        pa.field("version", pa.string()),
        pa.field("cores", pa.int32()),
        pa.field("memory_bytes", pa.int64()),
        pa.field("sessions", pa.int32()),
        pa.field("running", pa.int32()),
        pa.field("started_at", _TIME),
        pa.field("restarts", pa.int32()),
        pa.field("class", pa.string()),
        pa.field("health", pa.string()),
        pa.field("why", pa.string()),
        pa.field("watermark", pa.string()),
        pa.field("memory_utilization", pa.float64()),
        pa.field("active", pa.int32()),
        pa.field("queue_s", pa.float64()),
        pa.field("heartbeat_age_s", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Node:
    """One engine, as `system.runtime.nodes` shows it to those who look after engines. Never its address."""

    node_id: NodeId
    kind: str
    state: str
    master: str
    version: str | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    sessions: int = 0
    running: int = 0
    started_at: float | None = None
    restarts: int = 0
    engine_class: str = "general"
    health: str | None = None
    """What `fleet/health.py` holds of it."""
    why: str | None = None
    """The reason, where it is not used."""
    watermark: str | None = None
    memory_utilization: float | None = None
    """From 0 to 1, as the watermarks measure it; None where nobody has measured yet."""
    active: int | None = None
    """Operations at work in it, by its own count: also those of other gateways."""
    queue_s: float | None = None
    """How long the last query that it took had waited for its turn."""
    heartbeat_age_s: float | None = None
    """None for an engine that this gateway watches itself."""


@dataclass(frozen=True, slots=True)
class SystemTable:
    """A table that this process answers for."""

    name: SystemName
    schema: pa.Schema
    rows: Callable[[Principal], Awaitable[pa.Table]]
    """What the principal may see of it now, in that schema."""
    rows_needed: Callable[[Principal, Narrowing], Awaitable[pa.Table]] | None = None
    """The same without what makes no difference to the answer, for a table that saves work by it."""

    async def fetch(self, principal: Principal, needed: Narrowing) -> pa.Table:
        if self.rows_needed is None:
            return await self.rows(principal)
        return await self.rows_needed(principal, needed)


class SystemTables:
    """Answers statements over the gateway's own tables."""

    def __init__(self, sandbox: Sandbox, tables: Iterable[SystemTable]) -> None:
        self._sandbox = sandbox
        self._tables = {table.name: table for table in tables}

    @property
    def schemas(self) -> Mapping[SystemName, pa.Schema]:
        """Every table there is, with its columns."""
        return {name: table.schema for name, table in self._tables.items()}

    async def rows(self, name: SystemName, principal: Principal) -> pa.Table:
        """All that the principal may see of one table now. KeyError if there is none of that name."""
        return await self._tables[name].fetch(principal, NOTHING_KNOWN)

    async def route(self, sql: str) -> SystemQuery | None:
        """The statement, if it is about system tables; see `routing.route` for what it raises."""
        if not mentions_system(sql):
            return None
        tree = await self._sandbox.parse(sql)
        return route(sql, lambda _sql: tree, frozenset(self._tables))

    async def schema(self, query: SystemQuery, parameters: Sequence[ParameterValue] = ()) -> pa.Schema:
        """The columns of the answer; without parameters, as far as they do not depend on them.

        Shows no rows to anyone.
        """
        values = _bound(query, parameters) if parameters else [None] * query.parameter_count
        empty = {sandbox_name(name): self._tables[name].schema.empty_table() for name in query.tables}
        return await self._sandbox.schema(query.tree, empty, values)

    async def answer(
        self, query: SystemQuery, principal: Principal, parameters: Sequence[ParameterValue] = ()
    ) -> pa.Table:
        """The rows. Ends after `ANSWER_S` at the latest: there are few threads, and they are for everyone."""
        values = _bound(query, parameters)
        try:
            async with asyncio.timeout(ANSWER_S):
                needed = narrowing(query, values)
                snapshot = {
                    sandbox_name(name): await self._tables[name].fetch(principal, needed)
                    for name in query.tables
                }
                return await self._sandbox.query(query.tree, snapshot, values)
        except TimeoutError:
            raise failures.timed_out(ANSWER_S) from None


def _bound(query: SystemQuery, parameters: Sequence[ParameterValue]) -> list[Any]:
    if len(parameters) != query.parameter_count:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"The statement has {query.parameter_count} parameters, and {len(parameters)} values were given.",
        )
    return [parameter.scalar.as_py() for parameter in parameters]


def queries_table(queries: Callable[[Whose], Awaitable[Sequence[Query]]], wall: Clock) -> SystemTable:
    """`system.runtime.queries`."""

    async def rows_needed(principal: Principal, needed: Narrowing) -> pa.Table:
        visible = await queries(seen_by(principal))
        chosen = [query for query in visible if needed.allows("query_id", query.id)]
        # A long history takes a while, and others have work to do.
        return await asyncio.to_thread(_queries, principal, chosen, wall())

    async def rows(principal: Principal) -> pa.Table:
        return await rows_needed(principal, NOTHING_KNOWN)

    return SystemTable(QUERIES, QUERIES_SCHEMA, rows, rows_needed)


def nodes_table(nodes: Callable[[], Sequence[Node]]) -> SystemTable:
    """`system.runtime.nodes`."""

    async def rows(principal: Principal) -> pa.Table:
        shown = nodes() if principal.may_see_nodes else ()
        return pa.Table.from_pylist([_node_row(node) for node in shown], schema=NODES_SCHEMA)

    return SystemTable(NODES, NODES_SCHEMA, rows)


def _queries(principal: Principal, queries: Sequence[Query], now: float) -> pa.Table:
    rows = [_query_row(_as_seen_by(principal, query), now) for query in queries]
    return pa.Table.from_pylist(rows, schema=QUERIES_SCHEMA)


def _as_seen_by(principal: Principal, query: Query) -> Query:
    """Messages quote values: who looks after queries without a right to the data is told the code only."""
    is_own = Whose(principal.tenant, principal.name).covers(query.principal, query.tenant)
    if query.failure is None or is_own or principal.is_admin:
        return query
    return replace(query, failure=replace(query.failure, message=""))


def _query_row(query: Query, now: float) -> dict[str, Any]:
    end = query.finished_at if query.finished_at is not None else now
    return {
        "query_id": query.id,
        "principal": query.principal,
        "tenant": query.tenant,
        "actor": query.actor,
        "door": query.door,
        "state": query.state.value,
        "kind": None if query.kind is None else query.kind.value,
        "sql": query.sql,
        "node_id": query.node_id,
        "queue_position": query.queue_position,
        "created_at": _microseconds(query.created_at),
        "started_at": _microseconds(query.started_at),
        "finished_at": _microseconds(query.finished_at),
        "elapsed_ms": round(_since(query.created_at, end) * 1000, 3),
        "queued_ms": _queued_ms(query, end),
        "rows": query.rows,
        "bytes": query.bytes,
        "tasks_done": query.tasks_done or None,
        "tasks_total": query.tasks_total or None,
        "error_code": None if query.failure is None else query.failure.code.value,
        "error_message": None if query.failure is None else query.failure.message or None,
        "attempts": len(query.attempts) + (query.node_id is not None),
        "failed_attempts": [_told(attempt) for attempt in query.attempts],
        "is_fallback": query.is_fallback,
    }


def _told(attempt: Attempt) -> str:
    """Without its message, which may quote what was asked."""
    return f"{attempt.node_id}: {attempt.failure.code.value} after {attempt.elapsed_s:.1f} s"


def _queued_ms(query: Query, end: float) -> float | None:
    """How long it has waited for engines, all its attempts together; None where its story is forgotten."""
    if not query.story and query.state is not State.QUEUED:
        return None
    queued_s = 0.0
    since: float | None = query.created_at
    for moment in query.story:
        if since is not None:
            queued_s += _since(since, moment.at)
        since = moment.at if moment.state is State.QUEUED else None
    if since is not None:
        queued_s += _since(since, end)
    return round(queued_s * 1000, 3)


def _since(then: float, now: float) -> float:
    """Never less than nothing: the clock of the machine may have been set back between."""
    return max(0.0, now - then)


def _node_row(node: Node) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "kind": node.kind,
        "state": node.state,
        "master": node.master,
        "version": node.version,
        "cores": node.cores,
        "memory_bytes": node.memory_bytes,
        "sessions": node.sessions,
        "running": node.running,
        "started_at": _microseconds(node.started_at),
        "restarts": node.restarts,
        "class": node.engine_class,
        "health": node.health,
        "why": node.why,
        "watermark": node.watermark,
        "memory_utilization": node.memory_utilization,
        "active": node.active,
        "queue_s": node.queue_s,
        "heartbeat_age_s": node.heartbeat_age_s,
    }


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)

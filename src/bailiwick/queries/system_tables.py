"""The gateway's own tables: `system.runtime.queries` and `system.runtime.nodes`.

They are made anew for each statement, from what is known at that moment, and hold only what the asking
principal may see: everyone their own queries, administrators all, everyone the nodes. No engine takes part,
so they can be read when none answers. How a statement over them is run is the sandbox's affair.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bailiwick.clock import Clock
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId
from bailiwick.queries import failures
from bailiwick.queries.query import Query
from bailiwick.queries.routing import SystemQuery, mentions_system, route
from bailiwick.queries.sandbox import Sandbox

ANSWER_S = 30.0

_TIME = pa.timestamp("us", tz="UTC")

QUERIES = "runtime.queries"
NODES = "runtime.nodes"
TABLES = frozenset({QUERIES, NODES})

QUERIES_SCHEMA = pa.schema(
    [
        pa.field("query_id", pa.string()),
        pa.field("principal", pa.string()),
        pa.field("tenant", pa.string()),
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
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("tasks_done", pa.int32()),
        pa.field("tasks_total", pa.int32()),
        pa.field("error_code", pa.string()),
        pa.field("error_message", pa.string()),
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
    ]
)


@dataclass(frozen=True, slots=True)
class Node:
    """One engine, as `system.runtime.nodes` shows it. Nothing in it is secret: everyone may see it."""

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


class SystemTables:
    """Answers statements over the gateway's own tables."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        queries: Callable[[str | None], Awaitable[Sequence[Query]]],
        nodes: Callable[[], Sequence[Node]],
        wall: Clock,
    ) -> None:
        """`queries` gives those of one principal, or all for None."""
        self._sandbox = sandbox
        self._queries = queries
        self._nodes = nodes
        self._wall = wall

    async def route(self, sql: str) -> SystemQuery | None:
        """The statement, if it is about system tables; see `routing.route` for what it raises."""
        if not mentions_system(sql):
            return None
        tree = await self._sandbox.parse(sql)
        return route(sql, lambda _sql: tree, TABLES)

    async def schema(self, query: SystemQuery) -> pa.Schema:
        """The columns of the answer. Shows no rows to anyone."""
        empty = {QUERIES: QUERIES_SCHEMA.empty_table(), NODES: NODES_SCHEMA.empty_table()}
        return await self._sandbox.schema(query.tree, {name: empty[name] for name in query.tables})

    async def answer(self, query: SystemQuery, principal: Principal) -> pa.Table:
        """The rows. Ends after `ANSWER_S` at the latest: there are few threads, and they are for everyone."""
        try:
            async with asyncio.timeout(ANSWER_S):
                snapshot = await self._snapshot(query.tables, principal)
                return await self._sandbox.query(query.tree, snapshot)
        except TimeoutError:
            raise failures.timed_out(ANSWER_S) from None

    async def _snapshot(self, tables: frozenset[str], principal: Principal) -> Mapping[str, pa.Table]:
        snapshot: dict[str, pa.Table] = {}
        if QUERIES in tables:
            visible = await self._queries(None if principal.is_admin else principal.name)
            snapshot[QUERIES] = queries_table(visible, now=self._wall())
        if NODES in tables:
            snapshot[NODES] = nodes_table(self._nodes())
        return snapshot


def queries_table(queries: Sequence[Query], *, now: float) -> pa.Table:
    return pa.Table.from_pylist([_query_row(query, now) for query in queries], schema=QUERIES_SCHEMA)


def nodes_table(nodes: Sequence[Node]) -> pa.Table:
    return pa.Table.from_pylist([_node_row(node) for node in nodes], schema=NODES_SCHEMA)


def _query_row(query: Query, now: float) -> dict[str, Any]:
    end = query.finished_at if query.finished_at is not None else now
    return {
        "query_id": query.id,
        "principal": query.principal,
        "tenant": query.tenant,
        "door": query.door,
        "state": query.state.value,
        "kind": None if query.kind is None else query.kind.value,
        "sql": query.sql,
        "node_id": query.node_id,
        "queue_position": query.queue_position,
        "created_at": _microseconds(query.created_at),
        "started_at": _microseconds(query.started_at),
        "finished_at": _microseconds(query.finished_at),
        "elapsed_ms": round((end - query.created_at) * 1000, 3),
        "rows": query.rows,
        "bytes": query.bytes,
        "tasks_done": query.tasks_done or None,
        "tasks_total": query.tasks_total or None,
        "error_code": None if query.failure is None else query.failure.code.value,
        "error_message": None if query.failure is None else query.failure.message,
    }


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
    }


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)

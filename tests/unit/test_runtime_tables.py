"""How `system.runtime.nodes` tells of an engine's health, and `.queries` of attempts and of waiting."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from bailiwick.errors import Code
from bailiwick.identity.abilities import Whose
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId, QueryId
from bailiwick.queries.query import Attempt, Failure, Moment, Query, State
from bailiwick.queries.sandbox import Sandbox
from bailiwick.queries.system_tables import Node, SystemTables, nodes_table, queries_table

ADMIN = Principal("root", frozenset({"admin"}))
NOW = 1_800_000_000.0
WAITING = Query(QueryId("q9"), "ann", "acme", "flight_sql", "SELECT 1", created_at=NOW - 10)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    sandbox.close()


async def ask(tables: SystemTables, sql: str) -> pa.Table:
    query = await tables.route(sql)
    assert query is not None, "it was left to Spark"
    return await asyncio.wait_for(tables.answer(query, ADMIN), 20)


async def test_nodes_say_how_well_and_how_full_they_are_and_never_where(sandbox: Sandbox) -> None:
    node = Node(
        NodeId("one"),
        "joined",
        "ready",
        "spark://…",
        engine_class="large",
        health="demoted",
        why="three heartbeats missed",
        watermark="orange",
        memory_utilization=0.8,
        active=3,
        queue_s=1.5,
        heartbeat_age_s=16.0,
    )
    tables = SystemTables(sandbox, [nodes_table(lambda: [node])])
    shown = await ask(tables, "SELECT * FROM system.runtime.nodes")
    assert not {"address", "host", "port"} & set(shown.column_names)
    wanted = "SELECT class, health, why, watermark, memory_utilization, active, queue_s, heartbeat_age_s"
    assert (await ask(tables, f"{wanted} FROM system.runtime.nodes")).to_pylist() == [
        {
            "class": "large",
            "health": "demoted",
            "why": "three heartbeats missed",
            "watermark": "orange",
            "memory_utilization": 0.8,
            "active": 3,
            "queue_s": 1.5,
            "heartbeat_age_s": 16.0,
        }
    ]


async def story_of(sandbox: Sandbox, query: Query) -> dict[str, object]:
    async def visible(_whose: Whose) -> Sequence[Query]:
        return [query]

    tables = SystemTables(sandbox, [queries_table(visible, lambda: NOW)])
    wanted = "SELECT attempts, failed_attempts, is_fallback, queued_ms FROM system.runtime.queries"
    (row,) = (await ask(tables, wanted)).to_pylist()
    return dict(row)


async def test_a_query_says_what_was_tried_before_and_how_long_it_waited(sandbox: Sandbox) -> None:
    lost = Failure(Code.CIRCUIT_BREAKER_OPEN, "the engine was lost while it read 'a secret'")
    query = replace(
        WAITING,
        state=State.RUNNING,
        node_id=NodeId("embedded"),
        attempts=(Attempt(NodeId("one"), lost, 2.0),),
        is_fallback=True,
        story=(
            Moment(State.PLANNING, "admitted", NOW - 9),
            Moment(State.QUEUED, "retried", NOW - 7),
            Moment(State.PLANNING, "admitted", NOW - 6.5),
            Moment(State.RUNNING, "started", NOW - 6),
        ),
    )
    assert await story_of(sandbox, query) == {
        "attempts": 2,
        "failed_attempts": ["one: CIRCUIT_BREAKER_OPEN after 2.0 s"],
        "is_fallback": True,
        "queued_ms": 1_500.0,
    }


async def test_a_query_that_waits_still_has_waited_until_now(sandbox: Sandbox) -> None:
    told = await story_of(sandbox, WAITING)
    assert (told["queued_ms"], told["attempts"]) == (10_000.0, 0)


async def test_a_query_whose_story_is_forgotten_does_not_say_how_long_it_waited(sandbox: Sandbox) -> None:
    ended = replace(WAITING, state=State.FINISHED, finished_at=NOW)
    assert (await story_of(sandbox, ended))["queued_ms"] is None

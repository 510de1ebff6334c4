"""How `system.runtime.nodes` tells of an engine's health, and `.queries` of attempts and of waiting."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from bailiwick.errors import Code
from bailiwick.fleet.memory import MemoryUse, Watermarks
from bailiwick.fleet.registry import NodeStatus
from bailiwick.fleet.report import EngineState, Report
from bailiwick.fleet.vitals import Condition
from bailiwick.identity.abilities import Whose
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId, QueryId
from bailiwick.queries.fleet_nodes import remote_node
from bailiwick.queries.query import Attempt, Failure, Moment, Query, State
from bailiwick.queries.sandbox import Sandbox
from bailiwick.queries.system_tables import Node, SystemTables, nodes_table, queries_table
from bailiwick.secrets import Secret

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
        "remote",
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


def reported(**changes: Any) -> Report:
    return Report(
        **{
            "node_id": NodeId("east-1"),
            "life": "life-1",
            "address": "10.1.2.3:7777",
            "version": "0.1.0",
            "spark_version": "4.1.4",
            "master": "local[4]",
            "cores": 4,
            "heap_bytes": 1 << 30,
            "state": EngineState.READY,
            "memory": MemoryUse(unified_ratio=0.2, rss_ratio=0.8),
            "active_operations": 3,
            "engine_token": Secret("token-of-the-engine"),
            "catalog_credential": Secret("credential-of-the-engine"),
            "stamp_key": Secret("key-of-the-engine"),
            **changes,
        }
    )


def test_an_engine_elsewhere_is_shown_as_it_was_reported_without_address_and_secrets() -> None:
    status = NodeStatus(reported(), Condition.DEMOTED, "three heartbeats missed", lives=3, unheard_s=16.5)
    node = remote_node(status, None, Watermarks())
    assert (node.kind, node.state, node.health, node.why) == (
        "remote",
        "ready",
        "demoted",
        "three heartbeats missed",
    )
    assert (node.watermark, node.memory_utilization, node.active, node.restarts) == ("orange", 0.8, 3, 2)
    assert node.heartbeat_age_s == 16.5
    assert "10.1.2.3" not in repr(node)
    assert "of-the-engine" not in repr(node)


def test_a_healthy_engine_gives_no_reason() -> None:
    status = NodeStatus(reported(memory=MemoryUse()), Condition.HEALTHY, "", lives=1, unheard_s=0.5)
    node = remote_node(status, None, Watermarks())
    assert (node.health, node.why, node.watermark, node.restarts) == ("healthy", None, "green", 0)

"""What `bailiwick top` shows of what it is told."""

import asyncio
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bailiwick.cli.main import app
from bailiwick.cli.top_live import NODES, QUERIES
from bailiwick.cli.top_picture import Picture, drawn
from bailiwick.errors import Code
from bailiwick.identity.abilities import Whose
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId, QueryId
from bailiwick.queries.query import Attempt, Failure, Query, State
from bailiwick.queries.sandbox import Sandbox
from bailiwick.queries.system_tables import Node, SystemTables, nodes_table, queries_table

ADMIN = Principal("root", frozenset({"admin"}))
NOW = 4_000_000_000.0
"""After any moment that DuckDB may take for now, so that what ended then has ended lately."""

NODE = Node(
    NodeId("east-1"),
    "joined",
    "ready",
    "local[4]",
    cores=4,
    running=2,
    engine_class="large",
    health="demoted",
    why="three heartbeats missed",
    watermark="orange",
    memory_utilization=0.83,
    active=3,
    heartbeat_age_s=16.0,
)
RUNNING = Query(
    QueryId("q-running"),
    "ann",
    "acme",
    "flight_sql",
    "SELECT\n  1",
    created_at=NOW - 75,
    state=State.RUNNING,
    node_id=NodeId("east-1"),
    tasks_done=3,
    tasks_total=8,
    attempts=(Attempt(NodeId("east-2"), Failure(Code.CIRCUIT_BREAKER_OPEN, "lost"), 1.0),),
)
WAITING = replace(
    RUNNING, id=QueryId("q-waiting"), state=State.QUEUED, node_id=None, attempts=(), queue_position=4
)
ENDED = replace(RUNNING, id=QueryId("q-ended"), state=State.FAILED, finished_at=NOW)
OWN_LOOK = replace(RUNNING, id=QueryId("q-look"), node_id=NodeId("gateway"))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    sandbox.close()


async def told(sandbox: Sandbox, *queries: Query, nodes: Sequence[Node] = (NODE,)) -> Picture:
    """What a gateway answers to the statements that are really sent."""

    async def visible(_whose: Whose) -> Sequence[Query]:
        return queries

    tables = SystemTables(sandbox, [queries_table(visible, lambda: NOW), nodes_table(lambda: nodes)])

    async def rows(sql: str) -> list[dict[str, Any]]:
        routed = await tables.route(sql)
        assert routed is not None
        return [dict(row) for row in (await asyncio.wait_for(tables.answer(routed, ADMIN), 20)).to_pylist()]

    return Picture(await rows(NODES), await rows(QUERIES))


def text(picture: Picture, *, width: int = 160, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(drawn(picture, title="127.0.0.1:50051", width=width, **options))
    shown = console.file
    assert isinstance(shown, io.StringIO)
    return shown.getvalue()


def line(shown: str, beginning: str) -> str:
    return next(each for each in shown.splitlines() if each.strip().startswith(beginning))


async def test_an_engine_is_shown_with_its_health_and_its_load(sandbox: Sandbox) -> None:
    shown = line(text(await told(sandbox)), "east-1")
    for expected in ("large", "demoted", "83%", "16.0 s", "three heartbeats missed"):
        assert expected in shown


async def test_queries_that_run_and_queries_that_wait_stand_apart(sandbox: Sandbox) -> None:
    shown = text(await told(sandbox, RUNNING, WAITING, ENDED))
    assert "running (1)" in shown
    assert "waiting (1)" in shown
    running = line(shown, "q-running")
    for expected in ("ann", "east-1", "1.2 m", "3/8", "2", "SELECT 1"):
        assert expected in running
    assert line(shown, "4").split()[1] == "q-waiting"


async def test_what_ended_is_summed_up_and_what_the_gateway_answers_itself_is_not_shown(
    sandbox: Sandbox,
) -> None:
    shown = text(await told(sandbox, ENDED, OWN_LOOK))
    assert "0 running, 0 waiting; last minute: 1 ended (0.0/s), 1 failed, median 1.2 m" in shown
    assert "q-look" not in shown


async def test_a_query_on_the_gateways_own_engine_for_want_of_another_says_so(sandbox: Sandbox) -> None:
    fallback = replace(RUNNING, node_id=NodeId("embedded"), is_fallback=True)
    assert "embedded (fallback)" in text(await told(sandbox, fallback))


async def test_more_than_the_screen_holds_is_counted(sandbox: Sandbox) -> None:
    many = [replace(RUNNING, id=QueryId(f"q{number}")) for number in range(50)]
    shown = text(await told(sandbox, *many), lines=30)
    assert "running (50)" in shown
    assert "… and 44 more" in shown
    assert len(shown.splitlines()) <= 30


@pytest.mark.parametrize("width", [80, 120, 160])
async def test_a_long_statement_is_cut_and_takes_room_from_nothing_else(sandbox: Sandbox, width: int) -> None:
    query_id = QueryId("q06bq2m1xk7vw3t5n8z0r4hpy")
    shown = text(await told(sandbox, replace(RUNNING, id=query_id, sql="SELECT " + "a, " * 500)), width=width)
    running = line(shown, query_id)
    assert "3/8" in running
    assert running.rstrip().endswith("…")
    assert max(map(len, shown.splitlines())) <= width


async def test_nobody_elses_statement_steers_the_terminal(sandbox: Sandbox) -> None:
    shown = text(await told(sandbox, replace(RUNNING, sql="SELECT '\x1b[2J'", principal="a\x07")))
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_where_nothing_is_to_be_seen_it_says_so_and_trouble_is_told() -> None:
    shown = text(Picture(), trouble="what stands here is old: nobody answers")
    assert "engines (none, or none that you may see)" in shown
    assert "nobody answers" in shown


def test_the_command_explains_itself_and_refuses_what_is_out_of_bounds() -> None:
    nowhere = {"BAILIWICK_URL": "", "BAILIWICK_PASSWORD": "", "BAILIWICK_TOKEN": ""}
    assert "q ends it" in CliRunner().invoke(app, ["top", "--help"]).output
    assert CliRunner().invoke(app, ["top", "--every", "0.1"], env=nowhere).exit_code == 2
    assert CliRunner().invoke(app, ["top", "--once"], env=nowhere).exit_code == 2

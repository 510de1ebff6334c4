"""Who sees which tasks, who sees their counts, and how often engines are asked for them."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from bailiwick.engines.spark_operation import operation_tags
from bailiwick.engines.spark_tasks import TASKS_MAX, parse_tasks
from bailiwick.engines.task import EngineTask
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.abilities import Whose
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId, QueryId
from bailiwick.queries.policy_decisions import DECISIONS_PER_QUERY_MAX, PolicyDecision
from bailiwick.queries.query import Query
from bailiwick.queries.sandbox import Sandbox
from bailiwick.queries.system_tables import SystemTables
from bailiwick.queries.tasks import TASKS_SCHEMA, NodeTask, TaskReader, is_unrestricted, tasks_table
from bailiwick.testing.engines import ScriptedEngine

ADMIN = Principal("root", frozenset({"admin"}))
ANN = Principal("ann", frozenset({"reader"}), "acme")
BOB = Principal("bob", frozenset({"reader"}), "acme")
OPERATOR = Principal("olga", frozenset({"operator"}), "acme")
AUDITOR = Principal("audrey", frozenset({"auditor"}))
OUTSIDER = Principal("ann", frozenset({"operator"}), "other")

COUNTS = ("input_rows", "output_rows", "bytes", "spilled_bytes")


def task(query_id: str, *, index: int = 0, state: str = "finished") -> EngineTask:
    return EngineTask(QueryId(query_id), 7, 0, index, 1, "driver", state, 12, 100, 10, 4_096, 512)


def query(query_id: str, principal: str) -> Query:
    return Query(QueryId(query_id), principal, "acme", "flight_sql", "SELECT 1", created_at=1.0)


def decision(*rules: str) -> PolicyDecision:
    return PolicyDecision("q", 1.0, "ann", None, "acme", "lake.s.t", "SELECT", True, rules, 1)


QUERIES = [query("q1", "ann"), query("q2", "bob")]
PLAIN = (decision(),)
FILTERED = (decision(), decision("row_filter eu_only"))


async def shown(
    principal: Principal, decided: dict[str, Sequence[PolicyDecision]] | None = None
) -> list[dict[str, Any]]:
    async def read() -> list[NodeTask]:
        tasks = [task("q1"), task("q2"), task("q-of-nobody-known")]
        return [NodeTask(NodeId("embedded"), each) for each in tasks]

    async def visible(whose: Whose) -> list[Query]:
        return [each for each in QUERIES if whose.covers(each.principal, each.tenant)]

    known = {"q1": PLAIN, "q2": PLAIN} if decided is None else decided
    table = await tasks_table(read, visible, lambda query_id: known.get(query_id, ())).rows(principal)
    return [dict(row) for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        (ANN, ["q1"]),
        (BOB, ["q2"]),
        (OPERATOR, ["q1", "q2"]),
        (AUDITOR, ["q1", "q2"]),
        (ADMIN, ["q1", "q2"]),
        (OUTSIDER, []),
    ],
)
async def test_tasks_are_seen_by_those_who_see_their_query(principal: Principal, expected: list[str]) -> None:
    assert [row["query_id"] for row in await shown(principal)] == expected


async def test_a_row_says_which_task_ran_where_and_how_it_went() -> None:
    (row,) = await shown(ANN)
    assert row == {
        "query_id": "q1",
        "task_id": "7.0.0",
        "node_id": "embedded",
        "stage_id": 7,
        "executor_id": "driver",
        "state": "finished",
        "attempt": 1,
        "elapsed_ms": 12,
        "input_rows": 100,
        "output_rows": 10,
        "bytes": 4_096,
        "spilled_bytes": 512,
    }


async def test_statements_over_it_are_answered_with_the_promised_types() -> None:
    async def read() -> list[NodeTask]:
        return [NodeTask(NodeId("one"), task("q1", index=number)) for number in range(3)]

    async def visible(_whose: Whose) -> list[Query]:
        return QUERIES

    sandbox = Sandbox()
    tables = SystemTables(sandbox, [tasks_table(read, visible, lambda _query_id: PLAIN)])
    everything = await tables.route("SELECT * FROM system.runtime.tasks")
    summed = await tables.route("SELECT node_id, sum(input_rows) AS n FROM system.runtime.tasks GROUP BY 1")
    assert everything is not None
    assert summed is not None
    assert (await tables.answer(everything, ANN)).schema.equals(TASKS_SCHEMA)
    assert (await tables.answer(summed, ANN)).to_pylist() == [{"node_id": "one", "n": 300}]
    sandbox.close()


@pytest.mark.parametrize("decided", [{"q1": FILTERED}, {"q1": (decision("mask hide_email"),)}, {}])
async def test_counts_are_not_shown_to_one_for_whom_something_was_hidden_or_may_have_been(
    decided: dict[str, Sequence[PolicyDecision]],
) -> None:
    (row,) = await shown(ANN, decided)
    assert {row[name] for name in COUNTS} == {None}
    assert row["elapsed_ms"] == 12


@pytest.mark.parametrize("principal", [OPERATOR, AUDITOR])
async def test_counts_of_anothers_query_are_for_admins_only(principal: Principal) -> None:
    """Another may be shown more of a table than the viewer."""
    assert {row[name] for row in await shown(principal) for name in COUNTS} == {None}
    assert all(row["input_rows"] == 100 for row in await shown(ADMIN, {}))


def test_what_may_have_been_forgotten_counts_as_restricted() -> None:
    assert is_unrestricted([decision()])
    assert not is_unrestricted([])
    assert not is_unrestricted([decision()] * DECISIONS_PER_QUERY_MAX)


class Watched:
    """Engines and a clock that the test moves."""

    def __init__(self, *engines: ScriptedEngine) -> None:
        self.now = 0.0
        self.engines = engines
        self.reader = TaskReader(lambda: self.engines, clock=lambda: self.now, answer_s=0.2)


def engine(name: str, *tasks: EngineTask) -> ScriptedEngine:
    made = ScriptedEngine()
    made.node_id = NodeId(name)
    made.tasks = list(tasks)
    return made


async def test_each_engine_is_asked_and_its_tasks_bear_its_name() -> None:
    watched = Watched(engine("one", task("q1")), engine("two", task("q2"), task("q1", index=1)))
    told = await watched.reader.read()
    assert [(each.node_id, each.task.query_id) for each in told] == [
        ("one", "q1"),
        ("two", "q2"),
        ("two", "q1"),
    ]


async def test_engines_are_asked_seldom_however_many_look() -> None:
    only = engine("one", task("q1"))
    watched = Watched(only)
    await asyncio.gather(*(watched.reader.read() for _ in range(20)))
    assert only.asked_for_tasks == 1
    watched.now += 0.5
    await watched.reader.read()
    assert only.asked_for_tasks == 2


async def test_an_engine_that_is_away_or_breaks_hides_no_other() -> None:
    away, breaking, fine = engine("away"), engine("breaking"), engine("fine", task("q1"))
    away.die()
    breaking.refuses_sessions = True
    assert [each.node_id for each in await Watched(away, breaking, fine).reader.read()] == ["fine"]


async def test_an_engine_that_hangs_is_not_waited_for_and_no_session_is_left() -> None:
    class Hanging(ScriptedEngine):
        async def open_session(self) -> Any:
            session = await super().open_session()

            async def never(timeout_s: float) -> Any:
                del timeout_s
                await asyncio.Event().wait()

            session.tasks = never  # type: ignore[method-assign]
            return session

    hanging = Hanging()
    watched = Watched(hanging, engine("fine", task("q1")))
    assert [each.node_id for each in await watched.reader.read()] == ["fine"]
    await asyncio.sleep(0)
    assert not hanging.open_handles


def told(**changes: object) -> str:
    row: dict[str, object] = {
        "query": "q1",
        "stage": 7,
        "stage_attempt": 0,
        "index": 3,
        "attempt": 0,
        "executor": "driver",
        "state": "finished",
        "elapsed_ms": 12,
        "input_rows": 100,
        "output_rows": -1,
        "bytes": 0,
        "spilled_bytes": 0,
    }
    return json.dumps([list({**row, **changes}.values())])


def test_what_nobody_counted_is_none_and_not_minus_one() -> None:
    (read,) = parse_tasks(told())
    assert (read.id, read.input_rows, read.output_rows) == ("7.0.3", 100, None)
    assert (read.read_bytes, read.spilled_bytes) == (0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '[["q1"]]',
        told(state="odd"),
        told(query=""),
        told(query="q" * 101),
        told(stage=-1),
        told(stage=True),
        told(stage=1 << 63),
        told(bytes=1.5),
        told(executor=None),
        told(more=1),
        json.dumps([[]] * (TASKS_MAX + 1)),
        "[" * 100_000,
    ],
)
def test_an_answer_that_is_not_the_engines_usual_one_is_refused(text: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        parse_tasks(text)
    assert refused.value.code is Code.INTERNAL_ERROR


def test_a_query_is_a_tag_of_its_operation_and_what_is_nobodys_has_none() -> None:
    assert "Qq1" in operation_tags("ann", query_id=QueryId("q1"))
    assert not any(tag.startswith("Q") for tag in operation_tags("ann"))

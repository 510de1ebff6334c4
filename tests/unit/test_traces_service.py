"""The query service tells each query once, under the call that brought it, however it ends."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog.testing
from query_house import ADMIN, ANN, House, Script, eventually, house

from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.statement import Statement
from bailiwick.telemetry.spans import Span
from bailiwick.telemetry.traces import Traces

PHASES = ["queue", "lease", "plan", "execute", "deliver", "query"]


@dataclass(frozen=True, slots=True)
class TracedHouse:
    home: House
    traces: Traces
    told: list[Span]

    def named(self, name: str) -> Span:
        [found] = [span for span in self.told if span.name == name]
        return found


@pytest.fixture
async def traced(tmp_path: Path) -> AsyncIterator[TracedHouse]:
    told: list[Span] = []
    traces = Traces(told.append)
    async with house(tmp_path, traces=traces) as home:
        yield TracedHouse(home, traces, told)


async def test_a_query_is_told_under_its_call(traced: TracedHouse) -> None:
    with traced.traces.call("DoGet"):
        await traced.home.ask("SELECT 1")
    assert sorted(span.name for span in traced.told) == sorted([*PHASES, "DoGet"])
    query, recorded = traced.named("query"), await traced.home.recorded()
    assert query.parent_id == traced.named("DoGet").context.span_id
    assert query.attributes["bailiwick.query_id"] == recorded.id
    assert uuid.UUID(str(query.attributes["bailiwick.spark.operation_id"]))
    assert traced.named("deliver").ended_ns == int((recorded.finished_at or 0) * 1e9)


async def test_what_is_only_asked_about_is_a_span_too(traced: TracedHouse) -> None:
    with traced.traces.call("GetFlightInfo"):
        await traced.home.service.prepare(Statement("SELECT 1", ANN, "flight_sql"))
        traced.home.engine.scripts["x"] = Script(description=BailiwickError(Code.TABLE_NOT_FOUND, "no"))
        with pytest.raises(BailiwickError):
            await traced.home.service.prepare(Statement("x", ANN, "flight_sql"))
    assert [span.failure for span in traced.told if span.name == "prepare"] == [None, "TABLE_NOT_FOUND"]


async def test_a_refused_query_is_told(traced: TracedHouse) -> None:
    traced.home.engine.scripts["x"] = Script(description=BailiwickError(Code.TABLE_NOT_FOUND, "no"))
    await traced.home.refusal("x")
    assert traced.named("query").failure == traced.named("plan").failure == "TABLE_NOT_FOUND"


async def test_who_ends_anothers_query_does_not_take_it_into_their_own_trace(traced: TracedHouse) -> None:
    traced.home.engine.scripts["slow"] = Script(events=[asyncio.Event()])
    with traced.traces.call("DoGet"):
        asking = asyncio.create_task(traced.home.refusal("slow"))
    await eventually(lambda: bool(traced.home.engine.executed))
    running = await traced.home.recorded()
    with structlog.testing.capture_logs() as lines, traced.traces.call("DoAction"):
        await traced.home.service.cancel(running.id, ADMIN)
    await asking
    query, call, cancel = traced.named("query"), traced.named("DoGet"), traced.named("DoAction")
    assert (query.failure, query.parent_id) == ("QUERY_CANCELLED", call.context.span_id)
    [line] = [line for line in lines if line["event"] == "query_ended"]
    assert line["trace_id"] == query.context.trace_id != cancel.context.trace_id


async def test_what_the_gateway_answers_by_itself_is_told_as_well(traced: TracedHouse) -> None:
    await traced.home.ask("SELECT count(*) FROM system.runtime.nodes", ADMIN)
    assert [span.name for span in traced.told] == PHASES
    assert traced.named("query").attributes["bailiwick.engine.node"] == "gateway"

"""Traces: every span finds its place, and nobody pays for those that are not wanted."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import LeaseId, QueryId
from bailiwick.telemetry import logs
from bailiwick.telemetry.config import LoggingConfig
from bailiwick.telemetry.spans import ATTRIBUTES_MAX, TEXT_LENGTH_MAX, Span, SpanKind, fit
from bailiwick.telemetry.trace_context import TraceContext
from bailiwick.telemetry.traces import (
    NO_TRACES,
    PROMISES_MAX,
    Phase,
    Traces,
    current_trace,
    promise,
    span,
    under_lease,
)

CALLER = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", is_sampled=True, state="a=1")
QUIET_CALLER = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", is_sampled=False)
QUERY = QueryId("q1")
LEASE = LeaseId("L1")


class House:
    """Traces that are kept, under a clock that stands still unless it is moved."""

    def __init__(self, **settings: Any) -> None:
        self.told: list[Span] = []
        self.now_ns = 1_000_000_000
        self.traces = Traces(self.told.append, now_ns=lambda: self.now_ns, **settings)

    def named(self, name: str) -> Span:
        [found] = [each for each in self.told if each.name == name]
        return found

    def end_query(self, *phases: Phase) -> str | None:
        return self.traces.query_ended(QUERY, 5.0, {"bailiwick.rows": 3}, None, phases)


@pytest.fixture
def house() -> House:
    return House()


def test_a_call_joins_the_trace_of_its_caller(house: House) -> None:
    with house.traces.call("Do", CALLER, {"rpc.method": "Do"}):
        house.now_ns += 7
    told = house.named("Do")
    assert (told.context.trace_id, told.parent_id, told.context.state) == (
        CALLER.trace_id,
        CALLER.span_id,
        "a=1",
    )
    assert (told.kind, told.ended_ns - told.began_ns) == (SpanKind.SERVER, 7)
    assert told.attributes == {"rpc.method": "Do"}


def test_a_call_without_a_caller_begins_a_trace(house: House) -> None:
    with house.traces.call("Do"):
        pass
    assert house.named("Do").parent_id is None


def test_callers_are_not_joined_where_that_is_switched_off() -> None:
    house = House(joins_callers=False)
    with house.traces.call("Do", CALLER):
        pass
    assert house.named("Do").context.trace_id != CALLER.trace_id


@pytest.mark.parametrize("caller", [None, QUIET_CALLER])
def test_what_is_not_recorded_is_not_told_but_has_its_id(caller: TraceContext | None) -> None:
    house = House(ratio=0.0)
    with house.traces.call("Do", caller), house.traces.query(QUERY), span("prepare"), under_lease(LEASE):
        assert current_trace() is not None
        house.traces.catalog_call(LEASE, route="loadTable", status=200, seconds=0.1)
    assert house.end_query(Phase("queue", 1.0, 2.0)) is not None
    assert house.told == []


async def test_a_querys_life_and_what_is_in_it_stand_under_the_call(house: House) -> None:
    seen: list[TraceContext | None] = []

    async def life() -> None:
        await asyncio.sleep(0)
        seen.append(current_trace())

    with house.traces.call("DoGet", CALLER):
        with house.traces.query(QUERY):
            task = asyncio.create_task(life())
        await task
    trace_id = house.end_query(
        Phase("queue", 1.0, 2.0),
        Phase("lease", 2.0, 4.0, parts=(Phase("plan", 2.0, 3.0), Phase("execute", 3.0, 4.0, {"n": 1}, "X"))),
    )
    call, query, lease = house.named("DoGet"), house.named("query"), house.named("lease")
    assert trace_id == CALLER.trace_id
    assert {each.context.trace_id for each in house.told} == {CALLER.trace_id}
    assert query.parent_id == call.context.span_id
    assert house.named("queue").parent_id == lease.parent_id == query.context.span_id
    assert house.named("plan").parent_id == house.named("execute").parent_id == lease.context.span_id
    assert (house.named("execute").began_ns, house.named("execute").ended_ns) == (3 * 10**9, 4 * 10**9)
    assert (house.named("execute").failure, house.named("plan").failure) == ("X", None)
    assert seen == [query.context]


def test_a_query_ends_once(house: House) -> None:
    with house.traces.query(QUERY):
        pass
    assert house.end_query() is not None
    assert house.end_query() is None
    assert [each.name for each in house.told] == ["query"]


def test_a_call_that_fetches_what_another_announced_goes_on_with_its_trace(house: House) -> None:
    with house.traces.call("GetFlightInfo"):
        promise(QUERY)
    with house.traces.call("DoGet"), house.traces.query(QUERY):
        pass
    house.end_query()
    first, second = house.named("GetFlightInfo"), house.named("DoGet")
    assert {each.context.trace_id for each in house.told} == {first.context.trace_id}
    assert second.parent_id == first.context.span_id
    assert house.named("query").parent_id == second.context.span_id


def test_a_caller_who_names_a_trace_for_the_fetch_is_believed(house: House) -> None:
    with house.traces.call("GetFlightInfo"):
        promise(QUERY)
    with house.traces.call("DoGet", CALLER), house.traces.query(QUERY):
        pass
    house.end_query()
    assert house.named("query").context.trace_id == CALLER.trace_id


def test_a_call_that_has_spoken_already_keeps_its_trace(house: House) -> None:
    with house.traces.call("GetFlightInfo"):
        promise(QUERY)
    with house.traces.call("DoGet"):
        with span("prepare"):
            pass
        with house.traces.query(QUERY):
            pass
    house.end_query()
    ids = [house.named(name).context.trace_id for name in ("prepare", "DoGet", "query")]
    assert len(set(ids)) == 1


def test_announced_queries_are_not_remembered_for_ever(house: House) -> None:
    with house.traces.call("GetFlightInfo"):
        for number in range(PROMISES_MAX + 1):
            promise(QueryId(f"q{number}"))
    with house.traces.call("DoGet"), house.traces.query(QueryId("q0")):
        pass
    assert house.named("DoGet").parent_id is None


def test_what_the_engine_asks_the_catalog_belongs_to_who_has_the_lease(house: House) -> None:
    with house.traces.call("GetFlightInfo"), span("prepare"), under_lease(LEASE):
        house.traces.catalog_call(LEASE, route="loadTable", status=200, seconds=0.25)
    house.traces.catalog_call(LEASE, route="late", status=200, seconds=0.25)
    asked = house.named("catalog loadTable")
    assert asked.parent_id == house.named("prepare").context.span_id
    assert asked.ended_ns - asked.began_ns == 250_000_000
    assert asked.attributes == {"http.response.status_code": 200}
    assert len(house.told) == 3


@pytest.mark.parametrize(
    ("error", "word"),
    [(BailiwickError(Code.TABLE_NOT_FOUND, "…"), "TABLE_NOT_FOUND"), (OSError("/secret/path"), "OSError")],
)
def test_a_failure_is_a_word_and_never_a_text(house: House, error: Exception, word: str) -> None:
    with pytest.raises(type(error)):
        with house.traces.call("Do"), span("prepare"):
            raise error
    assert house.named("Do").failure == house.named("prepare").failure == word


def test_without_a_sink_nothing_is_traced() -> None:
    with NO_TRACES.call("Do", CALLER) as call, NO_TRACES.query(QUERY), span("prepare"), under_lease(LEASE):
        promise(QUERY)
        NO_TRACES.catalog_call(LEASE, route="loadTable", status=200, seconds=0.1)
        assert (call, current_trace()) == (None, None)
    assert NO_TRACES.query_ended(QUERY, 1.0, {}) is None


def test_what_leaves_the_house_is_bounded_and_holds_no_secret() -> None:
    many = {f"k{number}": number for number in range(100)}
    assert len(fit(many)) == ATTRIBUTES_MAX
    assert fit({"a": None, "b": True, "c": "password=hunter22"}) == {"b": True, "c": "password=<secret>"}
    assert len(str(fit({"a": "x" * 100_000})["a"])) == TEXT_LENGTH_MAX


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    written = io.StringIO()
    logs.configure(LoggingConfig(format="json"), stream=written)
    yield written
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


def test_log_lines_name_the_trace_they_belong_to(house: House, stream: io.StringIO) -> None:
    log = logs.logger("x")
    with house.traces.call("GetFlightInfo"):
        promise(QUERY)
        log.info("first")
    with house.traces.call("DoGet"):
        with house.traces.query(QUERY):
            log.info("in the query")
        log.info("after it, in the trace that it joined")
    log.info("outside")
    ids = [json.loads(line).get("trace_id") for line in stream.getvalue().splitlines()]
    assert ids == [house.named("GetFlightInfo").context.trace_id] * 3 + [None]

"""A query's trace tells its story, attempt by attempt, and nothing that is not fit for a collector."""

from typing import Any

from bailiwick.engines.description import Kind
from bailiwick.errors import Code
from bailiwick.ids import NodeId, OperationId, QueryId
from bailiwick.queries import machine
from bailiwick.queries.query import Failure, Query
from bailiwick.queries.query_spans import attributes, phases, tell_ended
from bailiwick.telemetry.spans import Span
from bailiwick.telemetry.traces import NO_TRACES, Phase, Traces

LOST = Failure(Code.CIRCUIT_BREAKER_OPEN, "The engine was lost.")
ADMITTED = machine.Admitted(2.0, NodeId("e1"))
STARTED = machine.Started(3.0, Kind.READ, OperationId("op-1"))


def lived(*events: machine.Event) -> Query:
    query = Query(
        QueryId("q1"), "ann", "acme", "flight_sql", "SELECT secret FROM sales.orders", created_at=1.0
    )
    for event in events:
        query, _ = machine.step(query, event)
    return query


def shape(found: tuple[Phase, ...]) -> list[Any]:
    """Names, times and failures; parts in brackets behind."""
    return [
        (
            phase.name,
            phase.began_at,
            phase.ended_at,
            phase.failure,
            *([shape(phase.parts)] if phase.parts else []),
        )
        for phase in found
    ]


def test_a_query_that_went_well_has_every_phase_once() -> None:
    query = lived(ADMITTED, STARTED, machine.Completed(4.0), machine.Delivered(5.0))
    assert shape(phases(query)) == [
        ("queue", 1.0, 2.0, None),
        ("lease", 2.0, 4.0, None, [("plan", 2.0, 3.0, None), ("execute", 3.0, 4.0, None)]),
        ("deliver", 4.0, 5.0, None),
    ]
    lease = phases(query)[1]
    assert lease.attributes == {"bailiwick.engine.node": "e1", "bailiwick.spark.operation_id": "op-1"}


def test_the_phase_in_which_it_failed_says_with_what() -> None:
    failed = machine.Failed(3.5, Failure(Code.DIVISION_BY_ZERO, "…"))
    word = Code.DIVISION_BY_ZERO.value
    assert shape(phases(lived(ADMITTED, STARTED, failed))) == [
        ("queue", 1.0, 2.0, None),
        ("lease", 2.0, 3.5, word, [("plan", 2.0, 3.0, None), ("execute", 3.0, 3.5, word)]),
    ]
    assert shape(phases(lived(failed))) == [("queue", 1.0, 3.5, word)]


def test_each_attempt_has_a_lease_of_its_own_on_its_own_engine() -> None:
    query = lived(
        ADMITTED,
        STARTED,
        machine.Retried(3.5, LOST),
        machine.Admitted(4.0, NodeId("e2")),
        machine.Started(5.0, Kind.READ, OperationId("op-2")),
        machine.Completed(6.0),
        machine.Delivered(7.0),
    )
    found = phases(query)
    assert [phase.name for phase in found] == ["queue", "lease", "queue", "lease", "deliver"]
    assert [found[index].attributes["bailiwick.engine.node"] for index in (1, 3)] == ["e1", "e2"]
    assert [found[index].failure for index in (1, 3)] == [LOST.code.value, None]
    assert attributes(query, with_text=False)["bailiwick.retries"] == 1


def test_neither_people_nor_tables_nor_text_are_told_unless_the_text_is_wanted() -> None:
    query = lived(ADMITTED, STARTED, machine.Completed(4.0), machine.Delivered(5.0))
    told = repr(
        {key: value for key, value in attributes(query, with_text=False).items() if value is not None}
    )
    assert not any(word in told for word in ("ann", "acme", "sales", "SELECT"))
    assert attributes(query, with_text=True)["db.query.text"] == query.sql


def test_the_end_of_a_query_is_told_once_with_all_of_it() -> None:
    told: list[Span] = []
    traces = Traces(told.append, tells_statements=True)
    query = lived(ADMITTED, STARTED, machine.Completed(4.0), machine.Delivered(5.0))
    with traces.query(query.id):
        pass
    assert tell_ended(query, traces) == told[0].context.trace_id
    assert tell_ended(query, traces) is None
    assert [span.name for span in told] == ["queue", "lease", "plan", "execute", "deliver", "query"]
    assert told[-1].attributes["db.query.text"] == query.sql
    assert tell_ended(query, NO_TRACES) is None

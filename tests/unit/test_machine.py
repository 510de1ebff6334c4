"""A query's life: no step out of order, nothing after the end, races are values."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.engines.description import Kind
from bailiwick.errors import Code
from bailiwick.ids import NodeId, QueryId, new_operation_id
from bailiwick.queries.machine import (
    Admitted,
    Cancelled,
    Completed,
    Delivered,
    Discard,
    Event,
    Failed,
    IllegalStepError,
    Instruction,
    Interrupt,
    Save,
    Started,
    step,
)
from bailiwick.queries.query import Failure, Query, State

OPERATION = new_operation_id()
NODE = NodeId("embedded")
QUEUED = Query(QueryId("q1"), "ann", "default", "flight", "SELECT 1", created_at=1.0)
CANCEL = Cancelled(9.0, Failure(Code.QUERY_CANCELLED, "cancelled by ann"))
FAIL = Failed(9.0, Failure(Code.DIVISION_BY_ZERO, "division by zero"))
ADMITTED = Admitted(2.0, NODE)
STARTED = Started(3.0, Kind.READ, OPERATION)
CHANGE_STARTED = Started(3.0, Kind.CHANGE, OPERATION)


def after(*events: Event) -> Query:
    query = QUEUED
    for event in events:
        query, _ = step(query, event)
    return query


def test_a_query_goes_its_way() -> None:
    query = after(ADMITTED, STARTED, Completed(4.0), Delivered(5.0))
    assert query.state is State.FINISHED
    assert [moment.state for moment in query.story] == ["planning", "running", "finishing", "finished"]
    assert (query.started_at, query.finished_at, query.node_id) == (3.0, 5.0, NODE)
    assert query.failure is None


def test_a_change_is_recorded_before_anything_else_happens() -> None:
    assert step(after(ADMITTED), CHANGE_STARTED)[1] == (Save(durably=True),)
    assert step(after(ADMITTED), STARTED)[1] == (Save(durably=False),)


def test_a_change_is_on_record_before_anyone_is_told_that_it_happened() -> None:
    assert step(after(ADMITTED, CHANGE_STARTED), Completed(4.0))[1] == (Save(durably=True),)
    assert step(after(ADMITTED, STARTED), Completed(4.0))[1] == (Save(durably=False),)


@pytest.mark.parametrize("events", [(), (ADMITTED,), (ADMITTED, STARTED)])
def test_a_cancel_before_the_engine_is_done_interrupts_it(events: tuple[Event, ...]) -> None:
    query, instructions = step(after(*events), CANCEL)
    assert query.state is State.CANCELLED
    assert query.failure == CANCEL.failure
    assert instructions[0] == Interrupt(OPERATION if len(events) == 2 else None)
    assert Discard() in instructions


def test_a_reader_that_leaves_early_cancels_a_read_that_the_engine_has_done() -> None:
    query, instructions = step(after(ADMITTED, STARTED, Completed(4.0)), CANCEL)
    assert query.state is State.CANCELLED
    assert instructions == (Discard(), Save())


def test_a_change_that_happened_has_finished_whoever_reads_its_rows() -> None:
    query, instructions = step(after(ADMITTED, CHANGE_STARTED, Completed(4.0)), CANCEL)
    assert query.state is State.FINISHED
    assert query.failure is None
    assert instructions == (Discard(), Save())


def test_an_engine_that_ends_after_a_cancel_changes_nothing_and_its_result_is_discarded() -> None:
    cancelled = after(ADMITTED, STARTED, CANCEL)
    assert step(cancelled, Completed(10.0)) == (cancelled, (Discard(),))
    assert step(cancelled, FAIL) == (cancelled, ())


def test_a_start_that_a_cancel_overtook_is_interrupted() -> None:
    cancelled = after(ADMITTED, CANCEL)
    assert step(cancelled, STARTED) == (cancelled, (Interrupt(OPERATION), Discard()))


def test_a_cancel_after_the_end_changes_nothing() -> None:
    finished = after(ADMITTED, STARTED, Completed(4.0), Delivered(5.0))
    assert step(finished, CANCEL) == (finished, ())


def test_only_a_change_that_started_may_have_written() -> None:
    assert after(ADMITTED, CHANGE_STARTED).may_have_written
    assert not after(ADMITTED, STARTED).may_have_written
    assert not after(ADMITTED).may_have_written


def test_an_illegal_step_tells_the_story() -> None:
    with pytest.raises(IllegalStepError) as illegal:
        step(after(ADMITTED, STARTED), ADMITTED)
    assert str(illegal.value) == (
        "q1 is running and cannot take Admitted; its story: created at 1.000 → planning (Admitted at 2.000) "
        "→ running (Started at 3.000)"
    )


@pytest.mark.parametrize(
    ("events", "event"),
    [
        ((), STARTED),
        ((), Completed(1.0)),
        ((), Delivered(1.0)),
        ((ADMITTED,), Completed(1.0)),
        ((ADMITTED, STARTED), Delivered(1.0)),
        ((ADMITTED, STARTED), STARTED),
        ((ADMITTED, STARTED, Completed(1.0)), Completed(1.0)),
        ((ADMITTED, STARTED, Completed(1.0), Delivered(1.0)), STARTED),
    ],
)
def test_what_no_race_explains_is_refused(events: tuple[Event, ...], event: Event) -> None:
    with pytest.raises(IllegalStepError):
        step(after(*events), event)


times = st.floats(0, 1e9)
kinds = st.sampled_from([Kind.READ, Kind.CHANGE, Kind.SHOWS])
failures = st.just(Failure(Code.INTERNAL_ERROR, "x"))
events = st.one_of(
    st.builds(Admitted, times, st.just(NODE)),
    st.builds(Started, times, kinds, st.sampled_from([OPERATION, None])),
    st.builds(Completed, times),
    st.builds(Delivered, times),
    st.builds(Failed, times, failures),
    st.builds(Cancelled, times, failures),
)


@given(st.lists(events, max_size=12))
def test_whatever_happens_nothing_leaves_a_terminal_state_and_no_end_is_left_unsaved(
    happenings: list[Event],
) -> None:
    query = QUEUED
    for event in happenings:
        before = query
        instructions: tuple[Instruction, ...] = ()
        try:
            query, instructions = step(query, event)
        except IllegalStepError:
            continue
        if before.state.is_terminal:
            assert query is before
            assert not any(isinstance(one, Save) for one in instructions)
        elif query.state.is_terminal:
            assert any(isinstance(one, Save) for one in instructions)
            assert query.finished_at is not None
            assert (query.failure is None) == (query.state is State.FINISHED)
        assert len(query.story) <= len(State)
        assert replace(query, story=()) == replace(before, story=()) or not before.state.is_terminal


@given(st.lists(events, max_size=12), st.sampled_from([CANCEL, FAIL]))
def test_every_query_can_be_ended_at_any_time(happenings: list[Event], end: Event) -> None:
    query = QUEUED
    for event in happenings:
        try:
            query, _ = step(query, event)
        except IllegalStepError:
            continue
    query, _ = step(query, end)
    assert query.state.is_terminal

"""Promises of the queue, each by example or over any story that hypothesis can think of."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest
from admission_story import Story, limits
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.fleet.admission import (
    Admission,
    Admit,
    IllegalEvent,
    Limits,
    Promote,
    PutOff,
    Reason,
    Recalled,
    Refuse,
    Started,
    position,
)
from bailiwick.ids import LeaseId


def test_no_more_short_queries_run_at_once_than_there_are_slots() -> None:
    story = Story(Admission(limits(slots=2)))
    for name in ("a", "b", "c"):
        story.ask(name)
    assert story.admitted == ["a", "b"]
    assert story.leave("a") == (Admit(LeaseId("c")),)


def test_principals_take_turns_and_each_is_served_first_come_first_served() -> None:
    story = Story(Admission(limits(slots=1)))
    for name in ("a1", "a2", "a3"):
        story.ask(name, "ann")
    for name in ("b1", "b2"):
        story.ask(name, "bob")
    story.ask("c1", "cyd")
    assert story.serve(6) == ["a1", "a2", "b1", "c1", "a3", "b2"]


def test_tenants_take_turns_before_their_principals_do() -> None:
    story = Story(Admission(limits(slots=1, queue_length_max=20)))
    for name in ("a1", "a2", "a3"):
        story.ask(name, "ann", "acme")
    for name in ("b1", "b2"):
        story.ask(name, "bob", "acme")
    story.ask("c1", "cyd", "acme")
    for name in ("x1", "x2", "x3"):
        story.ask(name, "xia", "globex")
    assert story.serve(9) == ["a1", "a2", "x1", "b1", "x2", "c1", "x3", "a3", "b2"]


def test_namesakes_of_two_tenants_have_lines_of_their_own() -> None:
    story = Story(Admission(limits(slots=1, queue_length_per_principal_max=1)))
    story.ask("running")
    assert story.ask("a1", "ann", "acme") == story.ask("a2", "ann", "globex") == ()
    (refusal,) = story.ask("a3", "ann", "globex")
    assert isinstance(refusal, Refuse)
    assert refusal.reason is Reason.QUEUE_FULL_FOR_USER


def test_a_tenant_that_runs_as_much_as_it_may_is_passed_over_until_one_ends() -> None:
    story = Story(Admission(limits(slots=3, running_per_tenant_max=2)))
    for name in ("a1", "a2", "a3"):
        story.ask(name, "ann", "acme")
    assert story.admitted == ["a1", "a2"]
    assert story.ask("x1", "xia", "globex") == (Admit(LeaseId("x1")),)
    assert story.leave("x1") == ()
    assert story.leave("a2") == (Admit(LeaseId("a3")),)


def test_long_queries_count_for_what_a_tenant_may_run() -> None:
    story = Story(Admission(limits(slots=1, long_max=2, running_per_tenant_max=1)))
    story.ask("long", "ann", "acme")
    story.ask("a1", "ann", "acme")
    assert story.pass_time(10) == (Promote(LeaseId("long")),)
    assert story.ask("x1", "xia", "globex") == (Admit(LeaseId("x1")),)
    assert story.leave("x1") == ()
    assert story.leave("long") == (Admit(LeaseId("a1")),)


def test_one_that_is_put_off_does_not_count_among_those_that_its_tenant_runs() -> None:
    story = Story(Admission(limits(slots=2, running_per_tenant_max=1)), starts=False)
    assert story.ask("heavy") == (Admit(LeaseId("heavy")),)
    assert story.ask("light") == ()
    assert story.tell(PutOff(LeaseId("heavy"))) == (Admit(LeaseId("light")),)
    story.tell(Started(LeaseId("light")))
    assert not story.state.may_start(LeaseId("heavy"))
    story.leave("light")
    assert story.state.may_start(LeaseId("heavy"))


def test_one_that_was_put_off_gets_the_next_place_of_its_tenant_once_its_engine_has_room() -> None:
    story = Story(Admission(limits(slots=2, running_per_tenant_max=1)), starts=False)
    for name in ("heavy", "light", "later"):
        story.ask(name)
    story.tell(PutOff(LeaseId("heavy")))
    story.tell(Started(LeaseId("light")))
    assert story.tell(Recalled(LeaseId("heavy"))) == ()
    assert story.ask("x1", "xia", "globex") == (Admit(LeaseId("x1")),), "it takes no slot from others"
    assert story.leave("light") == ()
    story.tell(Started(LeaseId("heavy")))
    assert story.leave("heavy") == (Admit(LeaseId("later")),)


def test_one_tenant_cannot_fill_the_queue_for_the_others() -> None:
    story = Story(Admission(limits(slots=1, queue_length_per_tenant_max=2)))
    for name, principal in (("running", "ann"), ("w1", "ann"), ("w2", "bob")):
        story.ask(name, principal, "acme")
    (refusal,) = story.ask("w3", "cyd", "acme")
    assert isinstance(refusal, Refuse)
    assert refusal.reason is Reason.QUEUE_FULL_FOR_TENANT
    assert story.ask("x1", "xia", "globex") == ()
    assert position(story.state, LeaseId("x1")) == 2


def test_a_query_that_runs_long_gives_its_slot_to_the_next_in_line() -> None:
    story = Story(Admission(limits(slots=1, long_max=1)))
    story.ask("long")
    story.ask("short")
    assert story.pass_time(9.9) == ()
    assert story.pass_time(0.1) == (Promote(LeaseId("long")), Admit(LeaseId("short")))
    assert (story.state.short_count, story.state.long_count) == (1, 1)


def test_no_more_are_promoted_than_the_cap_of_long_ones_allows() -> None:
    story = Story(Admission(limits(slots=2, long_max=1)))
    for name in ("a", "b", "c", "d"):
        story.ask(name)
    story.pass_time(10)
    assert story.admitted == ["a", "b", "c"]
    assert story.leave("a") == (Promote(LeaseId("b")), Admit(LeaseId("d")))


def test_the_time_of_a_query_counts_from_its_start_and_not_from_its_place() -> None:
    story = Story(Admission(limits(slots=1)), starts=False)
    story.ask("a")
    assert story.pass_time(30) == ()
    story.tell(Started(LeaseId("a")))
    assert story.pass_time(9) == ()
    assert story.pass_time(1) == (Promote(LeaseId("a")),)


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    story = Story(Admission(limits(slots=1, queue_length_max=2)))
    for name in ("running", "w1", "w2"):
        story.ask(name)
    (refusal,) = story.ask("w3", "bob")
    assert isinstance(refusal, Refuse)
    assert refusal.reason is Reason.QUEUE_FULL
    assert refusal.retry_after_s >= 1


def test_one_user_cannot_fill_the_queue_for_everyone() -> None:
    story = Story(Admission(limits(slots=1, queue_length_max=10, queue_length_per_principal_max=2)))
    for name in ("running", "w1", "w2"):
        story.ask(name, "ann")
    (refusal,) = story.ask("w3", "ann")
    assert isinstance(refusal, Refuse)
    assert refusal.reason is Reason.QUEUE_FULL_FOR_USER
    assert story.ask("b1", "bob") == ()
    assert position(story.state, LeaseId("b1")) == 2


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        ("queue_length_max", Reason.QUEUE_FULL),
        ("queue_length_per_tenant_max", Reason.QUEUE_FULL_FOR_TENANT),
        ("queue_length_per_principal_max", Reason.QUEUE_FULL_FOR_USER),
    ],
)
def test_those_put_off_wait_and_no_more_of_them_than_may(bound: str, reason: Reason) -> None:
    story = Story(Admission(limits(slots=3, **{bound: 2})), misfits=frozenset({"ann"}))
    assert story.ask("w1") == (Admit(LeaseId("w1")),)
    assert story.ask("w2") == (Admit(LeaseId("w2")),)
    _, refusal = story.ask("w3")
    assert refusal == Refuse(LeaseId("w3"), reason, 1.0)
    assert story.present == ["w1", "w2"]
    story.leave("w1")
    assert story.ask("w4") == (Admit(LeaseId("w4")),)


def test_those_put_off_and_those_in_line_count_together() -> None:
    story = Story(Admission(limits(slots=2, queue_length_per_principal_max=3)), misfits=frozenset({"ann"}))
    for name, principal in (("w1", "ann"), ("b1", "bob"), ("w2", "ann"), ("b2", "bob"), ("w3", "ann")):
        story.ask(name, principal)
    assert [one.lease for one in story.state.waiting] == ["w3"]
    assert story.ask("w4", "ann") == (Refuse(LeaseId("w4"), Reason.QUEUE_FULL_FOR_USER, 1.5),)


def test_who_fits_an_engine_that_has_room_is_let_in_however_many_are_put_off() -> None:
    story = Story(Admission(limits(slots=2, queue_length_max=1)), misfits=frozenset({"ann"}))
    story.ask("w1", "ann")
    assert story.ask("b1", "bob") == (Admit(LeaseId("b1")),)
    assert "b1" in story.present


def test_who_was_let_in_is_not_sent_away_when_it_is_put_off() -> None:
    story = Story(Admission(limits(slots=1, queue_length_max=1)), starts=False)
    story.ask("first")
    story.ask("second")
    assert story.tell(PutOff(LeaseId("first"))) == (Admit(LeaseId("second")),)
    assert story.tell(PutOff(LeaseId("second"))) == ()


def test_who_waits_too_long_is_sent_away_once() -> None:
    story = Story(Admission(limits(slots=1)))
    story.ask("running")
    story.ask("late")
    assert story.pass_time(59) == (Promote(LeaseId("running")), Admit(LeaseId("late")))
    story.ask("later")
    (refusal,) = story.pass_time(60)
    assert refusal == Refuse(LeaseId("later"), Reason.QUEUE_WAIT, 1.0)
    assert story.pass_time(60) == ()


def test_who_has_a_place_but_never_gets_a_session_is_sent_away_too() -> None:
    story = Story(Admission(limits(slots=1)), starts=False)
    story.ask("a")
    story.ask("b")
    refusals = story.pass_time(60)
    assert {one.lease for one in refusals if isinstance(one, Refuse)} == {"a", "b"}
    assert story.state.admitted == ()


def test_leaving_twice_is_fine() -> None:
    story = Story(Admission(limits()))
    story.ask("a")
    story.leave("a")
    assert story.leave("a") == ()


def test_asking_or_starting_twice_is_a_bug() -> None:
    story = Story(Admission(limits()))
    story.ask("a")
    with pytest.raises(IllegalEvent):
        story.ask("a")
    with pytest.raises(IllegalEvent):
        story.tell(Started(LeaseId("a")))


MOVES = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(["a@1", "b@1", "c@1", "a@2", "d@2", "e@3"])),
    st.tuples(st.just("leave"), st.integers(0, 30)),
    st.tuples(st.just("time"), st.floats(0.1, 25.0)),
)
FREE_LIMITS = st.builds(
    Limits,
    slots=st.integers(1, 3),
    long_max=st.integers(0, 2),
    interactive_s=st.just(10.0),
    queue_length_max=st.integers(1, 8),
    queue_length_per_principal_max=st.integers(1, 4),
    queue_wait_s=st.just(60.0),
    queue_length_per_tenant_max=st.none() | st.integers(1, 5),
)
"""Without a bound on what a tenant may run."""
LIMITS = st.builds(replace, FREE_LIMITS, running_per_tenant_max=st.none() | st.integers(1, 3))


def play(story: Story, moves: list[tuple[str, object]]) -> Iterator[Story]:
    """Yields after each move. Leaves are of those that hold a place or wait, whichever the number hits."""
    for number, (kind, value) in enumerate(moves):
        present = story.present
        match kind, value:
            case "ask", str(asking):
                principal, _, tenant = asking.partition("@")
                story.ask(f"{asking}-{number}", principal, tenant)
            case "leave", int(index) if present:
                story.leave(present[index % len(present)])
            case "time", float(seconds):
                story.pass_time(seconds)
        yield story


@given(LIMITS, st.lists(MOVES, max_size=60))
def test_never_more_run_than_slots_and_long_ones_together(
    bounds: Limits, moves: list[tuple[str, object]]
) -> None:
    for story in play(Story(Admission(bounds)), moves):
        assert story.state.short_count <= bounds.slots
        assert story.state.long_count <= bounds.long_max
        assert story.state.queue_length <= bounds.queue_length_max
        # No slot stays free while someone waits who may have it.
        assert not any(story.state.has_place_for(queue.tenant) for queue in story.state.queues)


@given(LIMITS, st.lists(MOVES, max_size=60))
def test_no_tenant_has_more_running_or_waiting_than_it_may(
    bounds: Limits, moves: list[tuple[str, object]]
) -> None:
    for story in play(Story(Admission(bounds)), moves):
        running = Counter(one.tenant for one in story.state.admitted)
        waiting = Counter(one.tenant for one in story.state.waiting)
        assert max(running.values(), default=0) <= (bounds.running_per_tenant_max or 100)
        assert max(waiting.values(), default=0) <= (bounds.queue_length_per_tenant_max or 100)
        for queue in story.state.queues:
            assert queue.lines
            assert all(line and {one.tenant for one in line} == {queue.tenant} for line in queue.lines)


@given(LIMITS, st.frozensets(st.sampled_from("abcde")), st.lists(MOVES, max_size=60))
def test_never_more_wait_than_may_whether_in_line_or_put_off(
    bounds: Limits, misfits: frozenset[str], moves: list[tuple[str, object]]
) -> None:
    for story in play(Story(Admission(bounds), misfits=misfits), moves):
        waiting = story.state.kept_waiting
        of_tenants = Counter(one.tenant for one in waiting)
        of_principals = Counter((one.tenant, one.principal) for one in waiting)
        assert len(waiting) <= bounds.queue_length_max
        assert max(of_tenants.values(), default=0) <= (bounds.queue_length_per_tenant_max or 100)
        assert max(of_principals.values(), default=0) <= bounds.queue_length_per_principal_max


@given(LIMITS, st.lists(MOVES, max_size=60))
def test_nobody_is_lost_and_nobody_is_admitted_or_refused_twice(
    bounds: Limits, moves: list[tuple[str, object]]
) -> None:
    story = Story(Admission(bounds))
    for _ in play(story, moves):
        present = story.present
        assert len(present) == len(set(present))
        verdicts = [one.lease for one in story.said if isinstance(one, Admit | Refuse)]
        refused = [one.lease for one in story.said if isinstance(one, Refuse)]
        assert len(verdicts) == len(set(verdicts))
        assert not set(refused) & set(present)
    while present := [one.lease for one in story.state.admitted]:
        story.leave(present[0])
    assert story.state.queue_length == 0


@given(LIMITS, st.lists(MOVES, max_size=40), st.integers(0, 30))
def test_no_tenant_and_no_principal_starves(
    bounds: Limits, moves: list[tuple[str, object]], choice: int
) -> None:
    story = Story(Admission(bounds))
    for _ in play(story, moves):
        pass
    if not story.state.queues:
        return
    queue = story.state.queues[choice % len(story.state.queues)]
    first = queue.lines[choice % len(queue.lines)][0].lease
    turns = len(queue.lines) * (len(story.state.queues) + 1)
    before, numbers = len(story.admitted), count()
    while first not in story.admitted:
        # Others keep asking, of the same tenant and of another; each row may pass at most once a turn.
        story.ask(f"noisy{next(numbers)}", "noisy", queue.tenant)
        story.ask(f"loud{next(numbers)}", "loud", "loud")
        story.leave(story.state.admitted[0].lease)
    assert story.admitted.index(first) - before <= turns + bounds.slots


@given(FREE_LIMITS, st.lists(MOVES, max_size=60))
def test_a_position_is_the_number_of_turns_until_admission(
    bounds: Limits, moves: list[tuple[str, object]]
) -> None:
    story = Story(Admission(bounds))
    for _ in play(story, moves):
        pass
    promised = {one.lease: position(story.state, one.lease) for one in story.state.waiting}
    before = len(story.admitted)
    while story.state.queues:
        story.leave(story.state.admitted[-1].lease)
    served = {lease: number for number, lease in enumerate(story.admitted[before:], start=1)}
    assert served == promised

"""The rules of health, one by one, with the clock in the test's hand."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from fleet_reports import OURS, report

from bailiwick.fleet.health import (
    DrainAsked,
    Event,
    Fleet,
    Heartbeat,
    Left,
    ProbeAnswered,
    ProbeFailed,
    QuerySucceeded,
    TimePassed,
    TransportFailed,
    step,
)
from bailiwick.fleet.report import EngineState, Report
from bailiwick.fleet.vitals import (
    Avoid,
    Condition,
    EngineHealth,
    Forget,
    HealthRules,
    Instruction,
    Join,
    Probe,
    Refuse,
    Use,
)
from bailiwick.ids import NodeId

A, B = NodeId("a"), NodeId("b")
RULES = HealthRules(OURS)


@dataclass
class Watch:
    """A fleet over time. Those in `beating` report every 5 s; all but those in `mute` answer probes."""

    fleet: Fleet = field(default_factory=lambda: Fleet(RULES))
    now: float = 1000.0
    beating: dict[NodeId, Report] = field(default_factory=dict)
    mute: set[NodeId] = field(default_factory=set)
    said: list[Instruction] = field(default_factory=list)
    all_said: list[Instruction] = field(default_factory=list)

    def tell(self, event: Event) -> tuple[Instruction, ...]:
        self.fleet, instructions = step(self.fleet, event, self.now)
        self.said.extend(instructions)
        self.all_said.extend(instructions)
        for instruction in instructions:
            if isinstance(instruction, Probe) and instruction.node_id not in self.mute:
                self.tell(ProbeAnswered(instruction.node_id, instruction.life))
        return instructions

    def beat(self, one: Report) -> tuple[Instruction, ...]:
        self.beating[one.node_id] = one
        return self.tell(Heartbeat(one))

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.tell(TimePassed())
            if self.now % 5 == 0:
                for one in self.beating.values():
                    self.tell(Heartbeat(one))

    def fall_silent(self, node_id: NodeId) -> None:
        del self.beating[node_id]

    def fail(self, node_id: NodeId = A) -> tuple[Instruction, ...]:
        return self.tell(TransportFailed(node_id, "the connection broke"))

    def of(self, node_id: NodeId = A) -> EngineHealth:
        return self.fleet.engines[node_id]

    def condition(self, node_id: NodeId = A) -> Condition:
        return self.of(node_id).condition


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    uses_and_avoids(made.all_said)


def uses_and_avoids(said: list[Instruction]) -> None:
    """Whatever a test does: nobody is used without having joined, or joins twice without being forgotten."""
    joined: set[NodeId] = set()
    for one in said:
        match one:
            case Join(made):
                assert made.node_id not in joined
                joined.add(made.node_id)
            case Use(node_id) | Probe(node_id):
                assert node_id in joined
            case Forget(node_id):
                joined.remove(node_id)
            case Avoid(why=why) | Refuse(why=why):
                assert why


@pytest.fixture
def healthy(watch: Watch) -> Watch:
    watch.beat(report("a"))
    watch.beat(report("b"))
    watch.wait(6)
    assert watch.fleet.healthy == (A, B)
    return watch


def test_a_fleet_begins_empty(watch: Watch) -> None:
    assert watch.tell(TimePassed()) == ()
    assert watch.fleet.healthy == ()


def test_the_first_heartbeat_makes_an_engine_healthy_and_a_probe_looks_at_the_way_to_it(watch: Watch) -> None:
    first = report("a")
    assert watch.beat(first) == (Join(first), Use(A), Probe(A, first.life))
    assert watch.condition() is Condition.HEALTHY
    assert watch.of().why == ""


def test_an_engine_that_is_still_starting_is_not_used(watch: Watch) -> None:
    assert watch.beat(report("a", state=EngineState.STARTING)) == ()
    assert watch.condition() is Condition.UNPROVEN
    assert watch.beat(report("a"))[:2] == (Join(report("a")), Use(A))


def test_two_missed_heartbeats_are_forgiven_and_three_are_not(healthy: Watch) -> None:
    healthy.wait(4)
    healthy.fall_silent(A)
    healthy.wait(15)
    assert healthy.condition(A) is Condition.HEALTHY
    healthy.said.clear()
    healthy.wait(1)
    assert healthy.condition(A) is Condition.DEMOTED
    assert healthy.condition(B) is Condition.HEALTHY
    assert [one for one in healthy.said if isinstance(one, Avoid)] == [
        Avoid(A, "its last 3 heartbeats did not come")
    ]


def test_one_heartbeat_restores_who_was_silent(healthy: Watch) -> None:
    healthy.fall_silent(A)
    healthy.wait(20)
    assert Use(A) in healthy.beat(report("a"))
    assert healthy.condition() is Condition.HEALTHY


def test_a_broken_way_demotes_at_once(healthy: Watch) -> None:
    healthy.mute.add(A)
    assert healthy.fail() == (Avoid(A, "the connection broke"), Probe(A, report("a").life))
    assert healthy.condition() is Condition.DEMOTED
    assert healthy.fleet.healthy == (B,)


def test_an_answered_probe_restores_who_could_not_be_reached(healthy: Watch) -> None:
    healthy.fail()
    assert healthy.condition() is Condition.HEALTHY


def test_a_query_that_succeeds_restores_too(healthy: Watch) -> None:
    healthy.mute.add(A)
    healthy.fail()
    assert Use(A) in healthy.tell(QuerySucceeded(A))


def test_a_heartbeat_does_not_prove_that_the_way_back_is_open_but_asks_for_a_probe(healthy: Watch) -> None:
    healthy.mute.add(A)
    healthy.fail()
    healthy.tell(ProbeFailed(A, "refused"))
    healthy.now += 1
    assert healthy.beat(report("a")) == (Probe(A, report("a").life),)
    assert healthy.condition() is Condition.DEMOTED


def test_an_answer_does_not_bring_back_who_is_silent(healthy: Watch) -> None:
    healthy.fall_silent(A)
    healthy.wait(20)
    healthy.tell(QuerySucceeded(A))
    assert healthy.condition() is Condition.DEMOTED


def test_an_engine_that_hangs_while_its_keeper_beats_is_found_by_the_probe(healthy: Watch) -> None:
    healthy.mute.add(A)
    healthy.wait(11)
    assert healthy.condition(A) is Condition.DEMOTED
    assert "did not answer" in healthy.of(A).why
    healthy.mute.clear()
    healthy.wait(6)
    assert healthy.condition(A) is Condition.HEALTHY


def test_a_probe_that_fails_demotes(healthy: Watch) -> None:
    assert Avoid(A, "refused") in healthy.tell(ProbeFailed(A, "refused"))


def test_who_answers_queries_is_not_probed_besides(healthy: Watch) -> None:
    healthy.said.clear()
    for _ in range(10):
        healthy.tell(QuerySucceeded(A))
        healthy.wait(2)
    assert {one.node_id for one in healthy.said if isinstance(one, Probe)} == {B}


def test_a_querys_own_error_demotes_nobody(healthy: Watch) -> None:
    # It is an answer: there is no other event for it.
    healthy.tell(QuerySucceeded(A))
    assert healthy.condition() is Condition.HEALTHY


def flap(watch: Watch) -> float:
    """Break it once, and return for how long it is not used afterwards, though it answers."""
    watch.fail()
    began = watch.now
    while watch.condition() is not Condition.HEALTHY:
        assert watch.condition() is Condition.HELD_DOWN
        watch.wait(1)
        assert watch.now - began < 1000
    return watch.now - began


def test_flappers_are_held_down_for_longer_each_time_up_to_a_bound(healthy: Watch) -> None:
    assert [flap(healthy) for _ in range(9)] == [0, 0, 10, 20, 40, 80, 160, 300, 300]


def test_who_was_well_for_a_while_is_no_flapper(healthy: Watch) -> None:
    for _ in range(5):
        flap(healthy)
    healthy.wait(60)
    assert flap(healthy) == 0


def test_who_is_held_down_and_still_broken_is_only_demoted_when_the_time_is_over(healthy: Watch) -> None:
    flap(healthy)
    flap(healthy)
    healthy.mute.add(A)
    healthy.fail()
    assert healthy.condition() is Condition.HELD_DOWN
    assert "left alone for 10 s" in healthy.of().why
    healthy.wait(11)
    assert healthy.condition() is Condition.DEMOTED
    healthy.mute.clear()
    healthy.wait(6)
    assert healthy.condition() is Condition.HEALTHY


def test_failures_of_one_that_is_not_used_anyway_do_not_add_up(healthy: Watch) -> None:
    healthy.mute.add(A)
    for _ in range(50):
        healthy.fail()
    assert healthy.of().flaps == 1


def test_a_new_life_is_a_new_engine(healthy: Watch) -> None:
    healthy.mute.add(A)
    healthy.fail()
    second = report("a", life=2)
    said = healthy.beat(second)
    assert said[:3] == (Forget(A, report("a").life), Join(second), Use(A))


def test_what_is_told_of_an_earlier_life_does_not_touch_the_new_one(healthy: Watch) -> None:
    first, second = report("a"), report("a", life=2)
    healthy.beat(second)
    for event in (
        TransportFailed(A, "broke", first.life),
        ProbeFailed(A, "broke", first.life),
        Left(A, first.life),
    ):
        healthy.tell(event)
        assert healthy.condition() is Condition.HEALTHY
    healthy.tell(TransportFailed(A, "broke", second.life))
    assert Avoid(A, "broke") in healthy.said


def test_an_engine_that_is_started_again_and_again_is_a_flapper(healthy: Watch) -> None:
    for life in range(2, 5):
        healthy.beat(report("a", life=life))
    assert healthy.condition() is Condition.HELD_DOWN
    assert Join(report("a", life=4)) in healthy.said
    healthy.wait(11)
    assert healthy.condition() is Condition.HEALTHY


def test_two_engines_of_one_name_do_not_take_turns(healthy: Watch) -> None:
    healthy.beat(report("a", life=2))
    healthy.said.clear()
    (refused,) = healthy.tell(Heartbeat(report("a", life=1)))
    assert isinstance(refused, Refuse)
    assert "node id of its own" in refused.why
    assert healthy.of().report.life == report("a", life=2).life
    assert healthy.condition() is Condition.HEALTHY


def test_an_earlier_life_may_come_back_when_the_later_one_is_silent(healthy: Watch) -> None:
    healthy.beat(report("a", life=2))
    healthy.fall_silent(A)
    healthy.wait(20)
    assert Use(A) in healthy.beat(report("a", life=1))


def test_one_that_reports_to_be_draining_gets_nothing_new_until_it_is_ready_again(healthy: Watch) -> None:
    (avoid,) = healthy.beat(report("a", state=EngineState.DRAINING))
    assert isinstance(avoid, Avoid)
    assert healthy.condition() is Condition.DRAINING
    assert Use(A) in healthy.beat(report("a"))


def test_a_drain_that_we_asked_for_lasts_until_the_next_life_and_is_no_flap(healthy: Watch) -> None:
    for life in range(2, 8):
        assert isinstance(healthy.tell(DrainAsked(A))[0], Avoid)
        healthy.wait(10)
        assert healthy.condition() is Condition.DRAINING
        assert healthy.of().is_drain_asked
        assert Use(A) in healthy.beat(report("a", life=life))
        assert not healthy.of().is_drain_asked


def test_a_drain_holds_for_all_of_a_life_even_if_that_was_thought_to_be_over(healthy: Watch) -> None:
    healthy.tell(DrainAsked(A))
    healthy.fall_silent(A)
    healthy.wait(310)
    assert healthy.condition() is Condition.GONE
    healthy.beat(report("a"))
    assert healthy.condition() is Condition.DRAINING
    healthy.beat(report("a", life=2))
    assert healthy.condition() is Condition.HEALTHY


def test_what_one_that_drains_has_begun_may_end_even_if_its_heartbeats_stop(healthy: Watch) -> None:
    healthy.beat(report("a", state=EngineState.DRAINING))
    healthy.fall_silent(A)
    healthy.wait(290)
    assert healthy.condition() is Condition.DRAINING
    assert "did not come" in healthy.of().why
    assert Forget(A, report("a").life) not in healthy.said
    healthy.wait(15)
    assert healthy.condition() is Condition.GONE
    assert Forget(A, report("a").life) in healthy.said


def test_who_leaves_is_forgotten_at_once_and_shown_for_a_while(healthy: Watch) -> None:
    healthy.fall_silent(A)
    assert healthy.tell(Left(A)) == (Avoid(A, "it has left"), Forget(A, report("a").life))
    assert healthy.tell(Left(A)) == ()
    healthy.wait(600)
    assert healthy.condition() is Condition.GONE
    healthy.wait(2)
    assert A not in healthy.fleet.engines


def test_who_is_silent_for_long_is_gone_and_may_come_back(healthy: Watch) -> None:
    healthy.fall_silent(A)
    healthy.wait(310)
    assert healthy.condition() is Condition.GONE
    assert healthy.said.count(Forget(A, report("a").life)) == 1
    said = healthy.beat(report("a"))
    assert said[:2] == (Join(report("a")), Use(A))


def test_who_could_not_be_reached_before_it_was_gone_must_answer_before_it_is_used(healthy: Watch) -> None:
    healthy.mute.add(A)
    healthy.fail()
    healthy.fall_silent(A)
    healthy.wait(310)
    assert healthy.condition() is Condition.GONE
    assert healthy.beat(report("a")) == (Join(report("a")), Probe(A, report("a").life))
    assert Use(A) in healthy.tell(ProbeAnswered(A))


def test_what_is_told_of_nobody_we_know_is_nothing(healthy: Watch) -> None:
    unknown = NodeId("nobody")
    for event in (TransportFailed(unknown, "x"), QuerySucceeded(unknown), DrainAsked(unknown), Left(unknown)):
        assert healthy.tell(event) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"address": "0.0.0.0:7000"}, "unspecified"),
        ({"address": "[fe80::1]:7000"}, "link-local"),
        ({"address": "224.0.0.1:7000"}, "multicast"),
        ({"address": "10.0.0.1:0"}, "port 0"),
        ({"version": "0.2.0"}, "Bailiwick 0.2.0"),
        ({"spark_version": "4.0.1"}, "Spark 4.0.1"),
    ],
)
def test_who_cannot_be_one_of_ours_is_refused_with_a_sentence(
    watch: Watch, changes: dict[str, Any], words: str
) -> None:
    (refused,) = watch.beat(report("a", **changes))
    assert isinstance(refused, Refuse)
    assert words in refused.why
    assert refused.why.endswith(".")
    assert watch.condition() is Condition.REFUSED
    assert f"may not join: {watch.fleet.tried[0].why}." in refused.why
    assert Use(A) in watch.beat(report("a"))


def test_a_keeper_elsewhere_may_not_give_a_loopback_address(watch: Watch) -> None:
    one = report("a", address="127.0.0.1:7000")
    (refused,) = watch.tell(Heartbeat(one, peer_is_loopback=False))
    assert isinstance(refused, Refuse)
    assert Use(A) in watch.tell(Heartbeat(one, peer_is_loopback=True))


def test_an_address_belongs_to_one_engine(healthy: Watch) -> None:
    (refused,) = healthy.beat(report("c", address=report("a").address))
    assert isinstance(refused, Refuse)
    assert "also that of a" in refused.why
    assert healthy.condition() is Condition.HEALTHY


def test_the_address_of_a_silent_engine_is_free(healthy: Watch) -> None:
    healthy.fall_silent(A)
    healthy.wait(20)
    said = healthy.beat(report("c", address=report("a").address))
    assert said[0] == Forget(A, report("a").life)
    assert Use(NodeId("c")) in said
    assert healthy.condition(A) is Condition.GONE


def test_being_refused_under_the_name_of_a_healthy_engine_does_it_no_harm(healthy: Watch) -> None:
    (refused,) = healthy.tell(Heartbeat(report("a", life=2, version="9.9.9")))
    assert isinstance(refused, Refuse)
    assert healthy.condition() is Condition.HEALTHY


def test_an_engine_that_changes_what_must_not_change_is_forgotten_and_refused(healthy: Watch) -> None:
    said = healthy.beat(report("a", address="0.0.0.0:1"))
    assert said[0] == Forget(A, report("a").life)
    assert healthy.condition() is Condition.REFUSED
    healthy.fall_silent(A)
    healthy.wait(301)
    assert A not in healthy.fleet.engines


def test_there_is_a_bound_on_engines() -> None:
    watch = Watch(Fleet(HealthRules(OURS, nodes_max=2)))
    for name in "ab":
        watch.beat(report(name))
    (refused,) = watch.beat(report("c"))
    assert isinstance(refused, Refuse)
    assert len(watch.fleet.engines) == 2
    watch.tell(Heartbeat(report("d", version="9.9")))
    assert len(watch.fleet.engines) == 2


@pytest.mark.parametrize("jump_s", [-1e6, -10.0, 60.0, 1e6])
def test_a_gateway_that_slept_or_whose_clock_jumped_blames_no_engine(healthy: Watch, jump_s: float) -> None:
    healthy.now += jump_s
    healthy.tell(TimePassed())
    assert healthy.fleet.healthy == (A, B)
    healthy.fall_silent(A)
    healthy.wait(16)
    assert healthy.condition(A) is Condition.DEMOTED
    assert healthy.condition(B) is Condition.HEALTHY


def test_what_cannot_be_used_is_listed_with_its_reason(healthy: Watch) -> None:
    healthy.mute.add(A)
    healthy.fail(A)
    (tried,) = healthy.fleet.tried
    assert (tried.node_id, tried.why, tried.address) == (A, "the connection broke", report("a").address)

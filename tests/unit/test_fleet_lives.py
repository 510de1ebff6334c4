"""Engines come, go, come back and are refused; each life is judged for itself."""

from typing import Any

import pytest
from fleet_reports import OURS, report
from fleet_watch import A, Watch, healthy_fleet, watched_fleet  # noqa: F401  (fixtures)

from bailiwick.fleet.health import (
    DrainAsked,
    Fleet,
    Heartbeat,
    Left,
    ProbeAnswered,
    ProbeFailed,
    QuerySucceeded,
    TransportFailed,
)
from bailiwick.fleet.report import EngineState
from bailiwick.fleet.vitals import Avoid, Condition, Forget, HealthRules, Join, Probe, Refuse, Use
from bailiwick.ids import NodeId


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

"""Who is well and who is not, rule by rule, with the clock in the test's hand."""

import pytest
from fleet_reports import OURS, report
from fleet_watch import A, B, Watch, healthy_fleet, watched_fleet  # noqa: F401  (fixtures)

from bailiwick.fleet.health import (
    Fleet,
    ProbeFailed,
    QuerySucceeded,
    TimePassed,
)
from bailiwick.fleet.report import TRUSTED, EngineState
from bailiwick.fleet.vitals import Avoid, Condition, Forget, HealthRules, Join, Probe, Refuse, Use
from bailiwick.ids import NodeId


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


CODERS = NodeId("coders")


def test_an_engine_that_runs_code_of_users_yields_its_address_to_any_other(watch: Watch) -> None:
    coders = report("coders", engine_class=TRUSTED, address=report("a").address)
    assert Use(CODERS) in watch.beat(coders)
    avoid, *said = watch.beat(report("a"))
    assert avoid == Avoid(CODERS, "a has its address now")
    assert said[:3] == [Forget(CODERS, coders.life), Join(report("a")), Use(A)]
    assert watch.condition(CODERS) is Condition.GONE
    (refused,) = watch.beat(coders)
    assert refused == Refuse(
        CODERS,
        "The engine coders may not join: its address is also that of a; give each engine a port of its own.",
    )
    assert watch.fleet.healthy == (A,)


def test_an_engine_that_runs_code_of_users_does_not_get_the_address_of_one_that_is_only_silent(
    healthy: Watch,
) -> None:
    coders = report("coders", engine_class=TRUSTED, address=report("a").address)
    healthy.fall_silent(A)
    healthy.wait(290)
    (refused,) = healthy.beat(coders)
    assert isinstance(refused, Refuse)
    assert "also that of a" in refused.why
    healthy.wait(20)
    assert healthy.condition(A) is Condition.GONE
    assert healthy.condition(CODERS) is Condition.HEALTHY
    assert Use(A) in healthy.beat(report("a"))
    assert healthy.condition(CODERS) is Condition.GONE


def test_two_engines_that_run_code_of_users_do_not_share_an_address_either(watch: Watch) -> None:
    watch.beat(report("coders", engine_class=TRUSTED))
    (refused,) = watch.beat(report("more", engine_class=TRUSTED, address=report("coders").address))
    assert isinstance(refused, Refuse)
    assert watch.fleet.healthy == (CODERS,)


def test_engines_that_run_code_of_users_take_up_no_room_of_others() -> None:
    watch = Watch(Fleet(HealthRules(OURS, nodes_max=2)))
    for name in ("c1", "c2"):
        watch.beat(report(name, engine_class=TRUSTED))
    (refused,) = watch.beat(report("c3", engine_class=TRUSTED))
    assert isinstance(refused, Refuse)
    assert all(Use(name) in watch.beat(report(name)) for name in (A, B))
    (refused,) = watch.beat(report("c"))
    assert isinstance(refused, Refuse)


def test_nobody_is_held_down_for_flaps_of_an_engine_that_ran_code_of_users(watch: Watch) -> None:
    for life in range(1, 9):
        watch.beat(report("a", life=life, engine_class=TRUSTED))
    assert watch.condition() is Condition.HELD_DOWN
    assert Use(A) in watch.beat(report("a", life=9))
    assert watch.of().flaps == 0

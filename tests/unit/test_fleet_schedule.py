"""Who gets which engine, by example and over any fleet."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.fleet.memory import Watermark
from bailiwick.fleet.placement import Placement
from bailiwick.fleet.report import GENERAL, TRUSTED
from bailiwick.fleet.schedule import (
    ANYWHERE,
    HEAVY_BYTES,
    LEAST_LOADED,
    EngineLoad,
    LeastLoaded,
    Obstacle,
    Work,
    choose,
    heaviest_first,
)
from bailiwick.ids import NodeId

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
OWN = EngineLoad(NodeId("embedded"), slots=2, is_embedded=True, idle_sessions=2)
MIB = 1 << 20


def idle(node_id: NodeId, **changes: object) -> EngineLoad:
    return replace(EngineLoad(node_id, slots=2, idle_sessions=2, heap_bytes=1 << 30), **changes)  # type: ignore[arg-type]


engine_loads = st.builds(
    EngineLoad,
    node_id=st.sampled_from("abcdefgh").map(NodeId),
    slots=st.integers(0, 4),
    running=st.integers(0, 5),
    cost_running=st.integers(0, 1 << 34),
    engine_class=st.sampled_from([GENERAL, "etl", TRUSTED]),
    idle_sessions=st.integers(0, 3),
    watermark=st.sampled_from(Watermark),
    is_embedded=st.booleans(),
    heap_bytes=st.sampled_from([1 << 30, 1 << 34]),
)
fleets = st.lists(engine_loads, max_size=6, unique_by=lambda engine: engine.node_id)
works = st.builds(
    Work,
    cost_bytes=st.integers(0, 1 << 33),
    excluded=st.frozensets(st.sampled_from("abcdefgh").map(NodeId), max_size=3),
    placement=st.none() | st.sampled_from(Placement),
    engine_class=st.none() | st.sampled_from([GENERAL, "etl", TRUSTED]),
    affinity=st.none() | st.text(max_size=5),
    heap_bytes_min=st.sampled_from([0, 1 << 31]),
)


@given(fleets, works)
def test_what_is_chosen_may_take_the_work_now(engines: list[EngineLoad], work: Work) -> None:
    chosen = next((engine for engine in engines if engine.node_id == choose(engines, work)), None)
    if chosen is None:
        assert None not in LEAST_LOADED.obstacles(engines, work)
        return
    assert chosen.running < chosen.slots
    assert chosen.node_id not in work.excluded
    assert work.engine_class in (None, chosen.engine_class)
    assert chosen.engine_class != TRUSTED or work.engine_class == TRUSTED
    assert chosen.heap_bytes >= work.heap_bytes_min
    assert chosen.watermark is not Watermark.RED
    assert chosen.watermark is not Watermark.ORANGE or work.cost_bytes < HEAVY_BYTES
    assert not (chosen.is_embedded and work.placement is Placement.REQUIRE)
    assert chosen.is_embedded or work.placement is not Placement.LOCAL


@given(fleets, works, st.randoms(use_true_random=False))
def test_the_order_of_the_list_does_not_matter(engines: list[EngineLoad], work: Work, random: Random) -> None:
    shuffled = random.sample(engines, len(engines))
    assert choose(shuffled, work) == choose(engines, work)


def test_nobody_is_chosen_of_none() -> None:
    assert choose([]) is None


def test_the_one_with_less_to_read_is_chosen() -> None:
    loaded = idle(A, running=1, cost_running=900 * MIB)
    assert choose([loaded, idle(B, running=1, cost_running=800 * MIB)]) == B


def test_an_engine_with_more_slots_bears_more() -> None:
    small = idle(A, slots=2, running=1, cost_running=100 * MIB)
    large = idle(B, slots=8, running=1, cost_running=200 * MIB)
    assert choose([small, large]) == B


def test_a_crowd_of_unknown_size_is_a_load_too() -> None:
    assert choose([idle(A, slots=9, running=8), idle(B, slots=9, running=1)]) == B


def test_a_warm_session_comes_before_a_cold_one() -> None:
    assert choose([idle(A, idle_sessions=0), idle(B, running=1)]) == B
    assert choose([idle(A, idle_sessions=0)]) == A


def test_an_engine_that_failed_the_query_does_not_get_it_again() -> None:
    work = Work(excluded=frozenset({A}))
    assert choose([idle(A), idle(B, running=1)], work) == B
    assert choose([idle(A)], work) is None


def test_orange_takes_nothing_heavy_and_red_nothing() -> None:
    heavy = Work(cost_bytes=HEAVY_BYTES)
    assert choose([idle(A, watermark=Watermark.ORANGE)]) == A
    assert choose([idle(A, watermark=Watermark.ORANGE)], heavy) is None
    assert choose([idle(A, watermark=Watermark.YELLOW)], heavy) == A
    assert choose([idle(A, watermark=Watermark.RED)]) is None


def test_what_is_heavy_can_be_set() -> None:
    scheduler = LeastLoaded(heavy_bytes=10)
    orange = idle(A, watermark=Watermark.ORANGE)
    assert scheduler.choose([orange], Work(cost_bytes=10)) is None
    assert scheduler.choose([orange], Work(cost_bytes=9)) == A


def test_a_class_is_kept_to() -> None:
    fleet = [idle(A), idle(B, engine_class="etl", running=1)]
    assert choose(fleet, Work(engine_class="etl")) == B
    assert choose(fleet, Work(engine_class="gpu")) is None
    assert choose(fleet, ANYWHERE) == A


@pytest.mark.parametrize("engine_class", [None, GENERAL, "etl"])
def test_an_engine_that_runs_code_of_users_gets_nothing_else(engine_class: str | None) -> None:
    fleet = [idle(A, engine_class=TRUSTED)]
    work = Work(engine_class=engine_class)
    assert LEAST_LOADED.obstacles(fleet, work) == [Obstacle.OTHER_CLASS]
    assert LEAST_LOADED.obstacles(fleet, replace(work, only=A)) == [Obstacle.OTHER_CLASS]
    assert choose([*fleet, idle(B, engine_class="etl", running=1)], ANYWHERE) == B


def test_code_of_users_runs_on_engines_of_that_class_alone() -> None:
    work = Work(engine_class=TRUSTED)
    assert choose([OWN, idle(A), idle(B, engine_class=TRUSTED, running=1)], work) == B
    assert choose([OWN, idle(A), idle(B, engine_class=TRUSTED, running=2)], work) is None
    assert LEAST_LOADED.obstacles([OWN, idle(A)], work) == [Obstacle.OTHER_CLASS] * 2


def test_who_prefers_other_engines_does_not_wait_for_one_that_runs_code_of_users() -> None:
    busy = idle(A, engine_class=TRUSTED, running=2)
    assert choose([OWN, busy], Work(placement=Placement.PREFER)) == OWN.node_id


def test_a_query_that_ran_out_of_memory_gets_a_larger_heap_or_none() -> None:
    work = Work(heap_bytes_min=(1 << 30) + 1)
    assert choose([idle(A), idle(B, heap_bytes=1 << 34, running=1)], work) == B
    assert choose([idle(A)], work) is None


def test_who_prefers_other_engines_waits_for_one_that_is_only_busy() -> None:
    work = Work(placement=Placement.PREFER)
    busy = idle(A, running=2)
    assert choose([OWN, idle(A, running=1)], work) == A
    assert choose([OWN, busy], work) is None
    assert LEAST_LOADED.obstacles([OWN, busy], work) == [Obstacle.NOT_PREFERRED, Obstacle.BUSY]


def test_who_prefers_other_engines_gets_the_embedded_one_when_none_of_them_will_do() -> None:
    assert choose([OWN], Work(placement=Placement.PREFER)) == OWN.node_id
    excluded = Work(placement=Placement.PREFER, excluded=frozenset({A}))
    assert choose([OWN, idle(A)], excluded) == OWN.node_id


def test_require_and_local_never_meet() -> None:
    fleet = [OWN, idle(A)]
    assert choose(fleet, Work(placement=Placement.REQUIRE)) == A
    assert choose(fleet, Work(placement=Placement.LOCAL)) == OWN.node_id
    assert choose([OWN], Work(placement=Placement.REQUIRE)) is None


@given(st.text(max_size=8))
def test_the_same_affinity_goes_to_the_same_engine_whatever_else_comes_or_goes(affinity: str) -> None:
    work = Work(affinity=affinity)
    fleet = [idle(A), idle(B), idle(C)]
    chosen = choose(fleet, work)
    assert (
        choose([replace(one, cost_running=0 if one.node_id == A else 1 << 32) for one in fleet], work)
        == chosen
    )
    for leaver in fleet:
        if leaver.node_id != chosen:
            assert choose([one for one in fleet if one is not leaver], work) == chosen


def test_affinity_does_not_make_anyone_wait_while_another_is_free() -> None:
    work = Work(affinity="orders")
    favourite = choose([idle(A), idle(B)], work)
    other = B if favourite == A else A
    assert favourite is not None
    assert choose([idle(favourite, running=2), idle(other)], work) == other
    assert choose([idle(favourite, idle_sessions=0), idle(other)], work) == other


def test_affinities_spread_over_the_fleet() -> None:
    fleet = [idle(A), idle(B), idle(C)]
    chosen = [choose(fleet, Work(affinity=f"table-{n}")) for n in range(300)]
    assert all(chosen.count(node) > 60 for node in (A, B, C))


def test_the_heaviest_are_placed_first_and_equals_as_they_came() -> None:
    waiting = [("first", 1), ("big", 9), ("second", 1), ("bigger", 10)]
    ordered = heaviest_first(waiting, lambda one: one[1])
    assert [name for name, _ in ordered] == ["bigger", "big", "first", "second"]


@pytest.mark.parametrize("obstacle", Obstacle)
def test_only_what_waiting_may_remove_is_passing(obstacle: Obstacle) -> None:
    passing = {Obstacle.BUSY, Obstacle.MEMORY_ORANGE, Obstacle.MEMORY_RED}
    assert obstacle.is_passing == (obstacle in passing)

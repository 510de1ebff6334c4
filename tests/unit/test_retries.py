"""A query whose engine is lost: who tries it again, and when nobody does."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest
from fleet_house import FleetHouse, fleet_house
from query_house import ANN

from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import EngineLost
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.members import Traits
from bailiwick.fleet.placement import Placement
from bailiwick.fleet.schedule import Work
from bailiwick.ids import NodeId
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.query import State
from bailiwick.testing.engines import Answer, ScriptedEngine

Q = "SELECT n FROM t"
ROWS = pa.table({"n": [1, 2, 3]})
GOOD = Answer(tables=(ROWS,))
GONE = Answer(error=EngineLost("reset by peer"), is_at_once=True)
ONE_SLOT = Traits(slots=1)
CHANGE = Description(Kind.CHANGE, "AppendData", catalogs=frozenset({"lake"}))


@pytest.fixture
def broken() -> ScriptedEngine:
    """Comes first, for its name does."""
    return ScriptedEngine({Q: GONE}, name="a")


@pytest.fixture
def sound() -> ScriptedEngine:
    return ScriptedEngine({Q: GOOD}, name="b")


@pytest.fixture
async def home(tmp_path: Path, broken: ScriptedEngine, sound: ScriptedEngine) -> AsyncIterator[FleetHouse]:
    async with fleet_house(tmp_path, {broken: ONE_SLOT, sound: ONE_SLOT}) as home:
        yield home


async def test_a_read_whose_engine_is_lost_before_its_first_row_is_answered_by_another(
    home: FleetHouse, broken: ScriptedEngine, sound: ScriptedEngine
) -> None:
    assert (await home.ask(Q)).equals(ROWS)
    query = await home.recorded()
    assert (query.state, query.node_id) == (State.FINISHED, sound.node_id)
    (attempt,) = query.attempts
    assert (attempt.node_id, attempt.failure.code) == ("a", Code.EXECUTION_FAILED)
    assert attempt.elapsed_s >= 0
    assert [len(broken.executed), len(sound.executed)] == [1, 1]
    assert broken.troubles
    assert not sound.troubles


async def test_after_the_first_row_the_client_is_told_and_nothing_is_tried_again(
    home: FleetHouse, broken: ScriptedEngine, sound: ScriptedEngine
) -> None:
    broken.answers[Q] = Answer(tables=(ROWS,), error=EngineLost("reset by peer"))
    error = await home.refusal(Q)
    assert (error.code, error.retryable) == (Code.EXECUTION_FAILED, True)
    assert not sound.executed
    assert not (await home.recorded()).attempts


async def test_a_change_is_never_tried_again(
    home: FleetHouse, broken: ScriptedEngine, sound: ScriptedEngine
) -> None:
    broken.answers[Q] = Answer(error=EngineLost("reset by peer"), is_at_once=True, description=CHANGE)
    error = await home.refusal(Q)
    assert error.code is Code.EXECUTION_FAILED
    assert error.details["outcome"] == "unknown"
    assert not sound.executed


async def test_what_the_user_did_wrong_is_not_tried_again(
    home: FleetHouse, broken: ScriptedEngine, sound: ScriptedEngine
) -> None:
    broken.answers[Q] = Answer(error=BailiwickError(Code.SEMANTIC_ERROR, "no such column"), is_at_once=True)
    assert (await home.refusal(Q)).code is Code.SEMANTIC_ERROR
    assert not sound.executed
    assert not broken.troubles


async def test_when_every_engine_was_lost_the_error_names_each(
    home: FleetHouse, sound: ScriptedEngine
) -> None:
    sound.answers[Q] = GONE
    error = await home.refusal(Q)
    assert error.code is Code.EXECUTION_FAILED
    assert "a (EXECUTION_FAILED" in error.message
    query = await home.recorded()
    assert [attempt.node_id for attempt in query.attempts] == ["a"]
    assert query.node_id == "b"


async def test_retries_can_be_switched_off(
    tmp_path: Path, broken: ScriptedEngine, sound: ScriptedEngine
) -> None:
    engines = {broken: ONE_SLOT, sound: ONE_SLOT}
    async with fleet_house(tmp_path, engines, limits=LimitsConfig(retries=0)) as home:
        assert (await home.refusal(Q)).code is Code.EXECUTION_FAILED
    assert not sound.executed


async def test_no_more_engines_are_tried_than_retries_allow(tmp_path: Path) -> None:
    engines = {ScriptedEngine({Q: GONE}, name=name): ONE_SLOT for name in "abcd"}
    async with fleet_house(tmp_path, engines) as home:
        await home.refusal(Q)
        assert [attempt.node_id for attempt in (await home.recorded()).attempts] == ["a", "b"]


async def test_a_query_that_was_too_large_for_its_engine_gets_a_larger_one(tmp_path: Path) -> None:
    small = ScriptedEngine({Q: GONE}, name="a")
    small.loss = "out_of_memory"
    same, larger = ScriptedEngine({Q: GOOD}, name="b"), ScriptedEngine({Q: GOOD}, name="c")
    sizes = {small: 1 << 30, same: 1 << 30, larger: 4 << 30}
    engines = {engine: Traits(slots=1, heap_bytes=heap_bytes) for engine, heap_bytes in sizes.items()}
    async with fleet_house(tmp_path, engines) as home:
        assert (await home.ask(Q)).equals(ROWS)
        assert (await home.recorded()).node_id == "c"
    assert not same.executed


async def test_with_no_larger_engine_the_memory_error_stands(tmp_path: Path) -> None:
    small, same = ScriptedEngine({Q: GONE}, name="a"), ScriptedEngine({Q: GOOD}, name="b")
    small.loss = "out_of_memory"
    engines = {engine: Traits(slots=1, heap_bytes=1 << 30) for engine in (small, same)}
    async with fleet_house(tmp_path, engines) as home:
        error = await home.refusal(Q)
    assert (error.code, error.details["reason"]) == (Code.RESOURCE_EXHAUSTED, "memory")
    assert not same.executed


async def test_an_engine_that_falls_silent_before_the_first_row_is_left_for_another(tmp_path: Path) -> None:
    silent, sound = ScriptedEngine(name="a"), ScriptedEngine({Q: GOOD}, name="b")
    silent.answers[Q] = Answer(hold=asyncio.Event(), ignores_interrupts=True, is_silent=True)
    limits = LimitsConfig(stream_idle_s=0.05)
    async with fleet_house(tmp_path, {silent: ONE_SLOT, sound: ONE_SLOT}, limits=limits) as home:
        asking = asyncio.create_task(home.ask(Q))
        async with asyncio.timeout(10):
            while not silent.executed:  # noqa: ASYNC110  (nothing here tells us)
                await asyncio.sleep(0)
            silent.refuses_sessions = True
            assert (await asking).equals(ROWS)
        (attempt,) = (await home.recorded()).attempts
    assert "no sign of life" in attempt.failure.message


async def test_with_require_and_no_engine_but_the_own_one_the_configuration_is_to_blame(
    tmp_path: Path, sound: ScriptedEngine
) -> None:
    own = {sound: Traits(slots=1, is_embedded=True)}
    work = Work(placement=Placement.REQUIRE)
    async with fleet_house(tmp_path, own, work=work, settings={"reachable_wait_s": 0.01}) as home:
        error = await home.refusal(Q)
    assert error.code is Code.CIRCUIT_BREAKER_OPEN
    assert error.message.startswith("Configuration error")
    assert not sound.executed


async def test_with_prefer_the_own_engine_is_a_fallback_that_is_on_record(tmp_path: Path) -> None:
    own, other = ScriptedEngine({Q: GOOD}, name="embedded"), ScriptedEngine({Q: GONE}, name="z")
    engines = {own: Traits(slots=1, is_embedded=True), other: ONE_SLOT}
    async with fleet_house(tmp_path, engines, work=Work(placement=Placement.PREFER)) as home:
        assert (await home.ask(Q)).equals(ROWS)
        query = await home.recorded()
    assert (query.node_id, query.is_fallback) == ("embedded", True)
    assert [attempt.node_id for attempt in query.attempts] == ["z"]


async def test_an_engine_that_joins_is_used_and_one_that_leaves_is_not(
    home: FleetHouse, broken: ScriptedEngine
) -> None:
    home.pool.roster.remove(broken.node_id)
    await home.ask(Q)
    assert (await home.recorded()).attempts == ()
    newcomer = ScriptedEngine({Q: GOOD}, name="0")
    home.pool.roster.add(newcomer, ONE_SLOT)
    home.pool.roster.dismiss(NodeId("b"))
    assert (await home.ask(Q)).equals(ROWS)
    assert (await home.recorded()).node_id == "0"


async def test_who_waits_for_a_busy_engine_lets_others_have_the_idle_one(
    home: FleetHouse, broken: ScriptedEngine, sound: ScriptedEngine
) -> None:
    hold = asyncio.Event()
    broken.answers["long"] = Answer(hold=hold)
    only_a = Work(excluded=frozenset({NodeId("b")}))
    async with asyncio.timeout(10):
        async with home.pool.lease(ANN, None, only_a):
            waiting = asyncio.create_task(_leased(home, only_a))
            second = asyncio.create_task(_leased(home, only_a))
            await asyncio.sleep(0)
            assert await _leased(home, Work()) == "b"
            assert not waiting.done()
        assert [await waiting, await second] == ["a", "a"]


async def _leased(home: FleetHouse, work: Work) -> str:
    async with home.pool.lease(ANN, None, work) as lease:
        return lease.engine.node_id

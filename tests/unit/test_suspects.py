"""An engine runs out of memory with several queries on it: one is guilty, and the others are answered."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from fleet_house import FleetHouse, fleet_house

from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.members import Traits
from bailiwick.ids import NodeId
from bailiwick.queries.suspects import RECENT_S, Suspects
from bailiwick.testing.engines import Answer, ScriptedEngine

GUILTY = "SELECT everything"
INNOCENT = "SELECT n FROM t"
ROWS = pa.table({"n": [1, 2, 3]})
NODE = NodeId("a")
TRAITS = Traits(slots=2, heap_bytes=1 << 30)
OWN = Traits(slots=2, heap_bytes=1 << 30, is_embedded=True)


def held() -> Answer:
    return Answer(hold=asyncio.Event(), is_silent=True)


def busy(name: str) -> ScriptedEngine:
    """Nothing on it comes to an end."""
    return ScriptedEngine({GUILTY: held(), INNOCENT: held()}, name=name)


def hungry(name: str) -> ScriptedEngine:
    """Only the guilty one does not come to its end."""
    return ScriptedEngine({GUILTY: held(), INNOCENT: Answer(tables=(ROWS,))}, name=name)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  (nothing here tells us)
            await asyncio.sleep(0)


def asked(engine: ScriptedEngine) -> list[str]:
    return [executed.sql for executed in engine.executed]


class Pair:
    """The guilty and the innocent one, both at work on an engine."""

    def __init__(self, home: FleetHouse) -> None:
        self.guilty = asyncio.create_task(home.refusal(GUILTY))
        self.innocent = asyncio.create_task(home.ask(INNOCENT))

    async def outcomes(self) -> tuple[BailiwickError, pa.Table]:
        async with asyncio.timeout(10):
            return await self.guilty, await self.innocent


async def test_another_engine_answers_the_innocent_and_finds_the_guilty(tmp_path: Path) -> None:
    first, second = busy("a"), hungry("b")
    async with fleet_house(tmp_path, {first: TRAITS}) as home:
        pair = Pair(home)
        await until(lambda: len(first.executed) == 2)
        home.pool.roster.add(second, TRAITS)
        await until(lambda: home.pool.idle_count == 2)
        first.die("out_of_memory")
        await until(lambda: GUILTY in asked(second))
        second.die("out_of_memory")
        second.revive()
        error, answer = await pair.outcomes()
    assert (error.code, error.details["reason"], error.retryable) == (
        Code.RESOURCE_EXHAUSTED,
        "memory",
        False,
    )
    assert answer.equals(ROWS)
    assert asked(second).count(GUILTY) == 1


async def test_the_gateway_s_own_engine_does_so_when_it_is_back(tmp_path: Path) -> None:
    own = busy("embedded")
    async with fleet_house(tmp_path, {own: OWN}) as home:
        pair = Pair(home)
        await until(lambda: len(own.executed) == 2)
        own.die("out_of_memory")
        own.answers[INNOCENT] = Answer(tables=(ROWS,))
        own.revive()
        await until(lambda: asked(own).count(GUILTY) == 2)
        own.die("out_of_memory")
        own.revive()
        error, answer = await pair.outcomes()
    assert (error.code, error.details["attempts"]) == (Code.RESOURCE_EXHAUSTED, "2")
    assert answer.equals(ROWS)
    assert asked(own).count(GUILTY) == 2


async def test_suspects_have_their_chance_one_after_the_other(tmp_path: Path) -> None:
    own = busy("embedded")
    async with fleet_house(tmp_path, {own: OWN}) as home:
        pair = Pair(home)
        await until(lambda: len(own.executed) == 2)
        own.die("out_of_memory")
        own.revive()
        await until(lambda: len(own.executed) == 3)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(own.executed) == 3
        for task in (pair.guilty, pair.innocent):
            task.cancel()
        await asyncio.gather(pair.guilty, pair.innocent, return_exceptions=True)


async def test_one_that_was_alone_has_no_second_chance_on_an_engine_of_that_size(tmp_path: Path) -> None:
    own = busy("embedded")
    async with fleet_house(tmp_path, {own: OWN}) as home:
        guilty = asyncio.create_task(home.refusal(GUILTY))
        await until(lambda: len(own.executed) == 1)
        own.die("out_of_memory")
        own.revive()
        async with asyncio.timeout(10):
            assert not (await guilty).retryable
    assert asked(own) == [GUILTY]


def test_company_counts_while_it_is_there_and_for_a_moment_after() -> None:
    now = 0.0
    suspects = Suspects(lambda: now)
    with suspects.staying(NODE) as stay:
        assert not suspects.has_company(NODE, stay)
        with suspects.staying(NodeId("b")):
            assert not suspects.has_company(NODE, stay)
        with suspects.staying(NODE) as other:
            assert suspects.has_company(NODE, stay)
            assert suspects.has_company(NODE, other)
        assert suspects.has_company(NODE, stay)
        now += RECENT_S
        assert not suspects.has_company(NODE, stay)

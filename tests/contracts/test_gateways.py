"""Gateways that come and go on one database, and what becomes of the queries of those that are gone."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bailiwick.database.database import Database
from bailiwick.engines.description import Kind
from bailiwick.ids import QueryId
from bailiwick.queries.owners import LOST, LOST_CHANGE, GatewayLeases, GivenUpOnError, home_of
from bailiwick.queries.query import Query, State
from bailiwick.queries.sql import SqlQueryStore

POLL_S = 0.01


@dataclass
class House:
    """Gateways on one database, each with a clock that the test moves."""

    database: Database
    time: list[float] = field(default_factory=lambda: [0.0])

    def gateway(self, home: str) -> GatewayLeases:
        return GatewayLeases(
            self.database,
            home=home,
            address=f"{home}.example:8080",
            beat_every_s=0.01,
            dead_after_s=20.0,
            clock=lambda: self.time[0],
            now=lambda: 1e9 + self.time[0],
        )

    async def joined(self, *homes: str) -> list[GatewayLeases]:
        """Gateways that are there and have beaten once."""
        gateways = [self.gateway(home) for home in homes]
        for gateway in gateways:
            await gateway.join()
            await gateway.beat()
        return gateways

    async def pass_time(self, seconds: float, *living: GatewayLeases) -> list[str]:
        """Who was found dead by whom of those who live on."""
        found: list[str] = []
        for _ in range(int(seconds / 5)):
            self.time[0] += 5.0
            for gateway in living:
                found += [dead.home for dead in await gateway.beat()]
        return found

    async def run(self, gateway: GatewayLeases, name: str, kind: Kind = Kind.READ) -> SqlQueryStore:
        store = SqlQueryStore(self.database, lambda: gateway.id)
        running = Query(QueryId(name), "ann", "acme", "x", "SELECT 1", 1.0, State.RUNNING, kind)
        await store.save([running])
        return store

    async def found(self, name: str) -> Query:
        query = await SqlQueryStore(self.database).find(QueryId(name))
        assert query is not None
        return query


@pytest.fixture
def house(database: Database) -> House:
    return House(database)


async def test_the_queries_of_a_gateway_that_died_are_failed_by_one_that_lives(house: House) -> None:
    a, b, c = await house.joined("a", "b", "c")
    await house.run(a, "read of a")
    await house.run(a, "change of a", Kind.CHANGE)
    await house.run(b, "read of b")
    assert await house.pass_time(100.0, a, b, c) == []
    assert await house.pass_time(25.0, b, c) == ["a"]
    assert [(await house.found(name)).failure for name in ("read of a", "change of a", "read of b")] == [
        LOST,
        LOST_CHANGE,
        None,
    ]
    assert {gateway.home for gateway in await b.living()} == {"b", "c"}


async def test_a_query_that_had_ended_stays_as_it_was(house: House) -> None:
    a, b = await house.joined("a", "b")
    store = await house.run(a, "q")
    await store.save([Query(QueryId("q"), "ann", "acme", "x", "SELECT 1", 1.0, State.FINISHED)])
    assert await house.pass_time(30.0, b) == ["a"]
    assert (await house.found("q")).state is State.FINISHED


async def test_one_that_starts_again_in_its_directory_fails_its_own_at_once(
    house: House,
) -> None:
    a, b = await house.joined("a", "b")
    await house.run(a, "mine")
    await house.run(b, "theirs")
    again = house.gateway("a")
    assert await again.join() == 1
    mine, theirs = await house.found("mine"), await house.found("theirs")
    assert (mine.state, theirs.state) == (State.FAILED, State.RUNNING)
    assert mine.failure is not None
    assert "restarted" in mine.failure.message
    assert again.id != a.id


async def test_one_that_leaves_is_not_missed(house: House) -> None:
    a, b = await house.joined("a", "b")
    await a.leave()
    await a.leave()
    assert a.id is None
    assert await house.pass_time(100.0, b) == []
    assert [gateway.home for gateway in await b.living()] == ["b"]


async def test_one_that_was_only_slow_learns_it_and_joins_anew(house: House) -> None:
    a, b = await house.joined("a", "b")
    first_id = a.id
    assert await house.pass_time(30.0, b) == ["a"]
    with pytest.raises(GivenUpOnError):
        await a.beat()
    ended: list[object] = []

    async def end_all_work() -> None:
        ended.append(a.id)

    running = asyncio.create_task(a.run(end_all_work))
    async with asyncio.timeout(20):
        while len(await b.living()) < 2:  # noqa: ASYNC110 - what it waits for is in the database
            await asyncio.sleep(POLL_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert ended == [first_id]
    assert a.id not in (None, first_id)


async def test_after_the_database_was_away_nobody_is_taken_for_dead(house: House) -> None:
    a, b = await house.joined("a", "b")
    assert await house.pass_time(20.0, a, b) == []
    # Nobody could beat for an hour; b is the first who can again.
    house.time[0] += 3600.0
    assert await house.pass_time(10.0, b) == []
    assert await house.pass_time(10.0, a, b) == []


async def test_of_several_who_see_a_death_one_takes_over(house: House) -> None:
    gateways = await house.joined("a", "b", "c", "d")
    await house.run(gateways[0], "q")
    found = await house.pass_time(15.0, *gateways[1:])
    house.time[0] += 10.0
    for dead in await asyncio.gather(*(gateway.beat() for gateway in gateways[1:])):
        found += [each.home for each in dead]
    assert found == ["a"]


async def test_where_a_gateway_is_can_be_asked_until_it_is_gone(house: House) -> None:
    a, b = await house.joined("a", "b")
    assert a.id is not None
    found = await b.find(a.id)
    assert found is not None
    assert (found.address, found.started_at) == ("a.example:8080", 1e9)
    await a.leave()
    assert await b.find(found.id) is None


def test_a_data_directory_is_one_home_and_another_is_another(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert home_of(one) == home_of(one) != home_of(other)

"""Two gateways on one PostgreSQL: what comes under one key runs on one of them, and both know its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from query_house import ANN, ONE, House, Script, batch, eventually, house

from bailiwick.database.database import Database
from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Completed
from bailiwick.errors import BailiwickError
from bailiwick.ids import GatewayId, QueryId
from bailiwick.queries.sql import SqlQueryStore
from bailiwick.queries.statement import Statement, SubmissionKey
from bailiwick.queries.submissions_sql import SqlSubmissionStore

KEY = SubmissionKey("order-17")
CHANGE = Description(Kind.CHANGE, "AppendData")


@asynccontextmanager
async def gateways(shared: tuple[Database, Database], tmp_path: Path) -> AsyncIterator[tuple[House, House]]:
    one, other = (
        house(
            tmp_path / name,
            store=SqlQueryStore(database, lambda name=name: GatewayId(name)),  # type: ignore[arg-type, misc]
            submissions=SqlSubmissionStore(database),
        )
        for name, database in zip(("one", "other"), shared, strict=True)
    )
    async with one as first, other as second:
        yield first, second


async def send(home: House, sql: str = "INSERT", timeout_s: float | None = None) -> tuple[QueryId, int]:
    statement = Statement(sql, ANN, "flight_sql", submission=KEY, timeout_s=timeout_s)
    async with home.service.run(statement) as result:
        async for _ in result.frames():
            pass
        return result.query_id, result.affected_rows


def runs(*homes: House) -> int:
    return sum(len(home.engine.executed) for home in homes)


async def test_a_change_that_both_are_sent_at_once_runs_on_one(
    shared: tuple[Database, Database], tmp_path: Path
) -> None:
    async with gateways(shared, tmp_path) as homes:
        rest = asyncio.Event()
        for home in homes:
            home.engine.scripts["INSERT"] = Script([rest, Completed()], description=CHANGE)
        asked = [asyncio.create_task(send(home)) for home in homes * 3]
        await eventually(lambda: runs(*homes) == 1)
        rest.set()
        assert len(set(await asyncio.gather(*asked))) == 1
        assert runs(*homes) == 1


async def test_a_read_of_one_is_not_run_beside_it_on_the_other(
    shared: tuple[Database, Database], tmp_path: Path
) -> None:
    async with gateways(shared, tmp_path) as (one, other):
        rest = asyncio.Event()
        one.engine.scripts["slow"] = Script([batch(ONE), rest, Completed()])
        async with one.service.run(Statement("slow", ANN, "flight_sql", submission=KEY)) as result:
            with pytest.raises(BailiwickError) as caught:
                await send(other, "slow")
            assert caught.value.query_id == result.query_id
            assert caught.value.details["reason"] == "in_progress"
            rest.set()
        assert runs(other) == 0


async def test_a_change_that_was_cut_off_on_one_is_unknown_to_the_other_and_does_not_run_there(
    shared: tuple[Database, Database], tmp_path: Path
) -> None:
    async with gateways(shared, tmp_path) as (one, other):
        one.engine.scripts["INSERT"] = Script([asyncio.Event()], description=CHANGE)
        running = asyncio.create_task(send(one))
        await eventually(lambda: runs(one) == 1)
        with pytest.raises(BailiwickError) as caught:
            await send(other, timeout_s=0.1)
        assert caught.value.details["state"] == "running"
        await one.service.cancel((await one.recorded()).id, ANN)
        with pytest.raises(BailiwickError):
            await running
        with pytest.raises(BailiwickError) as caught:
            await send(other)
        assert caught.value.details["outcome"] == "unknown"
        assert runs(other) == 0

"""A database that fails at each step of a submission: nothing runs twice, and nobody is told what is not."""

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest
from query_house import ADMIN, ANN, House, Script, eventually, house

from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Completed
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.statements import Command
from bailiwick.queries.query import State
from bailiwick.queries.statement import UNKNOWN_ROWS, Statement, SubmissionKey
from bailiwick.queries.submissions import SETTLE_S, Outcome, Submission
from bailiwick.queries.submissions_memory import MemorySubmissionStore

KEY = SubmissionKey("order-17")


class FailingStore(MemorySubmissionStore):
    """Fails at the steps that are named."""

    def __init__(self, *steps: str) -> None:
        super().__init__()
        self.failing = set(steps)

    def _check(self, step: str) -> None:
        if step in self.failing:
            raise ConnectionError("the database is away")

    async def claim(self, wanted: Submission, *, keys_max: int) -> Submission | None:
        self._check("claim")
        return await super().claim(wanted, keys_max=keys_max)

    async def begin(self, held: Submission, *, at: float) -> bool:
        self._check("begin")
        return await super().begin(held, at=at)

    async def end(self, held: Submission, outcome: Outcome) -> None:
        self._check("end")
        await super().end(held, outcome)


async def affected(home: House, sql: str = "INSERT", who: Principal = ANN, **options: object) -> int:
    statement = Statement(sql, who, "flight_sql", submission=KEY, **options)  # type: ignore[arg-type]
    async with home.service.run(statement) as result:
        async for _ in result.frames():
            pass
        return result.affected_rows


def prepare(home: House) -> None:
    home.engine.scripts["INSERT"] = Script([Completed()], description=Description(Kind.CHANGE, "AppendData"))


@pytest.mark.parametrize("step", ["claim", "begin"])
async def test_a_change_whose_key_cannot_be_put_down_does_not_run(tmp_path: Path, step: str) -> None:
    store = FailingStore(step)
    async with house(tmp_path, submissions=store) as home:
        prepare(home)
        with pytest.raises((ConnectionError, BailiwickError)):
            await affected(home)
        assert home.engine.executed == []
        store.failing.clear()
        assert await affected(home) == 7


async def test_a_change_whose_outcome_cannot_be_put_down_has_happened_all_the_same(tmp_path: Path) -> None:
    now = [1_000.0]
    async with house(tmp_path, submissions=FailingStore("end"), wall=lambda: now[0]) as home:
        prepare(home)
        assert await affected(home) == 7
        now[0] += SETTLE_S
        assert await affected(home) == UNKNOWN_ROWS
        assert len(home.engine.executed) == 1


async def test_a_change_of_the_gateway_itself_that_was_cut_off_is_unknown(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        performing = asyncio.Event()

        async def perform(command: Command, principal: Principal) -> pa.Table:
            del command, principal
            performing.set()
            await asyncio.Event().wait()
            return pa.table({})

        home.administration.perform = perform  # type: ignore[method-assign]
        for _ in range(2):
            with pytest.raises(BailiwickError) as caught:
                await affected(home, "DROP USER bob", ADMIN, timeout_s=0.1)
            assert (caught.value.code, caught.value.retryable) == (Code.QUERY_TIMEOUT, False)
            assert caught.value.details["outcome"] == "unknown"
        assert performing.is_set()


async def test_a_gateway_that_stops_says_that_the_outcome_is_unknown(tmp_path: Path) -> None:
    store = MemorySubmissionStore()
    async with house(tmp_path, submissions=store) as home:
        home.engine.scripts["INSERT"] = Script(
            [asyncio.Event()], description=Description(Kind.CHANGE, "AppendData")
        )
        asked = asyncio.create_task(affected(home))
        await eventually(lambda: len(home.engine.executed) == 1)
        asked.cancel()
        await asyncio.wait([asked])
        assert (await home.recorded()).state is State.RUNNING
    async with house(tmp_path, submissions=store) as home:
        prepare(home)
        with pytest.raises(BailiwickError) as caught:
            await affected(home)
        assert caught.value.details["outcome"] == "unknown"
        assert home.engine.executed == []

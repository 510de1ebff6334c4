"""Reads that begin before they are fetched."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bailiwick.doors.flight_sql.beginnings import BeginningLimits, Beginnings
from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId, new_query_id
from bailiwick.queries.statement import UNKNOWN_ROWS, Result, Statement, SubmissionKey
from bailiwick.results.batches import NO_COLUMNS, Frame

ANN = Statement("SELECT 1", Principal("ann"), "flight_sql")
BEN = Statement("SELECT 1", Principal("ben"), "flight_sql")


class Answer(Result):
    kind = Kind.READ
    schema = NO_COLUMNS

    def __init__(self, query_id: QueryId) -> None:
        self.query_id = query_id

    @property
    def affected_rows(self) -> int:
        return UNKNOWN_ROWS

    async def frames(self) -> AsyncIterator[Frame]:
        return
        yield


class House:
    """A query service that notes what it is asked for."""

    def __init__(self) -> None:
        self.is_idle = True
        self.error: Exception | None = None
        self.is_slow = False
        self.begun: list[QueryId | None] = []
        self.left: list[QueryId | None] = []

    def is_trifle(self, statement: Statement) -> bool:
        del statement
        return self.is_idle

    @asynccontextmanager
    async def run(
        self, statement: Statement, *, query_id: QueryId | None = None, expected_schema: bytes | None = None
    ) -> AsyncIterator[Result]:
        del statement, expected_schema
        assert query_id is not None
        self.begun.append(query_id)
        try:
            if self.is_slow:
                await asyncio.Event().wait()
            if self.error is not None:
                raise self.error
            yield Answer(query_id)
        finally:
            self.left.append(query_id)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5.0):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_what_was_begun_is_what_is_fetched() -> None:
    house, query_id = House(), new_query_id()
    beginnings = Beginnings(house)
    beginnings.begin(query_id, ANN, None)
    await _until(lambda: house.begun == [query_id])
    async with beginnings.take(query_id, ANN) as result:
        assert result is not None
        assert result.query_id == query_id
        assert not house.left
    await _until(lambda: house.left == [query_id])
    assert house.begun == [query_id]


async def test_a_read_that_nobody_fetches_is_ended_and_starts_anew_when_asked_for() -> None:
    house, query_id = House(), new_query_id()
    beginnings = Beginnings(house, BeginningLimits(fetched_within_s=0.01))
    beginnings.begin(query_id, ANN, None)
    await _until(lambda: house.left == [query_id])
    async with beginnings.take(query_id, ANN) as result:
        assert result is None


async def test_somebody_elses_statement_is_not_handed_out() -> None:
    house, query_id = House(), new_query_id()
    beginnings = Beginnings(house)
    beginnings.begin(query_id, ANN, None, is_promised=False)
    assert beginnings.find(BEN) is None
    async with beginnings.take(query_id, BEN) as result:
        assert result is None
    await _until(lambda: house.left == house.begun)


async def test_what_was_begun_for_nobody_is_promised_once() -> None:
    house, query_id = House(), new_query_id()
    beginnings = Beginnings(house)
    beginnings.begin(query_id, ANN, None, is_promised=False)
    assert beginnings.find(ANN) == query_id
    assert beginnings.find(ANN) is None
    await beginnings.close()


async def test_nothing_begins_early_when_the_engine_is_busy_or_the_statement_has_a_key() -> None:
    house = House()
    beginnings = Beginnings(house)
    keyed = Statement("SELECT 1", Principal("ann"), "flight_sql", submission=SubmissionKey("k"))
    beginnings.begin(new_query_id(), keyed, None)
    house.is_idle = False
    beginnings.begin(new_query_id(), ANN, None)
    assert len(beginnings) == 0


async def test_one_principal_begins_only_a_few() -> None:
    house = House()
    beginnings = Beginnings(house, BeginningLimits(per_principal_max=2, total_max=3))
    for statement in (ANN, ANN, ANN, BEN, BEN):
        beginnings.begin(new_query_id(), statement, None)
    assert len(beginnings) == 3
    await beginnings.close()
    assert house.left == house.begun


async def test_what_went_wrong_is_told_to_whoever_fetches() -> None:
    house, query_id = House(), new_query_id()
    house.error = BailiwickError(Code.ACCESS_DENIED, "no")
    beginnings = Beginnings(house)
    beginnings.begin(query_id, ANN, None)
    with pytest.raises(BailiwickError) as told:
        async with beginnings.take(query_id, ANN):
            raise AssertionError("nothing to read")
    assert told.value.code is Code.ACCESS_DENIED


async def test_a_read_that_breaks_tells_nothing_of_how() -> None:
    house, query_id = House(), new_query_id()
    house.error = RuntimeError("a secret")
    beginnings = Beginnings(house)
    beginnings.begin(query_id, ANN, None)
    with pytest.raises(BailiwickError) as told:
        async with beginnings.take(query_id, ANN):
            raise AssertionError("nothing to read")
    assert told.value.code is Code.INTERNAL_ERROR
    assert "secret" not in told.value.message


async def test_closing_ends_what_has_not_answered_yet() -> None:
    house, query_id = House(), new_query_id()
    house.is_slow = True
    beginnings = Beginnings(house)
    beginnings.begin(query_id, ANN, None)
    await _until(lambda: house.begun == [query_id])
    await beginnings.close()
    assert house.left == [query_id]


async def test_a_reader_who_leaves_while_waiting_ends_the_read() -> None:
    house, query_id = House(), new_query_id()
    house.is_slow = True
    beginnings = Beginnings(house)
    beginnings.begin(query_id, ANN, None)

    async def fetch() -> None:
        async with beginnings.take(query_id, ANN):
            raise AssertionError("nothing to read")

    reader = asyncio.create_task(fetch())
    await _until(lambda: house.begun == [query_id])
    reader.cancel()
    await _until(lambda: house.left == [query_id])

"""All rows of an ingest become visible in one write, or none does; and it lives as a query does."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest
from ingest_house import FEW, MANY, TARGET, IngestHouse, client, ingest_house
from query_house import ADMIN, NOBODY, RITA, eventually

from bailiwick.engines.description import Kind
from bailiwick.engines.engine import EngineLost
from bailiwick.engines.write import ArrowRows, TableRows, WriteMode
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId
from bailiwick.queries.ingest import IfExists, IfMissing, mode_for
from bailiwick.queries.query import State
from bailiwick.testing.ingesting import unpacked


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[IngestHouse]:
    async with ingest_house(tmp_path) as home:
        yield home


async def refusal(putting: "asyncio.Future[int] | asyncio.Task[int]") -> BailiwickError:
    with pytest.raises(BailiwickError) as refused:
        await putting
    return refused.value


async def test_rows_that_fit_into_one_chunk_are_written_at_once(home: IngestHouse) -> None:
    assert await home.put(client(FEW)) == 5
    (write,) = home.engine.writes
    assert (write.table, write.mode) == (TARGET, WriteMode.CREATE)
    assert isinstance(write.rows, ArrowRows)
    assert unpacked(write.rows).equals(FEW)


async def test_more_rows_become_visible_by_one_write_after_all_are_there(home: IngestHouse) -> None:
    assert await home.put(client(MANY)) == 2_400_000
    assert home.engine.rows_staged == 2_400_000
    assert [write.mode for write in home.engine.writes] == [
        WriteMode.CREATE,
        WriteMode.APPEND,
        WriteMode.APPEND,
        WriteMode.CREATE,
    ]
    assert home.engine.visible == home.engine.writes[-1:]
    assert isinstance(home.engine.writes[-1].rows, TableRows)


async def test_an_ingest_is_recorded_as_a_query_with_its_rows(home: IngestHouse) -> None:
    await home.put(client(MANY))
    query = await home.recorded()
    assert (query.sql, query.state, query.kind, query.rows) == (
        "INGEST INTO lake.s.t",
        State.FINISHED,
        Kind.CHANGE,
        2_400_000,
    )


async def test_the_client_is_never_more_than_a_few_chunks_ahead_of_spark(home: IngestHouse) -> None:
    gate = home.engine.outcomes[0] = asyncio.Event()
    many = pa.concat_tables([MANY] * 5)
    sender = client(many)
    async with asyncio.TaskGroup() as tasks:
        putting = tasks.create_task(home.put(sender))
        await eventually(lambda: len(home.engine.writes) == 1)
        for _ in range(200):
            await asyncio.sleep(0)
        await eventually(lambda: sender.sent >= 15)
        # Of sixty: one chunk is written, one waited for, one made, and each is five messages.
        assert sender.sent <= 21
        gate.set()
    assert putting.result() == many.num_rows


async def test_a_bad_batch_in_the_middle_leaves_nothing_visible(home: IngestHouse) -> None:
    error = await refusal(asyncio.ensure_future(home.put(client(MANY, breaks_after=12))))
    assert (error.code, error.details.get("outcome")) == (Code.INVALID_ARGUMENTS, None)
    assert home.engine.visible == []
    assert (await home.recorded()).state is State.FAILED


async def test_a_client_that_leaves_in_the_middle_leaves_nothing_visible(home: IngestHouse) -> None:
    home.engine.outcomes[1] = asyncio.Event()
    putting = asyncio.create_task(home.put(client(MANY)))
    await eventually(lambda: len(home.engine.writes) == 2)
    putting.cancel()
    await asyncio.wait([putting])
    await eventually(lambda: home.engine.interrupted > 0 or not home.engine.visible)
    query = await home.recorded()
    assert (query.state, home.engine.visible) == (State.CANCELLED, [])


async def test_an_engine_that_is_lost_while_rows_are_staged_leaves_nothing_and_may_be_asked_again(
    home: IngestHouse,
) -> None:
    home.engine.outcomes[1] = EngineLost("gone")
    error = await refusal(asyncio.ensure_future(home.put(client(MANY))))
    assert (error.code, error.retryable, error.details.get("outcome")) == (Code.EXECUTION_FAILED, True, None)
    assert home.engine.visible == []


async def test_an_engine_that_is_lost_in_the_last_write_leaves_it_open_what_happened(
    home: IngestHouse,
) -> None:
    home.engine.outcomes[3] = EngineLost("gone")
    error = await refusal(asyncio.ensure_future(home.put(client(MANY))))
    assert (error.retryable, error.details["outcome"]) == (False, "unknown")


async def test_a_conflict_in_the_last_write_is_told_as_spark_tells_it(home: IngestHouse) -> None:
    home.engine.outcomes[3] = BailiwickError(Code.COMMIT_CONFLICT, "somebody was first")
    error = await refusal(asyncio.ensure_future(home.put(client(MANY))))
    assert (error.code, error.retryable, error.details) == (Code.COMMIT_CONFLICT, True, {})


async def test_an_administrator_can_cancel_an_ingest(home: IngestHouse) -> None:
    home.engine.outcomes[0] = asyncio.Event()
    putting = asyncio.create_task(home.put(client(MANY), query_id=QueryId("q1")))
    await eventually(lambda: len(home.engine.writes) == 1)
    await home.queries.cancel(QueryId("q1"), ADMIN)
    error = await refusal(putting)
    assert (error.code, error.details.get("outcome")) == (Code.QUERY_CANCELLED, None)
    assert home.engine.visible == []


async def test_a_client_that_stalls_is_ended(tmp_path: Path) -> None:
    async with ingest_house(tmp_path, client_idle_s=0.05) as home:
        error = await refusal(asyncio.ensure_future(home.put(client(MANY, stalls_after=12))))
        assert (error.code, error.details["reason"]) == (Code.QUERY_CANCELLED, "client_idle")
        assert home.engine.visible == []


async def test_no_rows_make_an_empty_table(home: IngestHouse) -> None:
    assert await home.put(client(FEW.slice(0, 0))) == 0
    (write,) = home.engine.writes
    assert isinstance(write.rows, ArrowRows)
    assert unpacked(write.rows).equals(FEW.slice(0, 0))


async def test_no_rows_appended_to_a_table_change_nothing(home: IngestHouse) -> None:
    home.has_table(FEW.schema)
    assert await home.put(client(FEW.slice(0, 0))) == 0
    assert home.engine.writes == []
    assert (await home.recorded()).state is State.FINISHED


async def test_rows_that_do_not_fit_are_refused_before_anything_is_written(home: IngestHouse) -> None:
    home.has_table(pa.schema([("id", pa.string())]))
    error = await refusal(asyncio.ensure_future(home.put(client(MANY))))
    assert error.code is Code.INVALID_ARGUMENTS
    assert "id is int8" in error.message
    assert home.engine.writes == []


@pytest.mark.parametrize("who", [RITA, NOBODY])
async def test_who_may_not_write_is_refused_before_their_rows_are_read(
    home: IngestHouse, who: Principal
) -> None:
    sender = client(FEW)
    error = await refusal(asyncio.ensure_future(home.put(sender, who=who)))
    assert (error.code, sender.sent) == (Code.ACCESS_DENIED, 0)


async def test_a_schema_that_is_not_there_is_told_before_the_rows_are_read(home: IngestHouse) -> None:
    sender = client(MANY)
    home.engine.scripts["SELECT * FROM lake.nowhere.t"] = home.engine.scripts["SELECT * FROM lake.s.t"]
    error = await refusal(asyncio.ensure_future(home.put(sender, namespace=("nowhere",))))
    assert (error.code, sender.sent) == (Code.SCHEMA_NOT_FOUND, 1)


@pytest.mark.parametrize(
    ("catalog", "namespace", "code"),
    [
        ("system", ("s",), Code.CATALOG_NOT_FOUND),
        ("lake", ("bailiwick_ingest",), Code.SCHEMA_NOT_FOUND),
        ("lake", ("a\x00b",), Code.INVALID_ARGUMENTS),
    ],
)
async def test_other_places_are_refused(
    home: IngestHouse, catalog: str, namespace: tuple[str, ...], code: Code
) -> None:
    error = await refusal(asyncio.ensure_future(home.put(client(FEW), catalog=catalog, namespace=namespace)))
    assert error.code is code


@pytest.mark.parametrize(
    ("if_missing", "if_exists", "is_there", "mode"),
    [
        ("create", "fail", False, WriteMode.CREATE),
        ("create", "append", False, WriteMode.CREATE),
        ("create", "append", True, WriteMode.APPEND),
        ("create", "replace", False, WriteMode.CREATE_OR_REPLACE),
        ("create", "replace", True, WriteMode.CREATE_OR_REPLACE),
        ("fail", "append", True, WriteMode.APPEND),
        ("fail", "replace", True, WriteMode.REPLACE),
        ("create", "fail", True, Code.DUPLICATE_TABLE),
        ("fail", "append", False, Code.TABLE_NOT_FOUND),
        ("fail", "replace", False, Code.TABLE_NOT_FOUND),
    ],
)
def test_what_to_do_follows_from_what_was_asked_for_and_what_is_there(
    if_missing: str, if_exists: str, is_there: bool, mode: WriteMode | Code
) -> None:
    try:
        found: WriteMode | Code = mode_for(
            IfMissing(if_missing), IfExists(if_exists), TARGET, is_there=is_there
        )
    except BailiwickError as error:
        found = error.code
    assert found == mode

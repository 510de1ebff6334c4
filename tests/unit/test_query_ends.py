"""How queries end before their time, and what is left of them then."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from query_house import ADMIN, ANN, MB, ONE, RITA, House, Script, batch, eventually, house

from bailiwick.database.errors import unavailable
from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Batch, Completed, EngineLost
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import new_query_id
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.query import Query, State
from bailiwick.queries.statement import Statement
from bailiwick.results.batches import schema_message
from bailiwick.results.config import ResultsConfig


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as home:
        yield home


async def test_leaving_early_stops_spark_and_records_a_cancelled_query(home: House) -> None:
    home.engine.scripts["endless"] = Script([batch(ONE), asyncio.Event()])
    async with home.service.run(Statement("endless", ANN, "flight_sql")) as result:
        await anext(result.frames())
    await eventually(lambda: home.pool.leased == 0)
    assert home.engine.interrupted == 1
    assert (await home.recorded()).state is State.CANCELLED


async def test_a_client_that_is_gone_before_the_first_row_stops_spark(home: House) -> None:
    home.engine.scripts["endless"] = Script([asyncio.Event()])
    asking = asyncio.ensure_future(home.ask("endless"))
    await eventually(lambda: bool(home.engine.executed))
    asking.cancel()
    await asyncio.wait([asking])
    await eventually(lambda: home.pool.leased == 0)
    assert home.engine.interrupted == 1
    assert (await home.recorded()).state is State.CANCELLED


async def test_a_query_is_cancelled_by_its_owner_the_tenants_operator_or_an_admin(home: House) -> None:
    home.engine.scripts["endless"] = Script([batch(ONE), asyncio.Event()])
    operator = Principal("olga", frozenset({"operator"}))
    elsewhere = Principal("otto", frozenset({"operator"}), "acme")
    auditor = Principal("aude", frozenset({"auditor"}))
    allowed = {RITA: False, elsewhere: False, auditor: False, ANN: True, operator: True, ADMIN: True}
    for who, may in allowed.items():
        async with home.service.run(Statement("endless", ANN, "flight_sql")) as result:
            frames = result.frames()
            await anext(frames)
            if not may:
                with pytest.raises(BailiwickError, match="no query"):
                    await home.service.cancel(result.query_id, who)
                continue
            await home.service.cancel(result.query_id, who)
            await home.service.cancel(result.query_id, who)
            with pytest.raises(BailiwickError, match=f"cancelled by {who.name}") as ended:
                await anext(frames)
            assert ended.value.code is Code.QUERY_CANCELLED
            assert ended.value.query_id == result.query_id
    await eventually(lambda: home.pool.leased == 0)


async def test_cancelling_what_does_not_exist_is_refused_and_what_has_ended_is_fine(home: House) -> None:
    await home.ask("SELECT 1")
    await home.service.cancel((await home.recorded()).id, ANN)
    with pytest.raises(BailiwickError, match="no query"):
        await home.service.cancel(new_query_id(), ADMIN)


@pytest.mark.parametrize("where", ["queued", "planning", "running"])
async def test_a_deadline_ends_a_query_wherever_it_is(home: House, where: str) -> None:
    blocker = asyncio.Event()
    home.engine.scripts["blocker"] = Script([batch(ONE), blocker, Completed()])
    home.engine.scripts["slow"] = Script([asyncio.Event()])
    async with AsyncExitStack() as stack:
        if where == "queued":
            await stack.enter_async_context(home.service.run(Statement("blocker", ANN, "flight_sql")))
        if where == "planning":
            home.engine.describing = asyncio.Event()
        error = await home.refusal("slow", timeout_s=0.25)
        assert error.code is Code.QUERY_TIMEOUT
        assert "timed out after 0.25s" in error.message
        assert error.retryable is True
        query = next(one for one in await home.service.visible() if one.sql == "slow")
        assert query.state is State.FAILED
    blocker.set()
    await eventually(lambda: home.pool.leased == 0)


async def test_no_deadline_is_longer_than_the_longest_allowed(tmp_path: Path) -> None:
    async with house(tmp_path, LimitsConfig(timeout_max_s=0.05)) as home:
        home.engine.scripts["slow"] = Script([asyncio.Event()])
        assert "timed out after 0.05s" in (await home.refusal("slow", timeout_s=1000.0)).message
        assert "timed out after 0.05s" in (await home.refusal("slow")).message
        assert (await home.refusal("slow", timeout_s=0.0)).code is Code.INVALID_ARGUMENTS


async def test_a_reader_may_take_longer_than_the_deadline(home: House) -> None:
    async with home.service.run(Statement("SELECT 1", ANN, "flight_sql", timeout_s=0.05)) as result:
        await eventually(lambda: home.pool.leased == 0)
        await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0.1))])
        assert [frame.rows async for frame in result.frames()] == [1]


@pytest.mark.parametrize("kind", [Kind.READ, Kind.CHANGE])
async def test_a_lost_engine_may_be_tried_again_for_reads_only(home: House, kind: Kind) -> None:
    home.engine.scripts["x"] = Script([EngineLost("connection reset by 10.0.0.1")], kind=kind)
    error = await home.refusal("x")
    assert (error.code, error.details["reason"]) == (Code.EXECUTION_FAILED, "engine_lost")
    assert error.retryable is (kind is Kind.READ)
    assert error.details.get("outcome") == ("unknown" if kind is Kind.CHANGE else None)
    assert "10.0.0.1" not in error.message
    assert home.pool.leases[-1].spoiled == "engine lost"


async def test_an_engine_out_of_memory_is_told_with_advice(home: House) -> None:
    home.engine.loss = "out_of_memory"
    home.engine.scripts["x"] = Script([EngineLost("gone")])
    error = await home.refusal("x")
    assert (error.code, error.retryable, error.http) == (Code.RESOURCE_EXHAUSTED, False, 503)
    assert "memory" in error.message


async def test_a_change_that_is_made_and_cannot_be_put_on_record_is_not_to_be_sent_again(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.engine.scripts["insert"] = Script(kind=Kind.CHANGE)
    save = home.store.save

    async def save_until_done(queries: Sequence[Query]) -> None:
        if any(query.state is State.FINISHING for query in queries):
            raise unavailable("the connection is closed")
        await save(queries)

    monkeypatch.setattr(home.store, "save", save_until_done)
    error = await home.refusal("insert")
    assert error.code is Code.CATALOG_UNAVAILABLE
    assert "look at the table before you run it again" in error.message
    assert (error.retryable, error.retry_after_s, error.details["outcome"]) == (False, None, "unknown")
    assert (await home.recorded()).state is State.FAILED


@pytest.mark.parametrize("how", ["cancel", "timeout", "leave"])
async def test_a_change_ended_from_outside_has_an_unknown_outcome(home: House, how: str) -> None:
    home.engine.scripts["insert"] = Script([asyncio.Event()], kind=Kind.CHANGE)
    asking = asyncio.ensure_future(home.ask("insert", timeout_s=0.05 if how == "timeout" else None))
    await eventually(lambda: bool(home.engine.executed))
    if how == "cancel":
        await home.service.cancel((await home.recorded()).id, ANN)
    if how == "leave":
        asking.cancel()
        await asyncio.wait([asking])
        assert (await home.recorded()).state is State.CANCELLED
        return
    with pytest.raises(BailiwickError) as ended:
        await asking
    assert (ended.value.retryable, ended.value.details["outcome"]) == (False, "unknown")


async def test_a_change_that_spark_itself_refused_has_a_known_outcome(home: House) -> None:
    home.engine.scripts["insert"] = Script(
        [BailiwickError(Code.COMMIT_CONFLICT, "someone else was quicker")], kind=Kind.CHANGE
    )
    error = await home.refusal("insert")
    assert (error.retryable, error.details) == (True, {})


async def test_a_failure_in_the_middle_reaches_the_reader(home: House) -> None:
    home.engine.scripts["x"] = Script([batch(ONE), BailiwickError(Code.DIVISION_BY_ZERO, "division by zero")])
    assert (await home.refusal("x")).code is Code.DIVISION_BY_ZERO
    query = await home.recorded()
    assert query.state is State.FAILED
    assert query.failure is not None
    assert query.failure.code is Code.DIVISION_BY_ZERO
    assert home.engine.interrupted == 0


async def test_an_engine_that_gives_no_sign_of_life_is_given_up(tmp_path: Path) -> None:
    async with house(tmp_path, LimitsConfig(stream_idle_s=0.05)) as home:
        home.engine.scripts["x"] = Script([asyncio.Event()])
        home.engine.is_deaf = True
        error = await home.refusal("x")
        assert (error.code, error.details["reason"]) == (Code.EXECUTION_FAILED, "stalled")
        assert home.pool.leases[-1].spoiled == "no sign of life"


async def test_an_engine_that_is_only_busy_is_left_in_peace(tmp_path: Path) -> None:
    async with house(tmp_path, LimitsConfig(stream_idle_s=0.02)) as home:
        rest = asyncio.Event()
        home.engine.scripts["x"] = Script([rest, batch(ONE), Completed()])
        asking = asyncio.ensure_future(home.ask("x"))
        await asyncio.wait([asking], timeout=0.3)
        assert not asking.done()
        rest.set()
        assert (await asking).equals(ONE)


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        ({"result_rows_max": 5}, "result_rows_max"),
        ({"result_bytes_max": 1000}, "result_bytes_max"),
        ({"sql_bytes_max": 1024}, "sql_bytes_max"),
    ],
)
async def test_a_result_beyond_a_limit_is_refused_and_spark_is_stopped(
    tmp_path: Path, limits: dict[str, int], limit: str
) -> None:
    async with house(tmp_path, LimitsConfig.model_validate(limits)) as home:
        sql = "SELECT " + "1 + " * 300 + "1"
        home.engine.scripts[sql] = Script([batch(ONE)] * 10 + [asyncio.Event()])
        error = await home.refusal(sql)
        assert (error.code, error.retryable) == (Code.RESOURCE_EXHAUSTED, False)
        assert error.details["limit"] == limit
        await eventually(lambda: home.pool.leased == 0)
        assert home.engine.interrupted == (0 if limit == "sql_bytes_max" else 1)
        assert (await home.ask("SELECT 1")).equals(ONE)


async def test_a_row_that_fits_no_message_is_refused(tmp_path: Path) -> None:
    async with house(tmp_path, results=ResultsConfig(message_bytes_max=MB)) as home:
        home.engine.scripts["x"] = Script([batch(pa.table({"s": ["x" * 2 * MB]})), Completed()])
        error = await home.refusal("x")
        assert (error.code, error.details["limit"]) == (Code.RESOURCE_EXHAUSTED, "message_bytes_max")
        assert "row" in error.message


async def test_too_many_columns_are_refused_before_anything_runs(tmp_path: Path) -> None:
    wide = pa.schema({f"c{index}": pa.int32() for index in range(11)})
    async with house(tmp_path, LimitsConfig(result_columns_max=10)) as home:
        description = Description(Kind.READ, "Project", schema=schema_message(wide))
        home.engine.scripts["x"] = Script(description=description)
        assert (await home.refusal("x")).details["limit"] == "result_columns_max"
        assert home.engine.executed == []


async def test_a_result_larger_than_memory_goes_by_disk_and_leaves_nothing_there(tmp_path: Path) -> None:
    async with house(tmp_path, results=ResultsConfig(window_bytes=MB)) as home:
        part = batch(pa.table({"s": ["x" * 100_000] * 4}))
        home.engine.scripts["big"] = Script([part] * 50 + [Completed()])
        async with home.service.run(Statement("big", ANN, "flight_sql")) as result:
            await eventually(lambda: home.pool.leased == 0)
            assert home.spool.held_bytes > 10 * MB
            assert sum([frame.rows async for frame in result.frames()]) == 200
        assert home.spool.held_bytes == 0


async def test_a_reader_that_does_not_read_is_ended(tmp_path: Path) -> None:
    async with house(tmp_path, results=ResultsConfig(reader_idle_s=0.05)) as home:
        home.engine.scripts["endless"] = Script([batch(ONE), batch(ONE), asyncio.Event()])
        async with home.service.run(Statement("endless", ANN, "flight_sql")) as result:
            await eventually(lambda: home.pool.leased == 0)
            with pytest.raises(BailiwickError, match="took nothing"):
                await anext(result.frames())
        assert (await home.recorded()).state is State.CANCELLED


async def test_a_draining_service_takes_nothing_on_and_lets_the_rest_finish(home: House) -> None:
    rest = asyncio.Event()
    home.engine.scripts["slow"] = Script([rest, batch(ONE), Completed()])
    asking = asyncio.ensure_future(home.ask("slow"))
    await eventually(lambda: bool(home.engine.executed))
    draining = asyncio.ensure_future(home.service.drain(5.0))
    await asyncio.sleep(0)
    error = await home.refusal("SELECT 1")
    assert (error.code, error.retryable) == (Code.CIRCUIT_BREAKER_OPEN, True)
    assert "shutting down" in error.message
    rest.set()
    assert (await asking).equals(ONE)
    await draining


async def test_a_drain_waits_for_readers_too(home: House) -> None:
    async with home.service.run(Statement("SELECT 1", ANN, "flight_sql")) as result:
        await eventually(lambda: home.pool.leased == 0)
        draining = asyncio.ensure_future(home.service.drain(5.0))
        await asyncio.sleep(0)
        assert [frame.rows async for frame in result.frames()] == [1]
    await asyncio.wait_for(draining, 2.0)
    assert (await home.recorded()).state is State.FINISHED


async def test_a_drain_does_not_wait_for_readers_who_never_come(home: House) -> None:
    async with home.service.run(Statement("SELECT 1", ANN, "flight_sql")):
        await eventually(lambda: home.pool.leased == 0)
        await asyncio.wait_for(home.service.drain(60.0), 10.0)
    assert (await home.recorded()).state is State.CANCELLED


async def test_what_does_not_end_in_time_is_ended_by_a_drain(home: House) -> None:
    home.engine.scripts["endless"] = Script([asyncio.Event()])
    asking = asyncio.ensure_future(home.ask("endless"))
    await eventually(lambda: bool(home.engine.executed))
    await home.service.drain(0.05)
    with pytest.raises(BailiwickError, match="shutting down"):
        await asking
    assert home.pool.leased == 0


async def test_a_bug_of_ours_is_one_failed_query_and_not_a_dead_service(home: House) -> None:
    home.engine.scripts["x"] = Script([RuntimeError("in /home/secret/path")])
    error = await home.refusal("x")
    assert error.code is Code.INTERNAL_ERROR
    assert "secret" not in error.message
    assert (await home.ask("SELECT 1")).equals(ONE)


async def test_a_malformed_batch_is_one_failed_query(home: House) -> None:
    home.engine.scripts["x"] = Script([Batch(b"not arrow", 1), asyncio.Event()])
    assert (await home.refusal("x")).code is Code.INTERNAL_ERROR
    await eventually(lambda: home.pool.leased == 0)

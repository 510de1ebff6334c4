"""What the query service promises while all goes well."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest
from query_house import ADMIN, ANN, LAKE, NOBODY, ONE, RITA, House, Script, batch, eventually, house

from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Completed, Progress
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import QueryId
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.own import UserAnswers
from bailiwick.queries.query import Query, State
from bailiwick.queries.service import QueryService
from bailiwick.queries.statement import Statement
from bailiwick.results.batches import read_schema, schema_message
from bailiwick.results.config import ResultsConfig
from bailiwick.telemetry.metrics import Metrics


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as home:
        yield home


async def test_a_read_comes_back_and_is_recorded_as_finished(home: House) -> None:
    assert (await home.ask("SELECT 1")).equals(ONE)
    query = await home.recorded()
    assert (query.state, query.kind, query.rows, query.node_id) == (State.FINISHED, Kind.READ, 1, "fake")
    assert query.bytes > 0
    assert query.finished_at is not None
    assert home.pool.leased == 0


async def test_a_statement_said_twice_is_described_once(home: House) -> None:
    for _ in range(3):
        await home.ask("SELECT 1")
    assert home.engine.described == ["SELECT 1"]
    assert home.engine.executed == [("SELECT 1", False)] * 3


async def test_a_commit_makes_descriptions_stale(home: House) -> None:
    await home.ask("SELECT 1")
    home.versions[0] = 2
    await home.ask("SELECT 1")
    assert home.engine.described == ["SELECT 1"] * 2


async def test_a_statement_that_failed_to_be_described_is_described_again(home: House) -> None:
    home.engine.scripts["x"] = Script(description=BailiwickError(Code.TABLE_NOT_FOUND, "no such table"))
    assert (await home.refusal("x")).code is Code.TABLE_NOT_FOUND
    home.engine.scripts["x"] = Script()
    assert (await home.ask("x")).equals(ONE)


async def test_preparing_runs_nothing_and_saves_the_description_for_later(home: House) -> None:
    prepared = await home.service.prepare(Statement("SELECT 1", ANN, "flight_sql"))
    assert prepared.kind is Kind.READ
    assert prepared.schema is not None
    assert read_schema(prepared.schema).equals(ONE.schema)
    assert home.engine.executed == []
    await home.ask("SELECT 1")
    assert home.engine.described == ["SELECT 1"]


async def test_a_trifle_is_a_small_read_that_is_known_while_a_session_lies_idle(home: House) -> None:
    statement = Statement("SELECT 1", ANN, "flight_sql")
    assert not home.service.is_trifle(statement)
    await home.service.prepare(statement)
    assert home.service.is_trifle(statement)
    async with home.pool.lease(ANN):
        assert not home.service.is_trifle(statement)
    home.versions[0] += 1
    assert not home.service.is_trifle(statement)


async def test_current_catalog_and_namespace_are_made_so_for_each_statement(home: House) -> None:
    await home.ask("SELECT 1", catalog="lake", namespace=("sales",))
    assert home.engine.used == [("lake", ("sales",))]


async def test_the_first_row_is_out_before_the_last_is_made(home: House) -> None:
    rest = asyncio.Event()
    home.engine.scripts["slow"] = Script([batch(ONE), rest, batch(ONE), Completed()])
    async with home.service.run(Statement("slow", ANN, "flight_sql")) as result:
        frames = result.frames()
        assert (await asyncio.wait_for(anext(frames), 2)).rows == 1
        rest.set()
        assert [frame.rows async for frame in frames] == [1]


async def test_the_lease_ends_when_spark_is_done_however_slow_the_reader(home: House) -> None:
    home.engine.scripts["big"] = Script([batch(ONE)] * 50 + [Completed()])
    async with home.service.run(Statement("big", ANN, "flight_sql")) as result:
        await eventually(lambda: home.pool.leased == 0)
        assert (await home.recorded()).state is State.FINISHING
        assert len([frame async for frame in result.frames()]) == 50
    assert (await home.recorded()).state is State.FINISHED


async def test_progress_is_shown_while_it_runs(home: House) -> None:
    rest = asyncio.Event()
    home.engine.scripts["slow"] = Script([batch(ONE), Progress(3, 8), rest, Completed()])
    async with home.service.run(Statement("slow", ANN, "flight_sql")) as result:
        assert result.kind is Kind.READ
        shown = await home.ask(
            "SELECT state, tasks_done, tasks_total FROM system.runtime.queries WHERE sql = 'slow'"
        )
        assert shown.to_pylist() == [{"state": "running", "tasks_done": 3, "tasks_total": 8}]
        rest.set()


async def test_who_waits_is_shown_with_its_place_in_the_queue(home: House) -> None:
    rest = asyncio.Event()
    home.engine.scripts["slow"] = Script([batch(ONE), rest, Completed()])
    async with home.service.run(Statement("slow", ANN, "flight_sql")):
        waiting = asyncio.ensure_future(home.ask("SELECT 1"))
        sql = "SELECT state, queue_position FROM system.runtime.queries WHERE sql = 'SELECT 1'"
        assert (await home.ask(sql)).to_pylist() == [{"state": "queued", "queue_position": 1}]
        rest.set()
        await waiting


async def test_a_change_has_happened_when_run_is_entered(home: House) -> None:
    rest = asyncio.Event()
    empty = batch(pa.table({}))
    home.engine.scripts["insert"] = Script([empty, rest, Completed()], kind=Kind.CHANGE)
    entering = asyncio.ensure_future(home.ask("insert"))
    await eventually(lambda: bool(home.engine.executed))
    await asyncio.sleep(0)
    assert not entering.done()
    rest.set()
    await entering
    assert home.engine.executed == [("insert", True)]
    assert (await home.recorded()).state is State.FINISHED


async def test_a_change_says_how_many_rows_it_touched_and_finishes_unread(home: House) -> None:
    home.engine.scripts["insert"] = Script(kind=Kind.CHANGE)
    async with home.service.run(Statement("insert", ANN, "flight_sql")) as result:
        assert (result.kind, result.affected_rows) == (Kind.CHANGE, 7)
    assert (await home.recorded()).state is State.FINISHED


async def test_a_change_is_on_record_before_it_starts(home: House) -> None:
    seen: list[State | None] = []

    class Watching(Script):
        def described(self) -> Description:
            return Description(Kind.CHANGE, "AppendData", catalogs=LAKE)

    home.engine.scripts["insert"] = Watching([asyncio.Event()])
    entering = asyncio.ensure_future(home.ask("insert"))
    await eventually(lambda: bool(home.engine.executed))
    on_disk = await home.store.recent(limit=1)
    seen.append(on_disk[0].state if on_disk else None)
    entering.cancel()
    await asyncio.wait([entering])
    assert seen == [State.RUNNING]


async def test_a_table_that_changed_since_it_was_prepared_is_noticed(home: House) -> None:
    other = schema_message(pa.schema({"n": pa.int64()}))
    with pytest.raises(BailiwickError, match="changed since") as refused:
        async with home.service.run(Statement("SELECT 1", ANN, "flight_sql"), expected_schema=other):
            pass
    assert refused.value.code is Code.SEMANTIC_ERROR
    same = schema_message(ONE.schema)
    async with home.service.run(Statement("SELECT 1", ANN, "flight_sql"), expected_schema=same) as result:
        assert read_schema(result.schema).equals(ONE.schema)


async def test_a_result_without_a_batch_has_the_described_schema(home: House) -> None:
    home.engine.scripts["drop"] = Script([Completed()], kind=Kind.CHANGE)
    assert (await home.ask("drop")).schema.equals(ONE.schema)


async def test_roles_are_looked_at_before_anything_runs(home: House) -> None:
    home.engine.scripts["call"] = Script(description=Description(Kind.CHANGE, "Call", catalogs=LAKE))
    home.engine.scripts["set"] = Script(kind=Kind.SESSION)
    assert (await home.refusal("call", RITA)).code is Code.ACCESS_DENIED
    assert (await home.refusal("set", ADMIN)).code is Code.NOT_SUPPORTED
    assert (await home.refusal("SELECT 1", NOBODY)).code is Code.ACCESS_DENIED
    assert (await home.refusal("SELECT 1 FROM system.runtime.nodes", NOBODY)).code is Code.ACCESS_DENIED
    assert home.engine.executed == []
    with pytest.raises(BailiwickError, match="CALL is for administrators"):
        await home.service.prepare(Statement("call", RITA, "flight_sql"))


async def test_administration_is_ours_and_leaves_no_password_behind(home: House) -> None:
    await home.ask("CREATE USER bob PASSWORD 'correct horse battery'", ADMIN)
    assert len(home.administration.performed) == 1
    assert home.engine.described == []
    query = await home.recorded()
    assert (query.state, query.kind, query.node_id) == (State.FINISHED, Kind.CHANGE, "gateway")
    assert "horse" not in query.sql
    assert (
        await home.refusal("CREATE USER eve PASSWORD 'correct horse battery'", RITA)
    ).code is Code.ACCESS_DENIED
    assert (await home.ask("SHOW USERS", ADMIN)).column("name").to_pylist() == ["ann"]


async def test_preparing_administration_tells_its_schema(home: House) -> None:
    prepared = await home.service.prepare(Statement("SHOW USERS", ADMIN, "flight_sql"))
    assert prepared.kind is Kind.SHOWS
    assert prepared.schema is not None
    assert "name" in read_schema(prepared.schema).names
    with pytest.raises(BailiwickError) as refused:
        await home.service.prepare(Statement("DROP USER ann", RITA, "flight_sql"))
    assert refused.value.code is Code.ACCESS_DENIED


async def test_system_tables_need_no_engine_and_show_what_one_may_see(home: House) -> None:
    await home.ask("SELECT 1", RITA)
    mine = "SELECT sql FROM system.runtime.queries WHERE state = 'finished'"
    assert (await home.ask(mine, ANN)).num_rows == 0
    assert (await home.ask(mine, RITA)).column(0).to_pylist() == ["SELECT 1"]
    prepared = await home.service.prepare(Statement(mine, ANN, "flight_sql"))
    assert prepared.schema is not None
    assert read_schema(prepared.schema).names == ["sql"]
    assert home.engine.described == ["SELECT 1"]


async def test_a_system_query_meets_its_deadline(home: House) -> None:
    endless = "SELECT count(*) FROM system.runtime.nodes, range(1000000000000) r(x) WHERE x % 7 = 3"
    assert (await home.refusal(endless, ADMIN, timeout_s=0.2)).code is Code.QUERY_TIMEOUT


async def test_nothing_is_left_running_after_a_restart(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        lost = Query(
            QueryId("lost"), "ann", "default", "flight_sql", "x", created_at=1.0, state=State.RUNNING
        )
        await home.store.save([lost])
        async with QueryService(
            pool=home.pool,
            answerers=[UserAnswers(home.administration)],
            nodes=list,
            store=home.store,
            spool=home.spool,
            limits=LimitsConfig(),
            results=ResultsConfig(),
            catalog_version=lambda: 1,
            metrics=Metrics(),
        ):
            found = await home.store.find(lost.id)
        assert found is not None
        assert found.state is State.FAILED
        assert found.failure is not None
        assert found.failure.code is Code.EXECUTION_FAILED


async def test_ends_are_counted(home: House) -> None:
    await home.ask("SELECT 1")
    await home.refusal("SELECT 1", NOBODY)
    text = home.metrics.render().decode()
    assert 'bailiwick_queries_total{code="",door="flight_sql",kind="read",outcome="finished"} 1.0' in text
    assert 'outcome="refused"} 1.0' in text


async def test_many_queries_at_once_all_end(home: House) -> None:
    answers = await asyncio.gather(*(home.ask(f"SELECT {index % 5}") for index in range(200)))
    assert all(answer.equals(ONE) for answer in answers)
    states = {query.state for query in await home.service.visible()}
    assert states == {State.FINISHED}


async def test_the_gateways_own_cost_of_a_query_is_small(home: House) -> None:
    await home.ask("SELECT 1")
    started = time.process_time()
    for _ in range(300):
        await home.ask("SELECT 1")
    assert (time.process_time() - started) / 300 < 0.003

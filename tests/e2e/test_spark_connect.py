"""Spark Connect as we speak it, against a real engine behind a connection that the test can cut."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute
import pytest

from bailiwick.engines.config import EngineConfig, PoolConfig
from bailiwick.engines.description import Kind
from bailiwick.engines.engine import Batch, Completed, EngineLost, EngineSession, Event, Progress
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.engines.warmup import Warmup
from bailiwick.errors import BailiwickError, Code, Position
from bailiwick.fleet.members import Traits
from bailiwick.fleet.sessions import SessionPool
from bailiwick.identity.principal import READER, Principal
from bailiwick.ids import OperationId, new_operation_id
from bailiwick.testing.engine import RunningEngine, running_engine
from bailiwick.testing.engines import unproved

pytestmark = pytest.mark.spark

ENDLESS = "SELECT count(*) FROM range(0, 100000000000, 1, 20000) WHERE hash(id) % 1000 = 7"
"""Of many small tasks, as scans are: Spark takes a core away from nobody in the middle of a task."""
ENDLESS_IN_MANY_STAGES = (
    "SELECT sum(n) FROM ("
    + " UNION ALL ".join(
        f"SELECT count(*) AS n FROM range(0, 100000000000, 1, 64) WHERE hash(id, {number}) % 1000 = 7"
        for number in range(16)
    )
    + ")"
)
ANN = Principal("ann", frozenset({READER}))
BOB = Principal("bob", frozenset({READER}))


class SeverableWire:
    """Passes bytes between the gateway's channel and the engine until it is told to cut."""

    def __init__(self) -> None:
        self._target = ("", 0)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    def connect(self, address: str, token: str) -> SparkConnectChannel:
        assert self._server is not None
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))
        ours = self._server.sockets[0].getsockname()
        return SparkConnectChannel(f"{ours[0]}:{ours[1]}", token)

    def cut(self) -> None:
        """Every connection breaks; new ones can be made at once."""
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, far_writer}
        self._writers |= both
        with suppress(OSError):
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        self._writers -= both
        for one in both:
            one.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 20):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError


@pytest.fixture(scope="module")
async def wire() -> AsyncIterator[SeverableWire]:
    wire = SeverableWire()
    await wire.open()
    yield wire
    await wire.close()


@pytest.fixture(scope="module")
async def running(
    wire: SeverableWire, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningEngine]:
    directory: Path = tmp_path_factory.mktemp("engine")
    config = EngineConfig(master="local[2]", memory="1g")
    async with running_engine(directory, config, connect=wire.connect) as running:
        # What is timed below is an engine in its daily life, not one that loads its classes.
        session = await running.session()
        await Warmup().run(session, running.leases.give(session))
        yield running


@pytest.fixture
async def session(running: RunningEngine) -> AsyncIterator[EngineSession]:
    session = await running.session()
    yield session
    await session.close()


class Reader:
    """Runs one statement in a task of its own and keeps what came."""

    def __init__(
        self, running: RunningEngine, session: EngineSession, sql: str, *, reattachable: bool = False
    ) -> None:
        self.operation: OperationId = new_operation_id()
        self.rows = 0
        self.total = 0
        self.last: Event | None = None
        self.began = asyncio.Event()
        self._events = session.execute(
            sql, operation=self.operation, lease=running.leases.give(session), reattachable=reattachable
        )
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self._events:
            self.last = event
            self.began.set()
            if isinstance(event, Batch):
                table = pa.ipc.open_stream(event.data).read_all()
                assert table.num_rows == event.rows
                self.rows += table.num_rows
                self.total += pa.compute.sum(table.column(0)).as_py() or 0


async def cpu_use(process: psutil.Process, window_s: float) -> float:
    """How many cores it kept busy during the window."""
    before = process.cpu_times()
    await asyncio.sleep(window_s)
    after = process.cpu_times()
    return float(after.user + after.system - before.user - before.system) / window_s


async def eventually(condition: Callable[[], bool], within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  (nothing here tells us)
            await asyncio.sleep(0.02)


async def test_a_select_comes_as_arrow_and_ends_with_completed(
    running: RunningEngine, session: EngineSession
) -> None:
    lease = running.leases.give(session)
    events = session.execute("SELECT 1 AS one", operation=new_operation_id(), lease=lease)
    seen = [event async for event in events if not isinstance(event, Progress)]
    assert isinstance(seen[0], Batch)
    assert pa.ipc.open_stream(seen[0].data).read_all().to_pylist() == [{"one": 1}]
    assert seen[-1] == Completed()
    assert session.is_settled


@pytest.mark.parametrize("reattachable", [False, True])
async def test_a_large_result_arrives_whole(
    running: RunningEngine, session: EngineSession, reattachable: bool
) -> None:
    sql = "SELECT id, repeat('x', 100) AS text FROM range(0, 2000000, 1, 64)"
    reader = Reader(running, session, sql, reattachable=reattachable)
    await reader.task
    assert (reader.rows, reader.total) == (2_000_000, sum(range(2_000_000)))
    assert session.is_settled


async def test_a_row_of_20_mb_arrives(running: RunningEngine, session: EngineSession) -> None:
    table = await running.run("SELECT repeat('x', 20000000) AS text", session)
    assert len(table["text"][0].as_py()) == 20_000_000


@pytest.mark.parametrize(
    ("sql", "code", "position"),
    [
        ("SELEC 1", Code.SYNTAX_ERROR, Position(1, 1)),
        ("SELECT *\n  FROM nowhere.at_all", Code.TABLE_NOT_FOUND, Position(2, 8)),
        ("SELECT '😀', missing FROM range(3)", Code.COLUMN_NOT_FOUND, Position(1, 13)),
        ("SELECT 1 / 0", Code.DIVISION_BY_ZERO, Position(1, 8)),
    ],
)
async def test_an_error_says_what_and_where_and_leaves_the_session_fit(
    running: RunningEngine, session: EngineSession, sql: str, code: Code, position: Position
) -> None:
    with pytest.raises(BailiwickError) as failed:
        await running.run(sql, session)
    assert (failed.value.code, failed.value.position) == (code, position)
    assert session.is_settled


@pytest.mark.parametrize("reattachable", [False, True])
async def test_an_interrupt_is_confirmed_within_two_seconds(
    running: RunningEngine, session: EngineSession, reattachable: bool
) -> None:
    reader = Reader(running, session, ENDLESS, reattachable=reattachable)
    await reader.began.wait()
    began = time.monotonic()
    await session.interrupt(reader.operation)
    with pytest.raises(BailiwickError) as failed:
        await reader.task
    assert failed.value.code is Code.QUERY_CANCELLED
    assert time.monotonic() - began < 2
    assert session.is_settled
    await session.interrupt(reader.operation)


async def test_a_reader_that_is_cancelled_leaves_work_that_settling_ends(
    running: RunningEngine, session: EngineSession
) -> None:
    reader = Reader(running, session, ENDLESS)
    await reader.began.wait()
    reader.task.cancel()
    await asyncio.wait([reader.task])
    assert not session.is_settled
    assert await session.settle(timeout_s=2)
    assert (await running.run("SELECT 2 AS two", session)).to_pylist() == [{"two": 2}]


async def test_nothing_runs_on_whenever_the_interrupt_comes(running: RunningEngine) -> None:
    """Spark alone forgets to stop a job that its planning submits just after the interrupt."""
    for pause_s in (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8):
        # Each in a new session, where compiling makes the planning take its time.
        session = await running.session()
        reader = Reader(running, session, ENDLESS_IN_MANY_STAGES)
        await asyncio.wait([reader.task], timeout=pause_s)
        assert await session.settle(timeout_s=10)
        with pytest.raises(BailiwickError):
            await reader.task
        await session.close()
    assert running.engine.pid is not None
    engine = psutil.Process(running.engine.pid)
    async with asyncio.timeout(30):
        while await cpu_use(engine, window_s=0.5) > 0.2:
            pass


async def test_a_change_goes_on_over_a_broken_stream(
    running: RunningEngine, session: EngineSession, wire: SeverableWire
) -> None:
    # Like a change it gives little and takes its time: 40 tasks, each with something to count and some rows.
    count = "aggregate(sequence(1L, 1000000L + id), 0L, (total, each) -> total + each)"
    naps = f"SELECT id, {count} AS nap FROM range(0, 40, 1, 40)"
    hundred = "SELECT id * 100 + x AS id FROM explode(sequence(0, 99)) e(x)"
    sql = f"SELECT n.id, t.nap FROM ({naps}) t JOIN LATERAL ({hundred}) n"
    reader = Reader(running, session, sql, reattachable=True)
    for rows in (1, 1000, 2000):
        await eventually(lambda rows=rows: reader.rows >= rows or reader.task.done(), within_s=60)  # type: ignore[misc]
        assert not reader.task.done()
        wire.cut()
    await reader.task
    assert (reader.rows, reader.total) == (4000, sum(range(4000)))
    assert session.is_settled


async def test_a_read_whose_stream_breaks_is_lost_and_its_session_unfit(
    running: RunningEngine, session: EngineSession, wire: SeverableWire
) -> None:
    reader = Reader(running, session, ENDLESS)
    await reader.began.wait()
    wire.cut()
    with pytest.raises(EngineLost):
        await reader.task
    assert not await session.settle(timeout_s=2)
    await session.close()
    assert (await running.run("SELECT 3 AS three")).to_pylist() == [{"three": 3}]


async def test_a_statement_is_described_without_running_it(
    running: RunningEngine, session: EngineSession
) -> None:
    await running.run("CREATE SCHEMA IF NOT EXISTS lake.described", session)
    await running.run("CREATE TABLE lake.described.t (id BIGINT, name STRING)", session)

    async def describe(sql: str) -> tuple[Kind, tuple[str, ...], tuple[str, ...], bytes | None]:
        told = await session.describe(sql, lease=running.leases.give(session), timeout_s=30)
        return told.kind, told.reads, told.writes, told.schema

    kind, reads, writes, schema = await describe("SELECT id FROM lake.described.t")
    assert (kind, reads, writes) == (Kind.READ, ("lake.described.t",), ())
    assert schema is not None
    assert pa.ipc.read_schema(pa.py_buffer(schema)).names == ["id"]
    kind, _, writes, _ = await describe("INSERT INTO lake.described.t VALUES (1, 'a')")
    assert (kind, writes) == (Kind.CHANGE, ("lake.described.t",))
    assert (await running.run("SELECT * FROM lake.described.t", session)).num_rows == 0
    with pytest.raises(BailiwickError) as failed:
        await describe("SELECT missing FROM lake.described.t")
    assert failed.value.code is Code.COLUMN_NOT_FOUND
    assert session.is_settled


async def test_the_current_schema_is_set_and_reset(running: RunningEngine, session: EngineSession) -> None:
    await running.run("CREATE SCHEMA IF NOT EXISTS lake.`here and now`", session)

    async def use(*namespace: str) -> str:
        await session.use("lake", namespace, lease=running.leases.give(session))
        table = await running.run("SELECT current_catalog() || '/' || current_schema() AS it", session)
        return str(table["it"][0].as_py())

    at_first = await use()
    assert await use("here and now") == "lake/`here and now`"
    assert await use() == at_first
    with pytest.raises(BailiwickError) as failed:
        await use("nowhere")
    assert failed.value.code is Code.SCHEMA_NOT_FOUND
    assert await use("here and now") == "lake/`here and now`"


async def test_two_long_queries_on_two_cores_let_short_ones_pass(running: RunningEngine) -> None:
    config = PoolConfig(interactive_s=1.0, long_running_max=2)
    pool = SessionPool(config, warmup=Warmup(rounds=1), prove=unproved)
    pool.roster.add(running.engine, Traits(slots=2))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(pool.stop)
        await pool.start()
        long_ones = [asyncio.create_task(_run_pooled(pool, ANN, ENDLESS)) for _ in range(2)]
        await eventually(lambda: pool.leased_count == 2, within_s=5)
        async with asyncio.timeout(60):
            for _ in range(5):
                await _run_pooled(pool, BOB, "SELECT count(*) FROM range(0, 1000, 1, 2)")
        assert not any(task.done() for task in long_ones)
        for task in long_ones:
            task.cancel()
        await asyncio.wait(long_ones)
        assert await pool.drain(timeout_s=5)


async def _run_pooled(pool: SessionPool, principal: Principal, sql: str) -> None:
    async with pool.lease(principal) as lease:
        async for _ in lease.session.execute(sql, operation=new_operation_id(), lease=lease.id):
            pass


async def test_an_engine_killed_in_a_query_is_lost_within_two_seconds_and_comes_back(
    running: RunningEngine, session: EngineSession
) -> None:
    reader = Reader(running, session, ENDLESS)
    await reader.began.wait()
    assert running.engine.pid is not None
    began = time.monotonic()
    os.kill(running.engine.pid, signal.SIGKILL)
    with pytest.raises(EngineLost):
        await reader.task
    assert time.monotonic() - began < 2
    assert await running.engine.explain_loss() == "exited"
    assert not await session.settle(timeout_s=2)
    with pytest.raises(EngineLost):
        await running.run("SELECT 1", session)
    await running.engine.wait_ready(timeout_s=60)
    assert (await running.run("SELECT 4 AS four")).to_pylist() == [{"four": 4}]

"""What an engine remembers of its tasks, and what it says of itself."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
import pytest_asyncio

from bailiwick.engines.config import EngineConfig
from bailiwick.engines.engine import EngineSession
from bailiwick.engines.spark_tasks import TASKS_MAX
from bailiwick.engines.task import EngineTask
from bailiwick.errors import BailiwickError
from bailiwick.ids import QueryId, new_operation_id, new_query_id
from bailiwick.testing.engine import RunningEngine, running_engine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = 1_000
ENDLESS = "SELECT count(*) FROM range(0, 100000000000, 1, 20000) WHERE hash(id) % 1000 = 7"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningEngine]:
    async with running_engine(tmp_path_factory.mktemp("engine"), EngineConfig(memory="1g")) as engine:
        await engine.run("CREATE NAMESPACE lake.db")
        await engine.run(f"CREATE TABLE lake.db.t AS SELECT id, id % 7 AS k FROM range({ROWS})")
        yield engine


@pytest_asyncio.fixture(loop_scope="session")
async def session(running: RunningEngine) -> EngineSession:
    return await running.session()


async def answer(running: RunningEngine, session: EngineSession, sql: str) -> QueryId:
    """Run it as a query's; gives its id."""
    query_id = new_query_id()
    lease = running.leases.give(session)
    async for _ in session.execute(sql, operation=new_operation_id(), lease=lease, query_id=query_id):
        pass
    return query_id


async def tasks_of(running: RunningEngine, query_id: QueryId) -> Sequence[EngineTask]:
    """As a session that has nothing to do with it is told."""
    other = await running.session()
    told = await other.tasks(10)
    await other.close()
    return [task for task in told if task.query_id == query_id]


async def until(
    running: RunningEngine, query_id: QueryId, expected: Callable[[Sequence[EngineTask]], bool]
) -> Sequence[EngineTask]:
    """Spark tells its listeners a moment after it tells the client."""
    async with asyncio.timeout(20):
        while True:
            found = await tasks_of(running, query_id)
            if found and expected(found):
                return found
            await asyncio.sleep(0.05)


async def ended_tasks(running: RunningEngine, query_id: QueryId) -> Sequence[EngineTask]:
    return await until(running, query_id, lambda tasks: not any(map(is_at_work, tasks)))


def is_at_work(task: EngineTask) -> bool:
    return task.state == "running"


async def test_a_scan_and_its_shuffle_are_counted(running: RunningEngine, session: EngineSession) -> None:
    query_id = await answer(running, session, "SELECT k, count(*) FROM lake.db.t GROUP BY k")
    tasks = await ended_tasks(running, query_id)
    assert {task.state for task in tasks} == {"finished"}
    assert {task.executor for task in tasks} == {"driver"}
    assert {task.attempt for task in tasks} == {0}
    first = min(task.stage for task in tasks)
    scans = [task for task in tasks if task.stage == first]
    assert sum(task.input_rows or 0 for task in scans) == ROWS
    shuffled = sum(task.output_rows or 0 for task in scans)
    assert 7 <= shuffled < ROWS
    assert sum(task.input_rows or 0 for task in tasks if task.stage > first) == shuffled
    assert sum(task.read_bytes or 0 for task in scans) > 0
    assert len({task.id for task in tasks}) == len(tasks)


async def test_what_is_written_is_counted(running: RunningEngine, session: EngineSession) -> None:
    query_id = await answer(running, session, "CREATE TABLE lake.db.copy AS SELECT * FROM lake.db.t")
    assert sum(task.output_rows or 0 for task in await ended_tasks(running, query_id)) == ROWS


async def test_a_task_that_fails_says_so_and_not_why(running: RunningEngine, session: EngineSession) -> None:
    query_id = new_query_id()
    lease = running.leases.give(session)
    failing = "SELECT 1 / (id - 5) FROM lake.db.t"
    with pytest.raises(BailiwickError):
        async for _ in session.execute(failing, operation=new_operation_id(), lease=lease, query_id=query_id):
            pass
    states = {task.state for task in await ended_tasks(running, query_id)}
    assert "failed" in states
    assert states <= {"failed", "killed", "finished"}


async def test_tasks_at_work_are_told_while_they_are_at_work_and_killed_after(
    running: RunningEngine, session: EngineSession
) -> None:
    query_id, operation = new_query_id(), new_operation_id()
    lease = running.leases.give(session)

    async def run() -> None:
        with pytest.raises(BailiwickError):
            async for _ in session.execute(ENDLESS, operation=operation, lease=lease, query_id=query_id):
                pass

    running_query = asyncio.create_task(run())
    at_work = next(
        filter(is_at_work, await until(running, query_id, lambda tasks: any(map(is_at_work, tasks))))
    )
    counts = (at_work.input_rows, at_work.output_rows, at_work.read_bytes, at_work.spilled_bytes)
    assert counts == (None, None, None, None)
    await session.interrupt(operation)
    await running_query
    await ended_tasks(running, query_id)


async def test_what_is_nobodys_query_is_not_remembered(
    running: RunningEngine, session: EngineSession
) -> None:
    await running.run("SELECT count(*) FROM lake.db.t", session)
    query_id = await answer(running, session, "SELECT count(*) FROM lake.db.t")
    await ended_tasks(running, query_id)
    assert all(task.query_id for task in await session.tasks(10))


async def test_the_newest_are_remembered_and_no_more_than_so_many(
    running: RunningEngine, session: EngineSession
) -> None:
    many = TASKS_MAX + 500
    query_id = await answer(running, session, f"SELECT count(*) FROM range(0, {many}, 1, {many})")
    found = await ended_tasks(running, query_id)
    assert len(found) == TASKS_MAX
    newest = await answer(running, session, "SELECT count(*) FROM lake.db.t")
    assert await ended_tasks(running, newest)
    assert len(await session.tasks(10)) == TASKS_MAX

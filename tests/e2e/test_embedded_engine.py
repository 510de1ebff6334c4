"""The child process that runs Spark: kept secret, kept alive, and never left behind."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from bailiwick.engines.config import EngineConfig
from bailiwick.engines.engine import EngineLost, Progress
from bailiwick.engines.jars import cache_directory
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import new_operation_id
from bailiwick.names import TableName
from bailiwick.testing.engine import CREDENTIAL, RunningEngine, run, running_engine
from bailiwick.testing.processes import is_running

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CONFIG = EngineConfig(memory="1g")


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def namespace(running: RunningEngine) -> None:
    await running.run("CREATE NAMESPACE lake.db")


async def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110  (nobody tells us about a process that is not our child)
            await asyncio.sleep(0.02)


def engine_process(running: RunningEngine) -> psutil.Process:
    assert running.engine.pid is not None
    return psutil.Process(running.engine.pid)


async def test_it_says_how_it_is(running: RunningEngine) -> None:
    engine = running.engine
    assert engine.is_ready
    assert engine.generation == 1
    assert engine.restarts == 0
    assert engine.memory_bytes > 100 << 20
    assert engine.started_at is not None
    assert engine.started_at < time.time()
    assert await engine.explain_loss() is None


async def test_no_secret_shows_in_the_command_the_environment_or_other_peoples_files(
    running: RunningEngine,
) -> None:
    process = engine_process(running)
    properties = (running.directory / "run" / "engine.properties").read_text()
    (token,) = [line.partition("=")[2] for line in properties.splitlines() if ".authenticate.token=" in line]
    visible = "\0".join([*process.cmdline(), *process.environ().keys(), *process.environ().values()])
    assert len(token) > 30
    assert token not in visible
    assert CREDENTIAL not in visible
    for name in ("engine.properties", "engine.credential"):
        assert stat.S_IMODE((running.directory / "run" / name).stat().st_mode) == 0o600


async def test_it_listens_on_loopback_only(running: RunningEngine) -> None:
    listening = [c for c in engine_process(running).net_connections() if c.status == psutil.CONN_LISTEN]
    assert listening
    assert {connection.laddr.ip for connection in listening} == {"127.0.0.1"}


async def test_every_call_to_the_catalog_names_session_and_lease_and_commits_do_too(
    running: RunningEngine,
) -> None:
    session = await running.session()
    for statement in ("CREATE TABLE lake.db.named (a INT)", "INSERT INTO lake.db.named VALUES (1)"):
        lease = running.leases.give(session)
        asked_before = len(running.leases.asked)
        await run(session, statement, lease)
        assert set(running.leases.asked[asked_before:]) == {(session.handle, lease)}
    assert running.leases.commits[-1].lease == lease
    assert running.leases.commits[-1].summary["added-records"] == "1"


async def test_a_commit_that_comes_after_its_lease_is_refused(running: RunningEngine) -> None:
    session = await running.session()
    await running.run("CREATE TABLE lake.db.late (a BIGINT)", session)
    lease = running.leases.give(session)
    slow = "INSERT INTO lake.db.late SELECT max(a.id + b.id) FROM range(10000) a CROSS JOIN range(10000) b"

    async def insert_while_the_lease_passes_on() -> None:
        async for event in session.execute(slow, operation=new_operation_id(), lease=lease):
            if isinstance(event, Progress):
                running.leases.give(session)

    with pytest.raises(BailiwickError) as refused:
        await insert_while_the_lease_passes_on()
    assert refused.value.code == Code.ACCESS_DENIED
    assert json.loads(running.catalog.load(TableName(("db",), "late")).data)["snapshots"] == []


async def test_a_session_with_another_sessions_lease_reaches_no_table(running: RunningEngine) -> None:
    session, other = await running.session(), await running.session()
    with pytest.raises(BailiwickError) as refused:
        await session.describe("SELECT * FROM lake.db.named", lease=running.leases.give(other), timeout_s=30)
    assert refused.value.code == Code.ACCESS_DENIED


async def test_a_large_scan_and_a_large_sort_come_in_small_partitions(running: RunningEngine) -> None:
    """73 MB of Parquet in one file, which one task wrote."""
    session = await running.session()
    rows = "SELECT id, sha2(cast(id AS STRING), 256) AS h FROM range(0, 2000000, 1, 1)"
    await running.run(f"CREATE TABLE lake.db.wide AS {rows}", session)
    for part in ("lake.db.wide", "(SELECT * FROM lake.db.wide ORDER BY h)"):
        counted = f"SELECT count(*) AS n FROM {part} GROUP BY spark_partition_id()"
        sizes = (await running.run(counted, session))["n"].to_pylist()
        assert sum(sizes) == 2_000_000
        assert max(sizes) < 500_000


async def test_killed_it_is_back_and_says_why_it_was_gone(tmp_path: Path) -> None:
    async with running_engine(tmp_path, CONFIG) as running:
        engine = running.engine
        session = await running.session()
        engine_process(running).kill()
        killed_at = time.monotonic()
        await asyncio.wait_for(engine.wait_lost(1), 5)
        assert time.monotonic() - killed_at < 2
        assert await engine.explain_loss() == "exited"
        with pytest.raises((EngineLost, BailiwickError)):
            await run(session, "SELECT 1", running.leases.give(session))
        await engine.wait_ready(60)
        assert (engine.generation, engine.restarts) == (2, 1)
        assert (await running.run("SELECT 1 AS one")).to_pylist() == [{"one": 1}]
        await engine.wait_lost(1)


async def test_out_of_memory_ends_it_at_once_and_is_told_as_such(tmp_path: Path) -> None:
    async with running_engine(tmp_path, EngineConfig(memory="512m")) as running:
        huge = "SELECT repeat(sha2(cast(id AS STRING), 512), 64) FROM range(0, 1000000, 1, 1)"
        with pytest.raises((EngineLost, BailiwickError)):
            await running.run(huge)
        assert await running.engine.explain_loss() == "out_of_memory"
        await running.engine.wait_ready(60)
        assert (await running.run("SELECT 1 AS one")).num_rows == 1


async def test_a_stopped_engine_is_gone_with_what_it_spilled(tmp_path: Path) -> None:
    async with running_engine(tmp_path, CONFIG) as running:
        process = engine_process(running)
    assert not process.is_running()
    assert not running.engine.is_ready
    assert list((tmp_path / "spill").glob("blockmgr-*")) == []
    assert await running.engine.explain_loss() == "stopped"


async def test_one_that_cannot_start_is_an_error_that_names_the_log(tmp_path: Path) -> None:
    with pytest.raises(BailiwickError, match=r"engine\.log"):
        async with running_engine(tmp_path, EngineConfig(master="nonsense")):
            pytest.fail("it cannot have started")


GATEWAY = """
    import asyncio, sys
    from pathlib import Path
    from bailiwick.engines.config import EngineConfig
    from bailiwick.testing.engine import running_engine

    async def main():
        async with running_engine(Path(sys.argv[1]), EngineConfig(memory="512m")) as running:
            print(running.engine.pid, flush=True)
            await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_a_gateway_that_is_killed_takes_its_engine_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(GATEWAY), str(tmp_path)]
    gateway = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    try:
        assert gateway.stdout is not None
        engine = int(await asyncio.to_thread(gateway.stdout.readline))
        gateway.kill()
        try:
            await until(lambda: not is_running(engine), 5)
        finally:
            if is_running(engine):
                os.kill(engine, signal.SIGKILL)
    finally:
        gateway.kill()
        await asyncio.to_thread(gateway.communicate)


async def test_a_second_start_reads_its_classes_from_the_archive(running: RunningEngine) -> None:
    archives = list((cache_directory() / "archives").glob("*.jsa"))
    if not archives:
        pytest.skip("this Java has no class archive of its own to build upon")
    maps = await asyncio.to_thread(Path(f"/proc/{running.engine.pid}/maps").read_text)
    assert any(str(archive) in maps for archive in archives)

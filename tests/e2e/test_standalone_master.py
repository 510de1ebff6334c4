"""The same launcher on another master: a standalone cluster from the classes in the pip package."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import psutil
import pytest

from bailiwick.engines.config import EngineConfig
from bailiwick.engines.jars import pyspark_jars
from bailiwick.engines.java import find_java
from bailiwick.testing.engine import running_engine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@contextmanager
def daemon(directory: Path, main: str, *arguments: str, started: str) -> Iterator[re.Match[str]]:
    """One of Spark's own servers; `started` is what it logs when it is up."""
    log = directory / f"{main.rpartition('.')[2]}.log"
    options = [
        "-Xmx256m",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    ]
    environment = {
        "PATH": "/usr/bin:/bin",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_HOME": str(pyspark_jars().parent),
    }
    with log.open("wb") as file:
        process = subprocess.Popen(
            [find_java().executable, *options, "-cp", f"{pyspark_jars()}/*", main, *arguments],
            cwd=directory,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield _wait_for(started, log, process)
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(30)
        psutil.wait_procs(children, timeout=30)


def _wait_for(pattern: str, log: Path, process: "subprocess.Popen[bytes]") -> re.Match[str]:
    for _ in range(600):
        if match := re.search(pattern, log.read_text()):
            return match
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"not started:\n{log.read_text()[-2000:]}")


@asynccontextmanager
async def standalone_cluster(directory: Path) -> AsyncIterator[str]:
    with ExitStack() as stack:
        loopback = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")

        def start() -> str:
            master = daemon(
                directory,
                "org.apache.spark.deploy.master.Master",
                *loopback,
                started=r"spark://127\.0\.0\.1:\d+",
            )
            url = stack.enter_context(master).group(0)
            worker = daemon(
                directory,
                "org.apache.spark.deploy.worker.Worker",
                *loopback,
                *("--cores", "1", "--memory", "1g", "--work-dir", str(directory / "work"), url),
                started="Successfully registered with master",
            )
            stack.enter_context(worker)
            return url

        yield await asyncio.to_thread(start)
        await asyncio.to_thread(stack.close)


async def test_an_engine_on_a_standalone_cluster_writes_and_reads_a_table(tmp_path: Path) -> None:
    async with (
        standalone_cluster(tmp_path) as master,
        running_engine(tmp_path / "data", EngineConfig(master=master, memory="512m")) as running,
    ):
        await running.run("CREATE NAMESPACE lake.db")
        await running.run("CREATE TABLE lake.db.t AS SELECT id, id % 3 AS k FROM range(1000)")
        counted = await running.run("SELECT k, count(*) AS n FROM lake.db.t GROUP BY k ORDER BY k")
        assert counted["n"].to_pylist() == [334, 333, 333]
        assert list((tmp_path / "work").rglob("bailiwick-guard-*.jar"))

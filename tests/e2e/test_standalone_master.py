"""The same launcher on another master: a standalone cluster from the classes in the pip package."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bailiwick.engines.config import EngineConfig
from bailiwick.testing.asking import wait_until
from bailiwick.testing.cluster import Cluster, standalone_cluster
from bailiwick.testing.engine import running_engine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path / "cluster") as running:
        yield running
    assert not any(psutil.pid_exists(worker.pid) for worker in running.workers)


async def test_an_engine_on_a_standalone_cluster_writes_and_reads_a_table(
    tmp_path: Path, cluster: Cluster
) -> None:
    config = EngineConfig(master=cluster.url, memory="512m")
    async with running_engine(tmp_path / "data", config) as running:
        await running.run("CREATE NAMESPACE lake.db")
        await running.run("CREATE TABLE lake.db.t AS SELECT id, id % 3 AS k FROM range(1000)")
        counted = await running.run("SELECT k, count(*) AS n FROM lake.db.t GROUP BY k ORDER BY k")
        assert counted["n"].to_pylist() == [334, 333, 333]
        # Of this one, Spark's own end of a query leaves what was shuffled.
        first = await running.run("SELECT id FROM range(0, 1000, 1, 4) ORDER BY id % 7, id LIMIT 3")
        assert first["id"].to_pylist() == [0, 7, 14]
        assert list(cluster.blocks.rglob("blockmgr-*"))
        await asyncio.to_thread(
            wait_until, "no shuffled file is left", lambda: not list(cluster.blocks.rglob("shuffle_*")), 10
        )
        assert len(cluster.executor_pids) == 1
        assert list((tmp_path / "cluster" / "work").rglob("bailiwick-guard-*.jar"))

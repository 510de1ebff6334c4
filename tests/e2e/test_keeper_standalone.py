"""A keeper whose engine has its executors on a standalone cluster, also where that is on a network."""

import asyncio
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from keeper_wire import Wire, wired

from bailiwick.testing.cluster import Cluster, standalone_cluster
from bailiwick.testing.daemon import Daemon
from bailiwick.testing.engine import run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SMALL = {"spark.executor.memory": "512m", "spark.cores.max": "1"}


async def counted(wire: Wire) -> list[int]:
    engine = await wire.wait_used()
    session = await engine.open_session()
    await run(session, "CREATE NAMESPACE lake.db", wire.leases.give(session))
    await run(
        session,
        "CREATE TABLE lake.db.t AS SELECT id, id % 3 AS k FROM range(1000)",
        wire.leases.give(session),
    )
    sql = "SELECT k, count(*) AS n FROM lake.db.t GROUP BY k ORDER BY k"
    found = await run(session, sql, wire.leases.give(session))
    numbers: list[int] = found["n"].to_pylist()
    return numbers


async def test_an_engine_on_a_cluster_joins_and_writes_and_reads_a_table(tmp_path: Path) -> None:
    with standalone_cluster(tmp_path / "cluster") as cluster:
        async with wired(tmp_path, master=cluster.url, more=SMALL) as wire:
            assert await counted(wire) == [334, 333, 333]
            assert wire.engine.report.master == cluster.url
            assert cluster.executor_pids


class SecretiveCluster(Cluster):
    """Every server of it knows the secret, and speaks to nobody who does not."""

    secret = ""

    def _start(self, name: str, options: Sequence[str], main: str, *arguments: str) -> Daemon:
        known = (
            "-Dspark.authenticate=true",
            f"-Dspark.authenticate.secret={self.secret}",
            "-Dspark.network.crypto.enabled=true",
        )
        return super()._start(name, (*options, *known), main, *arguments)


async def test_where_executors_are_on_a_network_spark_needs_a_secret_and_encrypts(tmp_path: Path) -> None:
    address = _own_address()
    (tmp_path / "cluster").mkdir()
    cluster = SecretiveCluster(tmp_path / "cluster", 1, "1g")
    cluster.secret = secrets.token_hex(16)
    try:
        await asyncio.to_thread(cluster.start_master)
        await asyncio.to_thread(cluster.start_worker)
        more = SMALL | {"spark.authenticate.secret": cluster.secret}
        async with wired(tmp_path, master=cluster.url, bind=address, more=more) as wire:
            assert await counted(wire) == [334, 333, 333]
            assert wire.engine.report.address.startswith(f"{address}:")
            assert cluster.executor_pids
    finally:
        cluster.end()


def _own_address() -> str:
    """One that other machines could reach, if they were there."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family is socket.AF_INET and not each.address.startswith("127."):
                return str(each.address)
    pytest.skip("this machine has no address but loopback")

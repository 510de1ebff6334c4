"""Between a gateway and an engine of another machine: mutual TLS to the engine, HTTPS to the catalog."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import psutil
import pytest
import pytest_asyncio
from keeper_wire import Wire, wired

from bailiwick.engines.engine import EngineLost
from bailiwick.engines.life_keys import is_handle_of, new_handle
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.errors import BailiwickError
from bailiwick.testing.engine import run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def wire(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Wire]:
    async with wired(tmp_path_factory.mktemp("wire")) as opened:
        await opened.wait_used()
        yield opened


async def test_queries_run_over_mutual_tls_and_find_their_tables_over_https(wire: Wire) -> None:
    session = await wire.engine.open_session()
    assert is_handle_of(session.handle, wire.engine.life)
    await run(session, "CREATE NAMESPACE lake.db", wire.leases.give(session))
    await run(
        session,
        "CREATE TABLE lake.db.t AS SELECT id, id % 3 AS k FROM range(1000)",
        wire.leases.give(session),
    )
    counted = await run(
        session, "SELECT k, count(*) AS n FROM lake.db.t GROUP BY k ORDER BY k", wire.leases.give(session)
    )
    assert counted["n"].to_pylist() == [334, 333, 333]
    await session.close()


async def test_a_session_with_the_handle_of_another_engine_finds_no_table(wire: Wire) -> None:
    report = wire.engine.report
    channel = SparkConnectChannel(
        report.address, report.engine_token.reveal(), grpc.ssl_channel_credentials(*_shown(wire, "gateway"))
    )
    stolen = new_handle("a-life-of-another-engine")
    session = await channel.open_session(stolen, {"spark.sql.catalog.lake.token": stolen})
    with pytest.raises(BailiwickError):
        await run(session, "SELECT count(*) FROM lake.db.t", wire.leases.give(session))
    await channel.close()


async def test_without_the_engines_token_a_certificate_is_not_enough(wire: Wire) -> None:
    credentials = grpc.ssl_channel_credentials(*_shown(wire, "gateway"))
    channel = SparkConnectChannel(wire.engine.report.address, "a-wrong-token", credentials)
    with pytest.raises(BailiwickError):
        await channel.ping(10)
    await channel.close()


async def test_without_a_certificate_the_token_is_not_enough(wire: Wire) -> None:
    report = wire.engine.report
    roots = wire.authority.file.read_bytes()
    for credentials in (None, grpc.ssl_channel_credentials(roots)):
        channel = SparkConnectChannel(report.address, report.engine_token.reveal(), credentials)
        with pytest.raises(EngineLost):
            await channel.ping(10)
        await channel.close()


async def test_whoever_speaks_plainly_is_not_answered(wire: Wire) -> None:
    host, _, port = wire.engine.report.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert b"HTTP" not in answer


async def test_the_engines_own_port_stays_on_loopback(wire: Wire) -> None:
    java = [each for each in psutil.Process().children(recursive=True) if each.name() == "java"]
    listening = [
        each for one in java for each in one.net_connections("inet") if each.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert all(each.laddr.ip in ("127.0.0.1", "::ffff:127.0.0.1") for each in listening)


async def test_a_drained_engine_is_replaced_by_a_fresh_one_without_being_lost(wire: Wire) -> None:
    first = wire.engine
    wire.registry.ask_drain(first.node_id)
    async with asyncio.timeout(60):
        await first.wait_lost()
    assert await first.explain_loss() == "stopped"
    second = await wire.wait_used()
    assert second.generation == first.generation + 1
    session = await second.open_session()
    counted = await run(session, "SELECT count(*) AS n FROM lake.db.t", wire.leases.give(session))
    assert counted["n"].to_pylist() == [1000]


def _shown(wire: Wire, name: str) -> tuple[bytes, bytes, bytes]:
    directory: Path = wire.authority.file.parent
    return (
        wire.authority.file.read_bytes(),
        (directory / f"{name}.key").read_bytes(),
        (directory / f"{name}.pem").read_bytes(),
    )

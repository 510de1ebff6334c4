"""The gateway is stopped, killed, started twice. What it started ends with it; nothing stays "running"."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from bailiwick.testing.asking import (
    ENDLESS,
    failure,
    in_background,
    rows,
    running_queries,
    start_client,
    value,
    wait_until,
)
from bailiwick.testing.gateway import RunningGateway, command, running_gateway

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(300)]

SETTINGS = {"BAILIWICK__ENGINE__MEMORY": "1g"}


@contextmanager
def fresh(tmp_path_factory: pytest.TempPathFactory, **settings: str) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("g") / "data", settings={**SETTINGS, **settings}) as running:
        yield running


def test_the_password_file_is_for_its_owner_alone(gateway: RunningGateway) -> None:
    assert (gateway.data_dir / "admin-password").stat().st_mode & 0o777 == 0o600
    assert gateway.log_text().count(gateway.admin_password) == 1


def test_a_second_gateway_on_the_same_directory_refuses_to_start(gateway: RunningGateway) -> None:
    second = subprocess.run(
        [command(), "serve", "--data-dir", str(gateway.data_dir), "--grpc-port", "0", "--http-port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode != 0
    assert f"in use by process {gateway.pid}" in second.stderr
    assert value(gateway, "SELECT 1") == 1


def test_sigterm_lets_a_short_query_end_and_leaves_nothing_behind(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with fresh(tmp_path_factory) as gateway:
        engine = gateway.engine_pid
        short = "SELECT count(*) FROM range(0, 3000000000, 1, 8) WHERE id % 3 = 1"
        with in_background(lambda: value(gateway, short)) as answer:
            wait_until("running", lambda: running_queries(gateway, "3000000000"))
            gateway.process.send_signal(signal.SIGTERM)
            assert answer.result(timeout=60) == 1_000_000_000
        assert gateway.process.wait(30) == 0
        assert not psutil.pid_exists(engine)


def test_sigterm_cancels_what_does_not_end_in_time(tmp_path_factory: pytest.TempPathFactory) -> None:
    with fresh(tmp_path_factory, BAILIWICK__SERVER__DRAIN_S="1") as gateway:
        with in_background(lambda: failure(gateway, ENDLESS)) as doomed:
            wait_until("running", lambda: running_queries(gateway, "CROSS JOIN"))
            gateway.process.send_signal(signal.SIGINT)
            assert doomed.result(timeout=30)
        assert gateway.process.wait(30) == 0


def test_a_killed_gateway_takes_its_engine_along_and_leaves_nothing_running(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data_dir: Path = tmp_path_factory.mktemp("killed") / "data"
    with running_gateway(data_dir, settings=SETTINGS) as gateway:
        rows(gateway, "CREATE NAMESPACE kept")
        rows(gateway, "CREATE TABLE kept.t AS SELECT 1 AS a")
        engine = gateway.engine_pid
        client = start_client(gateway, f"INSERT INTO kept.t {ENDLESS}")
        try:
            wait_until("running", lambda: running_queries(gateway, "CROSS JOIN"))
            os.kill(gateway.pid, signal.SIGKILL)
        finally:
            client.kill()
            client.wait()
        wait_until("the engine gone", lambda: not psutil.pid_exists(engine), 10)
    with running_gateway(data_dir, settings=SETTINGS) as again:
        assert value(again, "SELECT a FROM kept.t") == 1
        state, code, message = rows(
            again,
            "SELECT state, error_code, error_message FROM system.runtime.queries "
            "WHERE sql LIKE 'INSERT INTO kept%'",
        )[0]
        assert (state, code) == ("failed", "EXECUTION_FAILED")
        assert "restart" in message


def test_a_ticket_of_a_read_still_works_after_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    from pyarrow import flight

    data_dir: Path = tmp_path_factory.mktemp("ticket") / "data"
    with (
        running_gateway(data_dir, settings=SETTINGS) as gateway,
        gateway.connect() as connection,
        connection.cursor() as cursor,
    ):
        partitions, _schema = cursor.adbc_execute_partitions("SELECT 41 + 1 AS answer")
    ticket = flight.FlightInfo.deserialize(partitions[0]).endpoints[0].ticket
    with running_gateway(data_dir, settings=SETTINGS) as again:
        client = flight.connect(f"grpc://{again.grpc_address}")
        token = client.authenticate_basic_token("admin", again.admin_password)
        table = client.do_get(ticket, flight.FlightCallOptions(headers=[token])).read_all()
        assert table.to_pydict() == {"answer": [42]}
        client.close()


@pytest.mark.parametrize("count", [300, pytest.param(1800, marks=pytest.mark.full)])
def test_many_queries_in_a_row_on_one_connection_leave_nothing_behind(
    gateway: RunningGateway, count: int
) -> None:
    with gateway.connect() as connection, connection.cursor() as cursor:
        for number in range(200):
            cursor.execute(f"SELECT {number}")
            assert cursor.fetchone() == (number,)
        resident_before = psutil.Process(gateway.pid).memory_info().rss
        for number in range(count):
            cursor.execute(f"SELECT {number % 7} + 1")
            assert cursor.fetchone() == (number % 7 + 1,)
        assert psutil.Process(gateway.pid).memory_info().rss - resident_before < 150 << 20


def test_the_gateway_says_how_it_drains(tmp_path_factory: pytest.TempPathFactory) -> None:
    with fresh(tmp_path_factory) as gateway:
        started = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - started < 20
        assert "drain" in gateway.log_text()

"""The gateway is stopped, killed, started twice. What it started ends with it; nothing stays "running".

Starting one is the slow part, so one data directory has three lives here: `stopped` in the middle of a query,
`killed` in the middle of a change, and then `after`, which is stopped while something runs that does not end.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyarrow import flight

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


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """The last test stops it."""
    with running_gateway(tmp_path_factory.mktemp("gateway") / "data", settings=SETTINGS) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Stopped:
    """What became of a gateway that got SIGTERM while a short query ran."""

    data_dir: Path
    answer: int
    exit_code: int
    is_engine_gone: bool
    ticket: Any
    """Of a read that nobody fetched."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    data_dir = tmp_path_factory.mktemp("lives") / "data"
    short = "SELECT count(*) FROM range(0, 200000000, 1, 8) WHERE id % 3 = 1"
    with running_gateway(data_dir, settings=SETTINGS) as gateway:
        rows(gateway, "CREATE NAMESPACE kept")
        rows(gateway, "CREATE TABLE kept.t AS SELECT 1 AS a")
        with gateway.connect() as connection, connection.cursor() as cursor:
            partitions, _schema = cursor.adbc_execute_partitions("SELECT 41 + 1 AS answer")
        ticket = flight.FlightInfo.deserialize(partitions[0]).endpoints[0].ticket
        engine = gateway.engine_pid
        with in_background(lambda: value(gateway, short)) as answer:
            wait_until("running", lambda: running_queries(gateway, "200000000"))
            gateway.process.send_signal(signal.SIGTERM)
            told = answer.result(timeout=60)
        exit_code = gateway.process.wait(30)
        return Stopped(data_dir, told, exit_code, not psutil.pid_exists(engine), ticket)


@dataclass(frozen=True, slots=True)
class Killed:
    """What became of the next one: its reader's answer, and its engine's end."""

    data_dir: Path
    fetched: dict[str, list[Any]]
    is_engine_gone: bool


@pytest.fixture(scope="module")
def killed(stopped: Stopped) -> Killed:
    with running_gateway(stopped.data_dir, settings=SETTINGS) as gateway:
        with flight.connect(f"grpc://{gateway.grpc_address}") as client:
            token = client.authenticate_basic_token("admin", gateway.admin_password)
            options = flight.FlightCallOptions(headers=[token])
            fetched = client.do_get(stopped.ticket, options).read_all().to_pydict()
        engine = gateway.engine_pid
        writer = start_client(gateway, f"INSERT INTO kept.t {ENDLESS}")
        try:
            wait_until("running", lambda: running_queries(gateway, "CROSS JOIN"))
            os.kill(gateway.pid, signal.SIGKILL)
        finally:
            writer.kill()
            writer.wait()
        wait_until("the engine gone", lambda: not psutil.pid_exists(engine), 10)
        return Killed(stopped.data_dir, fetched, not psutil.pid_exists(engine))


@pytest.fixture(scope="module")
def after(killed: Killed) -> Iterator[RunningGateway]:
    settings = {**SETTINGS, "BAILIWICK__SERVER__DRAIN_S": "1"}
    with running_gateway(killed.data_dir, settings=settings) as running:
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


def test_sigterm_lets_a_short_query_end_and_leaves_nothing_behind(stopped: Stopped) -> None:
    assert stopped.answer == 66_666_667
    assert stopped.exit_code == 0
    assert stopped.is_engine_gone


def test_a_ticket_of_a_read_still_works_after_a_restart(killed: Killed) -> None:
    assert killed.fetched == {"answer": [42]}


def test_a_killed_gateway_takes_its_engine_along_and_leaves_nothing_running(
    killed: Killed, after: RunningGateway
) -> None:
    assert killed.is_engine_gone
    assert value(after, "SELECT a FROM kept.t") == 1
    state, code, message = rows(
        after,
        "SELECT state, error_code, error_message FROM system.runtime.queries "
        "WHERE sql LIKE 'INSERT INTO kept%'",
    )[0]
    assert (state, code) == ("failed", "EXECUTION_FAILED")
    assert "restart" in message


def test_sigterm_cancels_what_does_not_end_in_time(after: RunningGateway) -> None:
    with in_background(lambda: failure(after, ENDLESS)) as doomed:
        wait_until("running", lambda: running_queries(after, "CROSS JOIN"))
        after.process.send_signal(signal.SIGINT)
        assert doomed.result(timeout=30)
    assert after.process.wait(30) == 0


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


def test_the_gateway_says_how_it_drains(gateway: RunningGateway) -> None:
    started = time.monotonic()
    assert gateway.stop() == 0
    assert time.monotonic() - started < 20
    assert "drain" in gateway.log_text()

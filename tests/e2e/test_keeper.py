"""`bailiwick engine` as a person starts it: joined to a gateway by heartbeat, used, killed, drained."""

import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from bailiwick.testing.asking import rows, value, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.keepers import KeptEngine, admitting, new_token_file
from bailiwick.testing.processes import is_running

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@dataclass
class House:
    """A gateway without an engine of its own, and a keeper that brought one."""

    gateway: RunningGateway
    engine: KeptEngine

    def health(self) -> str:
        told = dict(rows(self.gateway, "SELECT node_id, health FROM system.runtime.nodes"))
        return str(told.get(self.engine.node_id))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The keeper is there first and waits: a gateway without an engine is ready when one has joined."""
    directory = tmp_path_factory.mktemp("kept")
    tokens = new_token_file(directory / "service-tokens")
    port = _free_port()
    settings = admitting(tokens) | {
        "BAILIWICK__FLEET__EMBEDDED": "false",
        "BAILIWICK__FLEET__HEARTBEAT_S": "1",
    }
    engine = KeptEngine(
        "engine-1",
        directory / "engine",
        f"http://127.0.0.1:{port}",
        tokens,
        master="local[2]",
        arguments=("--memory", "1g"),
    )
    engine.start()
    try:
        ports = ("--http-port", str(port))
        with running_gateway(directory / "gateway", settings=settings, arguments=ports) as gateway:
            engine.wait_joined()
            yield House(gateway, engine)
    finally:
        engine.end()


def test_a_joined_engine_is_used_seconds_later_with_tables_and_policies(house: House) -> None:
    wait_until("used", lambda: value(house.gateway, "SELECT 1 + 1") == 2, 60)
    assert house.health() == "healthy"
    rows(house.gateway, "CREATE SCHEMA lake.kept")
    rows(house.gateway, "CREATE TABLE lake.kept.t AS SELECT id, id % 3 AS k FROM range(1000)")
    counted = rows(house.gateway, "SELECT k, count(*) FROM lake.kept.t GROUP BY k ORDER BY k")
    assert counted == [(0, 334), (1, 333), (2, 333)]


def test_an_engine_that_is_killed_comes_back_as_a_new_life(house: House) -> None:
    first = house.engine.engine_pid
    os.kill(first, signal.SIGKILL)
    wait_until("another engine", lambda: house.engine.engine_pid != first, 60)
    wait_until("used again", lambda: value(house.gateway, "SELECT count(*) FROM lake.kept.t") == 1000, 90)
    assert not psutil.pid_exists(first)


def test_no_secret_of_a_life_stands_in_a_command_or_a_log(house: House) -> None:
    run = house.engine.directory / "data" / "run"
    secrets = [(run / name).read_text().strip() for name in ("engine.credential", "engine.stamp-key")]
    properties = (run / "engine.properties").read_text()
    secrets.append(properties.split("spark.connect.authenticate.token=")[1].splitlines()[0])
    secrets.append(house.engine.token_file.read_text().strip())
    seen = [
        *psutil.Process(house.engine.engine_pid).cmdline(),
        *psutil.Process(house.engine.engine_pid).environ().values(),
        *psutil.Process(house.engine.pid).cmdline(),
        (house.engine.directory / "data" / "log" / "engine.log").read_text(errors="replace"),
        house.gateway.log_text(),
    ]
    for secret in secrets:
        assert len(secret) > 20
        assert not any(secret in text for text in seen)
    for file in run.iterdir():
        assert file.stat().st_mode & 0o077 == 0 or file.is_dir()


def test_the_engine_listens_on_loopback_only(house: House) -> None:
    for process in (psutil.Process(house.engine.engine_pid), psutil.Process(house.engine.pid)):
        listening = [each for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]
        assert listening
        assert all(each.laddr.ip in ("127.0.0.1", "::ffff:127.0.0.1", "::1") for each in listening)


def test_a_killed_keeper_leaves_no_engine_and_a_new_one_brings_another(house: House) -> None:
    engine = house.engine.engine_pid
    os.kill(house.engine.pid, signal.SIGKILL)
    wait_until("gone", lambda: not is_running(engine), 30)
    house.engine.mend()
    house.engine.wait_joined()
    wait_until("used again", lambda: value(house.gateway, "SELECT count(*) FROM lake.kept.t") == 1000, 90)


def test_a_stopped_keeper_drains_leaves_and_says_so(house: House) -> None:
    engine = house.engine.engine_pid
    os.kill(house.engine.pid, signal.SIGTERM)
    wait_until("gone", lambda: not is_running(engine), 60)
    wait_until("left", lambda: house.health() == "gone", 30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])

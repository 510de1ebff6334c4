"""A result outlives its streams: ended by the gateway after a time or a size, cut by the network, or left.

The gateway ends streams after a second and a mebibyte here, so that a result of seconds is for its client
what one of many minutes is otherwise.
"""

import datetime
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from bailiwick.testing.asking import rows, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.line import laid
from spark_connect.conftest import token
from spark_connect.environments import VERSIONS, environment, python_of
from spark_connect.long_result import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

DETACH_S = 3.0
STREAM_BYTES = 1 << 20
STREAMS_MIN = 5
SHORT_STREAMS = {
    "BAILIWICK__ENGINE__MEMORY": "1g",
    "BAILIWICK__SERVER__DRAIN_S": "1",
    "BAILIWICK__RESULTS__WINDOW_BYTES": str(1 << 20),
    "BAILIWICK__SPARK_CONNECT__STREAM_S": "1",
    "BAILIWICK__SPARK_CONNECT__STREAM_BYTES_MAX": str(STREAM_BYTES),
    "BAILIWICK__SPARK_CONNECT__DETACH_S": str(DETACH_S),
}
QUERIES = (
    "SELECT query_id, state, error_message, finished_at FROM system.runtime.queries "
    "WHERE door = 'spark_connect' ORDER BY created_at"
)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("streams") / "data", settings=SHORT_STREAMS) as running:
        yield running


@pytest.fixture(scope="module")
def admin_token(short: RunningGateway) -> str:
    return token(short, "admin")


class Reader:
    """A stock client in a process of its own, and what it told."""

    def __init__(self, process: "subprocess.Popen[str]", errors: Path) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []
        self._errors = errors

    def until(self, key: str) -> Any:
        """What it says of `key`, the first time that it does."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with suppress(json.JSONDecodeError):
                self.told.append(json.loads(line))
                if key in self.told[-1]:
                    return self.told[-1][key]
        raise AssertionError(f"it ended without {key}: {self._errors.read_text()[-3000:]}")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@contextmanager
def reading(version: str, what: str, address: str, token: str, errors: Path) -> Iterator[Reader]:
    with errors.open("w") as said:
        process = subprocess.Popen(
            [str(python_of(version)), "-m", "spark_connect.long_result", what, address],
            env=environment({"TOKEN": token}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
    with process:
        try:
            yield Reader(process, errors)
        finally:
            process.kill()


def queries(gateway: RunningGateway) -> list[tuple[Any, ...]]:
    return rows(gateway, QUERIES)


def spooled_bytes(gateway: RunningGateway) -> float:
    with urllib.request.urlopen(f"http://{gateway.http_address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("bailiwick_spool_bytes "))


@pytest.mark.parametrize(
    "version",
    [VERSIONS[0], *(pytest.param(version, marks=pytest.mark.full) for version in VERSIONS[1:])],
)
def test_a_long_result_comes_whole_over_many_short_streams(
    short: RunningGateway, admin_token: str, version: str, tmp_path: Path
) -> None:
    with reading(version, "rows", short.grpc_address, admin_token, tmp_path / "err") as reader:
        reader.until("began")
        # It keeps its client's pace, and what the client has not read yet lies in the spool ...
        wait_until("the result is there", lambda: queries(short)[-1][1] == "finished")
        held_bytes = spooled_bytes(short)
        reader.go_on()
        assert reader.until("rows") == ROWS
        end = reader.told[-1]
        assert end["is_whole"]
        assert end["taken_up"] >= held_bytes // STREAM_BYTES - 1
        assert end["taken_up"] >= STREAMS_MIN
        assert reader.process.wait(60) == 0
    # ... until it lets go of it.
    assert held_bytes > 0
    wait_until("the spool is empty", lambda: spooled_bytes(short) == 0)


def test_a_result_that_takes_long_is_one_query_over_many_streams(
    short: RunningGateway, admin_token: str, tmp_path: Path
) -> None:
    with reading(VERSIONS[0], "endless", short.grpc_address, admin_token, tmp_path / "err") as reader:
        reader.until("streams")
        begun = wait_until("it runs", lambda: _running(short))
        while reader.until("streams") < STREAMS_MIN:
            pass
        assert _running(short) == begun
        reader.go_on()
        assert reader.until("interrupted") == 1
        assert reader.until("ended") == "OPERATION_CANCELED"
    wait_until("nothing runs", lambda: not _running(short))


def test_a_cut_line_is_taken_up_where_it_broke(
    short: RunningGateway, admin_token: str, tmp_path: Path
) -> None:
    host, _, port = short.grpc_address.rpartition(":")
    with (
        laid(lambda: (host, int(port))) as line,
        reading(VERSIONS[0], "rows", line.address, admin_token, tmp_path / "err") as reader,
    ):
        reader.until("began")
        before = len(queries(short))
        line.cut()
        reader.go_on()
        line.mend()
        assert reader.until("rows") == ROWS
        assert reader.told[-1]["is_whole"]
        assert line.connections > 1
        # Nothing ran again.
        assert len(queries(short)) == before


def test_what_a_client_that_left_had_asked_for_ends_after_the_detach_time(
    short: RunningGateway, admin_token: str, tmp_path: Path
) -> None:
    with reading(VERSIONS[0], "endless", short.grpc_address, admin_token, tmp_path / "err") as reader:
        reader.until("streams")
        (query_id,) = wait_until("it runs", lambda: _running(short))
        wait_until("Spark works on it", lambda: _tasks(short, query_id))
        reader.process.kill()
        reader.process.wait()
        left_at = datetime.datetime.now(datetime.UTC)
        wait_until("it has ended", lambda: _row(short, query_id)[1] != "running", DETACH_S + 30)
    _, state, message, finished_at = _row(short, query_id)
    assert (state, message) == ("cancelled", "The client left before the end.")
    assert (finished_at - left_at).total_seconds() > DETACH_S - 1  # A reader is missed once it is written to.
    wait_until("Spark works on nothing of it", lambda: not _tasks(short, query_id))


def _running(gateway: RunningGateway) -> list[str]:
    return [query_id for query_id, state, *_ in queries(gateway) if state == "running"]


def _tasks(gateway: RunningGateway, query_id: str) -> list[tuple[Any, ...]]:
    """Those of its tasks that run in the engine."""
    running = "SELECT task_id FROM system.runtime.tasks WHERE state = 'running'"
    return rows(gateway, f"{running} AND query_id = '{query_id}'")


def _row(gateway: RunningGateway, query_id: str) -> tuple[Any, ...]:
    return next(row for row in queries(gateway) if row[0] == query_id)

"""Clients that stop reading, or die. They cost neither memory nor a place for others."""

import os
import signal
import time
from contextlib import ExitStack

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
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(300)]

WIDE = (
    "SELECT id, sha2(cast(id AS STRING), 512) AS a, sha2(cast(-id AS STRING), 512) AS b "
    "FROM range(0, {count}, 1, 64)"
)
MEGABYTE = 1 << 20


def resident_megabytes(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss // MEGABYTE)


@pytest.mark.parametrize("count", [500_000, pytest.param(1_000_000, marks=pytest.mark.full)])
def test_ten_clients_that_stop_reading_do_not_keep_an_eleventh_waiting(
    gateway: RunningGateway, count: int
) -> None:
    value(gateway, "SELECT 1")
    gateway_before, engine_before = resident_megabytes(gateway.pid), resident_megabytes(gateway.engine_pid)
    with ExitStack() as stack:
        for _ in range(10):
            cursor = stack.enter_context(stack.enter_context(gateway.connect()).cursor())
            cursor.execute(WIDE.format(count=count))
            # One batch only: from now on this client reads nothing.
            assert cursor.fetch_record_batch().read_next_batch().num_rows > 0
        assert value(gateway, "SELECT count(*) FROM range(1000)") == 1000
        # Ten results of 135 MB each, or twice that: what is finished lies in windows of 16 MB and the spool.
        assert resident_megabytes(gateway.pid) - gateway_before < 700
        assert resident_megabytes(gateway.engine_pid) - engine_before < 1500
        assert value(gateway, "SELECT 2") == 2
    wait_until("the spool empty", lambda: not list((gateway.data_dir / "spool").glob("*")), 30)


def test_a_killed_client_stops_spark_within_two_seconds(gateway: RunningGateway) -> None:
    client = start_client(gateway, ENDLESS)
    try:
        wait_until("running", lambda: running_queries(gateway, "CROSS JOIN"))
        client.kill()
        killed_at = time.monotonic()
        wait_until("cancelled", lambda: not running_queries(gateway, "CROSS JOIN"), 10)
        assert time.monotonic() - killed_at < 3.0
    finally:
        client.kill()
        client.wait()
    # Spark's cores are really free again: the engine burns no CPU for the dead client's query.
    engine = psutil.Process(gateway.engine_pid)
    wait_until("idle", lambda: engine.cpu_percent(interval=0.5) < 60, 10)


def test_a_killed_client_of_a_change_leaves_no_late_commit(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS late")
    rows(gateway, "CREATE OR REPLACE TABLE late.target (n BIGINT) USING iceberg")
    slow = f"INSERT INTO late.target {ENDLESS}"
    client = start_client(gateway, slow)
    try:
        wait_until("running", lambda: running_queries(gateway, "INSERT INTO late"))
    finally:
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
    wait_until("cancelled", lambda: not running_queries(gateway, "INSERT INTO late"), 10)
    assert value(gateway, "SELECT count(*) FROM late.target") == 0
    assert value(gateway, "SELECT count(*) FROM late.target.snapshots") == 0


def test_two_long_queries_on_two_cores_leave_short_ones_answering(gateway: RunningGateway) -> None:
    with gateway.connect() as first, gateway.connect() as second:
        cursors = [first.cursor(), second.cursor()]
        with (
            in_background(lambda: _endless(cursors[0])) as one,
            in_background(lambda: _endless(cursors[1])) as two,
        ):
            wait_until("both running", lambda: len(running_queries(gateway, "CROSS JOIN")) == 2)
            # They count as long after interactive_s (10 s); from then on short ones have their slots.
            assert value(gateway, "SELECT count(*) FROM range(1000)") == 1000
            times = []
            for _ in range(5):
                started = time.monotonic()
                assert value(gateway, "SELECT 1") == 1
                times.append(time.monotonic() - started)
            assert sorted(times)[2] < 5.0
            for cursor in cursors:
                cursor.adbc_cancel()
            assert "ancel" in one.result(timeout=30)
            assert "ancel" in two.result(timeout=30)
    assert failure(gateway, "SELECT * FROM no_such_table")


def _endless(cursor: object) -> str:
    try:
        cursor.execute(ENDLESS)  # type: ignore[attr-defined]
        cursor.fetchall()  # type: ignore[attr-defined]
    except Exception as error:
        return str(error)
    return "it ended"

"""An ingest that is cut at any point leaves nothing to be seen, and nothing behind."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait

import psutil
import pyarrow as pa
import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.asking import failure, in_background, rows, running_queries, value, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.ingesting import SCHEMA, batches, bring, halfway, staged_files, start_bringing

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(400)]

SETTINGS = {"BAILIWICK__ENGINE__MEMORY": "1g", "BAILIWICK__RESULTS__READER_IDLE_S": "8"}
FEW = pa.table({"id": [1, 2, 3], "label": ["a", "b", None]})


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway") / "data", settings=SETTINGS) as running:
        rows(running, "CREATE NAMESPACE ingest")
        yield running


def nothing_is_left(gateway: RunningGateway, table: str) -> None:
    wait_until("no ingest", lambda: not running_queries(gateway, f"INGEST INTO lake.ingest.{table}"))
    wait_until("nothing staged", lambda: not list((gateway.data_dir / "staging").rglob(f"*{os.sep}t*-*")), 40)
    assert "TABLE_NOT_FOUND" in failure(gateway, f"SELECT * FROM ingest.{table}")


def test_a_client_that_is_killed_in_the_middle(gateway: RunningGateway) -> None:
    client = start_bringing(gateway, "ingest", "killed")
    try:
        wait_until("rows staged", lambda: staged_files(gateway), 60)
    finally:
        client.kill()
        client.wait()
    nothing_is_left(gateway, "killed")


def test_a_client_that_sends_nothing_more_is_ended(gateway: RunningGateway) -> None:
    with halfway(gateway, "stalled", "create") as (future, _go_on):
        stalled_at = time.monotonic()
        nothing_is_left(gateway, "stalled")
        assert time.monotonic() - stalled_at < 30
    with pytest.raises(AdbcError, match="sent nothing for 8 s"):
        future.result(60)


def test_a_batch_that_does_not_fit_in_the_middle(gateway: RunningGateway) -> None:
    def spoiled() -> pa.RecordBatchReader:
        bad = pa.record_batch([[2**40], ["too large"]], schema=SCHEMA)
        return pa.RecordBatchReader.from_batches(SCHEMA, [*batches(12), bad])

    rows(gateway, "CREATE TABLE ingest.spoiled (id INT, label STRING)")
    with pytest.raises(AdbcError, match="Column id holds a value that does not fit"):
        bring(gateway, "spoiled", spoiled(), "append")
    assert value(gateway, "SELECT count(*) FROM ingest.spoiled.snapshots") == 0
    rows(gateway, "DROP TABLE ingest.spoiled")
    nothing_is_left(gateway, "spoiled")


def test_an_engine_that_dies_in_the_middle(gateway: RunningGateway) -> None:
    with halfway(gateway, "orphaned", "create") as (future, go_on):
        os.kill(gateway.engine_pid, signal.SIGKILL)
        go_on.set()
        with pytest.raises(AdbcError, match=r"EXECUTION_FAILED|CIRCUIT_BREAKER_OPEN"):
            future.result(120)
    wait_until("an engine", lambda: value(gateway, "SELECT 1") == 1, 120)
    nothing_is_left(gateway, "orphaned")
    assert bring(gateway, "after", FEW, "replace") == 3


def test_a_table_larger_than_the_engine_s_memory_comes_whole_and_the_gateway_stays_small(
    gateway: RunningGateway,
) -> None:
    """Seven hundred megabytes: in one plan, as rows on Spark's heap, they would come to more than it has."""
    process = psutil.Process(gateway.pid)
    before = process.memory_info().rss
    peak = before
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches(160))
    with in_background(lambda: bring(gateway, "whole", reader, "replace")) as future:
        while not future.done():
            peak = max(peak, process.memory_info().rss)
            wait([future], timeout=0.2)
        assert future.result() == 3_200_000
    assert value(gateway, "SELECT count(DISTINCT id) FROM ingest.whole") == 3_200_000
    assert peak - before < 500 << 20


def test_a_gateway_that_is_killed_in_the_middle_starts_clean(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data_dir = tmp_path_factory.mktemp("killed") / "data"
    with running_gateway(data_dir, settings=SETTINGS) as gateway:
        rows(gateway, "CREATE NAMESPACE ingest")
        go_on = threading.Event()
        reader = pa.RecordBatchReader.from_batches(SCHEMA, batches(12, then=go_on))
        with in_background(lambda: bring(gateway, "lost", reader, "create")) as future:
            wait_until("rows staged", lambda: staged_files(gateway), 60)
            os.kill(gateway.pid, signal.SIGKILL)
            gateway.process.wait()
            go_on.set()
            with pytest.raises(AdbcError):
                future.result(60)
        assert staged_files(gateway)
    with running_gateway(data_dir, settings=SETTINGS) as again:
        assert staged_files(again) == []
        assert "TABLE_NOT_FOUND" in failure(again, "SELECT * FROM ingest.lost")
        ended = "SELECT state FROM system.runtime.queries WHERE sql LIKE 'INGEST%'"
        assert rows(again, ended) == [("failed",)]

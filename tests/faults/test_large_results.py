"""Results larger than the heap, than a limit, than a disk. They arrive whole, or fail alone with a code."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import psutil
import pytest

from bailiwick.testing.asking import failure, rows, value, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.small_disk import small_disk, why_not

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(900)]

GIGABYTE = 1 << 30
COLUMNS = 24
ROWS_OF_A_GB = 5_500_000


@contextmanager
def watching_memory(*pids: int) -> Iterator[list[int]]:
    """The largest resident size of each process, in bytes, while the block runs."""
    peaks, done = [0] * len(pids), threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            for index, pid in enumerate(pids):
                peaks[index] = max(peaks[index], psutil.Process(pid).memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("gigabytes", "heap_gigabytes"),
    [
        pytest.param(2, 1, id="2 GB through 1"),
        pytest.param(4, 2, id="4 GB through 2", marks=pytest.mark.full),
    ],
)
def test_a_scan_of_twice_the_heap_passes_whole_and_with_flat_memory(
    tmp_path_factory: pytest.TempPathFactory, gigabytes: int, heap_gigabytes: int
) -> None:
    settings = {
        "BAILIWICK__ENGINE__MEMORY": f"{heap_gigabytes}g",
        "BAILIWICK__ENGINE__QUICK_COMPILE": "false",
        "BAILIWICK__LIMITS__RESULT_BYTES_MAX": "0",
        "BAILIWICK__LIMITS__TIMEOUT_S": "1200",
    }
    with running_gateway(tmp_path_factory.mktemp("large") / "data", settings=settings) as gateway:
        row_count = gigabytes * ROWS_OF_A_GB
        columns = ", ".join(f"xxhash64(id, {n}) AS c{n}" for n in range(COLUMNS))
        rows(gateway, "CREATE NAMESPACE big")
        rows(
            gateway,
            "CREATE TABLE big.t USING iceberg "
            "TBLPROPERTIES ('write.parquet.compression-codec' = 'uncompressed') "
            f"AS SELECT id, {columns} FROM range(0, {row_count}, 1, {4 * gigabytes})",
        )
        expected = value(gateway, "SELECT bit_xor(c0) FROM big.t")
        with watching_memory(gateway.pid, gateway.engine_pid) as peaks:
            seen_rows = seen_bytes = seen_xor = 0
            with gateway.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT * FROM big.t")
                for batch in cursor.fetch_record_batch():
                    seen_rows += batch.num_rows
                    seen_bytes += batch.nbytes
                    seen_xor ^= int(numpy.bitwise_xor.reduce(batch.column("c0").to_numpy()))
        assert seen_rows == row_count
        assert seen_bytes > gigabytes * GIGABYTE
        assert seen_xor == expected
        gateway_peak, engine_peak = peaks
        assert gateway_peak < 1 * GIGABYTE
        assert engine_peak < (heap_gigabytes + 1.5) * GIGABYTE


def test_a_result_beyond_the_limit_is_a_typed_error_and_the_engine_lives(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    settings = {
        "BAILIWICK__ENGINE__MEMORY": "1g",
        "BAILIWICK__LIMITS__RESULT_BYTES_MAX": str(20 << 20),
        "BAILIWICK__LIMITS__RESULT_ROWS_MAX": "500000",
    }
    with running_gateway(tmp_path_factory.mktemp("limit") / "data", settings=settings) as gateway:
        engine = gateway.engine_pid
        too_many_bytes = failure(gateway, "SELECT repeat('x', 1000) FROM range(0, 100000, 1, 8)")
        assert "RESOURCE_EXHAUSTED" in too_many_bytes
        assert "result_bytes_max" in too_many_bytes
        too_many_rows = failure(gateway, "SELECT id FROM range(0, 1000000, 1, 8)")
        assert "RESOURCE_EXHAUSTED" in too_many_rows
        assert "result_rows_max" in too_many_rows
        assert value(gateway, "SELECT 1") == 1
        assert gateway.engine_pid == engine


def test_a_row_of_20_mb_is_a_typed_error(gateway: RunningGateway) -> None:
    message = failure(gateway, f"SELECT repeat('x', {20 << 20}) AS huge")
    assert "RESOURCE_EXHAUSTED" in message
    assert value(gateway, f"SELECT length(repeat('x', {20 << 20}))") == 20 << 20


def test_a_row_of_2_mb_passes(gateway: RunningGateway) -> None:
    assert len(value(gateway, f"SELECT repeat('x', {2 << 20})")) == 2 << 20


def test_a_full_disk_under_the_spool_fails_the_slow_reader_alone(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if (problem := why_not()) is not None:
        pytest.skip(problem)
    data_dir = tmp_path_factory.mktemp("full") / "data"
    settings = {"BAILIWICK__ENGINE__MEMORY": "1g", "BAILIWICK__RESULTS__WINDOW_BYTES": str(1 << 20)}
    with small_disk(data_dir / "spool", megabytes=8), running_gateway(data_dir, settings=settings) as gateway:
        with gateway.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, sha2(cast(id AS STRING), 512) FROM range(0, 1000000, 1, 64)")
            reader = cursor.fetch_record_batch()
            reader.read_next_batch()
            wait_until(
                "failed",
                lambda: value(
                    gateway, "SELECT count(*) FROM system.runtime.queries WHERE error_code = 'STORAGE_ERROR'"
                ),
            )
            with pytest.raises(Exception, match="STORAGE_ERROR"):
                for _ in reader:
                    pass
        assert value(gateway, "SELECT count(*) FROM range(1000)") == 1000
        assert not list((data_dir / "spool").glob("*"))

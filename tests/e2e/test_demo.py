"""The demo, as a person runs it: once on an empty directory, then again on the lake that it made."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from adbc_driver_flightsql import dbapi

from bailiwick.testing.gateway import SMALL, clean_environment, command

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SERVING = re.compile(r"Serving (?P<address>\S+) until Ctrl-C")
READY_S = 180.0
POLL_S = 0.05
ROWS = {
    "customers": 20_000,
    "products": 2_000,
    "orders": 200_000,
    "order_lines": 500_000,
    "daily_revenue": 2_190,
}


@dataclass(frozen=True, slots=True)
class Demo:
    process: "subprocess.Popen[bytes]"
    address: str
    output: Path
    connection: Any

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "data"


@pytest.fixture(scope="module")
def first(data_dir: Path) -> "subprocess.CompletedProcess[str]":
    """`bailiwick demo --once` on a directory that is not there yet."""
    return subprocess.run(
        [command(), "demo", "--once", "--data-dir", str(data_dir)],
        env=clean_environment(SMALL),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )


@pytest.fixture(scope="module")
def second(first: "subprocess.CompletedProcess[str]", data_dir: Path) -> Iterator[Demo]:
    """`bailiwick demo` on the lake that the first run made, serving on."""
    assert first.returncode == 0, first.stderr[-4000:]
    output = data_dir.parent / "second.output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [command(), "demo", "--data-dir", str(data_dir)],
            env=clean_environment(SMALL),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        address = _wait_serving(process, output)
        credentials = {"username": "admin", "password": (data_dir / "admin-password").read_text().strip()}
        with dbapi.connect(f"grpc://{address}", credentials, autocommit=True) as connection:
            yield Demo(process, address, output, connection)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_the_first_run_makes_a_lake_and_shows_its_answers(first: "subprocess.CompletedProcess[str]") -> None:
    assert first.returncode == 0, first.stderr[-4000:]
    for expected in (
        "The lake is made",
        "What sells best?",
        "percent_more",
        "500,000 rows",
        "jdbc:arrow-flight-sql://",
    ):
        assert expected in first.stdout


def test_the_first_run_tells_no_secret(first: "subprocess.CompletedProcess[str]", data_dir: Path) -> None:
    assert (data_dir / "admin-password").read_text().strip() not in first.stdout


def test_the_second_run_finds_the_lake_and_keeps_serving(second: Demo) -> None:
    assert "The lake is there from last time" in second.output.read_text()
    assert second.process.poll() is None
    assert second.rows("SELECT 1") == [(1,)]


def test_every_table_has_its_rows(second: Demo) -> None:
    counts = " UNION ALL ".join(
        f"SELECT '{name}' AS name, count(*) AS rows FROM shop.{name}" for name in ROWS
    )
    assert {str(name): rows for name, rows in second.rows(counts)} == ROWS


def test_the_orders_are_partitioned_by_month(second: Demo) -> None:
    assert second.rows("SELECT count(*), sum(record_count) FROM shop.orders.partitions") == [(24, 200_000)]


def test_every_line_belongs_to_an_order_and_a_product(second: Demo) -> None:
    orphans = (
        "SELECT count(*) FROM shop.order_lines l LEFT JOIN shop.orders o ON o.order_id = l.order_id "
        "LEFT JOIN shop.products p ON p.product_id = l.product_id AND p.price = l.unit_price "
        "LEFT JOIN shop.customers c ON c.customer_id = o.customer_id "
        "WHERE o.order_id IS NULL OR p.product_id IS NULL OR c.customer_id IS NULL"
    )
    assert second.rows(orphans) == [(0,)]


def test_the_view_and_the_aggregate_agree(second: Demo) -> None:
    by_country = second.rows("SELECT sum(revenue), sum(orders) FROM shop.revenue_by_country")
    by_day = second.rows("SELECT sum(revenue), sum(orders) FROM shop.daily_revenue")
    assert by_country == by_day


def test_interrupting_it_ends_everything_it_started(second: Demo) -> None:
    children = psutil.Process(second.process.pid).children(recursive=True)
    assert children
    second.process.send_signal(signal.SIGINT)
    assert second.process.wait(60) == 0
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


def _wait_serving(process: "subprocess.Popen[bytes]", output: Path) -> str:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if match := SERVING.search(output.read_text(errors="replace")):
            return match["address"]
        assert process.poll() is None, output.read_text(errors="replace")[-4000:]
        time.sleep(POLL_S)
    raise TimeoutError(output.read_text(errors="replace")[-4000:])

"""The demo, as a person runs it: once on an empty directory, then again on the lake that it made."""

import re
import shlex
import signal
import subprocess
import sys
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
PEOPLE = ("admin", "ana", "audrey")
RULES = ("eu_only", "hide_email", "pii_last_4", "pii")
"""A filter, two masks and the tag."""
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
    data_dir: Path
    connection: Any

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return _rows(self.connection, sql)

    def rows_of(self, person: str, sql: str) -> list[tuple[Any, ...]]:
        with _connect(self.address, person, self.data_dir) as connection:
            return _rows(connection, sql)


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
        with _connect(address, "admin", data_dir) as connection:
            yield Demo(process, address, output, data_dir, connection)
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
    assert first.returncode == 0, first.stderr[-4000:]
    for person in PEOPLE:
        path = data_dir / f"{person}-password"
        assert path.read_text().strip() not in first.stdout
        assert path.stat().st_mode & 0o077 == 0


def test_three_people_get_three_answers_to_one_question(first: "subprocess.CompletedProcess[str]") -> None:
    whole, hers, audited = _answers(first.stdout)
    assert {row["region"] for row in whole} > {"EU"}
    assert {row["customers"] for row in whole} == {str(ROWS["customers"])}
    assert {row["region"] for row in hers} == {"EU"}
    assert all(int(row["customers"]) < ROWS["customers"] for row in hers)
    assert [row["name"] for row in audited] == [row["name"] for row in whole]
    assert all(row["email"].endswith("@example.org") for row in whole)
    assert all(row["email"].endswith("@hidden") for row in (*hers, *audited))
    assert [row["phone"] for row in audited] == [row["phone"] for row in whole]
    assert not {row["phone"] for row in hers} & {row["phone"] for row in whole}
    assert all(re.fullmatch(r"xn+xnnnxnnn\d{4}", row["phone"]) for row in hers)


def test_a_refusal_explains_itself_and_what_is_not_hers_is_not_there(
    first: "subprocess.CompletedProcess[str]",
) -> None:
    refusals = first.stdout[first.stdout.index("A refusal explains itself") :]
    denied, _, missing = refusals.partition("SHOW TABLES IN shop")
    assert re.search(r"ACCESS_DENIED: .*select.*lake\.shop\.products", denied, re.IGNORECASE)
    listed, _, missing = missing.partition("SELECT count(*) FROM shop.order_lines")
    assert set(re.findall(r"\b(customers|products|orders|order_lines|daily_revenue)\b", listed)) == {
        "customers",
        "products",
        "orders",
    }
    assert "TABLE_NOT_FOUND: " in missing


def test_the_auditor_learns_which_rules_meet_the_analyst(first: "subprocess.CompletedProcess[str]") -> None:
    explained = first.stdout[first.stdout.index("EXPLAIN POLICY") :]
    for expected in ("role:analyst holds", "eu_only", "hide_email", "pii_last_4"):
        assert expected in explained.partition("It is all on record")[0]


def test_what_was_asked_and_refused_is_on_record(first: "subprocess.CompletedProcess[str]") -> None:
    recorded = first.stdout[first.stdout.index("It is all on record") :]
    assert re.search(r"ana +SELECT name, price FROM shop.products LIMIT 3 +refused +ACCESS_DENIED", recorded)
    assert re.search(r"ana +SELECT name, country,.* +finished +NULL +3\b", recorded)


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


def test_the_policy_of_the_first_run_holds_in_the_second_for_whatever_is_asked(second: Demo) -> None:
    sql = "SELECT region, count(*) FROM shop.customers GROUP BY region"
    whole = dict(second.rows(sql))
    assert sum(whole.values()) == ROWS["customers"]
    assert dict(second.rows_of("ana", sql)) == {"EU": whole["EU"]}
    assert dict(second.rows_of("audrey", sql)) == whole
    assert len(second.rows("SHOW POLICIES ON TABLE lake.shop.customers")) == len(RULES)


def test_pyspark_connects_as_it_says_and_is_governed(second: Demo) -> None:
    connect = second.output.read_text().partition("Connect ──")[2]
    said = re.search(
        r"^PySpark .*?\n(export .*?)\n(import os\n.*?)\nShell", connect, re.MULTILINE | re.DOTALL
    )
    assert said is not None, connect
    export, code = said.groups()
    script = f"set -e\n{export}\n{shlex.quote(sys.executable)} -c {shlex.quote(code)}"
    client = subprocess.run(
        ["bash", "-c", script],
        env=clean_environment({}),
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
    assert client.returncode == 0, client.stderr[-4000:]
    shown = re.findall(r"^\| *(\w+)\| *(\d+)\|$", client.stdout, re.MULTILINE)
    whole = dict(second.rows("SELECT region, count(*) FROM shop.customers GROUP BY region"))
    assert shown == [("EU", str(whole["EU"]))]


def test_interrupting_it_ends_everything_it_started(second: Demo) -> None:
    children = psutil.Process(second.process.pid).children(recursive=True)
    assert children
    second.process.send_signal(signal.SIGINT)
    assert second.process.wait(60) == 0
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


def _answers(printed: str) -> list[list[dict[str, str]]]:
    """The three tables below the question, each as rows by column. Names of people hold a blank."""
    asked = printed.partition("Three people ask the same question")[2].partition("A refusal")[0]
    tables: list[list[dict[str, str]]] = []
    header: list[str] = []
    for line in asked.split("\n"):
        cells = re.split(r" {2,}", line.strip())
        if cells[:2] == ["name", "country"]:
            header = cells
            tables.append([])
        elif header and len(cells) == len(header):
            tables[-1].append(dict(zip(header, cells, strict=True)))
    return tables


def _connect(address: str, person: str, data_dir: Path) -> Any:
    password = (data_dir / f"{person}-password").read_text().strip()
    return dbapi.connect(f"grpc://{address}", {"username": person, "password": password}, autocommit=True)


def _rows(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]


def _wait_serving(process: "subprocess.Popen[bytes]", output: Path) -> str:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if match := SERVING.search(output.read_text(errors="replace")):
            return match["address"]
        assert process.poll() is None, output.read_text(errors="replace")[-4000:]
        time.sleep(POLL_S)
    raise TimeoutError(output.read_text(errors="replace")[-4000:])

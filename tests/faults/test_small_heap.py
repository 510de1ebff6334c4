"""An engine with the smallest heap that Spark takes answers what does not fit into it, by way of the disk."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bailiwick.testing.asking import rows, value, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.tpch import bring_all, difference, generate, judging

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.full, pytest.mark.timeout(1200)]

SMALLEST = "450m"
SETTINGS = {"BAILIWICK__ENGINE__MEMORY": SMALLEST, "BAILIWICK__LIMITS__TIMEOUT_S": "900"}
Q18 = (Path(__file__).parents[1] / "e2e" / "tpch" / "q18.sql").read_text()
READ_BY_Q18 = {
    "customer": ("c_custkey", "c_name"),
    "orders": ("o_orderkey", "o_custkey", "o_orderdate", "o_totalprice"),
    "lineitem": ("l_orderkey", "l_quantity"),
}
MEGABYTE = 1 << 20

# One partition must be sorted as a whole: some two hundred megabytes, where all of Spark's memory is ninety.
ROWS = 2_000_000
RANKED = (
    "SELECT sum(place * (id % 1000)) AS checksum FROM "
    "(SELECT id, row_number() OVER (ORDER BY {digest}) AS place FROM {numbers})"
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("small") / "data", settings=SETTINGS) as running:
        yield running


def spilled_bytes(gateway: RunningGateway, containing: str) -> int:
    """By the newest query whose text has these words, when all of its tasks are known to have ended."""
    query_id = value(
        gateway,
        f"SELECT query_id FROM system.runtime.queries WHERE contains(sql, '{containing}') "
        "AND NOT contains(sql, 'system.') ORDER BY created_at DESC LIMIT 1",
    )
    tasks = f"FROM system.runtime.tasks WHERE query_id = '{query_id}'"
    wait_until(
        "all tasks ended",
        lambda: value(gateway, f"SELECT count(*) > 0 AND bool_and(state = 'finished') {tasks}"),
    )
    return int(value(gateway, f"SELECT sum(spilled_bytes) {tasks}"))


def tell(capsys: pytest.CaptureFixture[str], what: str, elapsed_s: float, spilled: int) -> None:
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{what} in a heap of {SMALLEST}: right, {elapsed_s:.0f} s, {spilled / MEGABYTE:.0f} MB spilled"
        )


def test_what_cannot_be_split_is_sorted_on_disk(
    gateway: RunningGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    engine, started = gateway.engine_pid, time.monotonic()
    found = rows(gateway, RANKED.format(digest="sha2(cast(id AS STRING), 256)", numbers=f"range({ROWS})"))
    elapsed_s = time.monotonic() - started
    with duckdb.connect() as judge:
        ours = RANKED.format(
            digest="sha256(CAST(id AS VARCHAR))", numbers=f"(SELECT range AS id FROM range({ROWS}))"
        )
        expected: list[Any] = judge.execute(ours).fetchall()
    assert difference(found, expected) == ""
    assert gateway.engine_pid == engine
    spilled = spilled_bytes(gateway, "row_number()")
    assert spilled > 0
    tell(capsys, f"{ROWS} rows sorted as one", elapsed_s, spilled)


def test_tpch_q18_at_scale_1_finishes_by_spilling(
    gateway: RunningGateway,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = generate(tmp_path_factory.mktemp("tpch"), "1", tables=[*READ_BY_Q18])
    rows(gateway, "CREATE NAMESPACE tpch")
    bring_all(gateway, files, READ_BY_Q18)
    engine, started = gateway.engine_pid, time.monotonic()
    found = rows(gateway, Q18)
    elapsed_s = time.monotonic() - started
    with judging(files) as judge:
        expected = judge.execute(Q18).fetchall()
    assert difference(found, expected) == ""
    assert gateway.engine_pid == engine
    spilled = spilled_bytes(gateway, "very large orders")
    assert spilled > 0
    tell(capsys, "TPC-H Q18 at scale 1", elapsed_s, spilled)

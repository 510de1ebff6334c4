"""`adbc_ingest` through ADBC: every mode, odd types, and a target that moves while the rows come."""

import datetime
import itertools
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.asking import failure, rows, running_queries, value, wait_until
from bailiwick.testing.gateway import RunningGateway
from bailiwick.testing.ingesting import BATCH_ROWS, SCHEMA, batches, bring, halfway, staged_files

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NUMBERS = itertools.count()
FEW = pa.table({"id": [1, 2, 3], "label": ["a", "b", None]})
LARGE_BATCHES = 16
LARGE_ROWS = LARGE_BATCHES * BATCH_ROWS


@pytest.fixture(scope="module", autouse=True)
def schema(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS ingest")


@pytest.fixture
def table() -> str:
    return f"t{next(NUMBERS)}"


def large() -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches(LARGE_BATCHES))


def count(gateway: RunningGateway, table: str) -> int:
    return int(value(gateway, f"SELECT count(*) FROM ingest.{table}"))


def snapshots(gateway: RunningGateway, table: str) -> int:
    return int(value(gateway, f"SELECT count(*) FROM ingest.{table}.snapshots"))


def refusal(gateway: RunningGateway, table: str, data: Any, mode: str = "create", **more: str) -> str:
    with pytest.raises(AdbcError) as refused:
        bring(gateway, table, data, mode, **more)
    return str(refused.value)


def test_the_four_modes_do_what_adbc_says(gateway: RunningGateway, table: str) -> None:
    assert "TABLE_NOT_FOUND" in refusal(gateway, table, FEW, "append")
    assert bring(gateway, table, FEW, "create") == 3
    assert "DUPLICATE_TABLE" in refusal(gateway, table, FEW, "create")
    assert bring(gateway, table, FEW, "append") == 3
    assert bring(gateway, table, FEW, "create_append") == 3
    assert count(gateway, table) == 9
    assert bring(gateway, table, FEW.slice(0, 2), "replace") == 2
    assert rows(gateway, f"SELECT * FROM ingest.{table} ORDER BY id") == [(1, "a"), (2, "b")]
    assert bring(gateway, f"{table}_other", FEW, "replace") == 3


def test_many_rows_come_by_one_snapshot_each_exactly_once(gateway: RunningGateway, table: str) -> None:
    assert bring(gateway, table, large(), "create") == LARGE_ROWS
    numbers = f"SELECT count(*), count(DISTINCT id), sum(id), max(length(label)) FROM ingest.{table}"
    total = LARGE_ROWS * (LARGE_ROWS - 1) // 2
    assert rows(gateway, numbers) == [(LARGE_ROWS, LARGE_ROWS, total, 211)]
    assert snapshots(gateway, table) == 1
    assert bring(gateway, table, large(), "append") == LARGE_ROWS
    assert (count(gateway, table), snapshots(gateway, table)) == (2 * LARGE_ROWS, 2)
    assert bring(gateway, table, large(), "replace") == LARGE_ROWS
    assert count(gateway, table) == LARGE_ROWS
    wait_until("nothing staged", lambda: not staged_files(gateway))


def test_no_rows_make_an_empty_table_and_append_nothing(gateway: RunningGateway, table: str) -> None:
    """A batch without rows, that is: without any batch the driver does not even say what it wants."""
    empty = pa.RecordBatch.from_pylist([], schema=FEW.schema)
    assert bring(gateway, table, empty, "create") == 0
    assert rows(gateway, f"SELECT * FROM ingest.{table}") == []
    assert bring(gateway, table, empty, "append") == 0
    assert bring(gateway, table, FEW, "append") == 3


def test_every_type_that_spark_can_hold_arrives_as_it_was(gateway: RunningGateway, table: str) -> None:
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456)
    zoned = at.replace(tzinfo=datetime.UTC)
    values: dict[str, tuple[pa.DataType, Any, Any]] = {
        "boolean": (pa.bool_(), True, True),
        "int8": (pa.int8(), -8, -8),
        "uint32": (pa.uint32(), 2**32 - 1, 2**32 - 1),
        "uint64": (pa.uint64(), 2**64 - 1, Decimal(2**64 - 1)),
        "float32": (pa.float32(), 0.5, 0.5),
        "decimal": (pa.decimal128(10, 2), Decimal("1.25"), Decimal("1.25")),
        "large": (pa.large_string(), "grün", "grün"),
        "category": (pa.dictionary(pa.int8(), pa.string()), "red", "red"),
        "bytes": (pa.binary(), b"\0\1", b"\0\1"),
        "day": (pa.date32(), at.date(), at.date()),
        "naive": (pa.timestamp("ns"), at, at),
        "zoned": (pa.timestamp("us", tz="Europe/Berlin"), zoned, zoned),
        "list": (pa.large_list(pa.int16()), [1, None], [1, None]),
        "struct": (
            pa.struct([("x", pa.int32()), ("y", pa.string())]),
            {"x": 1, "y": "z"},
            {"x": 1, "y": "z"},
        ),
        "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)], [("k", 1)]),
    }
    sent = pa.table({name: pa.array([given, None], kind) for name, (kind, given, _) in values.items()})
    assert bring(gateway, table, sent) == 2
    with gateway.kept_connection().cursor() as cursor:
        cursor.execute(f"SELECT * FROM ingest.{table} ORDER BY int8 NULLS LAST")
        got = cursor.fetch_arrow_table().to_pylist()
    assert got == [{name: stored for name, (_, _, stored) in values.items()}, dict.fromkeys(values)]


def test_columns_go_by_name_and_those_not_brought_are_null(gateway: RunningGateway, table: str) -> None:
    rows(
        gateway,
        f"CREATE TABLE ingest.{table} (id BIGINT NOT NULL, label STRING, Price DECIMAL(8, 2), at TIMESTAMP) "
        "PARTITIONED BY (bucket(4, id))",
    )
    sent = pa.table({"PRICE": [3, 4], "ID": pa.array([1, 2], pa.int16())})
    assert bring(gateway, table, sent, "append") == 2
    got = rows(gateway, f"SELECT * FROM ingest.{table} ORDER BY id")
    assert got == [(1, None, Decimal("3.00"), None), (2, None, Decimal("4.00"), None)]
    many = pa.table({"id": list(range(2_500_000))})
    assert bring(gateway, table, many.to_reader(500_000), "append") == 2_500_000


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (pa.table({"id": [1], "nope": [1]}), "nope"),
        (pa.table({"id": ["x"]}), "id is string"),
        (pa.table({"label": ["x"]}), "id"),
        (pa.table({"id": [1, None]}), "id takes no nulls"),
        (pa.table({"id": [1], "small": [2**40]}), "small holds a value that does not fit"),
        (pa.table({"id": [1], "odd": pa.array([1], pa.time64("us"))}), "odd"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_their_columns_name(
    gateway: RunningGateway, table: str, sent: pa.Table, said: str
) -> None:
    rows(gateway, f"CREATE TABLE ingest.{table} (id BIGINT NOT NULL, label STRING, small INT)")
    error = refusal(gateway, table, sent, "append")
    assert "INVALID_ARGUMENTS" in error
    assert said in error
    assert (count(gateway, table), snapshots(gateway, table)) == (0, 0)


@pytest.mark.parametrize("name", ["select", "with space", "dotted.name", "grün", "back`tick", "CamelCase"])
def test_names_that_need_quotes_need_none_here(gateway: RunningGateway, name: str) -> None:
    assert bring(gateway, name, FEW, "replace") == 3
    quoted = name.replace("`", "``")
    assert value(gateway, f"SELECT count(*) FROM ingest.`{quoted}`") == 3


def test_a_reader_is_refused(gateway: RunningGateway, table: str) -> None:
    rows(gateway, "CREATE USER ingest_reader PASSWORD 'a-long-password-123' ROLES (reader)")
    who = {"user": "ingest_reader", "password": "a-long-password-123"}
    assert "ACCESS_DENIED" in refusal(gateway, table, FEW, **who)


def test_a_schema_that_is_not_there_is_told(gateway: RunningGateway, table: str) -> None:
    assert "SCHEMA_NOT_FOUND" in refusal(gateway, table, large(), schema="nowhere")


def test_an_ingest_is_a_query_that_can_be_seen_but_not_what_it_has_staged(
    gateway: RunningGateway, table: str
) -> None:
    with halfway(gateway, table, "create") as (future, go_on):
        assert running_queries(gateway, f"INGEST INTO lake.ingest.{table}")
        assert "bailiwick_ingest" not in str(rows(gateway, "SHOW NAMESPACES"))
        assert "TABLE_NOT_FOUND" in failure(gateway, f"SELECT * FROM ingest.{table}")
        assert "NOT_FOUND" in failure(gateway, "SHOW TABLES IN bailiwick_ingest")
        assert failure(gateway, "CREATE NAMESPACE bailiwick_ingest")
        go_on.set()
        assert future.result(120) == LARGE_ROWS
    finished = f"SELECT rows FROM system.runtime.queries WHERE sql = 'INGEST INTO lake.ingest.{table}'"
    assert value(gateway, finished) == LARGE_ROWS


def test_rows_that_others_append_meanwhile_stay(gateway: RunningGateway, table: str) -> None:
    bring(gateway, table, FEW)
    with halfway(gateway, table, "append") as (future, go_on):
        rows(gateway, f"INSERT INTO ingest.{table} VALUES (-1, 'meanwhile')")
        assert count(gateway, table) == 4
        go_on.set()
        assert future.result(120) == LARGE_ROWS
    assert count(gateway, table) == LARGE_ROWS + 4


def test_a_column_that_is_added_meanwhile_is_null_in_these_rows(gateway: RunningGateway, table: str) -> None:
    bring(gateway, table, FEW)
    with halfway(gateway, table, "append") as (future, go_on):
        rows(gateway, f"ALTER TABLE ingest.{table} ADD COLUMN extra STRING")
        go_on.set()
        assert future.result(120) == LARGE_ROWS
    assert value(gateway, f"SELECT count(extra) FROM ingest.{table}") == 0


def test_a_column_that_is_dropped_meanwhile_leaves_nothing_written(
    gateway: RunningGateway, table: str
) -> None:
    bring(gateway, table, FEW)
    with halfway(gateway, table, "append") as (future, go_on):
        rows(gateway, f"ALTER TABLE ingest.{table} DROP COLUMN label")
        go_on.set()
        with pytest.raises(AdbcError):
            future.result(120)
    assert count(gateway, table) == 3
    wait_until("nothing staged", lambda: not staged_files(gateway))


def test_a_table_that_is_made_meanwhile_is_not_overwritten(gateway: RunningGateway, table: str) -> None:
    with halfway(gateway, table, "create") as (future, go_on):
        bring(gateway, table, FEW)
        go_on.set()
        with pytest.raises(AdbcError, match=r"DUPLICATE_TABLE|COMMIT_CONFLICT"):
            future.result(120)
    assert count(gateway, table) == 3


def test_a_replacement_holds_whatever_others_did_meanwhile(gateway: RunningGateway, table: str) -> None:
    bring(gateway, table, FEW)
    with halfway(gateway, table, "replace") as (future, go_on):
        rows(gateway, f"INSERT INTO ingest.{table} VALUES (-1, 'meanwhile')")
        go_on.set()
        assert future.result(120) == LARGE_ROWS
    assert count(gateway, table) == LARGE_ROWS


def test_a_table_that_is_dropped_meanwhile_is_told(gateway: RunningGateway, table: str) -> None:
    bring(gateway, table, FEW)
    with halfway(gateway, table, "append") as (future, go_on):
        rows(gateway, f"DROP TABLE ingest.{table}")
        go_on.set()
        with pytest.raises(AdbcError, match="TABLE_NOT_FOUND"):
            future.result(120)

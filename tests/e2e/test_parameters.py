"""Parameters as Spark takes them: every type by value and by type, announced as streamed, never as text."""

import asyncio
import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
import pytest_asyncio

from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Batch, EngineSession
from bailiwick.engines.parameters import ParameterValue, Row
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import new_operation_id
from bailiwick.results.batches import read_schema
from bailiwick.testing.engine import RunningEngine
from bailiwick.testing.stock_spark import EngineDoor

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

UTC = datetime.UTC
NOON = datetime.datetime(2026, 3, 1, 12, 0, 0, 250)
TRICKY = "'; DROP TABLE lake.db.t; -- \\' \\\\ \" ` ? :x ${spark.app.id} \n\t\0 ü 🎈 %_\\%"
SETUP = (
    "CREATE NAMESPACE lake.db",
    "CREATE TABLE lake.db.t (id BIGINT, i INT, s STRING, d DECIMAL(10, 2), dt DATE, ts TIMESTAMP, f DOUBLE)",
    "INSERT INTO lake.db.t VALUES (1, 10, 'a', 1.5, DATE'2026-01-01', TIMESTAMP'2026-01-01 00:00:00', 0.5)",
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def asked(running: RunningEngine) -> "Asked":
    opened = await running.session()
    for statement in SETUP:
        await running.run(statement, opened)
    await opened.use("lake", ("db",), lease=running.leases.give(opened))
    return Asked(running, opened)


class Asked:
    """One session, asked with parameters."""

    def __init__(self, running: RunningEngine, session: EngineSession) -> None:
        self._running = running
        self._session = session

    async def describe(self, sql: str, *parameters: ParameterValue) -> Description:
        lease = self._running.leases.give(self._session)
        return await self._session.describe(sql, lease=lease, timeout_s=60, parameters=parameters)

    async def run(self, sql: str, *parameters: ParameterValue) -> pa.Table:
        lease = self._running.leases.give(self._session)
        events = self._session.execute(sql, operation=new_operation_id(), lease=lease, parameters=parameters)
        streams = [event.data async for event in events if isinstance(event, Batch)]
        return pa.concat_tables(pa.ipc.open_stream(stream).read_all() for stream in streams)

    async def types(self, sql: str) -> list[str | None]:
        return [parameter.type for parameter in (await self.describe(sql)).parameters]


def row(*values: object) -> Row:
    return tuple(ParameterValue.of(value) for value in values)


SCALARS: list[tuple[Any, pa.DataType, str]] = [
    (True, pa.bool_(), "boolean"),
    (-128, pa.int8(), "tinyint"),
    (255, pa.uint8(), "smallint"),
    (-(2**15), pa.int16(), "smallint"),
    (2**16 - 1, pa.uint16(), "int"),
    (-(2**31), pa.int32(), "int"),
    (2**32 - 1, pa.uint32(), "bigint"),
    (2**63 - 1, pa.int64(), "bigint"),
    (-(2**63), pa.int64(), "bigint"),
    (2**64 - 1, pa.uint64(), "decimal(20,0)"),
    (0.1, pa.float64(), "double"),
    (float("inf"), pa.float64(), "double"),
    (5e-324, pa.float64(), "double"),
    (0.5, pa.float32(), "float"),
    (float("-inf"), pa.float32(), "float"),
    (0.5, pa.float16(), "float"),
    (decimal.Decimal("-123.45"), pa.decimal128(10, 2), "decimal(10,2)"),
    (decimal.Decimal("1E-38"), pa.decimal128(38, 38), "decimal(38,38)"),
    (decimal.Decimal("9" * 38), pa.decimal128(38, 0), "decimal(38,0)"),
    ("", pa.string(), "string"),
    (TRICKY, pa.string(), "string"),
    (TRICKY, pa.large_string(), "string"),
    ("x" * 100_000, pa.string_view(), "string"),
    (b"", pa.binary(), "binary"),
    (bytes(range(256)), pa.binary(), "binary"),
    (b"\0\xff", pa.large_binary(), "binary"),
    (b"\0\xff", pa.binary(2), "binary"),
    (datetime.date(2026, 2, 28), pa.date32(), "date"),
    (datetime.date(1, 1, 1), pa.date32(), "date"),
    (datetime.date(9999, 12, 31), pa.date64(), "date"),
    (NOON, pa.timestamp("us"), "timestamp_ntz"),
    (NOON.replace(microsecond=0), pa.timestamp("s"), "timestamp_ntz"),
    (NOON.replace(tzinfo=UTC), pa.timestamp("us", tz="UTC"), "timestamp"),
    (NOON.replace(tzinfo=UTC), pa.timestamp("ns", tz="Asia/Tokyo"), "timestamp"),
    (datetime.datetime(1, 1, 1, tzinfo=UTC), pa.timestamp("us", tz="UTC"), "timestamp"),
    (datetime.timedelta(days=-1, microseconds=7), pa.duration("us"), "interval day to second"),
    ([1, None, 3], pa.list_(pa.int32()), "array<int>"),
    ([["a", TRICKY], []], pa.list_(pa.list_(pa.string())), "array<array<string>>"),
    ({"a": 1, "b": TRICKY}, pa.struct([("a", pa.int32()), ("b", pa.string())]), "struct<a:int,b:string>"),
    ([("k", 1)], pa.map_(pa.string(), pa.int64()), "map<string,bigint>"),
]


@pytest.mark.parametrize(("value", "arrow", "spark"), SCALARS, ids=lambda value: str(value)[:20])
async def test_a_value_arrives_whole_with_its_type(
    asked: Asked, value: Any, arrow: pa.DataType, spark: str
) -> None:
    parameter = ParameterValue.of(value, arrow)
    table = await asked.run("SELECT ? AS v, typeof(?) AS t", parameter, parameter)
    assert table.column("t")[0].as_py() == spark
    assert table.column("v")[0].as_py() == parameter.scalar.as_py()


@pytest.mark.parametrize(("value", "arrow", "spark"), SCALARS, ids=lambda value: str(value)[:20])
async def test_what_is_announced_for_a_value_is_what_is_streamed(
    asked: Asked, value: Any, arrow: pa.DataType, spark: str
) -> None:
    del spark
    parameter = ParameterValue.of(value, arrow)
    sql = "SELECT ?, ? AS v, coalesce(?, NULL) AS c"
    description = await asked.describe(sql, parameter, parameter, parameter)
    assert description.kind is Kind.READ
    assert len(description.parameters) == 3
    assert description.schema is not None
    streamed = (await asked.run(sql, parameter, parameter, parameter)).schema
    assert read_schema(description.schema).equals(streamed, check_metadata=True)


@pytest.mark.parametrize(
    ("arrow", "spark"),
    [
        (pa.null(), "void"),
        (pa.bool_(), "boolean"),
        (pa.int32(), "int"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.string(), "string"),
        (pa.binary(), "binary"),
        (pa.date32(), "date"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (pa.timestamp("us", tz="UTC"), "timestamp"),
        (pa.list_(pa.int32()), "array<int>"),
        (pa.struct([("a", pa.int32())]), "struct<a:int>"),
    ],
    ids=str,
)
async def test_a_null_keeps_its_type(asked: Asked, arrow: pa.DataType, spark: str) -> None:
    parameter = ParameterValue.of(None, arrow)
    table = await asked.run("SELECT ? AS v, typeof(?) AS t", parameter, parameter)
    assert table.to_pylist() == [{"v": None, "t": spark}]


async def test_not_a_number_stays_what_it_is(asked: Asked) -> None:
    table = await asked.run("SELECT isnan(?) AS a, isnan(?) AS b", *row(float("nan"), 1.0))
    assert table.to_pylist() == [{"a": True, "b": False}]


@pytest.mark.parametrize(
    ("sql", "values", "expected"),
    [
        ("SELECT id FROM t WHERE id = ?", [1], [1]),
        ("SELECT id FROM t WHERE id = ?", ["1"], [1]),
        ("SELECT id FROM t WHERE dt = ? AND ts < ?", ["2026-01-01", "2026-06-01"], [1]),
        ("SELECT id FROM t WHERE d = ?", [decimal.Decimal("1.50")], [1]),
        ("SELECT id FROM t WHERE s IN (?, ?)", ["a", TRICKY], [1]),
        ("SELECT id FROM range(?) ORDER BY id LIMIT ? OFFSET ?", [10, 2, 3], [3, 4]),
        ("WITH c AS (SELECT ? AS x) SELECT x + ? FROM c", [1, 2], [3]),
        ("SELECT * FROM VALUES (?), (?)", [1, 2], [1, 2]),
        ("SELECT id FROM IDENTIFIER(?)", ["lake.db.t"], [1]),
        ("SELECT sum(id) OVER (ROWS ? PRECEDING) FROM t", [1], [1]),
        ("SELECT round(f, ?) FROM t", [0], [1.0]),
        ("SELECT count(*) FROM t WHERE s = '?' -- ?\n", [], [0]),
        ("SELECT array_contains(array(1, 2), ?)", [2], [True]),
        ("SELECT 5-?", [-3], [8]),
        ("SELECT -?", [-3], [3]),
        ("SELECT ?.`a', (SELECT 1), 'b`", [{"a', (SELECT 1), 'b": "x"}], ["x"]),
        ("SELECT from_json('{\"a\": 1}', ?).a", ["a INT"], [1]),
    ],
)
async def test_parameters_stand_wherever_spark_takes_them(
    asked: Asked, sql: str, values: list[Any], expected: list[Any]
) -> None:
    parameters = [ParameterValue.of(each, pa.int32() if isinstance(each, int) else None) for each in values]
    description = await asked.describe(sql, *parameters)
    table = await asked.run(sql, *parameters)
    assert table.column(0).to_pylist() == expected
    assert description.schema is not None
    assert read_schema(description.schema).equals(table.schema)


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT * FROM t WHERE id > ? AND i = ? AND d < ?", ["bigint", "int", "decimal(10,2)"]),
        ("SELECT * FROM t WHERE dt BETWEEN ? AND ? AND ts < ?", ["date", "date", "timestamp"]),
        ("SELECT * FROM t LIMIT ? OFFSET ?", ["int", "int"]),
        ("WITH c AS (SELECT * FROM t WHERE id = ? LIMIT ?) SELECT * FROM c", ["bigint", "int"]),
        ("SELECT ? AS x", [None]),
        ("SELECT * FROM VALUES (?, ?)", [None, None]),
        ("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)",
         ["bigint", "int", None, "decimal(10,2)", "date", "timestamp", "double"]),
        ("INSERT INTO t (f, id) VALUES (?, 1), (0.5, ?)", ["double", "bigint"]),
        ("INSERT INTO t (f, id) VALUES (DEFAULT, ?)", ["bigint"]),
        ("INSERT INTO t (id) SELECT id FROM t WHERE i = ?", ["int"]),
        ("INSERT INTO nowhere VALUES (?)", [None]),
        ("UPDATE t SET i = ?, d = ? WHERE id = ?", ["int", "decimal(10,2)", "bigint"]),
        ("UPDATE t AS x SET x.i = x.i + ?", ["int"]),
        ("DELETE FROM t WHERE dt < ?", ["date"]),
        ("MERGE INTO t USING (SELECT 1 AS n) q ON t.id = q.n WHEN MATCHED THEN UPDATE SET i = ?", [None]),
    ],
)  # fmt: skip
async def test_spark_tells_which_types_it_wants(asked: Asked, sql: str, types: list[str | None]) -> None:
    assert await asked.types(sql) == types


async def test_a_number_of_rows_may_be_bound_as_any_integer(asked: Asked) -> None:
    sql = "SELECT id FROM range(10) ORDER BY id LIMIT ? OFFSET ?"
    assert (await asked.run(sql, *row(2, 3))).column(0).to_pylist() == [3, 4]
    with pytest.raises(BailiwickError, match="must be integer type"):
        await asked.describe(sql, *row(2**40, 0))


async def test_what_decides_the_columns_has_no_schema_before_it_is_bound(asked: Asked) -> None:
    assert (await asked.describe("SELECT ? AS x")).schema is None
    assert (await asked.describe("SELECT id + ? FROM t")).schema is None
    limited = await asked.describe("SELECT id FROM t LIMIT ?")
    assert limited.schema is not None


async def test_changes_take_parameters_too(asked: Asked) -> None:
    await asked.run("CREATE TABLE changed (id BIGINT, i INT, s STRING)")
    await asked.run("INSERT INTO changed VALUES (?, ?, ?)", *row(1, 10, TRICKY))
    await asked.run("INSERT INTO changed VALUES (?, ?, ?)", *row(2, None, None))
    await asked.run("UPDATE changed SET i = ? WHERE s = ?", *row(11, TRICKY))
    await asked.run("DELETE FROM changed WHERE id = ?", *row(2))
    assert (await asked.run("SELECT * FROM changed")).to_pylist() == [{"id": 1, "i": 11, "s": TRICKY}]


async def test_a_change_is_described_with_its_values_and_not_carried_out(asked: Asked) -> None:
    description = await asked.describe("DELETE FROM t WHERE id = ?", *row(1))
    assert (description.kind, description.writes) == (Kind.CHANGE, ("lake.db.t",))
    assert (await asked.run("SELECT count(*) AS n FROM t")).to_pylist() == [{"n": 1}]


async def test_a_name_that_is_bound_is_looked_at_like_one_that_is_written(asked: Asked) -> None:
    description = await asked.describe("SELECT * FROM IDENTIFIER(?)", *row("lake.db.t"))
    assert description.reads == ("lake.db.t",)
    assert description.dynamic_names


@pytest.mark.parametrize(
    ("sql", "values", "code"),
    [
        ("SELECT ? + ?", [1], Code.INVALID_ARGUMENTS),
        ("SELECT ?", [1, 2], Code.INVALID_ARGUMENTS),
        ("SELECT INTERVAL ? DAY", ["1"], Code.INVALID_ARGUMENTS),
        ("SELECT * FROM t WHERE dt = ?", [b"x"], Code.TYPE_MISMATCH),
        ("SELECT * FROM t LIMIT ?", ["x"], Code.INVALID_ARGUMENTS),
        ("SELECT * FROM IDENTIFIER(?)", ["lake.db.nowhere"], Code.TABLE_NOT_FOUND),
        ("SELECT ? +", [1], Code.SYNTAX_ERROR),
    ],
)
async def test_what_does_not_fit_is_sparks_own_error(
    asked: Asked, sql: str, values: list[Any], code: Code
) -> None:
    with pytest.raises(BailiwickError) as refused:
        await asked.describe(sql, *row(*values))
    assert refused.value.code is code


async def test_a_parameter_in_the_wrong_place_is_told_in_words(asked: Asked) -> None:
    with pytest.raises(BailiwickError, match="A parameter cannot stand there"):
        await asked.describe("CREATE TABLE x (a INT) COMMENT ?")


@pytest.mark.parametrize("value", ["TIME '01:02:03'", "array(TIME '01:02:03')"])
async def test_a_type_that_cannot_be_sent_is_refused_before_it_runs(asked: Asked, value: str) -> None:
    with pytest.raises(BailiwickError, match=r"TIME\(6\).* of the column odd") as refused:
        await asked.describe(f"SELECT 1 AS plain, {value} AS odd")
    assert refused.value.code is Code.NOT_SUPPORTED


async def test_the_stock_client_s_own_parameters_are_evaluated_by_spark(running: RunningEngine) -> None:
    """It sends expressions, which Spark folds by optimising a row of them."""

    def ask() -> list[Any]:
        spark = EngineDoor.of(running.directory).connect(session_handle="nobody", lease_id="none")
        try:
            return [
                spark.sql("SELECT ? + 1 AS n, ? AS s", args=[41, "x"]).collect(),
                spark.sql("SELECT 1 AS one, 'a' AS a").collect(),
            ]
        finally:
            spark.stop()

    assert await asyncio.to_thread(ask) == [[(42, "x")], [(1, "a")]]

"""Parameters from a driver to a table and back: what ADBC binds is what Spark stores, compares and gives."""

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TRICKY = "'; DROP TABLE lake.bound.people; -- \\' \\\\ \" ` ? :x ${spark.app.id} ü 🎈"
BORN = datetime.date(1815, 12, 10)
SEEN = datetime.datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def cursor(connection: Any) -> Iterator[Any]:
    with connection.cursor() as opened:
        opened.execute("CREATE NAMESPACE IF NOT EXISTS lake.bound")
        yield opened


@pytest.fixture
def people(cursor: Any) -> Iterator[str]:
    table = "lake.bound.people"
    cursor.execute(
        f"CREATE TABLE {table} "
        "(id BIGINT, age INT, name STRING, worth DECIMAL(10, 2), born DATE, seen TIMESTAMP)"
    )
    yield table
    cursor.execute(f"DROP TABLE {table}")


def rows(cursor: Any, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    cursor.execute(sql, parameters)
    return list(cursor.fetchall())


def test_what_is_bound_is_stored_found_and_given_back(cursor: Any, people: str) -> None:
    ada = (1, 36, TRICKY, decimal.Decimal("12.50"), BORN, SEEN)
    cursor.execute(f"INSERT INTO {people} VALUES (?, ?, ?, ?, ?, ?)", ada)
    assert cursor.rowcount == 1
    assert rows(cursor, f"SELECT * FROM {people} WHERE id = ?", (1,)) == [ada]
    assert rows(cursor, f"SELECT id FROM {people} WHERE name = ? AND born = ?", (TRICKY, BORN)) == [(1,)]
    assert rows(cursor, f"SELECT id FROM {people} WHERE seen = ? AND worth < ?", (SEEN, 13)) == [(1,)]
    assert rows(cursor, f"SELECT id FROM {people} WHERE name = ?", ("nobody",)) == []
    assert rows(cursor, f"SELECT 5-?, ? FROM {people} LIMIT ?", (-3, None, 1)) == [(8, None)]


def test_many_rows_are_inserted_changed_and_deleted_one_by_one(cursor: Any, people: str) -> None:
    cursor.executemany(f"INSERT INTO {people} (id, name) VALUES (?, ?)", [(1, "a"), (2, None), (3, "c")])
    assert cursor.rowcount == 3
    cursor.executemany(f"UPDATE {people} SET age = ? WHERE id >= ?", [(10, 1), (30, 3)])
    cursor.executemany(f"DELETE FROM {people} WHERE id = ?", [(2,), (9,)])
    assert rows(cursor, f"SELECT id, age, name FROM {people} ORDER BY id") == [(1, 10, "a"), (3, 30, "c")]


def test_the_row_that_fails_is_named_and_those_before_it_stay(cursor: Any, people: str) -> None:
    with pytest.raises(AdbcError, match=r"Row 2 of 3 failed.*What 1 row before it changed is committed"):
        cursor.executemany(
            f"INSERT INTO {people} (id, age) SELECT ?, CAST(? AS INT)", [(1, "10"), (2, "ten"), (3, "30")]
        )
    assert rows(cursor, f"SELECT id, age FROM {people}") == [(1, 10)]


def test_a_statement_says_which_types_it_wants(cursor: Any, people: str) -> None:
    cursor.adbc_prepare(f"INSERT INTO {people} VALUES (?, ?, ?, ?, ?, ?)")
    schema = pa.schema(cursor.adbc_statement.get_parameter_schema())
    assert schema.types == [
        pa.int64(), pa.int32(), pa.string(), pa.decimal128(10, 2), pa.date32(), pa.timestamp("us", tz="UTC")
    ]  # fmt: skip
    cursor.adbc_prepare(f"SELECT * FROM {people} WHERE age > ? LIMIT ?")
    assert pa.schema(cursor.adbc_statement.get_parameter_schema()).types == [pa.int32(), pa.int32()]


@pytest.mark.parametrize("value", [1, 2.5, "x", b"x", None, decimal.Decimal("1.25"), BORN, SEEN, [1, 2]])
def test_the_columns_may_depend_on_the_value(cursor: Any, value: object) -> None:
    cursor.execute("SELECT ?, ? AS again", (value, value))
    table = cursor.fetch_arrow_table()
    assert [column[0].as_py() for column in table.columns] == [value, value]


def test_names_can_be_bound_where_spark_takes_them_as_values(cursor: Any, people: str) -> None:
    assert rows(cursor, "SELECT count(*) FROM IDENTIFIER(?)", (people,)) == [(0,)]
    with pytest.raises(AdbcError, match="TABLE_NOT_FOUND"):
        rows(cursor, "SELECT count(*) FROM IDENTIFIER(?)", ("lake.bound.nowhere",))


@pytest.mark.parametrize(
    ("sql", "parameters", "told"),
    [
        ("SELECT ?", (1, 2), "INVALID_ARGUMENTS: The statement has 1 parameter, and 2 were bound"),
        ("SELECT ?, ?", (1,), "INVALID_ARGUMENTS: The statement has 2 parameters, and 1 were bound"),
        ("SELECT 1", (1,), "INVALID_ARGUMENTS: The statement has 0 parameters, and 1 were bound"),
        ("SELECT ?", None, "INVALID_ARGUMENTS: The statement has 1 parameter, and none is bound"),
        ("SELECT ?", (datetime.time(1, 2),), "NOT_SUPPORTED: Parameter 1 is of the Arrow type time64"),
        ("SELECT 1 LIMIT ?", ("x",), "INVALID_ARGUMENTS: The limit like expression"),
        ("SELECT CAST(? AS INT)", ("x",), "INVALID_CAST"),
    ],
)
def test_what_cannot_be_bound_is_refused_in_words(
    cursor: Any, sql: str, parameters: tuple[Any, ...] | None, told: str
) -> None:
    with pytest.raises(AdbcError) as refused:
        rows(cursor, sql, parameters)
    assert told in str(refused.value)


def test_many_rows_for_a_query_are_refused(cursor: Any) -> None:
    cursor.adbc_statement.set_sql_query("SELECT ?")
    with pytest.raises(AdbcError, match="takes one row of parameters, and 2 were bound"):
        cursor.execute("SELECT ?", pa.table({"0": [1, 2]}))

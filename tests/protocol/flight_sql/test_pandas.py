"""pandas with an ADBC connection, as its documentation says."""

from typing import Any

import pandas
import pytest

from bailiwick.testing.gateway import RunningGateway

DOUBLE_QUOTES = "adbc.flight.sql.session.option.double_quoted_identifiers"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def frame() -> pandas.DataFrame:
    return pandas.DataFrame(
        {
            "id": [1, 2, 3],
            "name": ["one", "zwei", None],
            "price": [1.5, 2.5, None],
            "at": pandas.to_datetime(["2024-02-29 12:30", "2024-03-01 00:00", None]),
        }
    )


@pytest.mark.proves("CommandStatementIngest")
def test_to_sql_creates_a_table_and_read_sql_gives_it_back(
    connection: Any, schema: str, frame: pandas.DataFrame
) -> None:
    assert frame.to_sql("written", connection, schema=schema, index=False) == 3
    back = pandas.read_sql(f"SELECT * FROM {schema}.written ORDER BY id", connection)
    assert back["id"].tolist() == [1, 2, 3]
    assert back["name"].tolist()[:2] == ["one", "zwei"]
    assert back["price"].tolist()[:2] == [1.5, 2.5]
    assert back["at"].tolist()[:2] == frame["at"].tolist()[:2]
    assert back.isna().sum().tolist() == [0, 1, 1, 1]


def test_to_sql_refuses_and_appends_as_it_is_told(
    connection: Any, schema: str, frame: pandas.DataFrame
) -> None:
    frame.to_sql("kept", connection, schema=schema, index=False)
    with pytest.raises(ValueError, match="already exists"):
        frame.to_sql("kept", connection, schema=schema, index=False, if_exists="fail")
    frame.to_sql("kept", connection, schema=schema, index=False, if_exists="append")
    assert rows(connection, f"{schema}.kept") == 6


@pytest.mark.proves("identifiers")
def test_pandas_own_quotes_work_after_the_session_option(
    gateway: RunningGateway, schema: str, frame: pandas.DataFrame
) -> None:
    """pandas writes double quotes to replace and to read a whole table, whatever the server says."""
    with gateway.connect() as quoting:
        quoting.adbc_connection.set_options(**{DOUBLE_QUOTES: "true"})
        quoting.adbc_current_db_schema = schema
        frame.to_sql("replaced", quoting, index=False)
        frame.to_sql("replaced", quoting, index=False, if_exists="replace")
        assert rows(quoting, "replaced") == 3
        found = pandas.read_sql_table("replaced", quoting, columns=["id"])
    assert sorted(found["id"].tolist()) == [1, 2, 3]


def test_read_sql_keeps_arrow_s_types_if_asked(connection: Any) -> None:
    sql = "SELECT 1 AS whole, CAST('1.50' AS DECIMAL(9,2)) AS price, DATE '2024-01-01' AS day"
    found = pandas.read_sql(sql, connection, dtype_backend="pyarrow")
    assert [str(each) for each in found.dtypes] == [
        "int32[pyarrow]",
        "decimal128(9, 2)[pyarrow]",
        "date32[day][pyarrow]",
    ]


def test_an_error_carries_our_code(connection: Any) -> None:
    with pytest.raises(Exception, match="TABLE_NOT_FOUND"):
        pandas.read_sql("SELECT * FROM nowhere", connection)


def rows(connection: Any, table: str) -> int:
    return int(pandas.read_sql(f"SELECT count(*) AS n FROM {table}", connection)["n"][0])

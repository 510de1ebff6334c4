"""polars with an ADBC connection, as its documentation says."""

import datetime
import decimal
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest
from adbc_driver_flightsql import dbapi
from polars.testing import assert_frame_equal

from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "id": [1, 2, 3],
            "name": ["one", "zwei", None],
            "price": [1.5, 2.5, None],
            "day": [datetime.date(2024, 2, 29), None, datetime.date(2024, 3, 1)],
            "at": [datetime.datetime(2024, 2, 29, 12, 30), None, None],
            "paid": [True, False, None],
        }
    )


@pytest.mark.proves("CommandStatementIngest")
def test_write_database_and_read_database_give_the_same_frame(
    connection: Any, schema: str, frame: pl.DataFrame
) -> None:
    assert frame.write_database(f"{schema}.written", connection, engine="adbc") == 3
    back = pl.read_database(f"SELECT * FROM {schema}.written", connection)
    assert_frame_equal(back, frame, check_row_order=False)


def test_write_database_refuses_appends_and_replaces_as_it_is_told(
    connection: Any, schema: str, frame: pl.DataFrame
) -> None:
    name = f"{schema}.kept"
    frame.write_database(name, connection, engine="adbc")
    with pytest.raises(Exception, match="DUPLICATE_TABLE"):
        frame.write_database(name, connection, engine="adbc", if_table_exists="fail")
    frame.write_database(name, connection, engine="adbc", if_table_exists="append")
    assert rows(connection, name) == 6
    frame.write_database(name, connection, engine="adbc", if_table_exists="replace")
    assert rows(connection, name) == 3


def test_read_database_keeps_types(connection: Any) -> None:
    sql = (
        "SELECT 1Y AS tiny, 2L AS big, CAST('1.50' AS DECIMAL(9,2)) AS price, DATE '2024-01-01' AS day, "
        "TIMESTAMP '2024-01-01 00:00:00' AS at, array(1, 2) AS list, named_struct('a', 1) AS struct, "
        "X'00FF' AS bytes"
    )
    found = pl.read_database(sql, connection)
    assert found.schema == {
        "tiny": pl.Int8,
        "big": pl.Int64,
        "price": pl.Decimal(9, 2),
        "day": pl.Date,
        "at": pl.Datetime("us", "UTC"),
        "list": pl.List(pl.Int32),
        "struct": pl.Struct({"a": pl.Int32}),
        "bytes": pl.Binary,
    }
    assert found["price"][0] == decimal.Decimal("1.50")


@pytest.mark.proves("parameters")
def test_read_database_takes_parameters(connection: Any) -> None:
    found = pl.read_database(
        "SELECT id FROM range(10) WHERE id > ?", connection, execute_options={"parameters": [7]}
    )
    assert sorted(found["id"]) == [8, 9]


def test_read_database_can_be_read_in_batches(connection: Any) -> None:
    batches = pl.read_database(
        "SELECT id FROM range(200000)", connection, iter_batches=True, batch_size=50_000
    )
    assert sum(batch.height for batch in batches) == 200_000


def test_an_empty_result_keeps_its_columns(connection: Any) -> None:
    found = pl.read_database("SELECT id, 'x' AS s FROM range(1) WHERE id < 0", connection)
    assert found.is_empty()
    assert found.schema == {"id": pl.Int64, "s": pl.String}


def test_read_database_uri_has_no_place_for_credentials_and_is_refused(gateway: RunningGateway) -> None:
    """The driver does not read those in an address. So the guide says: use a connection."""
    uri = f"flightsql://admin:{quote(gateway.admin_password, safe='')}@{gateway.grpc_address}?transport=tcp"
    with pytest.warns(dbapi.Warning, match="Cannot disable autocommit"):
        with pytest.raises(dbapi.Error, match="No credentials were sent"):
            pl.read_database_uri("SELECT 1", uri, engine="adbc")


def test_an_error_carries_our_code(connection: Any) -> None:
    with pytest.raises(Exception, match="TABLE_NOT_FOUND"):
        pl.read_database("SELECT * FROM nowhere", connection)


def rows(connection: Any, table: str) -> int:
    return int(pl.read_database(f"SELECT count(*) AS n FROM {table}", connection)["n"][0])

"""DuckDB over what ADBC fetched: no copy, no files, a stream that is larger than one batch."""

from typing import Any

import duckdb
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_duckdb_queries_a_table_that_was_fetched(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, id % 3 AS part FROM range(1000)")
        fetched = cursor.fetch_arrow_table()
    with duckdb.connect() as database:
        database.register("fetched", fetched)
        found = database.sql("SELECT part, count(*) FROM fetched GROUP BY part ORDER BY part").fetchall()
    assert found == [(0, 334), (1, 333), (2, 333)]


def test_duckdb_reads_a_stream_as_it_arrives(connection: Any) -> None:
    with connection.cursor() as cursor, duckdb.connect() as database:
        cursor.execute("SELECT id FROM range(300000)")
        with cursor.fetch_record_batch() as reader:
            database.register("stream", reader)
            assert database.sql("SELECT count(*), sum(id) FROM stream").fetchall() == [
                (300_000, sum(range(300_000)))
            ]


def test_duckdb_understands_every_type_that_tables_have(connection: Any) -> None:
    sql = (
        "SELECT true AS a, 1Y AS b, 2S AS c, 3 AS d, 4L AS e, 1.5F AS f, 2.5D AS g, 12.34BD AS h, 'ü' AS i, "
        "X'00FF' AS j, DATE '2024-02-29' AS k, TIMESTAMP '2024-02-29 12:30:00' AS l, "
        "TIMESTAMP_NTZ '2024-02-29 12:30:00' AS m, array(1, 2) AS n, "
        "named_struct('x', 1) AS o, map('k', 1) AS p"
    )
    with connection.cursor() as cursor, duckdb.connect() as database:
        cursor.execute(sql)
        database.register("fetched", cursor.fetch_arrow_table())
        types = [str(each[1]) for each in database.sql("DESCRIBE fetched").fetchall()]
    assert types == [
        *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4,2)"),
        *("VARCHAR", "BLOB", "DATE", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "INTEGER[]"),
        *("STRUCT(x INTEGER)", "MAP(VARCHAR, INTEGER)"),
    ]


@pytest.mark.proves("CommandStatementIngest")
def test_what_duckdb_computed_becomes_a_table(connection: Any, schema: str) -> None:
    with connection.cursor() as cursor, duckdb.connect() as database:
        made = database.sql("SELECT i AS id, i * i AS square FROM range(1000) t(i)").to_arrow_table()
        assert cursor.adbc_ingest("squares", made, mode="create", db_schema_name=schema) == 1000
        cursor.execute(f"SELECT max(square) FROM {schema}.squares")
        assert cursor.fetchall() == [(999 * 999,)]

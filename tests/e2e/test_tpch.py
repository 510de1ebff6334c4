"""All TPC-H queries through the gateway equal what DuckDB says about the same rows.

The tables reach the lake as any client would bring them, by INSERT statements over Flight SQL:
the generator's lines travel as one string literal a statement and Spark takes them apart. DuckDB reads the
generator's Parquet, so a row lost or changed on the way would show in the counts and in the answers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bailiwick.testing.tpch import difference, generate, judging

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCALE = "0.01"
QUERIES = sorted((Path(__file__).parent / "tpch").glob("q*.sql"))
STATEMENT_CHARACTERS_MAX = 900_000


@pytest.fixture(scope="module")
def duck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    with judging(generate(tmp_path_factory.mktemp("tpch"), SCALE)) as connection:
        yield connection


@pytest.fixture(scope="module")
def lake(connection: Any, duck: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The connection, once all eight tables are in the lake."""
    lines_of = generate(tmp_path_factory.mktemp("lines"), SCALE, form="tbl")
    with connection.cursor() as cursor:
        cursor.execute("CREATE NAMESPACE IF NOT EXISTS tpch")
        for table, path in lines_of.items():
            columns = _columns(duck, table)
            cursor.execute(f"CREATE TABLE tpch.{table} ({columns}) USING iceberg")
            for lines in _chunks(path):
                cursor.execute(_insert(table, columns, lines))
    return connection


def test_every_row_arrived(lake: Any, duck: duckdb.DuckDBPyConnection) -> None:
    tables = [
        name
        for (name,) in duck.execute(
            "SELECT view_name FROM duckdb_views() WHERE schema_name = 'tpch'"
        ).fetchall()
    ]
    count = " UNION ALL ".join(
        f"SELECT '{table}' AS name, count(*) AS rows FROM tpch.{table}" for table in tables
    )
    assert len(tables) == 8
    assert sorted(_answer(lake, count)) == sorted(duck.execute(count).fetchall())


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_a_query_gives_what_duckdb_gives(path: Path, lake: Any, duck: duckdb.DuckDBPyConnection) -> None:
    sql = path.read_text()
    assert difference(_answer(lake, sql), duck.execute(sql).fetchall()) == ""


def test_there_are_twenty_two() -> None:
    assert [path.stem for path in QUERIES] == [f"q{number:02}" for number in range(1, 23)]


def _answer(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]


def _columns(duck: duckdb.DuckDBPyConnection, table: str) -> str:
    """DuckDB's names of types are Spark's as well, but for strings."""
    described = duck.execute(f"DESCRIBE tpch.{table}").fetchall()
    return ", ".join(f"{name} {str(kind).replace('VARCHAR', 'STRING')}" for name, kind, *_ in described)


def _chunks(path: Path) -> Iterator[str]:
    """The file's lines, without the separator at each end, in pieces that fit in one statement."""
    chunk: list[str] = []
    length = 0
    for line in path.read_text().splitlines():
        if length + len(line) > STATEMENT_CHARACTERS_MAX:
            yield "\n".join(chunk)
            chunk, length = [], 0
        chunk.append(line.removesuffix("|"))
        length += len(line)
    yield "\n".join(chunk)


def _insert(table: str, columns: str, lines: str) -> str:
    """`inline` lets Spark take each line apart once; the generator writes no quotes and no backslashes."""
    return (
        f"INSERT INTO tpch.{table} "
        f"SELECT inline(array(from_csv(line, '{columns}', map('sep', '|', 'mode', 'FAILFAST')))) "
        f"FROM (SELECT explode(split('{lines}', '\\n')) AS line)"
    )

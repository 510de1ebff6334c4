"""All TPC-H queries through the gateway equal what DuckDB says about the same rows.

The tables reach the lake as any client would bring them, by INSERT statements over Flight SQL:
the generator's lines travel as one string literal a statement and Spark takes them apart. DuckDB reads the
generator's Parquet, so a row lost or changed on the way would show in the counts and in the answers.
"""

import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCALE = "0.01"
QUERIES = sorted((Path(__file__).parent / "tpch").glob("q*.sql"))
STATEMENT_CHARACTERS_MAX = 900_000
RELATIVE_TOLERANCE = 1e-9
ABSOLUTE_TOLERANCE = 1e-6
"""Spark gives averages and quotients as decimals of limited scale where DuckDB gives doubles."""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tpch")
    generator = Path(sys.executable).parent / "tpchgen-cli"
    for form in ("parquet", "tbl"):
        subprocess.run([generator, form, "--scale-factor", SCALE, "--output-dir", directory], check=True)
    return directory


@pytest.fixture(scope="module")
def duck(generated: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA tpch")
        for path in generated.glob("*.parquet"):
            connection.execute(f"CREATE VIEW tpch.{path.stem} AS FROM '{path}'")
        yield connection


@pytest.fixture(scope="module")
def lake(connection: Any, generated: Path, duck: duckdb.DuckDBPyConnection) -> Any:
    """The connection, once all eight tables are in the lake."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE NAMESPACE IF NOT EXISTS tpch")
        for path in sorted(generated.glob("*.tbl")):
            columns = _columns(duck, path.stem)
            cursor.execute(f"CREATE TABLE tpch.{path.stem} ({columns}) USING iceberg")
            for lines in _chunks(path):
                cursor.execute(_insert(path.stem, columns, lines))
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
    expected = duck.execute(sql).fetchall()
    found = _answer(lake, sql)
    assert len(found) == len(expected)
    for position, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert _same(mine, other), f"row {position}: {ours} against {theirs}"


def test_there_are_twenty_two() -> None:
    assert [path.stem for path in QUERIES] == [f"q{number:02}" for number in range(1, 23)]


def _answer(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]


def _same(mine: Any, other: Any) -> bool:
    if isinstance(mine, float | Decimal) or isinstance(other, float | Decimal):
        return bool(
            float(mine) == pytest.approx(float(other), rel=RELATIVE_TOLERANCE, abs=ABSOLUTE_TOLERANCE)
        )
    assert mine is None or isinstance(mine, str | int | date)
    return bool(mine == other)


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

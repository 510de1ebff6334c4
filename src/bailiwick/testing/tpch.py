"""TPC-H: the generator's tables as files and in a lake, and DuckDB as the judge of what is asked about them.

DuckDB reads the generator's own files and shares nothing with the gateway or Spark, so a row that is lost or
changed on the way into the lake, or in an answer, shows.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from math import isclose
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet

from bailiwick.testing.gateway import RunningGateway
from bailiwick.testing.ingesting import bring

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
_BATCH_ROWS = 50_000
# Spark gives averages and quotients as decimals of limited scale where DuckDB gives doubles.
_RELATIVE_TOLERANCE = 1e-9
_ABSOLUTE_TOLERANCE = 1e-6


def generate(
    directory: Path, scale: str, *, tables: Sequence[str] = TABLES, form: str = "parquet"
) -> dict[str, Path]:
    """Write a file for each table, and say where. `form` is `parquet` or `tbl`."""
    generator = Path(sys.executable).parent / "tpchgen-cli"
    options = ("--scale-factor", scale, "--tables", ",".join(tables), "--output-dir", str(directory))
    subprocess.run([generator, form, *options], check=True, stdout=subprocess.DEVNULL)
    return {table: directory / f"{table}.{form}" for table in tables}


@contextmanager
def judging(files: Mapping[str, Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB, in which the tables are those of the files, in the schema `tpch`."""
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA tpch")
        for table, file in files.items():
            connection.execute(f"CREATE VIEW tpch.{table} AS FROM '{file}'")
        yield connection


def bring_all(
    gateway: RunningGateway, files: Mapping[str, Path], columns: Mapping[str, Sequence[str]] | None = None
) -> None:
    """The tables of the files into the namespace `tpch` of the lake, as any client would bring them.

    With `columns`, only those: what a query does not read need not be there.
    """
    for table, file in files.items():
        source = pyarrow.parquet.ParquetFile(file)
        names = source.schema_arrow.names if columns is None else list(columns[table])
        schema = pyarrow.schema([source.schema_arrow.field(name) for name in names])
        batches = (batch.select(names) for batch in source.iter_batches(_BATCH_ROWS, columns=names))
        rows = pyarrow.RecordBatchReader.from_batches(schema, batches)
        brought = bring(gateway, table, rows, "create", "tpch")
        if brought != source.metadata.num_rows:
            raise AssertionError(f"{brought} of the {source.metadata.num_rows} rows of {table} arrived")


def difference(found: Iterable[Sequence[Any]], expected: Iterable[Sequence[Any]]) -> str:
    """Where an answer first differs from the judge's; empty if it does not."""
    ours, theirs = list(found), list(expected)
    if len(ours) != len(theirs):
        return f"{len(ours)} rows against {len(theirs)}"
    for position, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if len(mine) != len(other) or not all(map(_is_same, mine, other)):
            return f"row {position}: {mine} against {other}"
    return ""


def _is_same(mine: Any, other: Any) -> bool:
    if isinstance(mine, int | float | Decimal) and isinstance(other, int | float | Decimal):
        return isclose(mine, other, rel_tol=_RELATIVE_TOLERANCE, abs_tol=_ABSOLUTE_TOLERANCE)
    return type(mine) is type(other) and bool(mine == other)

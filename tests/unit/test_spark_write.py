"""A write of rows as a plan of Spark Connect, and rows packed for it."""

import pyarrow as pa
import pytest
from pyspark.sql.connect import proto

from bailiwick.engines.spark_write import write_plan
from bailiwick.engines.write import PACK_ROWS, ArrowRows, TableRows, Write, WriteMode, packed
from bailiwick.testing.ingesting import unpacked

TARGET = ("lake", "s", "odd name")
NAMES = [f"n{index}" if index % 7 else None for index in range(2_500)]
ROWS = pa.table({"id": list(range(2_500)), "name": NAMES})


def arrow_rows(table: pa.Table) -> ArrowRows:
    batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    return ArrowRows(packed(batches, table.schema), tuple(table.schema.names))


def test_names_are_quoted_where_they_must_be() -> None:
    plan = write_plan(Write(TARGET, WriteMode.APPEND, TableRows(("lake", "x`y", "t"))))
    operation = plan.command.write_operation_v2
    assert operation.table_name == "lake.s.`odd name`"
    assert operation.input.read.named_table.unparsed_identifier == "lake.`x``y`.t"


@pytest.mark.parametrize("mode", WriteMode)
def test_only_a_table_that_is_made_has_properties(mode: WriteMode) -> None:
    operation = write_plan(
        Write(TARGET, mode, TableRows(("lake", "s", "t")), {"a": "b"})
    ).command.write_operation_v2
    assert operation.mode == getattr(proto.WriteOperationV2, f"MODE_{mode.name}")
    assert dict(operation.table_properties) == ({} if mode is WriteMode.APPEND else {"a": "b"})


def test_columns_get_their_names_last_so_that_no_name_is_ever_parsed() -> None:
    rows = ArrowRows(b"rows", ("a`b", "inline(x)"))
    named = write_plan(Write(TARGET, WriteMode.CREATE, rows)).command.write_operation_v2.input.to_df
    assert list(named.column_names) == ["a`b", "inline(x)"]
    (expression,) = named.input.project.expressions
    assert expression.expression_string.expression == "inline(arrays_zip(c0, c1))"


@pytest.mark.parametrize("count", [0, 1, PACK_ROWS, PACK_ROWS + 1, 2_500])
def test_rows_are_the_same_after_they_were_packed(count: int) -> None:
    rows = ROWS.slice(0, count)
    assert unpacked(arrow_rows(rows)).equals(rows)


def test_rows_are_packed_into_few() -> None:
    assert pa.ipc.open_stream(arrow_rows(ROWS).data).read_all().num_rows == 3


def test_slices_are_packed_as_slices() -> None:
    batch = ROWS.combine_chunks().to_batches()[0].slice(100, 1_200)
    rows = ArrowRows(packed([batch], batch.schema), tuple(batch.schema.names))
    assert unpacked(rows).equals(ROWS.slice(100, 1_200))

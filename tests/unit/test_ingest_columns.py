"""Which rows fit into which table: decided from the schemas, by name, before anything is written."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.ingest_columns import Columns, for_new_table, for_table

UTC_TIMESTAMP = pa.timestamp("us", tz="UTC")


def converted(columns: Columns, rows: pa.Table) -> pa.Table:
    return pa.Table.from_batches([columns.convert(batch) for batch in rows.combine_chunks().to_batches()])


def refusal(stream: pa.Schema, table: pa.Schema | None = None) -> str:
    with pytest.raises(BailiwickError) as refused:
        for_new_table(stream) if table is None else for_table(stream, table)
    assert refused.value.code is Code.INVALID_ARGUMENTS
    return refused.value.message


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.binary(4), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("ms", tz="Europe/Berlin"), UTC_TIMESTAMP),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.decimal256(38, 4), pa.decimal128(38, 4)),
        (pa.large_list(pa.uint16()), pa.list_(pa.int32())),
        (pa.list_(pa.int32(), 3), pa.list_(pa.int32())),
        (pa.struct([("a", pa.uint8())]), pa.struct([("a", pa.int16())])),
        (pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int8())),
    ],
)
def test_a_new_table_gets_types_that_lose_nothing(given: pa.DataType, stored: pa.DataType) -> None:
    assert for_new_table(pa.schema([("x", given)])).schema.field("x").type == stored


@pytest.mark.parametrize(
    "given",
    [
        pa.time64("us"),
        pa.duration("s"),
        pa.month_day_nano_interval(),
        pa.decimal256(60, 2),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.list_view(pa.int8()),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.list_(pa.string_view()),
        pa.dictionary(pa.int8(), pa.string_view()),
        pa.uuid(),
        pa.null(),
        pa.list_(pa.null()),
    ],
)
def test_a_type_that_spark_cannot_take_is_refused_with_its_column_s_name(given: pa.DataType) -> None:
    assert "odd " in refusal(pa.schema([("good", pa.int8()), ("odd", given)]))


def test_every_wrong_column_is_named_up_to_a_handful() -> None:
    message = refusal(pa.schema([(f"t{index}", pa.time32("s")) for index in range(9)]))
    assert all(f"t{index} " in message for index in range(5))
    assert "and 4 more" in message


def test_columns_are_matched_by_name_whatever_their_case_and_order() -> None:
    table = pa.schema([("Id", pa.int64()), ("name", pa.string()), ("note", pa.string())])
    columns = for_table(pa.schema([("NAME", pa.large_string()), ("id", pa.int8())]), table)
    rows = converted(
        columns, pa.table({"NAME": pa.array(["a"], pa.large_string()), "id": pa.array([1], pa.int8())})
    )
    assert rows.to_pylist() == [{"Id": 1, "name": "a"}]


def test_extra_columns_are_refused_by_name() -> None:
    assert "nope; more" in refusal(
        pa.schema([("id", pa.int8()), ("nope", pa.int8()), ("more", pa.int8())]),
        pa.schema([("id", pa.int64())]),
    )


def test_a_column_that_takes_no_nulls_must_be_given_and_gets_none() -> None:
    table = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.string())])
    assert "id" in refusal(pa.schema([("x", pa.string())]), table)
    columns = for_table(pa.schema([("id", pa.int64())]), table)
    with pytest.raises(BailiwickError, match="id takes no nulls"):
        converted(columns, pa.table({"id": [1, None]}))


@pytest.mark.parametrize("names", [["a", "A"], ["x", "x"], ["", "b"], []])
def test_names_that_are_missing_or_doubled_are_refused(names: list[str]) -> None:
    refusal(pa.schema([pa.field(name, pa.int8()) for name in names]))


@pytest.mark.parametrize(
    ("given", "column", "stored"),
    [
        (pa.array([1, None], pa.int64()), pa.int8(), [1, None]),
        (pa.array([3], pa.int64()), pa.decimal128(10, 2), [Decimal("3.00")]),
        (pa.array([2.0]), pa.int32(), [2]),
        (pa.array([1], pa.int32()), pa.float64(), [1.0]),
        (pa.array([date(2024, 1, 2)]), pa.timestamp("us"), [datetime(2024, 1, 2)]),
        (pa.array([0], pa.timestamp("ns")), UTC_TIMESTAMP, [datetime(1970, 1, 1, tzinfo=UTC)]),
        (pa.array([None, None], pa.null()), pa.string(), [None, None]),
        (pa.array(["x", "y", "x"]).dictionary_encode(), pa.string(), ["x", "y", "x"]),
        (pa.array([[1]], pa.list_(pa.int8())), pa.list_(pa.int64()), [[1]]),
    ],
)
def test_values_that_fit_are_stored_as_they_are(
    given: pa.Array, column: pa.DataType, stored: list[Any]
) -> None:
    columns = for_table(pa.schema([("x", given.type)]), pa.schema([("x", column)]))
    assert converted(columns, pa.table({"x": given})).column("x").to_pylist() == stored


@pytest.mark.parametrize(
    ("given", "column"),
    [
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int8()),
        (pa.timestamp("us"), pa.date32()),
        (pa.string(), pa.binary()),
        (pa.int8(), pa.list_(pa.int8())),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
        (pa.int64(), pa.duration("us")),
    ],
)
def test_a_column_of_another_kind_is_refused(given: pa.DataType, column: pa.DataType) -> None:
    assert "x is" in refusal(pa.schema([("x", given)]), pa.schema([("x", column)]))


@pytest.mark.parametrize(
    ("given", "column"),
    [
        (pa.array([300]), pa.int8()),
        (pa.array([1.5]), pa.int64()),
        (pa.array([2**60]), pa.float64()),
        (pa.array([Decimal("1.239")]), pa.decimal128(10, 2)),
        (pa.array([1001], pa.timestamp("ns")), pa.timestamp("us")),
    ],
)
def test_a_value_that_would_lose_something_is_refused_with_its_column_s_name(
    given: pa.Array, column: pa.DataType
) -> None:
    columns = for_table(pa.schema([("x", given.type)]), pa.schema([("x", column)]))
    with pytest.raises(BailiwickError, match="Column x holds a value that does not fit") as refused:
        converted(columns, pa.table({"x": given}))
    assert refused.value.code is Code.INVALID_ARGUMENTS


def test_instants_are_sent_in_utc_whatever_zone_the_session_shows_them_in() -> None:
    table = pa.schema([("at", pa.timestamp("us", tz="Europe/Berlin"))])
    columns = for_table(pa.schema([("at", pa.timestamp("us", tz="Asia/Tokyo"))]), table)
    assert columns.schema.field("at").type == UTC_TIMESTAMP

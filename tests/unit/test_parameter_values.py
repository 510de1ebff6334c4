"""Values of parameters: each Arrow type becomes one that Spark has, or is refused; nothing is lost."""

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.connect import proto

from bailiwick.engines.parameters import ParameterValue, dump, load, spark_type
from bailiwick.engines.spark_literals import data_type, literal, run_plan
from bailiwick.errors import BailiwickError, Code

NOON = datetime.datetime(2026, 3, 1, 12, 0, 0, 250)


@pytest.mark.parametrize(
    ("value", "arrow", "field", "sent"),
    [
        (True, pa.bool_(), "boolean", True),
        (-1, pa.int8(), "byte", -1),
        (255, pa.uint8(), "short", 255),
        (-1, pa.int16(), "short", -1),
        (65_535, pa.uint16(), "integer", 65_535),
        (-1, pa.int32(), "integer", -1),
        (2**32 - 1, pa.uint32(), "long", 2**32 - 1),
        (-(2**63), pa.int64(), "long", -(2**63)),
        (0.5, pa.float16(), "float", 0.5),
        (0.5, pa.float32(), "float", 0.5),
        (1e300, pa.float64(), "double", 1e300),
        ("ü'\\", pa.string(), "string", "ü'\\"),
        ("x", pa.large_string(), "string", "x"),
        ("x", pa.string_view(), "string", "x"),
        (b"\x00\xff", pa.binary(), "binary", b"\x00\xff"),
        (b"\x00", pa.large_binary(), "binary", b"\x00"),
        (b"\x00\xff", pa.binary(2), "binary", b"\x00\xff"),
        (datetime.date(1970, 1, 11), pa.date32(), "date", 10),
        (datetime.date(1969, 12, 31), pa.date64(), "date", -1),
        (1, pa.timestamp("s"), "timestamp_ntz", 1_000_000),
        (1, pa.timestamp("ms", tz="Europe/Berlin"), "timestamp", 1_000),
        (NOON, pa.timestamp("us"), "timestamp_ntz", 1_772_366_400_000_250),
        (1_000, pa.timestamp("ns", tz="UTC"), "timestamp", 1),
        (2**62, pa.timestamp("us", tz="UTC"), "timestamp", 2**62),
        (datetime.timedelta(days=1), pa.duration("ms"), "day_time_interval", 86_400_000_000),
        ("x", pa.dictionary(pa.int8(), pa.string()), "string", "x"),
    ],
)
def test_a_value_is_sent_as_the_literal_that_holds_it(
    value: object, arrow: pa.DataType, field: str, sent: object
) -> None:
    made = literal(ParameterValue.of(value, arrow).scalar)
    assert made.WhichOneof("literal_type") == field
    assert getattr(made, field) == sent


@pytest.mark.parametrize(
    ("value", "arrow", "text", "precision", "scale"),
    [
        (decimal.Decimal("-1.50"), pa.decimal128(10, 2), "-1.50", 10, 2),
        (decimal.Decimal("0.0000001"), pa.decimal128(10, 7), "0.0000001", 10, 7),
        (2**64 - 1, pa.uint64(), "18446744073709551615", 20, 0),
        (decimal.Decimal("1.5"), pa.decimal256(60, 1), "1.5", 38, 1),
        (decimal.Decimal("1.5"), pa.decimal32(5, 1), "1.5", 5, 1),
    ],
)
def test_a_decimal_keeps_its_digits(
    value: object, arrow: pa.DataType, text: str, precision: int, scale: int
) -> None:
    made = literal(ParameterValue.of(value, arrow).scalar).decimal
    assert (made.value, made.precision, made.scale) == (text, precision, scale)


@pytest.mark.parametrize(
    "arrow",
    [
        pa.null(),
        pa.int32(),
        pa.string(),
        pa.decimal128(10, 2),
        pa.timestamp("us"),
        pa.timestamp("ns", tz="Asia/Tokyo"),
        pa.list_(pa.date32()),
        pa.struct([("a", pa.int8()), ("b", pa.map_(pa.string(), pa.float64()))]),
    ],
)
def test_a_null_is_sent_with_its_type(arrow: pa.DataType) -> None:
    value = ParameterValue.of(None, arrow)
    assert value.is_null
    assert literal(value.scalar).null == data_type(spark_type(arrow, 0))


def test_nested_values_are_sent_whole() -> None:
    arrow = pa.struct([("a", pa.list_(pa.uint8())), ("b", pa.map_(pa.large_string(), pa.date32()))])
    value = ParameterValue.of({"a": [1, None], "b": [("k", datetime.date(1970, 1, 2))]}, arrow)
    made = literal(value.scalar).struct
    assert [element.short for element in made.elements[0].array.elements] == [1, 0]
    assert made.elements[0].array.elements[1].WhichOneof("literal_type") == "null"
    assert [key.string for key in made.elements[1].map.keys] == ["k"]
    assert [item.date for item in made.elements[1].map.values] == [1]
    assert made.struct_type == data_type(value.type)


@pytest.mark.parametrize(
    ("arrow", "named"),
    [
        (pa.time32("s"), "time32[s]"),
        (pa.time64("us"), "time64[us]"),
        (pa.month_day_nano_interval(), "month_day_nano_interval"),
        (pa.decimal128(5, -2), "decimal128(5, -2)"),
        (pa.list_(pa.time64("ns")), "time64[ns]"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "run_end_encoded"),
        (pa.dense_union([pa.field("a", pa.int8())]), "dense_union"),
    ],
)
def test_a_type_that_spark_does_not_have_is_refused_by_its_name(arrow: pa.DataType, named: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        spark_type(arrow, 2)
    assert refused.value.code is Code.NOT_SUPPORTED
    assert "Parameter 3" in refused.value.message
    assert named in refused.value.message


@pytest.mark.parametrize(
    ("value", "arrow"),
    [
        (1, pa.timestamp("ns")),
        (1, pa.timestamp("ns", tz="UTC")),
        (1, pa.duration("ns")),
        (2**62, pa.timestamp("s")),
        (decimal.Decimal(10) ** 50, pa.decimal256(60, 1)),
    ],
)
def test_what_would_lose_is_refused_rather_than_rounded(value: object, arrow: pa.DataType) -> None:
    with pytest.raises(BailiwickError, match="without loss") as refused:
        ParameterValue.of(value, arrow)
    assert refused.value.code is Code.INVALID_ARGUMENTS


def test_nesting_has_a_bound() -> None:
    arrow = pa.int8()
    for _ in range(9):
        arrow = pa.list_(arrow)
    with pytest.raises(BailiwickError, match="cannot be bound"):
        spark_type(arrow, 0)


def test_the_statement_is_sent_as_it_was_written_with_its_values_beside_it() -> None:
    plan = run_plan("SELECT ? /* ? */", [ParameterValue.of("'; DROP TABLE t; --")])
    relation = proto.SQL.FromString(plan.root.extension.value)
    assert relation.query == "SELECT ? /* ? */"
    assert [argument.literal.string for argument in relation.pos_arguments] == ["'; DROP TABLE t; --"]


def test_a_statement_without_parameters_goes_the_plain_way() -> None:
    assert run_plan("SELECT 1", []).root.sql.query == "SELECT 1"


def test_values_of_two_types_are_two_values() -> None:
    assert ParameterValue.of(5, pa.int32()) != ParameterValue.of(5, pa.int64())
    assert ParameterValue.of(5) == ParameterValue.of(5)
    assert hash(ParameterValue.of("x")) == hash(ParameterValue.of("x"))


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20),
    st.datetimes(),
    st.dates(),
    st.lists(st.text()),
)


@given(st.lists(VALUES, max_size=5))
def test_a_row_comes_back_from_a_handle_as_it_was(values: list[Any]) -> None:
    row = tuple(ParameterValue.of(value) for value in values)
    assert load(dump(row)) == row

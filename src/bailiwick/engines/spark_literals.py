"""Statements as Spark Connect takes them, with their parameters as literals beside them.

Spark 4.1 pastes parameters into the text of a statement, where a minus before a negative number begins a
comment and the name of a struct's field is not quoted. So statements that have any go by way of our own Java
(`Describe`), which puts them into the parsed statement.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from pyspark.sql.connect import proto

from bailiwick.engines.parameters import ParameterValue

DESCRIBE_TYPE_URL: Final = "type.googleapis.com/bailiwick.Describe"
PARSE_TYPE_URL: Final = "type.googleapis.com/bailiwick.Parse"
RUN_TYPE_URL: Final = "type.googleapis.com/bailiwick.Run"

_SIMPLE: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.duration("us"): "day_time_interval",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.null(): "null",
}
"""What Connect calls these, in a literal and in a type."""


def run_plan(sql: str, parameters: Sequence[ParameterValue]) -> proto.Plan:
    """The plan that runs the statement."""
    if parameters:
        return _extension(RUN_TYPE_URL, sql, parameters)
    plan = proto.Plan()
    plan.root.sql.query = sql
    return plan


def describe_plan(sql: str, parameters: Sequence[ParameterValue]) -> proto.Plan:
    """The plan that answers in one row of JSON what the statement is."""
    return _extension(DESCRIBE_TYPE_URL, sql, parameters)


def parse_plan(sql: str) -> proto.Plan:
    """The plan that answers as `describe_plan`, as far as the text alone tells."""
    return _extension(PARSE_TYPE_URL, sql, ())


def _extension(type_url: str, sql: str, parameters: Sequence[ParameterValue]) -> proto.Plan:
    question = proto.SQL(query=sql)
    for parameter in parameters:
        question.pos_arguments.add().literal.CopyFrom(literal(parameter.scalar))
    plan = proto.Plan()
    plan.root.extension.CopyFrom(AnyMessage(type_url=type_url, value=question.SerializeToString()))
    return plan


def literal(scalar: Any) -> proto.Expression.Literal:
    """A scalar of a type that `parameters.spark_type` returns."""
    made = proto.Expression.Literal()
    arrow = scalar.type
    if not scalar.is_valid:
        made.null.CopyFrom(data_type(arrow))
    elif (build := _builder(arrow)) is not None:
        build(made, scalar)
    else:
        setattr(made, _SIMPLE[arrow], _plain(scalar))
    return made


def data_type(arrow: pa.DataType) -> proto.DataType:
    made = proto.DataType()
    if (simple := _SIMPLE.get(arrow)) is not None:
        getattr(made, simple).SetInParent()
    elif pa.types.is_decimal(arrow):
        made.decimal.precision, made.decimal.scale = arrow.precision, arrow.scale
    elif pa.types.is_list(arrow):
        made.array.element_type.CopyFrom(data_type(arrow.value_type))
        made.array.contains_null = True
    elif pa.types.is_map(arrow):
        made.map.key_type.CopyFrom(data_type(arrow.key_type))
        made.map.value_type.CopyFrom(data_type(arrow.item_type))
        made.map.value_contains_null = True
    elif pa.types.is_struct(arrow):
        for field in arrow:
            made.struct.fields.add(name=field.name, data_type=data_type(field.type), nullable=True)
    else:
        raise ValueError(f"no type of Spark's: {arrow}")
    return made


def _builder(arrow: pa.DataType) -> Callable[[proto.Expression.Literal, Any], None] | None:
    if pa.types.is_decimal(arrow):
        return _decimal
    if pa.types.is_list(arrow):
        return _array
    if pa.types.is_map(arrow):
        return _map
    if pa.types.is_struct(arrow):
        return _struct
    return None


def _decimal(made: proto.Expression.Literal, scalar: Any) -> None:
    made.decimal.value = format(scalar.as_py(), "f")
    made.decimal.precision, made.decimal.scale = scalar.type.precision, scalar.type.scale


def _array(made: proto.Expression.Literal, scalar: Any) -> None:
    made.array.element_type.CopyFrom(data_type(scalar.type.value_type))
    made.array.elements.extend(literal(element) for element in scalar.values)


def _map(made: proto.Expression.Literal, scalar: Any) -> None:
    made.map.key_type.CopyFrom(data_type(scalar.type.key_type))
    made.map.value_type.CopyFrom(data_type(scalar.type.item_type))
    keys, items = scalar.values.flatten()
    made.map.keys.extend(literal(key) for key in keys)
    made.map.values.extend(literal(item) for item in items)


def _struct(made: proto.Expression.Literal, scalar: Any) -> None:
    made.struct.struct_type.CopyFrom(data_type(scalar.type))
    made.struct.elements.extend(literal(scalar[position]) for position in range(len(scalar)))


def _plain(scalar: Any) -> Any:
    """Days, microseconds and the like as Spark counts them, which is as Arrow does."""
    arrow = scalar.type
    if pa.types.is_date(arrow) or pa.types.is_timestamp(arrow) or pa.types.is_duration(arrow):
        return scalar.value
    return scalar.as_py()

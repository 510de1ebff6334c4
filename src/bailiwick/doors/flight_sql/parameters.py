"""The parameters of a prepared statement, as an Arrow schema that drivers can read."""

import re
from collections.abc import Sequence

import pyarrow as pa

from bailiwick.engines.description import Parameter
from bailiwick.results.batches import schema_message

_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


def parameter_schema(parameters: Sequence[Parameter], *, timestamp_unit: str = "us") -> bytes:
    """An encapsulated IPC schema message with one field a parameter; empty where there are none."""
    if not parameters:
        return b""
    ordered = sorted(parameters, key=lambda parameter: parameter.position)
    fields = [
        pa.field(f"parameter_{number}", _in_unit(arrow_type(each.type), timestamp_unit))
        for number, each in enumerate(ordered, 1)
    ]
    return schema_message(pa.schema(fields))


def arrow_type(spark_type: str | None) -> pa.DataType:
    """The type to announce. What Spark could not tell, or has no scalar of, is asked for as a string."""
    if spark_type is None:
        return pa.string()
    if decimal := _DECIMAL.fullmatch(spark_type):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _TYPES.get(spark_type, pa.string())


def _in_unit(type_: pa.DataType, timestamp_unit: str) -> pa.DataType:
    return pa.timestamp(timestamp_unit, tz=type_.tz) if pa.types.is_timestamp(type_) else type_

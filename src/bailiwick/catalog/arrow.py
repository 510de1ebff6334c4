"""Iceberg's types as Spark streams them in Arrow, and Arrow's types as Spark names them in SQL.

The one place where the gateway says what a table's rows will look like without asking Spark. It must say
exactly what Spark would: drivers refuse a stream that differs from what was announced.
"""

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bailiwick.catalog.wire import Json
from bailiwick.names import spelled

UTC = "UTC"

_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "string": pa.string(),
    "uuid": pa.string(),
    "binary": pa.binary(),
    "unknown": pa.null(),
    "variant": pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
        ]
    ),
    # Spark cannot read these. They are shown as what they are, so that other readers can be told of them.
    "time": pa.time64("us"),
    "timestamp_ns": pa.timestamp("ns"),
}
_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)\Z")
_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.null(): "VOID",
    pa.time64("us"): "TIME(6)",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("ns"): "TIMESTAMP_NTZ(9)",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or view, as a query over it shows it."""

    name: str
    type: pa.DataType
    nullable: bool
    comment: str | None = None
    default: str | None = None
    """What a row gets that does not say, as SQL would write it."""


def columns_of(schema: Json, *, time_zone: str = UTC) -> tuple[Column, ...]:
    """The columns of an Iceberg schema, as a Spark session in `time_zone` streams them."""
    return tuple(
        Column(
            field["name"],
            arrow_type(field["type"], time_zone=time_zone),
            not field["required"],
            field.get("doc") or None,
            _literal(field.get("write-default")),
        )
        for field in schema["fields"]
    )


def columns_of_arrow(schema: pa.Schema) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type, field.nullable) for field in schema)


def arrow_type(type_: Any, *, time_zone: str = UTC) -> pa.DataType:
    """The Arrow type of an Iceberg type, given as the JSON that stands for it in metadata."""
    match type_:
        case {"type": "struct", "fields": fields}:
            return pa.struct(
                [_field(item["name"], item["type"], not item["required"], time_zone) for item in fields]
            )
        case {"type": "list", "element": element, "element-required": required}:
            return pa.list_(_field("element", element, not required, time_zone))
        case {"type": "map", "key": key, "value": value, "value-required": required}:
            return pa.map_(
                _field("key", key, False, time_zone), _field("value", value, not required, time_zone)
            )
        case str():
            return _primitive(type_, time_zone)
    raise ValueError(f"{str(type_)[:60]!r} is no type that Iceberg knows")


def sql_type(type_: pa.DataType) -> str:
    """The type as one writes it in Spark SQL.

    >>> sql_type(pa.list_(pa.field("element", pa.decimal128(10, 2), nullable=False)))
    'ARRAY<DECIMAL(10,2)>'
    """
    if name := _NAMES.get(type_):
        return name
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP" if type_.unit == "us" else "TIMESTAMP(9)"
    if pa.types.is_map(type_):
        return f"MAP<{sql_type(type_.key_type)}, {sql_type(type_.item_type)}>"
    if pa.types.is_list(type_):
        return f"ARRAY<{sql_type(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return _sql_struct(type_)
    return str(type_).upper()


def _sql_struct(type_: pa.DataType) -> str:
    fields = list(type_)
    if mark := fields[-1].metadata if fields else None:
        for key, name in ((b"variant", "VARIANT"), (b"geometry", "GEOMETRY"), (b"geography", "GEOGRAPHY")):
            if mark.get(key) == b"true":
                return name if key == b"variant" else f"{name}({mark.get(b'srid', b'').decode()})"
    shown = (
        f"{spelled([field.name])}: {sql_type(field.type)}{'' if field.nullable else ' NOT NULL'}"
        for field in fields
    )
    return f"STRUCT<{', '.join(shown)}>"


def _field(name: str, type_: Any, nullable: bool, time_zone: str) -> pa.Field:
    return pa.field(name, arrow_type(type_, time_zone=time_zone), nullable=nullable)


def _primitive(text: str, time_zone: str) -> pa.DataType:
    if plain := _PLAIN.get(text):
        return plain
    if decimal := _DECIMAL.match(text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    kind = re.split(r"[\[(]", text, maxsplit=1)[0]
    match kind:
        case "timestamptz":
            return pa.timestamp("us", tz=time_zone)
        case "timestamptz_ns":
            return pa.timestamp("ns", tz=time_zone)
        case "fixed":
            return pa.binary()
        case "geometry" | "geography":
            return _geo(kind)
    raise ValueError(f"{text[:60]!r} is no type that Iceberg knows")


def _geo(kind: str) -> pa.DataType:
    """Spark's form of a shape: the reference system's number, and the shape in WKB."""
    mark = {kind: "true", "srid": "4326"}
    return pa.struct(
        [
            pa.field("srid", pa.int32(), nullable=False),
            pa.field("wkb", pa.binary(), nullable=False, metadata=mark),
        ]
    )


def _literal(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case _:
            return str(value)

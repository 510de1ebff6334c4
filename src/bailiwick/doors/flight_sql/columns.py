"""Columns of tables as Flight SQL tells them: Arrow fields, with what drivers show in their metadata."""

from collections.abc import Sequence

import pyarrow as pa

from bailiwick.catalog.arrow import Column, sql_type

_PREFIX = "ARROW:FLIGHT:SQL:"

# Drivers know these better than Spark's own names of the same types.
_TYPE_NAMES: dict[pa.DataType, str] = {
    pa.string(): "VARCHAR",
    pa.timestamp("us"): "TIMESTAMP WITHOUT TIME ZONE",
}
_PRECISIONS: dict[pa.DataType, tuple[int, int | None]] = {
    pa.int8(): (3, 0),
    pa.int16(): (5, 0),
    pa.int32(): (10, 0),
    pa.int64(): (19, 0),
    pa.float32(): (7, None),
    pa.float64(): (15, None),
    pa.date32(): (10, None),
}


def column_fields(columns: Sequence[Column], table: tuple[str, str, str]) -> list[pa.Field]:
    """`table` is the catalog, schema and name of where the columns are."""
    return [
        pa.field(column.name, column.type, column.nullable, metadata=_metadata(column, table))
        for column in columns
    ]


def _metadata(column: Column, table: tuple[str, str, str]) -> dict[str, str]:
    catalog, schema, name = table
    told = {
        "CATALOG_NAME": catalog,
        "DB_SCHEMA_NAME": schema,
        "TABLE_NAME": name,
        "TYPE_NAME": type_name(column.type),
        "IS_AUTO_INCREMENT": "0",
        "IS_CASE_SENSITIVE": "1" if pa.types.is_string(column.type) else "0",
        "IS_READ_ONLY": "0",
        "IS_SEARCHABLE": "0" if pa.types.is_map(column.type) else "1",
    }
    precision, scale = _precision(column.type)
    if precision is not None:
        told["PRECISION"] = str(precision)
    if scale is not None:
        told["SCALE"] = str(scale)
    if column.comment:
        told["REMARKS"] = column.comment
    return {_PREFIX + key: value for key, value in told.items()}


def type_name(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return "DECIMAL"
    return _TYPE_NAMES.get(type_) or sql_type(type_)


def _precision(type_: pa.DataType) -> tuple[int | None, int | None]:
    if pa.types.is_decimal(type_):
        return type_.precision, type_.scale
    if pa.types.is_timestamp(type_):
        return 26, 6
    return _PRECISIONS.get(type_, (None, None))

"""Arrow columns as values that a person or a text format can take.

Times go through Arrow's own formatting, since Python's types end at the year 9999 and at microseconds.
"""

import base64
import json
import math
import unicodedata
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa

Cell = None | bool | int | float | str | list["Cell"] | dict[str, "Cell"]


def rows(batch: pa.RecordBatch) -> Iterator[tuple[Cell, ...]]:
    """Row by row. Two columns of the same name stay two."""
    columns = [cells(column) for column in batch.columns]
    return zip(*columns, strict=True) if columns else iter(() for _ in range(batch.num_rows))


def cells(column: pa.Array) -> list[Cell]:
    """The column's values as JSON could hold them; numbers that JSON cannot hold become text."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
        found: list[Cell] = column.cast(pa.string()).to_pylist()
        return found
    return [_cell(value) for value in column.to_pylist()]


def text(cell: Cell) -> str:
    """For CSV: NULL is the empty text, nested values are JSON."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, list | dict):
        return json.dumps(cell, ensure_ascii=False)
    return str(cell)


def printable(shown: str) -> str:
    """Control characters made visible: what comes out of a table must not steer a terminal."""
    if shown.isprintable():
        return shown
    return "".join(each if unicodedata.category(each)[0] != "C" else _escaped(each) for each in shown)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _cell(value: object) -> Cell:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(key): _cell(each) for key, each in value.items()}
        case list() | tuple():
            return [_cell(each) for each in value]
    return str(value)

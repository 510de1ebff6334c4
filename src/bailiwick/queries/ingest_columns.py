"""The columns of a stream of rows against those of a table: which goes where, and as what.

Decided once, from the schemas alone, before anything is written: what does not fit is refused by name. Then
each batch is brought into the table's shape; a value that does not fit is refused with its column's name.
Columns are matched by name, and case does not matter, as in Spark.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as kinds

from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.ingest_types import (
    DECIMAL_DIGITS_MAX,
    UTC_TIMESTAMP,
    UnfitTypeError,
    fits,
    holds_nothing,
    sendable,
)

_SHOWN_MAX = 5
_NAME_SHOWN_MAX = 100
_REASON_SHOWN_MAX = 300


@dataclass(frozen=True, slots=True)
class Columns:
    """What is sent to Spark: `schema`, each column from the one of the stream that `sources` names."""

    schema: pa.Schema
    sources: tuple[int, ...]
    required: frozenset[str] = frozenset()
    """Columns of the table that take no nulls."""

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch` in the table's shape. Raises INVALID_ARGUMENTS for a value that does not fit."""
        arrays = [
            _taken(batch, source, field) for field, source in zip(self.schema, self.sources, strict=True)
        ]
        for field, array in zip(self.schema, arrays, strict=True):
            if field.name in self.required and array.null_count:
                raise _refusal(f"Column {_shown(field.name)} takes no nulls, and a row has one.")
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def for_new_table(stream: pa.Schema) -> Columns:
    """The columns of a table that is made for this stream. Raises INVALID_ARGUMENTS, naming what is wrong."""
    _check_names(stream)
    problems, fields = [], []
    for field in stream:
        try:
            kind = sendable(field.type)
            if holds_nothing(kind):
                raise UnfitTypeError(
                    "has no type, as all its values are null: cast it to the type it should be"
                )
            fields.append(pa.field(field.name, kind))
        except UnfitTypeError as error:
            problems.append(f"{_shown(field.name)} {error}")
    _refuse("These columns cannot be stored", problems)
    return Columns(pa.schema(fields), tuple(range(len(fields))))


def for_table(stream: pa.Schema, table: pa.Schema) -> Columns:
    """The columns of `table`, filled from this stream. Raises INVALID_ARGUMENTS, naming what is wrong."""
    _check_names(stream)
    given = {field.name.lower(): index for index, field in enumerate(stream)}
    known = {field.name.lower() for field in table}
    extra = [_shown(field.name) for field in stream if field.name.lower() not in known]
    _refuse("The table has no such columns", extra)
    missing = [
        _shown(field.name) for field in table if not field.nullable and field.name.lower() not in given
    ]
    _refuse("These columns of the table take no nulls and must be given", missing)
    # A column that is not given and not needed is left to Spark, which knows its default.
    matched = [field for field in table if field.name.lower() in given]
    sources = tuple(given[field.name.lower()] for field in matched)
    problems = [
        problem
        for field, source in zip(matched, sources, strict=True)
        if (problem := _misfit(stream.field(source), field)) is not None
    ]
    _refuse("These columns do not fit", problems)
    fields = [pa.field(field.name, _sent_type(field.type)) for field in matched]
    required = frozenset(field.name for field in matched if not field.nullable)
    return Columns(pa.schema(fields), sources, required)


def _misfit(given: pa.Field, column: pa.Field) -> str | None:
    name = _shown(column.name)
    try:
        source = sendable(given.type)
    except UnfitTypeError as error:
        return f"{name} {error}"
    target = _sent_type(column.type)
    if not fits(source, target):
        return f"{name} is {given.type}, and the table's column is {column.type}"
    try:
        _cast(pa.array([], given.type), target)
    except (pa.ArrowException, NotImplementedError):
        return f"{name} is {given.type}, which cannot be turned into the table's {column.type}"
    return None


def _sent_type(column: pa.DataType) -> pa.DataType:
    """How a column of the table is sent. Instants are sent in UTC, whatever zone they are shown in."""
    return UTC_TIMESTAMP if kinds.is_timestamp(column) and column.tz is not None else column


def _taken(batch: pa.RecordBatch, source: int, field: pa.Field) -> pa.Array:
    try:
        return _cast(batch.column(source), field.type)
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0][:_REASON_SHOWN_MAX]
        raise _refusal(
            f"Column {_shown(field.name)} holds a value that does not fit into {field.type}: {reason}"
        ) from error


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type == target:
        return array
    if kinds.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if kinds.is_integer(array.type) and kinds.is_decimal(target):
        # Arrow asks for room for every integer; what counts is whether these fit.
        array = array.cast(pa.decimal128(DECIMAL_DIGITS_MAX, target.scale))
    return array.cast(target)


def _check_names(stream: pa.Schema) -> None:
    if not len(stream):
        raise _refusal("The rows have no columns.")
    if not all(stream.names):
        raise _refusal("A column has no name.")
    counts = Counter(name.lower() for name in stream.names)
    _refuse(
        "These columns are there more than once (case does not matter)",
        [_shown(name) for name, count in counts.items() if count > 1],
    )


def _refuse(what: str, names: Iterable[str]) -> None:
    found = list(names)
    if found:
        rest = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
        raise _refusal(f"{what}: {'; '.join(found[:_SHOWN_MAX])}{rest}.")


def _refusal(message: str) -> BailiwickError:
    return BailiwickError(Code.INVALID_ARGUMENTS, message)


def _shown(name: str) -> str:
    return name if len(name) <= _NAME_SHOWN_MAX else f"{name[:_NAME_SHOWN_MAX]}…"

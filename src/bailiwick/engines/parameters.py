"""The value of a `?`, as a door reads it and as an engine takes it.

A value is an Arrow scalar of one of the types that Spark has, so that nothing has to be guessed on the way:
what a driver binds is widened to the next such type (`uint32` to `int64`), or refused by its name where there
is none. Whether a value fits where it stands in the statement is for Spark to say.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa

from bailiwick.errors import BailiwickError, Code

NESTING_MAX: Final = 8
DECIMAL_DIGITS_MAX: Final = 38

_AS_THEY_ARE: Final = frozenset(
    {
        pa.null(),
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
    }
)
_WIDENED: Final[dict[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """One typed value. Hashable, so that what was said of a statement can be kept by its values too."""

    scalar: Any
    """A `pyarrow.Scalar` whose type is one that `spark_type` returns."""

    @classmethod
    def of(cls, value: object, arrow_type: pa.DataType | None = None) -> Self:
        """A Python value, of this Arrow type or of the one that pyarrow gives it."""
        column = pa.array([value], type=arrow_type)
        return cls(as_spark_takes(column, 0)[0])

    @property
    def type(self) -> pa.DataType:
        return self.scalar.type

    @property
    def is_null(self) -> bool:
        return not self.scalar.is_valid


Row = tuple[ParameterValue, ...]
"""A value for each `?` of a statement, in their order."""


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The batch's rows. What cannot be bound is NOT_SUPPORTED or INVALID_ARGUMENTS, with its position."""
    columns = [as_spark_takes(column, position) for position, column in enumerate(batch.columns)]
    for number in range(batch.num_rows):
        yield tuple(ParameterValue(column[number]) for column in columns)


def size_bytes(row: Row) -> int:
    """About what the values hold."""
    return sum(64 + pa.repeat(value.scalar, 1).nbytes for value in row)


def dump(row: Row) -> bytes:
    """The row as an Arrow IPC stream, for handles that carry it; nothing for a row without values."""
    if not row:
        return b""
    columns = [pa.repeat(value.scalar, 1) for value in row]
    batch = pa.RecordBatch.from_arrays(columns, names=[str(position) for position in range(len(row))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def load(dumped: bytes) -> Row:
    """What `dump` was given. For bytes of our own only: they are not checked as a client's are."""
    if not dumped:
        return ()
    with pa.ipc.open_stream(dumped) as stream:
        return next(rows_of(stream.read_next_batch()))


def as_spark_takes(column: pa.Array, position: int) -> pa.Array:
    """The column in a type that Spark has. Nothing is rounded or cut: what would lose is refused."""
    wanted = spark_type(column.type, position)
    if column.type == wanted:
        return column
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"Parameter {position + 1} has a value of the Arrow type {_shown(column.type)} which "
            f"{_shown(wanted)}, the nearest type that Spark has, cannot hold without loss. Round it, or bind "
            "it as text.",
        ) from None
    except pa.ArrowNotImplementedError:
        raise _not_supported(column.type, position) from None


def spark_type(arrow: pa.DataType, position: int, depth: int = 0) -> pa.DataType:
    """The type among those that Spark has which holds every value of `arrow`. NOT_SUPPORTED if there is none.

    >>> spark_type(pa.uint32(), 0)
    DataType(int64)
    """
    if arrow in _AS_THEY_ARE:
        return arrow
    if (wider := _WIDENED.get(arrow)) is not None:
        return wider
    if depth == NESTING_MAX:
        raise _not_supported(arrow, position)
    if (several := _nested(arrow, position, depth + 1)) is not None:
        return several
    if pa.types.is_timestamp(arrow):
        return pa.timestamp("us", tz="UTC" if arrow.tz else None)
    if pa.types.is_duration(arrow):
        return pa.duration("us")
    if pa.types.is_decimal(arrow) and 0 <= arrow.scale <= DECIMAL_DIGITS_MAX:
        return pa.decimal128(min(arrow.precision, DECIMAL_DIGITS_MAX), arrow.scale)
    if pa.types.is_fixed_size_binary(arrow):
        return pa.binary()
    raise _not_supported(arrow, position)


def _nested(arrow: pa.DataType, position: int, depth: int) -> pa.DataType | None:
    if pa.types.is_dictionary(arrow):
        return spark_type(arrow.value_type, position, depth)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return pa.list_(spark_type(arrow.value_type, position, depth))
    if pa.types.is_struct(arrow):
        return pa.struct([(field.name, spark_type(field.type, position, depth)) for field in arrow])
    if pa.types.is_map(arrow):
        key, item = (spark_type(each, position, depth) for each in (arrow.key_type, arrow.item_type))
        return pa.map_(key, item)
    return None


def _not_supported(arrow: pa.DataType, position: int) -> BailiwickError:
    return BailiwickError(
        Code.NOT_SUPPORTED,
        f"Parameter {position + 1} is of the Arrow type {_shown(arrow)}, which cannot be bound. "
        "Bind it as text, and cast it in the statement.",
    )


def _shown(arrow: pa.DataType) -> str:
    text = str(arrow)
    return text if len(text) <= 100 else f"{text[:100]}…"

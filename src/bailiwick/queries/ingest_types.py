"""Which Arrow types may be sent to Spark, and which fit into which column. Pure.

Clients send what their libraries hold: unsigned integers, nanoseconds, large strings, dictionaries. Spark's
`LocalRelation` takes a smaller set. Every type is turned into one of that set without losing anything, or it
is refused; and a column takes only types whose values it can hold as they are.
"""

import pyarrow as pa
import pyarrow.types as kinds

DECIMAL_DIGITS_MAX = 38
UTC_TIMESTAMP = pa.timestamp("us", tz="UTC")
LOCAL_TIMESTAMP = pa.timestamp("us")

_SAME = (
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
    LOCAL_TIMESTAMP,
    pa.null(),
)
_WIDENED = {
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
_VIEWS = (pa.string_view(), pa.binary_view())
"""Taken only where it can be measured what they come to."""


class UnfitTypeError(ValueError):
    """Why a type cannot be sent, as the end of a sentence that begins with the column's name."""


def sendable(given: pa.DataType, *, is_nested: bool = False) -> pa.DataType:
    """The type that `given` becomes on its way to Spark. Raises UnfitTypeError.

    >>> sendable(pa.uint32())
    DataType(int64)
    """
    if given in _SAME:
        return given
    if given in _WIDENED and not (is_nested and given in _VIEWS):
        return _WIDENED[given]
    if kinds.is_timestamp(given):
        return LOCAL_TIMESTAMP if given.tz is None else UTC_TIMESTAMP
    if kinds.is_decimal(given):
        return _decimal(given)
    if kinds.is_fixed_size_binary(given):
        return pa.binary()
    if kinds.is_dictionary(given) and not is_nested:
        return _plain_values(given)
    return _nested(given)


def _decimal(given: pa.DataType) -> pa.DataType:
    if given.precision > DECIMAL_DIGITS_MAX or not 0 <= given.scale <= given.precision:
        raise UnfitTypeError(f"is {given}: decimals have at most {DECIMAL_DIGITS_MAX} digits here")
    return pa.decimal128(given.precision, given.scale)


def _plain_values(given: pa.DataType) -> pa.DataType:
    if kinds.is_nested(given.value_type) or kinds.is_dictionary(given.value_type):
        raise UnfitTypeError(f"is {given}: the values of a dictionary must be plain")
    return sendable(given.value_type, is_nested=True)


def _nested(given: pa.DataType) -> pa.DataType:
    if kinds.is_list(given) or kinds.is_large_list(given) or kinds.is_fixed_size_list(given):
        return pa.list_(_sendable_field(given.value_field))
    if kinds.is_struct(given):
        return pa.struct([_sendable_field(given.field(index)) for index in range(given.num_fields)])
    if kinds.is_map(given):
        return pa.map_(_sendable_field(given.key_field), _sendable_field(given.item_field))
    raise UnfitTypeError(f"is {given}, which Spark cannot take")


def _sendable_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, sendable(field.type, is_nested=True), field.nullable)


def fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a column of type `target` may take values of type `source`, as far as each of them fits.

    As Spark's store assignment, without what would lose something silently. `source` is a sendable type.
    """
    if source == target or kinds.is_null(source):
        return True
    if _is_number(source):
        return _is_number(target)
    if kinds.is_date32(source) or kinds.is_timestamp(source):
        return bool(kinds.is_timestamp(target))
    if kinds.is_list(source) and kinds.is_list(target):
        return fits(source.value_type, target.value_type)
    if kinds.is_map(source) and kinds.is_map(target):
        return fits(source.key_type, target.key_type) and fits(source.item_type, target.item_type)
    if kinds.is_struct(source) and kinds.is_struct(target):
        return _struct_fits(source, target)
    return False


def _struct_fits(source: pa.StructType, target: pa.StructType) -> bool:
    """Fields in the same order, under the same names."""
    if source.num_fields != target.num_fields:
        return False
    pairs = [(source.field(index), target.field(index)) for index in range(source.num_fields)]
    return all(one.name == other.name and fits(one.type, other.type) for one, other in pairs)


def _is_number(one: pa.DataType) -> bool:
    return bool(kinds.is_integer(one) or kinds.is_floating(one) or kinds.is_decimal(one))


def holds_nothing(given: pa.DataType) -> bool:
    """Whether the type has no values but null, somewhere inside: no column can be made of it."""
    if kinds.is_null(given):
        return True
    return any(holds_nothing(given.field(index).type) for index in range(given.num_fields))

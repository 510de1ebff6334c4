"""Bytes of a client made into messages, within bounds.

Protobuf's own parser gives up at a hundred levels, which fifty chained calls of a data frame reach, and its
wider setting has no bound that a thread's stack could bear. So what it refuses, and what is large, is
measured here first, level by level and without recursion, and parsed only if it is within `Bounds`. Nothing
here judges what a message says: `screen.py` does.
"""

import importlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message
from pyspark.sql.connect import proto

from bailiwick.errors import BailiwickError, Code

M = TypeVar("M", bound=Message)
Kind = Any
"""A message's descriptor; protobuf has two classes for it."""

_SHALLOW: Final = 90
"""Protobuf's usual parser reads this many levels for sure."""
_SMALL_BYTES: Final = 256 << 10
"""Two bytes can be a message, which takes many more in memory; so what is larger is counted first."""
_PIECE_BYTES: Final = 1 << 20
_VARINT_BYTES_MAX: Final = 10
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5

_parsing = threading.Lock()
"""How deep protobuf parses is set for the whole process, so one thread at a time does."""
_unpacking = threading.Lock()
"""One plan at a time is decompressed: however many come at once, they take the room of one."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one request may come to."""

    request_bytes_max: int = 128 << 20
    plan_bytes_max: int = 64 << 20
    """Of a plan that comes compressed: what may come out."""
    depth_max: int = 1_000
    """Levels of messages in one another. Spark reads 1,024; a call on a data frame makes two."""
    messages_max: int = 200_000
    fields_max: int = 1_000_000


BOUNDS: Final = Bounds()


def parse(kind: type[M], data: bytes, bounds: Bounds = BOUNDS) -> M:
    """The message. Raises PARSE_ERROR for what is none, RESOURCE_EXHAUSTED for what passes a bound."""
    if len(data) > bounds.request_bytes_max:
        raise too_much("The request is too large.", "request_bytes_max")
    if len(data) <= _SMALL_BYTES:
        with _parsing:
            try:
                return kind.FromString(data)
            except DecodeError:
                pass  # Either it is no message, or a deep one.
    return _parse_measured(kind, data, is_deep=_depth(kind.DESCRIPTOR, data, bounds) > _SHALLOW)


def unpack(plan: proto.Plan, bounds: Bounds = BOUNDS) -> None:
    """Put what a compressed plan holds in its place. A plan that is not compressed stays as it is."""
    if plan.WhichOneof("op_type") != "compressed_operation":
        return
    packed = plan.compressed_operation
    if packed.compression_codec != proto.CompressionCodec.COMPRESSION_CODEC_ZSTD:
        raise BailiwickError(Code.NOT_SUPPORTED, "Plans are compressed with zstd, or not at all.")
    with _unpacking:
        data = decompressed(packed.data, bounds.plan_bytes_max)
        match packed.op_type:
            case proto.Plan.CompressedOperation.OP_TYPE_RELATION:
                relation = parse(proto.Relation, data, bounds)
                plan.root.CopyFrom(relation)
            case proto.Plan.CompressedOperation.OP_TYPE_COMMAND:
                command = parse(proto.Command, data, bounds)
                plan.command.CopyFrom(command)
            case _:
                raise BailiwickError(Code.PARSE_ERROR, "The compressed plan does not say what it holds.")


def decompressed(data: bytes, bytes_max: int) -> bytes:
    """What zstd made smaller. Its size is found first, and nothing is kept of what has too much of it."""
    size = 0
    for piece in _pieces(data):
        size += len(piece)
        if size > bytes_max:
            raise too_much("The plan is too large when it is decompressed.", "plan_bytes_max")
    return b"".join(_pieces(data))


def _pieces(data: bytes) -> Iterator[bytes]:
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while piece := stream.read(_PIECE_BYTES):
                yield piece
    except (OSError, pa.ArrowException) as error:
        raise BailiwickError(Code.PARSE_ERROR, "The compressed plan cannot be decompressed.") from error


def too_much(sentence: str, limit: str) -> BailiwickError:
    details = {"reason": "too_complex" if limit == "depth_max" else "limit", "limit": limit}
    return BailiwickError(Code.RESOURCE_EXHAUSTED, sentence, retryable=False, details=details)


def _malformed(kind: Kind) -> BailiwickError:
    return BailiwickError(Code.PARSE_ERROR, f"What was sent is no {kind.name} of Spark Connect.")


def _parse_measured(kind: type[M], data: bytes, *, is_deep: bool) -> M:
    widen = _widening()
    with _parsing:
        widen(is_deep)
        try:
            return kind.FromString(data)
        except DecodeError as error:
            raise _malformed(kind.DESCRIPTOR) from error
        finally:
            widen(False)


@cache
def _widening() -> Any:
    return importlib.import_module("google._upb._message").SetAllowOversizeProtos


Inside = Mapping[int, Kind]
"""The messages that a message may hold, by field number."""


@cache
def _inside(kind: Kind) -> Inside:
    return {field.number: field.message_type for field in kind.fields if field.message_type is not None}


def _depth(kind: Kind, data: bytes, bounds: Bounds) -> int:
    """How many levels there are. Raises as `parse` does, and as soon as a bound is passed."""
    ends, kinds = [len(data)], [_inside(kind)]
    at = deepest = fields = messages = 0
    while ends:
        end = ends[-1]
        if at == end:
            ends.pop()
            kinds.pop()
            continue
        fields += 1
        if fields > bounds.fields_max:
            raise too_much("The request has too many parts.", "fields_max")
        tag, at = _varint(data, at, end, kind)
        if tag & 7 != _DELIMITED:
            at = _after(tag & 7, data, at, end, kind)
            continue
        length, at = _varint(data, at, end, kind)
        if at + length > end:
            raise _malformed(kind)
        child = kinds[-1].get(tag >> 3)
        if child is None:
            at += length
            continue
        messages += 1
        if messages > bounds.messages_max:
            raise too_much("The request has too many parts.", "messages_max")
        ends.append(at + length)
        kinds.append(_inside(child))
        deepest = max(deepest, len(ends))
        if deepest > bounds.depth_max:
            raise too_much("The plan is nested too deeply. Break it into smaller ones.", "depth_max")
    return deepest


def _after(wire_type: int, data: bytes, at: int, end: int, kind: Kind) -> int:
    """Where a value without a length ends. Groups, which Spark Connect does not have, are no values."""
    if wire_type == _VARINT:
        return _varint(data, at, end, kind)[1]
    after = at + {_FIXED64: 8, _FIXED32: 4}.get(wire_type, end)
    if after > end or wire_type not in (_FIXED64, _FIXED32):
        raise _malformed(kind)
    return after


def _varint(data: bytes, at: int, end: int, kind: Kind) -> tuple[int, int]:
    if at < end and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for index, byte in enumerate(data[at : min(at + _VARINT_BYTES_MAX, end)]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise _malformed(kind)

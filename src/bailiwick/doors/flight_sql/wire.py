"""Bytes in, bytes out: strict reading of protobuf, and FlightData joined by hand.

Reading is closed: what does not parse, or carries a field that we do not know, is refused before anyone acts
on it. Writing never builds a FlightData object: a batch is copied once, from Spark's bytes into the message.
"""

from typing import TypeVar

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from bailiwick.errors import BailiwickError, Code

TYPE_PREFIX = "type.googleapis.com/"
SQL_PACKAGE = "arrow.flight.protocol.sql."
TYPE_URL_CHARS_MAX = 1_000

_DATA_HEADER = b"\x12"  # field 2, length-delimited
_APP_METADATA = b"\x1a"  # field 3, length-delimited
_DATA_BODY = b"\xc2\x3e"  # field 1000, length-delimited
_CONTINUATION = b"\xff\xff\xff\xff"

Bytes = bytes | memoryview
M = TypeVar("M", bound=Message)


def parse(kind: type[M], data: bytes) -> M:
    """`data` as a message of this kind. Truncated, malformed or with unknown fields: PARSE_ERROR."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise BailiwickError(Code.PARSE_ERROR, f"The message is not a valid {_name(message)}.") from error
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        raise BailiwickError(Code.PARSE_ERROR, f"The {_name(message)} has fields that are not known here.")
    return message


def unpack(data: bytes) -> tuple[str, bytes]:
    """The short name and the value of a Flight SQL message inside an Any."""
    envelope = parse(AnyMessage, data)
    if len(envelope.type_url) > TYPE_URL_CHARS_MAX:
        raise BailiwickError(
            Code.PARSE_ERROR, "The message is not a Flight SQL command: its type is too long."
        )
    _, _, full_name = envelope.type_url.rpartition("/")
    if not full_name:
        raise BailiwickError(Code.PARSE_ERROR, "The message is not a Flight SQL command: it names no type.")
    if not full_name.startswith(SQL_PACKAGE):
        raise BailiwickError(Code.NOT_SUPPORTED, "Only Flight SQL commands are understood here.")
    return full_name.removeprefix(SQL_PACKAGE), envelope.value


def pack(message: Message) -> bytes:
    """`message` inside an Any, as Flight SQL wants it."""
    envelope = AnyMessage(
        type_url=TYPE_PREFIX + message.DESCRIPTOR.full_name, value=message.SerializeToString()
    )
    return envelope.SerializeToString()


def flight_data(header: Bytes, body: Bytes | None = None, *, app_metadata: bytes = b"") -> bytes:
    """One FlightData message: an IPC message's flatbuffer and its body, each copied once."""
    header_view = memoryview(header).cast("B")
    parts: list[Bytes] = [_DATA_HEADER, varint(len(header_view)), header_view]
    if app_metadata:
        parts += (_APP_METADATA, varint(len(app_metadata)), app_metadata)
    if body is not None:
        body_view = memoryview(body).cast("B")
        if len(body_view):
            parts += (_DATA_BODY, varint(len(body_view)), body_view)
    return b"".join(parts)


def schema_header(encapsulated: bytes) -> memoryview:
    """The flatbuffer inside an encapsulated IPC schema message, which is what FlightData carries."""
    if len(encapsulated) < 8 or encapsulated[:4] != _CONTINUATION:
        raise BailiwickError(Code.INTERNAL_ERROR, "The result's schema is not an Arrow message.")
    length = int.from_bytes(encapsulated[4:8], "little")
    return memoryview(encapsulated)[8 : 8 + length]


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _name(message: Message) -> str:
    return message.DESCRIPTOR.name

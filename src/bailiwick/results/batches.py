"""Arrow as it passes through: cut into messages, never decoded.

An engine answers with whole Arrow IPC streams; a door wants single messages to frame in its own way. This
module finds where one message ends and the next begins by reading a few fields of each flatbuffer head. It
does not look into the columns, and it copies nothing: every part of a `Frame` is a view of the bytes it came
from.

The bytes come from another process. Each offset is checked before it is followed; what does not hold
together is a `MalformedStreamError`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from bailiwick.errors import BailiwickError, Code

LOCAL_BATCH_ROWS_MAX = 65_536
LOCAL_BATCH_BYTES = 2 << 20

_CONTINUATION = 0xFFFFFFFF
_PREFIX = struct.Struct("<II")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")
_BUFFER = struct.Struct("<qq")
_STORED_AS_IT_IS = -1

# Slots of the flatbuffer tables in Arrow's Message.fbs.
_MESSAGE_HEADER_TYPE = 1
_MESSAGE_HEADER = 2
_MESSAGE_BODY_LENGTH = 3
_RECORD_BATCH_LENGTH = 0
_RECORD_BATCH_BUFFERS = 2
_RECORD_BATCH_COMPRESSION = 3
_DICTIONARY_DATA = 1


class FrameKind(IntEnum):
    """The numbers are Arrow's own (MessageHeader)."""

    SCHEMA = 1
    DICTIONARY = 2
    BATCH = 3


_KINDS = {int(kind): kind for kind in FrameKind}


class MalformedStreamError(BailiwickError):
    """The engine sent bytes that are no Arrow stream. `cause_text` says what is wrong with them."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            Code.INTERNAL_ERROR, "The engine sent a result that could not be read.", cause_text=problem
        )


@dataclass(frozen=True, slots=True)
class Frame:
    """One Arrow IPC message: the flatbuffer head, with its padding and without its length, and the body."""

    kind: FrameKind
    header: bytes | memoryview
    body: bytes | memoryview

    @property
    def size_bytes(self) -> int:
        return len(self.header) + len(self.body)

    @property
    def rows(self) -> int:
        """How many rows a BATCH has, read from its head. Holds for a batch without columns too."""
        if self.kind is not FrameKind.BATCH:
            return 0
        table = _table_at(self.header, _follow(self.header, _root(self.header), _MESSAGE_HEADER))
        rows = _i64_field(self.header, table, _RECORD_BATCH_LENGTH)
        if rows < 0:
            raise MalformedStreamError(f"a record batch of {rows} rows")
        return rows

    @property
    def is_compressed(self) -> bool:
        """Whether the body must be decompressed, to who knows what size. A schema never is."""
        if self.kind is FrameKind.SCHEMA:
            return False
        table = _table_at(self.header, _follow(self.header, _root(self.header), _MESSAGE_HEADER))
        if self.kind is FrameKind.DICTIONARY:
            table = _table_at(self.header, _follow(self.header, table, _DICTIONARY_DATA))
        return _field(self.header, table, _RECORD_BATCH_COMPRESSION, _U32.size) != 0

    @property
    def content_bytes(self) -> int:
        """What the message holds once it is decompressed, by its own word: the room that a reader needs."""
        if not self.is_compressed:
            return self.size_bytes
        table = _table_at(self.header, _follow(self.header, _root(self.header), _MESSAGE_HEADER))
        buffers = _buffers(self.header, table)
        return len(self.header) + sum(_decompressed_bytes(self.body, *buffer) for buffer in buffers)

    def encapsulated(self) -> bytes:
        """The message as IPC writes it: continuation mark, length, head, body."""
        return b"".join((_PREFIX.pack(_CONTINUATION, len(self.header)), self.header, self.body))


def frames(data: bytes | memoryview) -> Iterator[Frame]:
    """Cut one IPC stream into its messages, in order. A stream may end with or without an end mark."""
    view = memoryview(data)
    offset, end = 0, len(view)
    while offset < end:
        if end - offset < _PREFIX.size:
            raise MalformedStreamError(f"{end - offset} stray bytes after the last message")
        mark, header_length = _PREFIX.unpack_from(view, offset)
        if mark != _CONTINUATION:
            raise MalformedStreamError(f"no continuation mark at byte {offset}")
        offset += _PREFIX.size
        if header_length == 0:
            return
        if header_length > end - offset:
            raise MalformedStreamError(f"a head of {header_length} bytes where {end - offset} are left")
        header = view[offset : offset + header_length]
        offset += header_length
        kind, body_length = _kind_and_body_length(header)
        if body_length > end - offset:
            raise MalformedStreamError(f"a body of {body_length} bytes where {end - offset} are left")
        yield Frame(kind, header, view[offset : offset + body_length])
        offset += body_length


def schema_message(schema: pa.Schema) -> bytes:
    """The schema as an encapsulated IPC message, the form that Flight wants."""
    message: bytes = schema.serialize().to_pybytes()
    return message


NO_COLUMNS = schema_message(pa.schema([]))
"""What a statement that only does something answers with."""


def read_schema(message: bytes) -> pa.Schema:
    """The schema in an encapsulated IPC message."""
    try:
        return pa.ipc.read_schema(pa.py_buffer(message))
    except (pa.ArrowException, ValueError, OSError, EOFError) as error:
        raise MalformedStreamError(f"no schema message: {error}") from error


def frames_of_table(table: pa.Table) -> tuple[bytes, Iterator[Frame]]:
    """A result made in this process, in the form that an engine's has. An empty one has one empty batch."""
    plain = _without_dictionaries(table)
    return schema_message(plain.schema), _frames_of_batches(plain)


def _frames_of_batches(table: pa.Table) -> Iterator[Frame]:
    row_bytes = table.nbytes // max(table.num_rows, 1) + 1
    rows = max(1, min(LOCAL_BATCH_ROWS_MAX, LOCAL_BATCH_BYTES // row_bytes))
    batches = table.to_batches(max_chunksize=rows) or [_empty_batch(table)]
    for batch in batches:
        # A batch without its schema is one message; pyarrow gives its memory as signed bytes.
        yield from frames(memoryview(batch.serialize()).cast("B"))


def _empty_batch(table: pa.Table) -> pa.RecordBatch:
    """The table's own empty columns where it has them: pyarrow cannot make those of every type (unions)."""
    columns = [
        column.chunk(0) if column.num_chunks else pa.array([], type=column.type) for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Doors send record batches only, so a dictionary has nowhere to travel."""
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            plain = field.with_type(field.type.value_type)
            table = table.set_column(index, plain, table.column(index).cast(plain.type))
    return table


def _kind_and_body_length(header: memoryview) -> tuple[FrameKind, int]:
    root = _root(header)
    position = _field(header, root, _MESSAGE_HEADER_TYPE, 1)
    number = header[position] if position else 0
    kind = _KINDS.get(number)
    if kind is None:
        raise MalformedStreamError(f"a message of kind {number}")
    body_length = _i64_field(header, root, _MESSAGE_BODY_LENGTH)
    if body_length < 0:
        raise MalformedStreamError(f"a body of {body_length} bytes")
    return kind, body_length


def _root(header: bytes | memoryview) -> int:
    if len(header) < _U32.size:
        raise MalformedStreamError(f"a head of {len(header)} bytes")
    return _table_at(header, _U32.unpack_from(header, 0)[0])


def _table_at(header: bytes | memoryview, table: int) -> int:
    """Check that a table, with its vtable, lies inside the head."""
    length = len(header)
    if not 0 < table <= length - _I32.size:
        raise MalformedStreamError(f"a table at byte {table} of {length}")
    vtable = table - _I32.unpack_from(header, table)[0]
    if not 0 <= vtable <= length - 2 * _U16.size:
        raise MalformedStreamError(f"a vtable at byte {vtable} of {length}")
    vtable_length = _U16.unpack_from(header, vtable)[0]
    if vtable_length < 2 * _U16.size or vtable + vtable_length > length:
        raise MalformedStreamError(f"a vtable of {vtable_length} bytes at byte {vtable} of {length}")
    return table


def _field(header: bytes | memoryview, table: int, slot: int, width: int) -> int:
    """Where a field's value is, or 0 if the table leaves it out. `table` has been checked."""
    vtable = table - _I32.unpack_from(header, table)[0]
    entry = 2 * _U16.size + slot * _U16.size
    if entry + _U16.size > _U16.unpack_from(header, vtable)[0]:
        return 0
    offset: int = _U16.unpack_from(header, vtable + entry)[0]
    if offset == 0:
        return 0
    if table + offset + width > len(header):
        raise MalformedStreamError(f"a field at byte {table + offset} of {len(header)}")
    return table + offset


def _i64_field(header: bytes | memoryview, table: int, slot: int) -> int:
    position = _field(header, table, slot, _I64.size)
    value: int = _I64.unpack_from(header, position)[0] if position else 0
    return value


def _buffers(header: bytes | memoryview, table: int) -> Iterator[tuple[int, int]]:
    """Offset and length of each buffer of a record batch."""
    vector = _follow(header, table, _RECORD_BATCH_BUFFERS)
    begin = vector + _U32.size
    if begin > len(header):
        raise MalformedStreamError(f"a vector at byte {vector} of {len(header)}")
    end = begin + _BUFFER.size * _U32.unpack_from(header, vector)[0]
    if end > len(header):
        raise MalformedStreamError(f"a vector that ends at byte {end} of {len(header)}")
    return _BUFFER.iter_unpack(header[begin:end])


def _decompressed_bytes(body: bytes | memoryview, offset: int, length: int) -> int:
    """A compressed buffer begins with its size; one that would not shrink says so and is stored as it is."""
    if length == 0:
        return 0
    if length < _I64.size or offset < 0 or offset + length > len(body):
        raise MalformedStreamError(f"a buffer of {length} bytes at byte {offset} of {len(body)}")
    size: int = _I64.unpack_from(body, offset)[0]
    if size == _STORED_AS_IT_IS:
        return length - _I64.size
    if size < 0:
        raise MalformedStreamError(f"a buffer of {size} bytes")
    return size


def _follow(header: bytes | memoryview, table: int, slot: int) -> int:
    position = _field(header, table, slot, _U32.size)
    if not position:
        raise MalformedStreamError("a message without its header")
    target: int = position + _U32.unpack_from(header, position)[0]
    return target

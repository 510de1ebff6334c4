"""A client's Arrow messages, turned into chunks of rows that Spark can take one at a time.

The bytes come from a client: each message is checked before anyone looks into it, and nothing here grows
with what a message claims. A dictionary can stand for far more than its own size, so batches are cut by what
their rows come to. CPU work, for threads: no method here may run on an event loop.
"""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from bailiwick.engines.write import ArrowRows, packed
from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.ingest_columns import Columns
from bailiwick.results.batches import Frame, FrameKind, MalformedStreamError, frames

CHUNK_BYTES = 16 << 20
CHUNK_ROWS_MAX = 1_000_000
"""Spark keeps a chunk on its heap, where narrow rows cost more than their bytes."""
MESSAGE_ROWS_MAX = 1 << 24
DICTIONARY_BYTES_MAX = 64 << 20
"""What all dictionaries of one stream may come to."""

_FIXED_WIDTH_BYTES = 16
_PREFIX = struct.Struct("<II")
_CONTINUATION = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Chunk:
    """So many rows, in the shape in which Spark gets them."""

    arrow: ArrowRows
    rows: int

    @property
    def size_bytes(self) -> int:
        return len(self.arrow.data)


class MessageReader:
    """Reads one stream of encapsulated Arrow IPC messages, each as it comes."""

    def __init__(self) -> None:
        self._pipe = _Pipe()
        self._reader: pa.RecordBatchStreamReader | None = None
        self._dictionary_bytes = 0

    def schema(self, message: bytes) -> pa.Schema:
        """What the stream's first message says."""
        frame = _frame(message)
        if frame.kind is not FrameKind.SCHEMA:
            raise _refusal("The rows must begin with their schema.")
        self._pipe.put(message)
        with _reading():
            self._reader = pa.ipc.open_stream(self._pipe.file)
            _read_names(self._reader.schema)
            return self._reader.schema

    def batch(self, message: bytes) -> pa.RecordBatch | None:
        """The rows of this message; None for one that brings a dictionary."""
        if self._reader is None:
            raise _refusal("The rows must begin with their schema.")
        frame = _frame(message)
        match frame.kind:
            case FrameKind.SCHEMA:
                raise _refusal("The rows have a second schema.")
            case FrameKind.DICTIONARY:
                self._count_dictionary(len(message))
                self._pipe.put(message)
                return None
            case FrameKind.BATCH:
                self._pipe.put(message)
                with _reading():
                    batch = self._reader.read_next_batch()
                    batch.validate(full=True)
                return batch

    def _count_dictionary(self, size_bytes: int) -> None:
        self._dictionary_bytes += size_bytes
        if self._dictionary_bytes > DICTIONARY_BYTES_MAX:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"The dictionaries of the rows have more than {DICTIONARY_BYTES_MAX >> 20} MB. "
                "Send plain values instead.",
                retryable=False,
            )


class Chunker:
    """Gathers batches until there is enough for Spark, and cuts those that are too much."""

    def __init__(
        self, columns: Columns, *, chunk_bytes: int = CHUNK_BYTES, chunk_rows_max: int = CHUNK_ROWS_MAX
    ) -> None:
        self._columns = columns
        self._chunk_bytes = chunk_bytes
        self._chunk_rows_max = chunk_rows_max
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[Chunk]:
        """Take `batch` along; gives the chunks that became full, one at a time."""
        for piece in _pieces(batch, self._chunk_bytes, self._chunk_rows_max):
            converted = self._columns.convert(piece)
            if self._rows and self._would_overflow(converted):
                yield self._flush()
            self._waiting.append(converted)
            self._bytes += converted.nbytes
            self._rows += converted.num_rows
            if self._bytes >= self._chunk_bytes or self._rows >= self._chunk_rows_max:
                yield self._flush()

    def _would_overflow(self, batch: pa.RecordBatch) -> bool:
        return bool(
            self._rows + batch.num_rows > self._chunk_rows_max
            or self._bytes + batch.nbytes > self._chunk_bytes
        )

    def finish(self) -> Chunk | None:
        """What is left, if anything is."""
        return self._flush() if self._rows else None

    def empty(self) -> Chunk:
        """No rows, of these columns."""
        self._waiting = [pa.RecordBatch.from_pylist([], schema=self._columns.schema)]
        return self._flush()

    def _flush(self) -> Chunk:
        schema = self._columns.schema
        chunk = Chunk(ArrowRows(packed(self._waiting, schema), tuple(schema.names)), self._rows)
        self._waiting, self._bytes, self._rows = [], 0, 0
        return chunk


def encapsulated(header: bytes, body: bytes) -> bytes:
    """An Arrow IPC message of its flatbuffer and its body, as `MessageReader` takes it."""
    return b"".join((_PREFIX.pack(_CONTINUATION, len(header)), header, body))


def _pieces(batch: pa.RecordBatch, piece_bytes: int, rows_max: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices, none of which comes to much more than `piece_bytes`, if a row allows it."""
    sizes = _row_sizes(batch)
    if sizes is None:
        row_bytes = batch.nbytes / max(batch.num_rows, 1)
        step = max(1, min(rows_max, int(piece_bytes / max(row_bytes, 1))))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)
        return
    ends = pc.cumulative_sum(sizes)
    start, before = 0, 0
    while start < batch.num_rows:
        end = bisect_right(ends, before + piece_bytes, lo=start, key=lambda total: total.as_py())
        end = min(max(end, start + 1), start + rows_max, batch.num_rows)
        yield batch.slice(start, end - start)
        start, before = end, ends[end - 1].as_py()


def _row_sizes(batch: pa.RecordBatch) -> pa.Array | None:
    """What each row comes to when dictionaries and views are written out; None if there are none."""
    shared = [column for column in batch.columns if _is_shared(column.type)]
    if not shared:
        return None
    plain_bytes = sum(column.nbytes for column in batch.columns if not _is_shared(column.type))
    plain_row_bytes = plain_bytes // max(batch.num_rows, 1) + 1
    sizes = pa.repeat(pa.scalar(plain_row_bytes, pa.int64()), batch.num_rows)
    for column in shared:
        sizes = pc.add(sizes, pc.fill_null(_lengths(column), 0))
    return sizes


def _is_shared(kind: pa.DataType) -> bool:
    """Whether many rows may share one long value."""
    return bool(kinds.is_dictionary(kind) or _is_view(kind))


def _is_view(kind: pa.DataType) -> bool:
    return bool(kinds.is_string_view(kind) or kinds.is_binary_view(kind))


def _lengths(column: pa.Array) -> pa.Array:
    if kinds.is_dictionary(column.type):
        return _plain_lengths(column.dictionary).take(column.indices)
    return _plain_lengths(column)


def _plain_lengths(values: pa.Array) -> pa.Array:
    if _is_view(values.type):
        return _view_lengths(values)
    if _has_length(values.type):
        return pc.binary_length(values).cast(pa.int64())
    return pa.repeat(pa.scalar(_FIXED_WIDTH_BYTES, pa.int64()), len(values))


def _view_lengths(values: pa.Array) -> pa.Array:
    """Arrow cannot measure views: the length is the first of the four words that each is made of."""
    count = values.offset + len(values)
    if not count:
        return pa.array([], pa.int64())
    words = pa.Array.from_buffers(pa.int32(), 4 * count, [None, values.buffers()[1]])
    views = pa.Array.from_buffers(pa.list_(pa.int32(), 4), count, [None], children=[words])
    return pc.list_element(views, 0).slice(values.offset).cast(pa.int64())


def _has_length(kind: pa.DataType) -> bool:
    return bool(
        kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_fixed_size_binary(kind)
    )


def _read_names(fields: Iterable[pa.Field]) -> None:
    """Raises ValueError for a name that is no UTF-8: pyarrow finds out only when it is asked for it."""
    for field in fields:
        _ = field.name, getattr(field.type, "tz", None)
        kind = field.type.value_type if kinds.is_dictionary(field.type) else field.type
        _read_names(kind.field(number) for number in range(kind.num_fields))


def _frame(message: bytes) -> Frame:
    """The one frame of a message. Raises INVALID_ARGUMENTS if it is not one that can be taken."""
    try:
        found = list(frames(message))
        if len(found) != 1 or found[0].size_bytes + _PREFIX.size != len(message):
            raise _refusal("A message of the rows is malformed.")
        if found[0].is_compressed:
            raise _refusal("The rows are compressed. Send them as they are.")
        if found[0].rows > MESSAGE_ROWS_MAX:
            raise _refusal(f"One message may bring at most {MESSAGE_ROWS_MAX} rows.")
        return found[0]
    except MalformedStreamError as error:
        raise _refusal("A message of the rows is malformed.", error.cause_text) from error


class _Pipe:
    """A file that holds exactly the messages that are to be read next, so that reading never waits."""

    def __init__(self) -> None:
        self._messages: deque[memoryview] = deque()
        self.file = pa.PythonFile(self, mode="r")
        self.closed = False

    def put(self, message: bytes) -> None:
        self._messages.append(memoryview(message))

    def read(self, size: int = -1) -> bytes:
        parts: list[memoryview] = []
        while size != 0 and self._messages:
            head = self._messages.popleft()
            taken = head if size < 0 else head[:size]
            parts.append(taken)
            if size >= 0:
                size -= len(taken)
            if len(taken) < len(head):
                self._messages.appendleft(head[len(taken) :])
        return b"".join(parts)

    def close(self) -> None:
        self.closed = True


class _reading:  # noqa: N801  (reads as a word at its place)
    """What Arrow says of bytes that it cannot read is the client's mistake, not ours."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, StopIteration):
            raise _refusal("A message of the rows is malformed.", "no batch") from error
        if isinstance(error, (pa.ArrowException, OSError, ValueError, EOFError)):
            raise _refusal("A message of the rows is malformed.", repr(error)) from error


def _refusal(message: str, cause_text: str | None = None) -> BailiwickError:
    return BailiwickError(Code.INVALID_ARGUMENTS, message, cause_text=cause_text)

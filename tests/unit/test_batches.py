"""Arrow streams are cut into messages without decoding, and what is no Arrow stream is refused."""

import random
import struct
from collections.abc import Iterator
from hashlib import sha256

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.errors import Code
from bailiwick.results.batches import (
    LOCAL_BATCH_BYTES,
    Frame,
    FrameKind,
    MalformedStreamError,
    frames,
    frames_of_table,
    read_schema,
    schema_message,
)

WIDE = pa.table(
    {
        "n": pa.array(range(1000), pa.int64()),
        "s": pa.array([f"row {i}" for i in range(1000)]),
        "nested": pa.array([[{"a": i, "b": None}] for i in range(1000)]),
    }
)
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def stream_of(table: pa.Table, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        for batch in table.to_batches() or [
            pa.RecordBatch.from_pylist([], schema=table.schema),
        ]:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def table_of(schema: bytes, batches: Iterator[Frame]) -> pa.Table:
    data = schema + b"".join(frame.encapsulated() for frame in batches) + END
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def test_a_stream_is_cut_into_schema_and_batches_and_reads_the_same_again() -> None:
    schema, *batches = frames(stream_of(WIDE))
    assert schema.kind is FrameKind.SCHEMA
    assert [frame.kind for frame in batches] == [FrameKind.BATCH]
    assert table_of(schema.encapsulated(), iter(batches)).equals(WIDE)


def test_a_frame_is_a_view_of_the_bytes_it_came_from() -> None:
    data = stream_of(WIDE)
    for frame in frames(data):
        assert isinstance(frame.body, memoryview)
        assert frame.body.obj is data


def test_rows_are_counted_from_the_head_alone() -> None:
    assert [frame.rows for frame in frames(stream_of(WIDE))] == [0, 1000]


def test_a_result_without_columns_keeps_its_rows() -> None:
    schema, batches = frames_of_table(WIDE.select([]))
    (frame,) = batches
    assert frame.rows == 1000
    assert table_of(schema, iter([frame])).num_rows == 1000


def test_an_empty_result_is_one_batch_of_no_rows() -> None:
    schema, batches = frames_of_table(WIDE.slice(0, 0))
    (frame,) = batches
    assert frame.rows == 0
    assert table_of(schema, iter([frame])).equals(WIDE.slice(0, 0))


def test_an_empty_result_may_have_columns_that_pyarrow_cannot_make_empty() -> None:
    number = pa.array([], pa.int8())
    union = pa.UnionArray.from_dense(number, pa.array([], pa.int32()), [pa.array([], pa.string())])
    schema, batches = frames_of_table(pa.table({"u": union}))
    assert table_of(schema, batches).num_rows == 0


def test_a_stream_may_end_without_an_end_mark() -> None:
    data = stream_of(WIDE)
    assert data.endswith(END)
    assert len(list(frames(data[: -len(END)]))) == len(list(frames(data)))
    assert list(frames(b"")) == []


def test_compressed_bodies_pass_untouched() -> None:
    compressed = stream_of(WIDE, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    schema, *batches = frames(compressed)
    assert table_of(schema.encapsulated(), iter(batches)).equals(WIDE)


def test_a_local_table_is_cut_into_messages_of_bounded_size() -> None:
    table = pa.table({"s": ["x" * 1000] * 20_000})
    schema, batches = frames_of_table(table)
    parts = list(batches)
    assert len(parts) > 5
    assert max(part.size_bytes for part in parts) <= LOCAL_BATCH_BYTES * 1.1
    assert table_of(schema, iter(parts)).equals(table)


def test_dictionaries_of_a_local_table_travel_as_plain_columns() -> None:
    table = pa.table({"e": pa.array(["a", "b", "a"]).dictionary_encode()})
    schema, batches = frames_of_table(table)
    assert read_schema(schema) == pa.schema({"e": pa.string()})
    assert table_of(schema, batches).column("e").to_pylist() == ["a", "b", "a"]


def test_a_schema_message_reads_as_the_schema_it_was() -> None:
    assert read_schema(schema_message(WIDE.schema)).equals(WIDE.schema)


def test_what_is_no_schema_message_is_refused() -> None:
    for junk in (b"", b"\xff\xff\xff\xff", b"not arrow at all", schema_message(WIDE.schema)[:40]):
        with pytest.raises(MalformedStreamError):
            read_schema(junk)


def test_each_way_to_be_no_stream_is_refused() -> None:
    data = stream_of(WIDE)
    (head_length,) = struct.unpack_from("<I", data, 4)
    for junk in (
        data[:3],
        b"\x00" * 64,
        data[4:],
        data[: head_length // 2],
        data[:-100],
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xff\xff\xff\xff\x02\x00\x00\x00ab",
        b"\xff\xff\xff\xff\x08\x00\x00\x00" + b"\xff" * 8,
        data[: -len(END)] + b"\xff",
    ):
        with pytest.raises(MalformedStreamError) as refused:
            list(frames(junk))
        assert refused.value.code is Code.INTERNAL_ERROR
        assert refused.value.cause_text is not None
        assert refused.value.cause_text not in refused.value.message


@given(st.binary(max_size=300))
def test_no_bytes_whatever_do_worse_than_be_refused(junk: bytes) -> None:
    _read_all(junk)
    _read_all(b"\xff\xff\xff\xff" + struct.pack("<I", len(junk)) + junk)


@given(st.integers(0, 2**32))
def test_no_flipped_byte_does_worse_than_be_refused(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(stream_of(WIDE.slice(0, 10)))
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    _read_all(bytes(data))


def _read_all(data: bytes) -> None:
    try:
        for frame in frames(data):
            assert frame.size_bytes <= len(data)
            assert frame.rows >= 0
    except MalformedStreamError:
        return  # Refused: that is what is promised.


def compressed(table: pa.Table, codec: str) -> list[Frame]:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return [frame for frame in frames(sink.getvalue().to_pybytes()) if frame.kind is FrameKind.BATCH]


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_batch_counts_as_what_it_holds(codec: str) -> None:
    hashes = [sha256(n.to_bytes(4)).digest() for n in range(10_000)]
    table = pa.table({"same": ["x" * 100] * 10_000, "hash": hashes})
    packed, plain = compressed(table, codec), list(frames_of_table(table)[1])
    assert all(frame.is_compressed for frame in packed)
    assert sum(frame.size_bytes for frame in packed) < table.nbytes / 2
    assert sum(frame.content_bytes for frame in packed) == pytest.approx(
        sum(frame.content_bytes for frame in plain), rel=0.01
    )


def test_a_compressed_buffer_that_lies_outside_its_body_is_refused() -> None:
    (frame,) = compressed(pa.table({"a": ["x" * 100] * 1000}), "zstd")
    with pytest.raises(MalformedStreamError):
        _ = Frame(frame.kind, frame.header, frame.body[:4]).content_bytes

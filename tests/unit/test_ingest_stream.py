"""A client's Arrow messages become chunks of a bounded size, and nothing it sends makes the gateway grow."""

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.ingest_columns import for_new_table
from bailiwick.queries.ingest_stream import MESSAGE_ROWS_MAX, Chunk, Chunker, MessageReader
from bailiwick.results.batches import frames
from bailiwick.testing.ingesting import unpacked

MB = 1 << 20


def messages(table: pa.Table, *, rows: int | None = None, compression: str | None = None) -> list[bytes]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table, max_chunksize=rows)
    return [frame.encapsulated() for frame in frames(sink.getvalue().to_pybytes())]


def batches(sent: list[bytes]) -> Iterator[pa.RecordBatch]:
    reader = MessageReader()
    reader.schema(sent[0])
    for message in sent[1:]:
        batch = reader.batch(message)
        if batch is not None:
            yield batch


def chunks(sent: list[bytes], **limits: int) -> list[Chunk]:
    read = list(batches(sent))
    chunker = Chunker(for_new_table(read[0].schema), **limits)
    made = [chunk for batch in read for chunk in chunker.add(batch)]
    last = chunker.finish()
    return made if last is None else [*made, last]


def rows_of(chunk: Chunk) -> pa.Table:
    return unpacked(chunk.arrow)


def refusal(sent: list[bytes]) -> BailiwickError:
    with pytest.raises(BailiwickError) as refused:
        list(batches(sent))
    return refused.value


def test_rows_come_out_as_they_went_in_in_their_order() -> None:
    table = pa.table({"id": list(range(10_000)), "name": [f"n{index}" for index in range(10_000)]})
    made = chunks(messages(table, rows=700), chunk_rows_max=1_500)
    assert sum(chunk.rows for chunk in made) == 10_000
    assert all(chunk.rows <= 1_500 for chunk in made)
    assert pa.concat_tables(map(rows_of, made)).equals(table)


def test_small_batches_are_gathered_into_one_chunk() -> None:
    table = pa.table({"id": list(range(1_000))})
    assert [chunk.rows for chunk in chunks(messages(table, rows=10))] == [1_000]


def test_a_large_batch_is_cut_into_chunks_of_a_bounded_size() -> None:
    table = pa.table({"text": ["x" * 1_000] * 10_000})
    made = chunks(messages(table), chunk_bytes=1 * MB)
    assert len(made) > 5
    assert all(chunk.size_bytes < 2 * MB for chunk in made)


@pytest.mark.parametrize("values", [pa.string(), pa.large_string(), pa.int64()])
def test_dictionaries_are_written_out(values: pa.DataType) -> None:
    plain = pa.array(["a", "b", None, "a"] if values != pa.int64() else [1, 2, None, 1])
    dictionary = plain.dictionary_encode().cast(pa.dictionary(pa.int32(), values))
    made = chunks(messages(pa.table({"x": dictionary})))
    assert rows_of(made[0]).column("x").to_pylist() == plain.to_pylist()


def test_dictionaries_that_change_on_the_way_are_followed() -> None:
    parts = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a", "d"]).dictionary_encode()]
    made = chunks(messages(pa.table({"x": pa.chunked_array(parts)})))
    assert rows_of(made[0]).column("x").to_pylist() == ["a", "b", "c", "a", "d"]


def test_a_dictionary_that_stands_for_gigabytes_is_written_out_a_little_at_a_time() -> None:
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 50_000, pa.int32()), pa.array(["x" * MB]))
    batch = pa.record_batch({"x": long})
    chunker = Chunker(for_new_table(batch.schema), chunk_bytes=4 * MB)
    made = chunker.add(batch)
    assert all(next(made).size_bytes < 5 * MB for _ in range(3))


def test_views_into_one_long_value_are_written_out_a_little_at_a_time() -> None:
    one = pa.array(["x" * MB], pa.string_view())
    view, text = one.buffers()[1].to_pybytes()[:16], one.buffers()[2]
    long = pa.Array.from_buffers(pa.string_view(), 500, [None, pa.py_buffer(view * 500), text])
    batch = pa.record_batch({"x": long})
    made = Chunker(for_new_table(batch.schema), chunk_bytes=4 * MB).add(batch)
    assert all(next(made).size_bytes < 5 * MB for _ in range(3))


def test_an_empty_chunk_still_has_its_columns() -> None:
    chunk = Chunker(for_new_table(pa.schema([("id", pa.uint8())]))).empty()
    assert (chunk.rows, rows_of(chunk).schema) == (0, pa.schema([("id", pa.int16())]))


def test_compressed_rows_are_refused_because_nobody_knows_their_size() -> None:
    assert "compressed" in refusal(messages(pa.table({"x": ["a" * 100] * 100}), compression="zstd")).message


def test_rows_without_a_schema_are_refused() -> None:
    sent = messages(pa.table({"x": [1]}))
    with pytest.raises(BailiwickError, match="begin with their schema"):
        MessageReader().schema(sent[1])
    with pytest.raises(BailiwickError, match="begin with their schema"):
        MessageReader().batch(sent[1])


def test_a_second_schema_is_refused() -> None:
    sent = messages(pa.table({"x": [1]}))
    assert "second schema" in refusal([sent[0], sent[0]]).message


def test_rows_that_only_claim_to_be_many_are_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(MESSAGE_ROWS_MAX + 1)], ["x"])
    assert str(MESSAGE_ROWS_MAX) in refusal(messages(pa.Table.from_batches([batch]))).message


def test_a_batch_whose_dictionary_never_came_is_refused() -> None:
    sent = messages(pa.table({"x": pa.array(["a"]).dictionary_encode()}))
    assert refusal([sent[0], sent[2]]).code is Code.INVALID_ARGUMENTS


def test_a_message_that_is_cut_anywhere_is_refused_with_a_code() -> None:
    sent = messages(pa.table({"id": list(range(100)), "name": ["abc"] * 100}))
    for length in range(0, len(sent[1]), 13):
        assert refusal([sent[0], sent[1][:length]]).code is Code.INVALID_ARGUMENTS


def test_a_message_that_is_damaged_anywhere_gives_a_code_or_rows_never_anything_else() -> None:
    sent = messages(pa.table({"id": list(range(100)), "name": ["abc"] * 100}))
    for position in range(0, len(sent[1]), 7):
        damaged = bytearray(sent[1])
        damaged[position] ^= 0xFF
        # Anything but an error of ours would end the test.
        with suppress(BailiwickError):
            list(batches([sent[0], bytes(damaged)]))

"""Avro that nobody vouches for is read or refused, and does no harm."""

import zlib
from contextlib import suppress

import pytest

from bailiwick.catalog import avro
from bailiwick.catalog.avro import AvroError
from bailiwick.catalog.wire import Json
from bailiwick.testing.manifests import avro_file

SCHEMA: Json = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}


def test_a_file_is_read_as_far_as_it_is_wanted() -> None:
    schema: Json = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "skipped", "type": "string"},
            {"name": "inner", "type": {"type": "record", "name": "i", "fields": SCHEMA["fields"]}},
            {"name": "last", "type": ["null", "long"]},
        ],
    }
    data = avro_file(schema, [{"skipped": "x" * 300, "inner": {"a": -5}, "last": None}])
    assert list(avro.records(data, {"inner": {"a": None}, "last": None})) == [
        {"inner": {"a": -5}, "last": None}
    ]
    assert list(avro.records(data, None)) == [{"skipped": "x" * 300, "inner": {"a": -5}, "last": None}]


def test_every_damage_is_an_avro_error_and_nothing_else() -> None:
    data = avro_file(SCHEMA, [{"a": 1}, {"a": 2**62}])
    assert [record["a"] for record in avro.records(data, None)] == [1, 2**62]
    cut = [data[:length] for length in range(len(data))]
    flipped = [
        data[:at] + bytes([byte]) + data[at + 1 :] for at in range(len(data)) for byte in (0x00, 0x7F, 0xFF)
    ]
    for broken in (*cut, *flipped):
        with suppress(AvroError):
            assert len(list(avro.records(broken, None))) in (0, 2)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "r"}]},
        {"type": "record", "name": "r", "fields": []},
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}],
        },
        {"type": "array", "items": "long"},
    ],
    ids=["endless", "of nothing", "endless nulls", "no record"],
)
def test_a_schema_cannot_make_a_reader_work_without_end(schema: Json) -> None:
    header = avro_file(SCHEMA, [])
    written = avro_file(schema, [])
    assert header[:4] == written[:4]
    # A million records, or items, of no bytes at all.
    block = b"\x80\x89\x7a" + b"\x06" + b"\x80\x89\x7a" + bytes(range(16))
    with pytest.raises(AvroError):
        list(avro.records(written + block, None))


def test_a_file_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = avro_file(SCHEMA, [{"a": 1}] * 5000)
    start = plain.index(bytes(range(16))) + 16
    compressor = zlib.compressobj(wbits=-15)
    packed = compressor.compress(plain[start + 4 : -16]) + compressor.flush()
    assert len(packed) < 100
    header = plain[:start].replace(b"\x08null", b"\x0edeflate")
    count, size = plain[start : start + 2], bytes([len(packed) << 1])
    data = header + count + size + packed + plain[-16:]
    monkeypatch.setattr(avro, "BYTES_MAX", 1000)
    with pytest.raises(AvroError, match="too large"):
        list(avro.records(data, None))

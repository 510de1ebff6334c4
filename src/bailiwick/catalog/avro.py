"""Avro container files, read as far as somebody wants to know.

The gateway looks into the manifests that engines write, and nobody vouches for these: every length is checked
against what is there, nothing is allocated on the word of the file, and what nobody asked for is skipped. It
knows what Iceberg's writers use of Avro, and refuses the rest.
"""

import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

BYTES_MAX = 256 << 20
"""Of one file, after decompression."""

_MAGIC = b"Obj\x01"
_SYNC_LENGTH = 16
_DEPTH_MAX = 40
_TYPES_MAX = 20_000
_VARINT_LENGTH_MAX = 10

Wanted = Mapping[str, "Wanted | None"]
"""The fields of a record that are read: None for all of one, else a choice among the fields inside."""

_Read = Callable[["_Bytes"], Any]


class AvroError(ValueError):
    """The file is not what it should be."""


def records(data: bytes, wanted: Wanted | None) -> Iterator[dict[str, Any]]:
    """What is wanted of each record, or all. Raises AvroError for whatever is not right, also halfway."""
    try:
        yield from _records(_Bytes(data), wanted)
    except AvroError:
        raise
    except (IndexError, KeyError, TypeError, ValueError, RecursionError, zlib.error, OSError) as error:
        raise AvroError("the file is damaged") from error


def _records(file: "_Bytes", wanted: Wanted | None) -> Iterator[dict[str, Any]]:
    if file.take(len(_MAGIC)) != _MAGIC:
        raise AvroError("not an Avro file")
    header = dict(_pairs(file))
    schema = json.loads(header["avro.schema"])
    unpack = _codec(header.get("avro.codec", b"null").decode("ascii"))
    sync = file.take(_SYNC_LENGTH)
    read = _Compiler().record(schema, wanted, 0)
    left = BYTES_MAX
    while not file.is_at_end:
        count = file.long()
        content = unpack(file.take(file.long()), left)
        left -= len(content)
        block = _Bytes(content)
        # A record of no bytes at all could be there any number of times.
        if not 0 <= count <= len(content):
            raise AvroError("the file is damaged")
        for _ in range(count):
            yield read(block)
        if not block.is_at_end or file.take(_SYNC_LENGTH) != sync:
            raise AvroError("the file is damaged")


class _Bytes:
    """A place in some bytes. Never goes beyond their end."""

    __slots__ = ("_data", "_length", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._length = len(data)
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position >= self._length

    def take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > self._length:
            raise AvroError("the file ends too early")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def skip(self, length: int) -> None:
        end = self._position + length
        if length < 0 or end > self._length:
            raise AvroError("the file ends too early")
        self._position = end

    def long(self) -> int:
        """Zigzag, seven bits a byte."""
        value, shift = 0, 0
        while True:
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift >= 7 * _VARINT_LENGTH_MAX:
                raise AvroError("a number is too long")

    def text(self) -> str:
        return self.take(self.long()).decode()

    def counts(self) -> Iterator[int]:
        """How many items follow, block by block, until there are no more."""
        while (count := self.long()) != 0:
            if count < 0:
                self.long()
            if abs(count) > self._length - self._position:
                raise AvroError("the file ends too early")
            yield abs(count)


def _pairs(file: _Bytes) -> Iterator[tuple[str, bytes]]:
    for count in file.counts():
        for _ in range(count):
            yield file.text(), file.take(file.long())


class _Compiler:
    """Turns a schema into functions: one a type, to read it or to pass over it."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._types = 0

    def record(self, schema: Any, wanted: Wanted | None, depth: int) -> _Read:
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise AvroError("a record was expected")
        steps = [
            (
                field["name"] if wanted is None or field["name"] in wanted else None,
                self._field(field, wanted, depth + 1),
            )
            for field in schema["fields"]
        ]

        def read(source: _Bytes) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for name, step in steps:
                value = step(source)
                if name is not None:
                    found[name] = value
            return found

        return read

    def _field(self, field: Any, wanted: Wanted | None, depth: int) -> _Read:
        if wanted is None:
            return self._type(field["type"], None, depth)
        if field["name"] not in wanted:
            return self._type(field["type"], {}, depth)
        return self._type(field["type"], wanted[field["name"]], depth)

    def _type(self, schema: Any, wanted: Wanted | None, depth: int) -> _Read:
        self._types += 1
        if depth > _DEPTH_MAX or self._types > _TYPES_MAX:
            raise AvroError("the schema is too large")
        if isinstance(schema, list):
            return self._union(schema, wanted, depth)
        if isinstance(schema, str):
            return self._primitive(schema, wanted, depth)
        kind = schema["type"]
        if isinstance(schema.get("name"), str):
            self._named[schema["name"]] = schema
        match kind:
            case "record":
                return self.record(schema, wanted, depth)
            case "array":
                return _array(self._type(schema["items"], wanted, depth + 1))
            case "map":
                return _map(self._type(schema["values"], wanted, depth + 1))
            case "fixed":
                size = int(schema["size"])
                return lambda source: source.take(size)
            case "enum":
                return _Bytes.long
            case _:
                return self._type(kind, wanted, depth + 1)

    def _union(self, branches: list[Any], wanted: Wanted | None, depth: int) -> _Read:
        choices = [self._type(branch, wanted, depth + 1) for branch in branches]

        def read(source: _Bytes) -> Any:
            index = source.long()
            if not 0 <= index < len(choices):
                raise AvroError("a union has no such branch")
            return choices[index](source)

        return read

    def _primitive(self, name: str, wanted: Wanted | None, depth: int) -> _Read:
        known = _PRIMITIVES.get(name)
        if known is not None:
            is_passed_over = wanted is not None and not wanted
            return _PASSED_OVER.get(name, known) if is_passed_over else known
        if name not in self._named:
            raise AvroError("the schema names a type that it does not define")
        return self._type(self._named[name], wanted, depth + 1)


def _array(item: _Read) -> _Read:
    def read(source: _Bytes) -> list[Any]:
        items: list[Any] = []
        for count in source.counts():
            items.extend(item(source) for _ in range(count))
        return items

    return read


def _map(value: _Read) -> _Read:
    def read(source: _Bytes) -> dict[str, Any]:
        items: dict[str, Any] = {}
        for count in source.counts():
            for _ in range(count):
                key = source.text()
                items[key] = value(source)
        return items

    return read


def _skip_bytes(source: _Bytes) -> None:
    source.skip(source.long())


def _nothing(_source: _Bytes) -> None:
    return None


_PRIMITIVES: Mapping[str, _Read] = {
    "null": _nothing,
    "boolean": lambda source: source.take(1) == b"\x01",
    "int": _Bytes.long,
    "long": _Bytes.long,
    "float": lambda source: source.take(4),
    "double": lambda source: source.take(8),
    "bytes": lambda source: source.take(source.long()),
    "string": _Bytes.text,
}
_PASSED_OVER: Mapping[str, _Read] = {"bytes": _skip_bytes, "string": _skip_bytes}


def _codec(name: str) -> Callable[[bytes, int], bytes]:
    match name:
        case "null":
            return lambda data, _bytes_max: data
        case "deflate":
            return _inflated
        case "zstandard":
            return _unpacked_zstd
        case "snappy":
            return _unpacked_snappy
        case _:
            raise AvroError("the file is compressed in a way that is not known here")


def _inflated(data: bytes, bytes_max: int) -> bytes:
    unpacked = zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(data, bytes_max + 1)
    return _bounded(unpacked, bytes_max)


def _unpacked_zstd(data: bytes, bytes_max: int) -> bytes:
    with pa.CompressedInputStream(io.BytesIO(data), "zstd") as stream:
        return _bounded(bytes(stream.read(bytes_max + 1)), bytes_max)


def _unpacked_snappy(data: bytes, bytes_max: int) -> bytes:
    # Avro adds four bytes of checksum; snappy itself begins with the length, in the same seven-bit bytes.
    length, shift = 0, 0
    for byte in data[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if length > bytes_max:
        raise AvroError("the file is too large")
    return bytes(pa.decompress(data[:-4], decompressed_size=length, codec="snappy", asbytes=True))


def _bounded(data: bytes, bytes_max: int) -> bytes:
    if len(data) > bytes_max:
        raise AvroError("the file is too large")
    return data

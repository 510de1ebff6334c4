"""Manifests as an engine would write them, and as one would who means no good.

Written by the letter of Avro and Iceberg's specification, as little of it as readers need. The files that
they name do not exist: what a commit does is told by manifests alone.
"""

import json
import uuid as uuids
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bailiwick.catalog import avro
from bailiwick.catalog.wire import Json
from bailiwick.testing import iceberg

EXISTING, ADDED, DELETED = 0, 1, 2

_OPTIONAL_LONG = ["null", "long"]
_LIST_SCHEMA: Json = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        {"name": "manifest_path", "type": "string", "field-id": 500},
        {"name": "manifest_length", "type": "long", "field-id": 501},
        {"name": "partition_spec_id", "type": "int", "field-id": 502},
        {"name": "content", "type": "int", "field-id": 517},
        {"name": "sequence_number", "type": "long", "field-id": 515},
        {"name": "min_sequence_number", "type": "long", "field-id": 516},
        {"name": "added_snapshot_id", "type": "long", "field-id": 503},
        {"name": "added_files_count", "type": "int", "field-id": 504},
        {"name": "existing_files_count", "type": "int", "field-id": 505},
        {"name": "deleted_files_count", "type": "int", "field-id": 506},
        {"name": "first_row_id", "type": _OPTIONAL_LONG, "field-id": 520},
    ],
}
_DATA_FILE: Json = {
    "type": "record",
    "name": "r2",
    "fields": [
        {"name": "content", "type": "int", "field-id": 134},
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
    ],
}
_ENTRY_SCHEMA: Json = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int", "field-id": 0},
        {"name": "snapshot_id", "type": _OPTIONAL_LONG, "field-id": 1},
        {"name": "sequence_number", "type": _OPTIONAL_LONG, "field-id": 3},
        {"name": "file_sequence_number", "type": _OPTIONAL_LONG, "field-id": 4},
        {"name": "data_file", "type": _DATA_FILE, "field-id": 2},
    ],
}


@dataclass(frozen=True, slots=True)
class File:
    """One file of a manifest. `content` is 0 for data, 1 and 2 for deletes."""

    path: str
    status: int = ADDED
    content: int = 0
    records: int = 1
    sequence_number: int | None = None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One manifest that was written, as a list names it."""

    path: str
    content: int
    sequence_number: int
    length: int = 1000
    first_row_id: int | None = None


class Writer:
    """Writes manifests of the table whose metadata is given."""

    def __init__(self, metadata: Json) -> None:
        self._location: str = metadata["location"]
        self._sequence_number: int = metadata.get("last-sequence-number", 0) + 1

    def data_path(self) -> str:
        return f"{self._location}/data/{uuids.uuid4()}.parquet"

    def manifest(self, *files: File, path: str | None = None) -> ManifestFile:
        path = path or f"{self._location}/metadata/{uuids.uuid4()}-m0.avro"
        _write(path, _ENTRY_SCHEMA, (_entry(file) for file in files))
        content = 1 if any(file.content for file in files) else 0
        return ManifestFile(path, content, self._sequence_number)

    def manifest_list(self, *manifests: ManifestFile, path: str | None = None) -> str:
        path = path or f"{self._location}/metadata/snap-{uuids.uuid4()}.avro"
        _write(path, _LIST_SCHEMA, (_line(manifest) for manifest in manifests))
        return path


def manifests_in(manifest_list: str) -> tuple[ManifestFile, ...]:
    """What a list that was written here names."""
    data = Path(manifest_list.removeprefix("file:")).read_bytes()
    return tuple(
        ManifestFile(
            line["manifest_path"],
            line["content"],
            line["sequence_number"],
            line["manifest_length"],
            line["first_row_id"],
        )
        for line in avro.records(data, None)
    )


def append(metadata: Json, snapshot_id: int, *, rows: int = 1, files: Sequence[File] = ()) -> list[Json]:
    """The updates of an INSERT that has written its manifest, of `files` or of one that is not there."""
    writer = Writer(metadata)
    manifest = writer.manifest(*(files or (File(writer.data_path()),)))
    return change(metadata, snapshot_id, [*current_manifests(metadata), manifest], rows=rows)


def change(
    metadata: Json, snapshot_id: int, manifests: Sequence[ManifestFile], *, rows: int = 1
) -> list[Json]:
    """The updates that make a snapshot of these manifests the current one. It claims to be an append."""
    made = iceberg.snapshot(metadata, snapshot_id, rows=rows)
    made["manifest-list"] = Writer(metadata).manifest_list(*manifests)
    return [iceberg.add_snapshot(made), iceberg.set_ref(snapshot_id)]


def current_manifests(metadata: Json) -> tuple[ManifestFile, ...]:
    current = metadata.get("current-snapshot-id")
    lists = {item["snapshot-id"]: item["manifest-list"] for item in metadata.get("snapshots", ())}
    return manifests_in(lists[current]) if current in lists else ()


def _line(manifest: ManifestFile) -> Json:
    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length,
        "partition_spec_id": 0,
        "content": manifest.content,
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": manifest.sequence_number,
        "added_snapshot_id": 1,
        "added_files_count": 1,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "first_row_id": manifest.first_row_id,
    }


def _entry(file: File) -> Json:
    return {
        "status": file.status,
        "snapshot_id": None,
        "sequence_number": file.sequence_number,
        "file_sequence_number": file.sequence_number,
        "data_file": {
            "content": file.content,
            "file_path": file.path,
            "file_format": "PARQUET",
            "record_count": file.records,
            "file_size_in_bytes": 1000,
        },
    }


def _write(location: str, schema: Json, records: Iterable[Json]) -> None:
    path = Path(location.removeprefix("file:"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(avro_file(schema, records))


def avro_file(schema: Json, records: Iterable[Json]) -> bytes:
    """An Avro container file with one block, not compressed."""
    written = [_encoded(schema, record) for record in records]
    block = b"".join(written)
    sync = bytes(range(16))
    header = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"null"}
    pairs = b"".join(_text(key) + _bytes(value) for key, value in header.items())
    content = _long(len(written)) + _bytes(block) + sync if written else b""
    return b"Obj\x01" + _long(len(header)) + pairs + _long(0) + sync + content


def _encoded(type_: Any, value: Any) -> bytes:
    match type_:
        case {"type": "record", "fields": fields}:
            return b"".join(_encoded(field["type"], value[field["name"]]) for field in fields)
        case ["null", other]:
            return _long(0) if value is None else _long(1) + _encoded(other, value)
        case "int" | "long":
            return _long(value)
        case "string":
            return _text(value)
        case _:
            raise ValueError(f"no way to write {type_}")


def _long(value: int) -> bytes:
    number, encoded = (value << 1) ^ (value >> 63), bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _text(value: str) -> bytes:
    return _bytes(value.encode())


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value

"""Iceberg requests and commits as an engine would send them, and a stranger's eye on what becomes of them."""

from typing import Any

from pyiceberg.table.metadata import TableMetadataUtil

from bailiwick.catalog import metadata as tables
from bailiwick.catalog import wire
from bailiwick.catalog.wire import Json

LOCATION = "file:/warehouse/db/t-0123456789abcdef"
UUID = "01234567-89ab-4def-8123-456789abcdef"


def column(id_: int, name: str, type_: Any = "long", *, required: bool = False, **more: Any) -> Json:
    return {"id": id_, "name": name, "required": required, "type": type_, **more}


def schema(*columns: Json, **more: Any) -> Json:
    return {"type": "struct", "schema-id": 0, "fields": list(columns), **more}


def create_request(name: str = "t", *columns: Json, format_version: int = 2, **more: Any) -> Json:
    """A table with these columns, or with a plain two."""
    chosen = columns or (column(1, "id"), column(2, "name", "string"))
    properties = {"format-version": str(format_version), **more.pop("properties", {})}
    return {"name": name, "schema": schema(*chosen), "properties": properties, **more}


def new_table(request: Json | None = None, *, now_ms: int = 1_000_000) -> Json:
    """Metadata as the catalog writes it."""
    created = tables.create(request or create_request(), uuid=UUID, location=LOCATION, now_ms=now_ms)
    return tables.closed(created)


def snapshot(metadata: Json, snapshot_id: int, *, rows: int = 1, timestamp_ms: int | None = None) -> Json:
    """The next snapshot that a well-behaved writer would add to `metadata`."""
    version = metadata["format-version"]
    made: Json = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": metadata["last-updated-ms"] + 1 if timestamp_ms is None else timestamp_ms,
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", "added-records": str(rows)},
        "schema-id": metadata["current-schema-id"],
    }
    current = metadata.get("current-snapshot-id")
    if current is not None and current != -1:
        made["parent-snapshot-id"] = current
    if version >= 2:
        made["sequence-number"] = metadata["last-sequence-number"] + 1
    if version >= 3:
        made["first-row-id"], made["added-rows"] = metadata["next-row-id"], rows
    return made


def add_snapshot(made: Json) -> Json:
    return {"action": "add-snapshot", "snapshot": made}


def set_ref(snapshot_id: int, name: str = "main", type_: str = "branch", **more: Any) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": type_, "snapshot-id": snapshot_id, **more}


def append(metadata: Json, snapshot_id: int, *, rows: int = 1) -> list[Json]:
    """The updates of an INSERT."""
    return [add_snapshot(snapshot(metadata, snapshot_id, rows=rows)), set_ref(snapshot_id)]


def set_properties(**properties: str) -> Json:
    return {"action": "set-properties", "updates": properties}


def staged_updates(staged: Json) -> list[Json]:
    """What an engine commits for a table that was staged as `staged`."""
    return [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": staged["format-version"]},
        {"action": "add-schema", "schema": staged["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": staged["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": staged["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
        {"action": "set-properties", "updates": staged["properties"]},
    ]


def read_by_pyiceberg(metadata: Json | bytes) -> Any:
    """Metadata as PyIceberg reads it, by its own rules. Raises if it cannot."""
    data = metadata if isinstance(metadata, bytes) else wire.rendered(metadata)
    return TableMetadataUtil.parse_raw(data.decode())

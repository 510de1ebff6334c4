"""What would leave a table that somebody cannot open is refused before it is written."""

from typing import Any

import pytest

from bailiwick.catalog import metadata as tables
from bailiwick.catalog import requests, validation
from bailiwick.catalog.refusals import BadRequestError
from bailiwick.catalog.shapes import matched
from bailiwick.catalog.wire import Json
from bailiwick.testing.iceberg import (
    add_snapshot,
    append,
    column,
    create_request,
    new_table,
    schema,
    set_ref,
    snapshot,
)


def committed(base: Json, *updates: Json) -> Json:
    """As the service does it: shapes, then updates, then the whole."""
    matched(requests.CommitTable, {"requirements": [], "updates": list(updates)})
    new = tables.commit(base, [], updates, now_ms=2_000_000, base_location="file:/old.json")
    assert new is not None
    validation.check_table(new)
    return tables.closed(new)


def spec(transform: str, source_id: int = 1, name: str = "p") -> list[Json]:
    field = {"name": name, "transform": transform, "source-id": source_id}
    return [
        {"action": "add-spec", "spec": {"fields": [field]}},
        {"action": "set-default-spec", "spec-id": -1},
    ]


def add(*columns: Json, **more: Any) -> list[Json]:
    return [
        {"action": "add-schema", "schema": schema(*columns, **more)},
        {"action": "set-current-schema", "schema-id": -1},
    ]


ID, NAME = column(1, "id"), column(2, "name", "string")
BASE = new_table()
WITH_SNAPSHOT = committed(BASE, *append(BASE, 11))
V3 = new_table(create_request(format_version=3))
V1 = new_table(create_request(format_version=1))
NEXT = snapshot(WITH_SNAPSHOT, 12)


@pytest.mark.parametrize(
    ("base", "updates"),
    [
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"parent-snapshot-id": None})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"snapshot-id": "12"})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"snapshot-id": -1})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"snapshot-id": 1.5})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"snapshot-id": True})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"snapshot-id": 2**63})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"snapshot-id": 11})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"summary": {"operation": 1}})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"summary": None})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"schema-id": 9})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"sequence-number": 2**62})]),
        (WITH_SNAPSHOT, [add_snapshot({key: NEXT[key] for key in NEXT if key != "sequence-number"})]),
        (WITH_SNAPSHOT, [add_snapshot({key: NEXT[key] for key in NEXT if key != "manifest-list"})]),
        (WITH_SNAPSHOT, [add_snapshot({key: NEXT[key] for key in NEXT if key != "timestamp-ms"})]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"timestamp-ms": 9_000_000_000_000}), set_ref(12)]),
        (WITH_SNAPSHOT, [add_snapshot(NEXT | {"timestamp-ms": 1}), set_ref(12)]),
        (WITH_SNAPSHOT, [set_ref(99)]),
        (WITH_SNAPSHOT, [set_ref(11, type_="tag")]),
        (WITH_SNAPSHOT, [set_ref(11, "t", "tag") | {"min-snapshots-to-keep": 1}]),
        (WITH_SNAPSHOT, [set_ref(11, "t", "twig")]),
        (WITH_SNAPSHOT, [set_ref(11, "t") | {"max-ref-age-ms": 0}]),
        (V3, [add_snapshot({**snapshot(V3, 1), "first-row-id": None})]),
        (V3, [add_snapshot({**snapshot(V3, 1), "first-row-id": 5})]),
        (V3, [add_snapshot({**snapshot(V3, 1), "added-rows": None})]),
        (V3, [add_snapshot({**snapshot(V3, 1), "added-rows": -1})]),
        (V3 | {"next-row-id": 2**63 - 1}, [add_snapshot(snapshot(V3 | {"next-row-id": 2**63 - 1}, 1))]),
        (BASE, add(ID, column(1, "again"))),
        (BASE, add(ID, column(2, "id"))),
        (BASE, add(ID, column(3, "x", "no such type"))),
        (BASE, add(ID, column(3, "x", "decimal(39,2)"))),
        (BASE, add(ID, column(3, "x", "decimal(5,6)"))),
        (BASE, add(ID, column(3, "x", "fixed[0]"))),
        (BASE, add(ID, column(3, "x", {"type": "bag"}))),
        (BASE, add(ID, column(3, "x", "variant"))),
        (BASE, add(ID, column(3, "x", "timestamp_ns"))),
        (BASE, add(ID, column(3, "x", "long") | {"initial-default": 5})),
        (BASE, add(ID, column(2_000_000, "x"))),
        (BASE, add(ID, {"id": 3, "name": "x", "type": "long"})),
        (BASE, add(ID, {"id": 3, "name": "", "type": "long", "required": False})),
        (BASE, add(ID, **{"identifier-field-ids": [1]})),
        (BASE, add(ID, **{"identifier-field-ids": [7]})),
        (V3, add(ID, column(3, "x", "unknown", required=True))),
        (V3, add(ID, column(3, "x", "int") | {"initial-default": "five"})),
        (V3, add(ID, column(3, "x", "date") | {"initial-default": 5})),
        (V3, add(ID, column(3, "x", "decimal(5, 2)") | {"initial-default": "1.234"})),
        (V3, add(ID, column(3, "x", "variant") | {"initial-default": 1})),
        (BASE, [{"action": "set-current-schema", "schema-id": 5}]),
        (BASE, [{"action": "remove-schemas", "schema-ids": [0]}]),
        (BASE, [{"action": "remove-partition-specs", "spec-ids": [0]}]),
        (BASE, [{"action": "set-default-spec", "spec-id": 5}]),
        (BASE, [{"action": "set-default-sort-order", "sort-order-id": 5}]),
        (BASE, spec("identity", 99)),
        (BASE, spec("no such", 1)),
        (BASE, spec("bucket[0]", 1)),
        (BASE, spec("year", 1)),
        (BASE, spec("truncate[4]", 1, name="name")),
        (BASE, [*spec("bucket[4]"), *add(NAME)]),
        (BASE, [*spec("bucket[4]"), *add(ID, NAME, column(3, "p"))]),
        (V1, [{"action": "add-spec", "spec": {"fields": [
            {"name": "a", "transform": "identity", "source-id": 1, "field-id": 1001}
        ]}}]),
        (BASE, [{"action": "set-properties", "updates": {"format-version": "3"}}]),
        (BASE, [{"action": "set-properties", "updates": {"a": 1}}]),
        (BASE, [{"action": "set-properties", "updates": {"commit.retry.num-retries": "many"}}]),
        (BASE, [{"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "-1"}}]),
        (BASE, [{"action": "assign-uuid", "uuid": "11111111-1111-4111-8111-111111111111"}]),
        (BASE, [{"action": "set-location", "location": "file:/elsewhere"}]),
        (BASE, [{"action": "upgrade-format-version", "format-version": 4}]),
        (BASE, [{"action": "set-statistics", "statistics": {
            "snapshot-id": 99, "statistics-path": "s", "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1, "blob-metadata": []}}]),
        (BASE, [{"action": "add-view-version"}]),
        (BASE, [{"action": "become-a-teapot"}]),
        (BASE, [{"no": "action"}]),
        (BASE, ["text"]),
    ],
)  # fmt: skip
def test_a_commit_that_would_break_the_table_is_refused(base: Json, updates: list[Json]) -> None:
    with pytest.raises(BadRequestError):
        committed(base, *updates)


def test_a_schema_too_deep_or_too_wide_is_refused() -> None:
    nested: Any = "long"
    for id_ in range(3, 200):
        nested = {"type": "list", "element-id": id_, "element": nested, "element-required": False}
    with pytest.raises(BadRequestError, match="deep"):
        committed(BASE, *add(ID, column(2, "deep", nested)))
    with pytest.raises(BadRequestError, match="at most"):
        committed(BASE, *add(*(column(id_, f"c{id_}") for id_ in range(1, 10_002))))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("boolean", True),
        ("int", -5),
        ("long", 2**62),
        ("double", 1.5),
        ("string", "x"),
        ("decimal(5, 2)", "-1.25"),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("date", "2024-02-29"),
        ("time", "22:31:08.123456"),
        ("timestamp", "2024-02-29T22:31:08.123456"),
        ("timestamptz", "2024-02-29T22:31:08+00:00"),
        ("binary", "00ff"),
        ("fixed[2]", "00ff"),
    ],
)
def test_defaults_of_every_type_are_accepted_in_version_3(type_: str, value: Any) -> None:
    committed(V3, *add(ID, NAME, column(3, "x", type_) | {"initial-default": value, "write-default": value}))


@pytest.mark.parametrize(
    "type_",
    ["variant", "unknown", "timestamp_ns", "geometry", "geometry(OGC:CRS84)", "geography(EPSG:4326, karney)"],
)
def test_types_of_version_3_are_accepted_there(type_: str) -> None:
    committed(V3, *add(ID, NAME, column(3, "x", type_)))


def test_dropping_the_column_of_an_old_partition_field_is_fine() -> None:
    partitioned = committed(BASE, *spec("bucket[4]", 1))
    moved = committed(partitioned, *spec("truncate[2]", 2, name="q"))
    committed(moved, *add(NAME))


def test_a_key_once_added_can_be_removed() -> None:
    key = {"key-id": "k", "encrypted-key-metadata": "bQ=="}
    added = committed(V3, {"action": "add-encryption-key", "encryption-key": key})
    assert added["encryption-keys"] == [key]
    gone = committed(added, {"action": "remove-encryption-key", "key-id": "k"})
    assert gone["encryption-keys"] == []


def test_statistics_are_one_file_for_each_snapshot() -> None:
    def file(path: str) -> Json:
        return {"snapshot-id": 11, "statistics-path": path, "file-size-in-bytes": 1}

    def full(path: str) -> Json:
        return file(path) | {"file-footer-size-in-bytes": 1, "blob-metadata": []}

    metadata = WITH_SNAPSHOT
    for path in ("one", "two"):
        metadata = committed(
            metadata,
            {"action": "set-statistics", "statistics": full(path)},
            {"action": "set-partition-statistics", "partition-statistics": file(path)},
        )
    assert [item["statistics-path"] for item in metadata["statistics"]] == ["two"]
    gone = committed(
        metadata,
        {"action": "remove-statistics", "snapshot-id": 11},
        {"action": "remove-partition-statistics", "snapshot-id": 11},
    )
    assert gone["statistics"] == gone["partition-statistics"] == []

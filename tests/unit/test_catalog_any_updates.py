"""Whatever sequence of updates comes: each is refused, or leaves metadata that is sound and loses nothing."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bailiwick.catalog import metadata as tables
from bailiwick.catalog import requests, validation, wire
from bailiwick.catalog.refusals import CatalogError
from bailiwick.catalog.shapes import matched
from bailiwick.catalog.wire import Json
from bailiwick.testing.iceberg import (
    add_snapshot,
    column,
    create_request,
    new_table,
    read_by_pyiceberg,
    schema,
    set_ref,
    snapshot,
)

# The metadata is sound for Iceberg; PyIceberg reads it all the same, and remarks upon it.
pytestmark = pytest.mark.filterwarnings("ignore:Encountered invalid snapshot summary")

SMALL = st.integers(-1, 6)
TYPES = st.sampled_from(["long", "int", "string", "timestamp", "double", "decimal(9, 2)", "date"])
TRANSFORMS = st.sampled_from(["identity", "void", "bucket[8]", "truncate[3]", "year", "hour"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
OPTIONAL_CHANGES: st.SearchStrategy[Json] = st.dictionaries(
    st.sampled_from(
        ["parent-snapshot-id", "sequence-number", "timestamp-ms", "schema-id", "first-row-id", "summary"]
    ),
    st.none() | st.integers(-2, 2_000_000) | st.just({}),
    max_size=1,
)


@st.composite
def schemas(draw: st.DrawFn, metadata: Json) -> Json:
    count = draw(st.integers(0, 4))
    ids = draw(st.lists(st.integers(1, metadata["last-column-id"] + 3), min_size=count, max_size=count))
    return schema(*(column(id_, draw(st.sampled_from("abcde")), draw(TYPES)) for id_ in ids))


@st.composite
def an_update(draw: st.DrawFn, metadata: Json) -> list[Json]:
    """Mostly sensible for `metadata`, sometimes not."""
    known = [item["snapshot-id"] for item in metadata["snapshots"]]
    new_id = max(known, default=0) + 1
    some_id = draw(st.sampled_from([*known, new_id, 99]))
    field = {"name": draw(st.sampled_from("pqab")), "transform": draw(TRANSFORMS), "source-id": draw(SMALL)}
    order = {
        "transform": "identity",
        "source-id": draw(SMALL),
        "direction": "asc",
        "null-order": "nulls-first",
    }
    name = draw(st.sampled_from(["main", "dev", "v1"]))
    kind = draw(st.sampled_from(["branch", "tag"]))
    made = snapshot(metadata, new_id) | draw(OPTIONAL_CHANGES)
    choices: list[list[Json]] = [
        [add_snapshot(made), set_ref(new_id)],
        [add_snapshot(made)],
        [set_ref(some_id, name, kind)],
        [{"action": "remove-snapshot-ref", "ref-name": name}],
        [{"action": "remove-snapshots", "snapshot-ids": [some_id]}],
        [{"action": "add-schema", "schema": draw(schemas(metadata))}],
        [
            {"action": "add-schema", "schema": draw(schemas(metadata))},
            {"action": "set-current-schema", "schema-id": -1},
        ],
        [{"action": "set-current-schema", "schema-id": draw(SMALL)}],
        [{"action": "add-spec", "spec": {"fields": [field]}}, {"action": "set-default-spec", "spec-id": -1}],
        [{"action": "set-default-spec", "spec-id": draw(SMALL)}],
        [{"action": "add-sort-order", "sort-order": {"fields": [order]}}],
        [{"action": "set-default-sort-order", "sort-order-id": draw(SMALL)}],
        [{"action": "remove-schemas", "schema-ids": [draw(SMALL)]}],
        [{"action": "remove-partition-specs", "spec-ids": [draw(SMALL)]}],
        [{"action": "upgrade-format-version", "format-version": draw(SMALL)}],
        [{"action": "set-properties", "updates": {draw(st.sampled_from("kl")): draw(st.text(max_size=3))}}],
        [{"action": "remove-properties", "removals": ["k"]}],
        [{"action": draw(st.sampled_from(["add-snapshot", "set-location", "x"])), "snapshot": draw(JSON)}],
    ]
    return draw(st.sampled_from(choices))


def attempted(metadata: Json, updates: list[Json], now_ms: int) -> Json:
    """The next version, or the same if the commit is refused."""
    try:
        matched(requests.CommitTable, {"requirements": [], "updates": updates})
        new = tables.commit(metadata, [], updates, now_ms=now_ms, base_location=f"file:/{now_ms}.json")
        if new is None:
            return metadata
        validation.check_table(new)
    except CatalogError:
        return metadata
    return tables.closed(new)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), st.sampled_from([1, 2, 3]))
def test_any_sequence_of_commits_leaves_a_table_that_others_can_read(
    data: st.DataObject, version: int
) -> None:
    extra: Any = data.draw(JSON)
    metadata = new_table(create_request(format_version=version)) | {"of-tomorrow": extra}
    for step in range(data.draw(st.integers(1, 8))):
        updates = [
            update for _ in range(data.draw(st.integers(1, 2))) for update in data.draw(an_update(metadata))
        ]
        before = wire.rendered(metadata)
        after = attempted(metadata, updates, 1_000_000 + step * 1000)
        assert wire.rendered(metadata) == before
        metadata = wire.parsed_object(wire.rendered(after))
        assert metadata["of-tomorrow"] == extra
        validation.check_table(tables.opened(metadata))
        read = read_by_pyiceberg(metadata)
        assert len(read.snapshots) == len(metadata["snapshots"])
        assert read.schema().schema_id == metadata["current-schema-id"]


@given(JSON, st.lists(st.tuples(st.text(max_size=8), JSON), max_size=3))
def test_no_json_whatsoever_breaks_the_check_of_a_commit(value: Any, fields: list[tuple[str, Any]]) -> None:
    for body in (value, dict(fields), {"requirements": value, "updates": [dict(fields)]}):
        try:
            matched(requests.CommitTable, body)
        except CatalogError:
            # Refused, which is one of the two things that may happen.
            continue

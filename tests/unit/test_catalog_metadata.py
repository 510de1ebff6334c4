"""Table metadata: what is created, what commits do to it, and that PyIceberg reads the outcome."""

import pytest

from bailiwick.catalog import metadata as tables
from bailiwick.catalog import validation
from bailiwick.catalog.refusals import BadRequestError, CommitFailedError
from bailiwick.catalog.wire import Json
from bailiwick.testing.iceberg import (
    add_snapshot,
    append,
    column,
    create_request,
    new_table,
    read_by_pyiceberg,
    schema,
    set_properties,
    set_ref,
    snapshot,
)

NOW_MS = 2_000_000
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def committed(
    base: Json, *updates: Json, now_ms: int = NOW_MS, requirements: list[Json] | None = None
) -> Json:
    new = tables.commit(base, requirements or [], updates, now_ms=now_ms, base_location="file:/old.json")
    assert new is not None
    validation.check_table(new)
    final = tables.closed(new)
    read_by_pyiceberg(final)
    return final


def refused(base: Json, *updates: Json, requirements: list[Json] | None = None) -> str:
    with pytest.raises((BadRequestError, CommitFailedError)) as caught:
        committed(base, *updates, requirements=requirements)
    return caught.value.message


def test_ids_of_a_new_table_are_fresh_and_breadth_first() -> None:
    point = {"type": "struct", "fields": [column(70, "x", "double"), column(71, "y", "double")]}
    lists = {"type": "list", "element-id": 60, "element": point, "element-required": True}
    maps = {
        "type": "map",
        "key-id": 50,
        "key": "string",
        "value-id": 51,
        "value": lists,
        "value-required": False,
    }
    request = create_request("t", column(9, "a"), column(8, "m", maps), column(7, "z", "string"))
    made = new_table(request)["schemas"][0]["fields"]
    assert [field["id"] for field in made] == [1, 2, 3]
    assert (made[1]["type"]["key-id"], made[1]["type"]["value-id"]) == (4, 5)
    assert made[1]["type"]["value"]["element-id"] == 6
    assert [field["id"] for field in made[1]["type"]["value"]["element"]["fields"]] == [7, 8]


def test_partition_sort_and_identifier_fields_follow_their_columns() -> None:
    sort_field = {"transform": "identity", "source-id": 40, "direction": "asc", "null-order": "nulls-first"}
    request = create_request("t", column(40, "id", required=True), column(41, "at", "timestamp")) | {
        "partition-spec": {"fields": [{"name": "at_day", "transform": "day", "source-id": 41}]},
        "write-order": {"order-id": 7, "fields": [sort_field]},
    }
    request["schema"]["identifier-field-ids"] = [40]
    made = new_table(request)
    field = made["partition-specs"][0]["fields"][0]
    assert (field["source-id"], field["field-id"], made["last-partition-id"]) == (2, 1000, 1000)
    assert made["sort-orders"][0]["fields"][0]["source-id"] == 1
    assert made["default-sort-order-id"] == made["sort-orders"][0]["order-id"] == 1
    assert made["schemas"][0]["identifier-field-ids"] == [1]


@VERSIONS
def test_a_new_table_is_read_by_pyiceberg(version: int) -> None:
    made = new_table(create_request(format_version=version))
    validation.check_table(tables.opened(made))
    assert read_by_pyiceberg(made).format_version == version
    assert ("schema" in made) == (version == 1)
    assert ("next-row-id" in made) == (version == 3)
    assert "format-version" not in made["properties"]


def test_a_table_of_an_unknown_format_is_refused() -> None:
    with pytest.raises(BadRequestError, match="format-version"):
        new_table(create_request(properties={"format-version": "4"}))


@VERSIONS
def test_an_append_moves_main_and_the_log(version: int) -> None:
    base = new_table(create_request(format_version=version))
    once = committed(base, *append(base, 11, rows=5))
    twice = committed(once, *append(once, 12, rows=2))
    assert twice["current-snapshot-id"] == 12
    assert [entry["snapshot-id"] for entry in twice["snapshot-log"]] == [11, 12]
    assert [entry["metadata-file"] for entry in twice["metadata-log"]] == ["file:/old.json"] * 2
    assert read_by_pyiceberg(twice).current_snapshot_id == 12
    if version > 1:
        assert twice["last-sequence-number"] == 2
    if version > 2:
        assert twice["next-row-id"] == 7


def test_a_commit_changes_nothing_it_was_given() -> None:
    base = new_table()
    before = repr(base)
    committed(base, *append(base, 11), set_properties(a="b"))
    assert repr(base) == before


def test_fields_that_nobody_knows_are_kept() -> None:
    base = new_table() | {"of-tomorrow": {"deep": [1, {"er": None}]}}
    base["schemas"][0]["fields"][0]["unheard-of"] = True
    made = snapshot(base, 11) | {"strange": [1, 2]}
    new = committed(base, add_snapshot(made), set_ref(11, colour="blue"))
    assert new["of-tomorrow"] == {"deep": [1, {"er": None}]}
    assert new["schemas"][0]["fields"][0]["unheard-of"] is True
    assert new["snapshots"][0]["strange"] == [1, 2]
    assert new["refs"]["main"]["colour"] == "blue"


def test_updates_that_change_nothing_make_no_new_version() -> None:
    base = committed(new_table(), set_properties(a="b"))
    same = [set_properties(a="b"), {"action": "set-location", "location": base["location"]}]
    assert tables.commit(base, [], same, now_ms=NOW_MS, base_location="file:/x") is None


def test_an_equal_schema_spec_or_order_is_reused() -> None:
    base = new_table()
    wider = schema(column(1, "id"), column(2, "name", "string"), column(3, "extra"))
    first = {"action": "set-current-schema", "schema-id": -1}
    new = committed(base, {"action": "add-schema", "schema": wider}, first)
    assert (new["current-schema-id"], new["last-column-id"]) == (1, 3)
    back = committed(new, {"action": "add-schema", "schema": base["schemas"][0]}, first)
    assert (back["current-schema-id"], len(back["schemas"])) == (0, 2)
    spec = {
        "action": "add-spec",
        "spec": {"fields": [{"name": "b", "transform": "bucket[4]", "source-id": 1}]},
    }
    order = {
        "action": "add-sort-order",
        "sort-order": {
            "fields": [
                {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-last"}
            ]
        },
    }
    use = [
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    once = committed(back, spec, order, *use)
    again = committed(once, spec, order, *use, set_properties(x="y"))
    assert (once["default-spec-id"], once["default-sort-order-id"]) == (1, 1)
    assert (len(again["partition-specs"]), len(again["sort-orders"])) == (2, 2)
    assert again["partition-specs"][1]["fields"][0]["field-id"] == 1000


def test_minus_one_without_anything_added_is_refused() -> None:
    assert "last one added" in refused(new_table(), {"action": "set-current-schema", "schema-id": -1})


def test_snapshots_that_were_current_only_inside_a_commit_leave_no_trace_in_the_log() -> None:
    base = new_table()
    first = snapshot(base, 11)
    second = first | {"snapshot-id": 12, "sequence-number": 2, "parent-snapshot-id": 11}
    new = committed(base, add_snapshot(first), set_ref(11), add_snapshot(second), set_ref(12))
    assert [entry["snapshot-id"] for entry in new["snapshot-log"]] == [12]


def test_removing_a_snapshot_cuts_the_log_before_it() -> None:
    metadata = new_table()
    for snapshot_id in (11, 12, 13):
        metadata = committed(metadata, *append(metadata, snapshot_id))
    metadata = committed(metadata, set_ref(11, "old", "tag"))
    new = committed(metadata, {"action": "remove-snapshots", "snapshot-ids": [12]})
    assert [entry["snapshot-id"] for entry in new["snapshot-log"]] == [13]
    gone = committed(new, {"action": "remove-snapshots", "snapshot-ids": [11]})
    assert "old" not in gone["refs"]


def test_a_rollback_is_logged_at_the_time_it_was_made() -> None:
    metadata = new_table()
    for snapshot_id in (11, 12):
        metadata = committed(metadata, *append(metadata, snapshot_id))
    back = committed(metadata, set_ref(11), now_ms=NOW_MS + 77)
    assert back["snapshot-log"][-1] == {"timestamp-ms": NOW_MS + 77, "snapshot-id": 11}
    assert back["current-snapshot-id"] == 11


def test_a_table_without_main_has_no_current_snapshot() -> None:
    base = new_table()
    metadata = committed(base, *append(base, 11))
    new = committed(metadata, {"action": "remove-snapshot-ref", "ref-name": "main"})
    assert new["current-snapshot-id"] == -1
    assert read_by_pyiceberg(new).current_snapshot_id is None


def test_the_log_of_metadata_files_is_bounded() -> None:
    metadata = new_table()
    for number in range(105):
        metadata = committed(metadata, set_properties(n=str(number)))
    assert len(metadata["metadata-log"]) == 100
    shorter = committed(
        metadata, {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "3"}}
    )
    assert len(shorter["metadata-log"]) == 3


def test_a_clock_that_steps_back_does_not_make_history_go_back() -> None:
    base = committed(new_table(), set_properties(a="b"), now_ms=NOW_MS)
    assert committed(base, set_properties(a="c"), now_ms=5)["last-updated-ms"] == NOW_MS


def test_formats_go_up_and_never_down() -> None:
    base = new_table(create_request(format_version=1))
    second = committed(base, {"action": "upgrade-format-version", "format-version": 2})
    assert second["last-sequence-number"] == 0
    assert "schema" not in second
    third = committed(second, {"action": "upgrade-format-version", "format-version": 3})
    assert third["next-row-id"] == 0
    assert "cannot go back" in refused(third, {"action": "upgrade-format-version", "format-version": 2})


def test_metadata_of_an_old_writer_is_completed() -> None:
    old = new_table(create_request(format_version=1))
    for key in ("schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id"):
        del old[key]
    for key in ("sort-orders", "default-sort-order-id", "refs", "snapshot-log"):
        del old[key]
    new = committed(old, set_properties(a="b"))
    assert len(new["schemas"]) == len(new["partition-specs"]) == len(new["sort-orders"]) == 1


def test_a_stale_writer_is_told_to_retry() -> None:
    base = new_table(create_request(format_version=3))
    mine, theirs = snapshot(base, 11), snapshot(base, 12)
    new = committed(base, add_snapshot(theirs), set_ref(12))
    with pytest.raises(CommitFailedError):
        committed(new, add_snapshot(mine | {"parent-snapshot-id": 12}))
    with pytest.raises(CommitFailedError):
        committed(new, add_snapshot(mine | {"parent-snapshot-id": 12, "sequence-number": 2}))


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        ({"type": "assert-table-uuid", "uuid": "01234567-89AB-4DEF-8123-456789ABCDEF"}, True),
        ({"type": "assert-table-uuid", "uuid": "other"}, False),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 11}, True),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 12}, False),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}, False),
        ({"type": "assert-ref-snapshot-id", "ref": "dev", "snapshot-id": None}, True),
        ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2}, True),
        ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3}, False),
        ({"type": "assert-current-schema-id", "current-schema-id": 0}, True),
        ({"type": "assert-current-schema-id", "current-schema-id": 1}, False),
        ({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999}, True),
        ({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1}, False),
        ({"type": "assert-default-spec-id", "default-spec-id": 0}, True),
        ({"type": "assert-default-spec-id", "default-spec-id": 1}, False),
        ({"type": "assert-default-sort-order-id", "default-sort-order-id": 0}, True),
        ({"type": "assert-default-sort-order-id", "default-sort-order-id": 1}, False),
        ({"type": "assert-create"}, False),
    ],
)
def test_a_requirement_that_does_not_hold_stops_the_commit(requirement: Json, holds: bool) -> None:
    base = new_table()
    metadata = committed(base, *append(base, 11))
    if holds:
        committed(metadata, set_properties(a="b"), requirements=[requirement])
    else:
        with pytest.raises(CommitFailedError):
            committed(metadata, set_properties(a="b"), requirements=[requirement])

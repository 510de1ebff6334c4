# ruff: noqa: E501 - one attempt a line
"""The catalog called directly, by one who has an engine's credential and a session's lease, and writes JSON by hand.

facts/security, commits and leases. `mal` owns `own`, may add to `shared.stock`, sees a part of `shared.some`
and nothing of `theirs`. No Spark takes part.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from attacks.facade_house import HIDDEN, ROWS, FacadeHouse, Note, refused
from bailiwick.testing.leaks import Secrets

pytestmark = pytest.mark.timeout(120)


def snapshot(facade: FacadeHouse, namespace: str, table: str, **changed: Any) -> dict[str, Any]:
    """The current snapshot of a table once more, as the next one."""
    metadata = facade.metadata(namespace, table)
    current = next(
        each for each in metadata["snapshots"] if each["snapshot-id"] == metadata["current-snapshot-id"]
    )
    made = {
        **copy.deepcopy(current),
        "snapshot-id": current["snapshot-id"] - 1,
        "parent-snapshot-id": current["snapshot-id"],
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": metadata["last-updated-ms"] + 1,
        "summary": {"operation": "append"},
        **changed,
    }
    return {key: value for key, value in made.items() if value != "absent"}


def adding(made: dict[str, Any], branch: str = "main") -> tuple[dict[str, Any], dict[str, Any]]:
    moved = {
        "action": "set-snapshot-ref",
        "ref-name": branch,
        "type": "branch",
        "snapshot-id": made["snapshot-id"],
    }
    return {"action": "add-snapshot", "snapshot": made}, moved


def manifest_list(facade: FacadeHouse, namespace: str, table: str, number: int = -1) -> str:
    return str(facade.metadata(namespace, table)["snapshots"][number]["manifest-list"])


@pytest.mark.parametrize("operation", ["append", "replace", "overwrite", "delete"])
def test_anothers_manifest_list_is_not_taken(facade: FacadeHouse, note: Note, operation: str) -> None:
    """An `append` whose manifest list is another table's made all its rows readable."""
    made = snapshot(
        facade,
        "own",
        "table",
        **{"manifest-list": manifest_list(facade, "theirs", "hidden")},
        summary={"operation": operation},
    )
    refused(facade.commit("own", "table", *adding(made)), note)


def test_anothers_manifest_list_is_not_taken_on_a_branch(facade: FacadeHouse, note: Note) -> None:
    made = snapshot(facade, "own", "table", **{"manifest-list": manifest_list(facade, "theirs", "hidden")})
    refused(facade.commit("own", "table", *adding(made, "side")), note)


def test_anothers_manifest_list_is_not_taken_without_a_branch(facade: FacadeHouse, note: Note) -> None:
    made = snapshot(facade, "own", "table", **{"manifest-list": manifest_list(facade, "theirs", "hidden")})
    refused(facade.commit("own", "table", adding(made)[0]), note)


@pytest.mark.parametrize(
    "spelled",
    [
        "{location}/../{other}",
        "{location}/metadata/../../{other}",
        "{location}%2f..%2f{other}",
        "{location}-evil/x.avro",
        "file://host{location}/x.avro",
        "http://localhost/x.avro",
        "/etc/passwd",
        "",
    ],
)
def test_a_manifest_list_elsewhere_is_not_taken(facade: FacadeHouse, note: Note, spelled: str) -> None:
    location = facade.metadata("own", "table")["location"]
    other = (
        manifest_list(facade, "theirs", "hidden")
        .removeprefix(str(facade.warehouse))
        .removeprefix(f"file:{facade.warehouse}")
    )
    path = spelled.format(location=location, other=other.lstrip("/"))
    refused(
        facade.commit("own", "table", *adding(snapshot(facade, "own", "table", **{"manifest-list": path}))),
        note,
    )


def test_anothers_files_are_not_added(facade: FacadeHouse, note: Note) -> None:
    """A real client, a real manifest of one's own, and in it the files of another."""
    (file, *_) = facade.client("admin").load_table("theirs.hidden").inspect.files()["file_path"].to_pylist()
    table = facade.client("mal").load_table("own.table")
    with pytest.raises(Exception, match=r"(?i)forbidden|bad ?request|not|outside"):
        table.add_files([file])
    rows = facade.client("mal").load_table("own.table").scan().to_arrow()
    assert Secrets().found_in(str(rows.to_pylist())) == []
    note(is_refused=True)


def test_anothers_metadata_is_not_registered(facade: FacadeHouse, note: Note) -> None:
    where = facade.call("GET", "namespaces/theirs/tables/hidden", person="admin").json["metadata-location"]
    refused(
        facade.call("POST", "namespaces/own/register", {"name": "stolen", "metadata-location": where}), note
    )
    refused(
        facade.call(
            "POST",
            "namespaces/own/register",
            {"name": "stolen", "metadata-location": where, "overwrite": True},
        ),
        note,
    )


@pytest.mark.parametrize(
    "location",
    [
        "{hidden}",
        "{hidden}/data",
        "{hidden}/../own",
        "{warehouse}",
        "/tmp/elsewhere",
        "file:///",
        "{own}/inside",
        "s3://bucket/x",
        "{hidden}-",
        "{warehouse}/own/../theirs",
    ],
)
@pytest.mark.parametrize("staged", [False, True])
def test_a_table_is_not_made_where_another_lies(
    facade: FacadeHouse, note: Note, location: str, staged: bool
) -> None:
    places = {
        "hidden": facade.metadata("theirs", "hidden")["location"],
        "own": facade.metadata("own", "table")["location"],
        "warehouse": f"file:{facade.warehouse}",
    }
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
    }
    body = {"name": "placed", "schema": schema, "location": location.format(**places), "stage-create": staged}
    refused(facade.call("POST", "namespaces/own/tables", body), note)


@pytest.mark.parametrize(
    "key",
    ["write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"],
)
def test_files_are_not_written_elsewhere(facade: FacadeHouse, note: Note, key: str) -> None:
    elsewhere = facade.metadata("theirs", "hidden")["location"]
    refused(facade.commit("own", "table", {"action": "set-properties", "updates": {key: elsewhere}}), note)


OWN_FORGERIES: dict[str, Callable[[FacadeHouse], list[dict[str, Any]]]] = {
    "another's uuid": lambda facade: [{"action": "assign-uuid", "uuid": facade.metadata("theirs", "hidden")["table-uuid"]}],
    "another's location": lambda facade: [{"action": "set-location", "location": facade.metadata("theirs", "hidden")["location"]}],
    "no parent": lambda facade: list(adding(snapshot(facade, "own", "table", **{"parent-snapshot-id": None}))),
    "a parent that is text": lambda facade: list(adding(snapshot(facade, "own", "table", **{"parent-snapshot-id": "x"}))),
    "an unknown update": lambda _: [{"action": "set-stamp", "stamp": "x"}],
    "no action": lambda _: [{"snapshot": 1}],
    "a ref to nothing": lambda _: [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}],
    "a ref of no kind": lambda _: [{"action": "set-snapshot-ref", "ref-name": "main", "type": "x", "snapshot-id": 1}],
    "a format from the future": lambda _: [{"action": "upgrade-format-version", "format-version": 99}],
    "a format from the past": lambda _: [{"action": "upgrade-format-version", "format-version": 1}],
    "a schema that is not there": lambda _: [{"action": "set-current-schema", "schema-id": 99}],
    "a schema with ids twice": lambda _: [{"action": "add-schema", "schema": {"type": "struct", "schema-id": 1, "fields": [{"id": 1, "name": "a", "required": False, "type": "long"}, {"id": 1, "name": "b", "required": False, "type": "long"}]}}],
    "a sequence number of the past": lambda facade: list(adding(snapshot(facade, "own", "table", **{"sequence-number": 0}))),
    "statistics of another": lambda facade: [{"action": "set-statistics", "snapshot-id": facade.metadata("own", "table")["current-snapshot-id"], "statistics": {"snapshot-id": facade.metadata("own", "table")["current-snapshot-id"], "statistics-path": facade.metadata("theirs", "hidden")["location"] + "/x.puffin", "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}}],
}  # fmt: skip


@pytest.mark.parametrize("what", OWN_FORGERIES)
def test_a_forged_commit_to_ones_own_table_is_refused_and_the_table_lives(
    facade: FacadeHouse, note: Note, what: str
) -> None:
    """`"parent-snapshot-id": null` made the table unreadable for good."""
    before = facade.metadata("own", "table")
    refused(facade.commit("own", "table", *OWN_FORGERIES[what](facade)), note)
    assert facade.metadata("own", "table") == before
    assert facade.client("mal").load_table("own.table").scan().to_arrow().num_rows == 4


APPEND_ONLY: dict[str, Callable[[FacadeHouse], list[dict[str, Any]]]] = {
    "rows vanish by an older manifest list": lambda facade: list(adding(snapshot(facade, "shared", "stock", **{"manifest-list": manifest_list(facade, "shared", "stock", 0)}))),
    "a rollback": lambda facade: [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": facade.metadata("shared", "stock")["snapshots"][0]["snapshot-id"]}],
    "no main": lambda _: [{"action": "remove-snapshot-ref", "ref-name": "main"}],
    "snapshots removed": lambda facade: [{"action": "remove-snapshots", "snapshot-ids": [facade.metadata("shared", "stock")["snapshots"][0]["snapshot-id"]]}],
    "a tag": lambda facade: [{"action": "set-snapshot-ref", "ref-name": "x", "type": "tag", "snapshot-id": facade.metadata("shared", "stock")["current-snapshot-id"]}],
    "a branch": lambda facade: [{"action": "set-snapshot-ref", "ref-name": "x", "type": "branch", "snapshot-id": facade.metadata("shared", "stock")["current-snapshot-id"]}],
    "a property": lambda _: [{"action": "set-properties", "updates": {"a": "b"}}],
    "a column": lambda facade: [{"action": "add-schema", "schema": facade.metadata("shared", "stock")["schemas"][0]}, {"action": "set-current-schema", "schema-id": -1}],
    "a partition": lambda _: [{"action": "add-spec", "spec": {"spec-id": 1, "fields": [{"name": "p", "transform": "identity", "source-id": 1}]}}, {"action": "set-default-spec", "spec-id": -1}],
}  # fmt: skip


@pytest.mark.parametrize("what", APPEND_ONLY)
def test_one_who_may_only_add_does_nothing_else(facade: FacadeHouse, note: Note, what: str) -> None:
    """What a snapshot says of itself is never believed."""
    before = facade.metadata("shared", "stock")
    refused(facade.commit("shared", "stock", *APPEND_ONLY[what](facade)), note)
    assert facade.metadata("shared", "stock") == before


def test_one_who_may_add_adds(facade: FacadeHouse, note: Note) -> None:
    facade.client("mal").load_table("shared.stock").append(ROWS)
    assert facade.client("mal").load_table("shared.stock").scan().to_arrow().num_rows == 6
    note(is_refused=False)


@pytest.mark.parametrize("verb", ["overwrite", "delete"])
def test_one_who_is_restricted_changes_no_rows(facade: FacadeHouse, note: Note, verb: str) -> None:
    """Though `update` and `delete` are granted: the rows that are hidden would go, too."""
    older = manifest_list(facade, "shared", "some", 0)
    made = snapshot(facade, "shared", "some", **{"manifest-list": older}, summary={"operation": verb})
    refused(facade.commit("shared", "some", *adding(made)), note)


def test_one_who_is_restricted_keeps_the_policys_column(facade: FacadeHouse, note: Note) -> None:
    schema = copy.deepcopy(facade.metadata("shared", "some")["schemas"][0])
    schema["fields"][0]["name"] = "di"
    refused(
        facade.commit(
            "shared",
            "some",
            {"action": "add-schema", "schema": schema},
            {"action": "set-current-schema", "schema-id": -1},
        ),
        note,
    )


def test_a_staged_table_with_anothers_rows_is_refused(facade: FacadeHouse, note: Note) -> None:
    hidden = facade.metadata("theirs", "hidden")
    schema = hidden["schemas"][0]
    staged = facade.call(
        "POST", "namespaces/own/tables", {"name": "staged", "schema": schema, "stage-create": True}
    ).json["metadata"]
    current = next(
        each for each in hidden["snapshots"] if each["snapshot-id"] == hidden["current-snapshot-id"]
    )
    made = {key: value for key, value in current.items() if key != "parent-snapshot-id"} | {
        "sequence-number": 1
    }
    updates = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
        *adding(made),
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    refused(facade.call("POST", "namespaces/own/tables/staged", body), note)


def test_hidden_rows_are_where_they_were(facade: FacadeHouse) -> None:
    rows = facade.client("admin").load_table("theirs.hidden").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == sorted(HIDDEN["id"].to_pylist() * 2)

"""What a snapshot needs is told by its manifests, whatever it says of itself."""

from pathlib import Path
from typing import Any

import pytest
from catalog_desk import ADMIN, ANN, Desk, T

from bailiwick.catalog import avro, wire
from bailiwick.catalog.refusals import BadRequestError, ForbiddenError
from bailiwick.catalog.wire import Json
from bailiwick.names import TableName
from bailiwick.policy.model import Privilege
from bailiwick.testing.iceberg import add_snapshot, create_request, set_ref, snapshot, staged_updates
from bailiwick.testing.manifests import (
    ADDED,
    DELETED,
    EXISTING,
    File,
    Writer,
    append,
    change,
    current_manifests,
)

INSERT, UPDATE, DELETE = Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A table with two snapshots: 1 of one file, 2 of that and another."""
    made = Desk(tmp_path / "warehouse")
    for snapshot_id in (1, 2):
        made.commit(ADMIN, *append(made.metadata(), snapshot_id))
    return made


def files_of(desk: Desk) -> list[File]:
    """All that the table consists of, as a rewritten manifest would name them."""
    found = []
    for manifest in current_manifests(desk.metadata()):
        data = Path(manifest.path.removeprefix("file:")).read_bytes()
        for record in avro.records(data, None):
            number = record["sequence_number"] or manifest.sequence_number
            found.append(File(record["data_file"]["file_path"], EXISTING, sequence_number=number))
    return found


def needs(desk: Desk, updates: list[Json], *privileges: Privilege) -> None:
    """Every one of the privileges alone suffices, and all others together do not."""
    others = {Privilege.SELECT, INSERT, UPDATE, DELETE, Privilege.DROP} - set(privileges)
    desk.grant(ANN, "lake.db.t", *others)
    with pytest.raises(ForbiddenError) as refused:
        desk.commit(ANN, *updates)
    assert f"lacks {' or '.join(privileges)} on table lake.db.t" in refused.value.message
    desk.policies = type(desk.policies)(1)
    desk.grant(ANN, "lake.db.t", privileges[-1])
    assert desk.commit(ANN, *updates).status == 200


def test_an_append_needs_insert(desk: Desk) -> None:
    needs(desk, append(desk.metadata(), 3), INSERT)


def test_an_append_that_rewrites_manifests_is_still_an_append(desk: Desk) -> None:
    writer = Writer(desk.metadata())
    merged = writer.manifest(File(writer.data_path()), *files_of(desk))
    needs(desk, change(desk.metadata(), 3, [merged]), INSERT)


def test_an_append_that_leaves_out_a_manifest_is_a_deletion(desk: Desk) -> None:
    needs(desk, change(desk.metadata(), 3, current_manifests(desk.metadata())[:1]), DELETE)


def test_an_append_with_the_manifest_list_of_an_older_snapshot_is_a_deletion(desk: Desk) -> None:
    metadata = desk.metadata()
    old = metadata["snapshots"][0]["manifest-list"]
    needs(desk, [add_snapshot(snapshot(metadata, 3) | {"manifest-list": old}), set_ref(3)], DELETE)


def test_a_rewritten_manifest_that_loses_a_file_is_a_deletion(desk: Desk) -> None:
    writer = Writer(desk.metadata())
    needs(desk, change(desk.metadata(), 3, [writer.manifest(*files_of(desk)[:1])]), DELETE)


def test_files_that_are_marked_deleted_are_a_deletion(desk: Desk) -> None:
    gone, kept = files_of(desk)
    manifest = Writer(desk.metadata()).manifest(File(gone.path, DELETED), kept)
    needs(desk, change(desk.metadata(), 3, [manifest]), DELETE)


@pytest.mark.parametrize("content", [1, 2])
def test_delete_files_are_a_deletion(desk: Desk, content: int) -> None:
    writer = Writer(desk.metadata())
    deletes = writer.manifest(File(writer.data_path(), content=content))
    needs(desk, change(desk.metadata(), 3, [*current_manifests(desk.metadata()), deletes]), DELETE)


def test_files_that_replace_others_need_update_or_delete(desk: Desk) -> None:
    writer = Writer(desk.metadata())
    manifests = [current_manifests(desk.metadata())[0], writer.manifest(File(writer.data_path()))]
    needs(desk, change(desk.metadata(), 3, manifests), UPDATE, DELETE)


def test_merge_on_read_needs_update_or_delete(desk: Desk) -> None:
    writer = Writer(desk.metadata())
    added = writer.manifest(File(writer.data_path()))
    deletes = writer.manifest(File(writer.data_path(), content=1))
    manifests = [*current_manifests(desk.metadata()), added, deletes]
    needs(desk, change(desk.metadata(), 3, manifests), UPDATE, DELETE)


def test_a_manifest_in_the_list_that_readers_would_take_for_another_is_no_append(desk: Desk) -> None:
    first, second = current_manifests(desk.metadata())
    older = type(first)(first.path, first.content, 99, first.length)
    needs(desk, change(desk.metadata(), 3, [older, second]), UPDATE, DELETE)


def test_bounds_of_a_file_cannot_be_changed_on_the_way(desk: Desk) -> None:
    one, two = files_of(desk)
    lying = File(one.path, EXISTING, records=0, sequence_number=one.sequence_number)
    desk.grant(ANN, "lake.db.t", INSERT, UPDATE, DELETE)
    with pytest.raises(BadRequestError, match="not in it"):
        desk.commit(ANN, *change(desk.metadata(), 3, [Writer(desk.metadata()).manifest(lying, two)]))


def test_a_branch_set_back_is_a_deletion(desk: Desk) -> None:
    needs(desk, [set_ref(1)], DELETE)


def test_the_parent_that_a_snapshot_names_is_not_what_it_is_measured_by(desk: Desk) -> None:
    metadata = desk.metadata()
    writer = Writer(metadata)
    made = snapshot(metadata, 3) | {"parent-snapshot-id": 1}
    first = current_manifests(metadata)[0]
    made["manifest-list"] = writer.manifest_list(first, writer.manifest(File(writer.data_path())))
    # Measured by its parent it would be an append; what the table showed before is another matter.
    needs(desk, [add_snapshot(made), set_ref(3)], UPDATE, DELETE)


def test_a_snapshot_that_nobody_shows_yet_is_measured_by_its_parent(desk: Desk) -> None:
    needs(desk, append(desk.metadata(), 3)[:1], INSERT)


def test_to_show_what_was_added_before_is_what_it_does(desk: Desk) -> None:
    metadata = desk.metadata()
    desk.commit(ADMIN, append(metadata, 3)[0])
    needs(desk, [set_ref(3)], INSERT)


def test_a_new_branch_needs_alter_and_a_write_to_it_what_it_does(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", INSERT, UPDATE, DELETE)
    for updates in (
        [set_ref(1, "b")],
        [append(desk.metadata(), 3)[0], set_ref(3, "b")],
        [set_ref(1, "v1", "tag")],
    ):
        with pytest.raises(ForbiddenError, match="lacks alter"):
            desk.commit(ANN, *updates)
    desk.commit(ADMIN, set_ref(2, "b"))
    added, _ = append(desk.metadata(), 3)
    assert desk.commit(ANN, added, set_ref(3, "b")).status == 200


# --- files of somebody else


def stranger(desk: Desk) -> Json:
    """Another table, of which nobody should read a row through `db.t`."""
    name = TableName(("db",), "secrets")
    desk.service.commits.create_table(name, create_request("secrets"))
    desk.commit(ADMIN, *append(desk.metadata(name), 7), name="secrets")
    return desk.metadata(name)


def attacks(desk: Desk) -> dict[str, list[Json]]:
    metadata, other = desk.metadata(), stranger(desk)
    writer, foreign = Writer(metadata), current_manifests(other)
    own = current_manifests(metadata)
    theirs = Path(foreign[0].path.removeprefix("file:")).read_bytes()
    path = next(iter(avro.records(theirs, None)))["data_file"]["file_path"]
    location = metadata["location"]
    made = snapshot(metadata, 3)
    return {
        "manifest list of another": [
            add_snapshot(made | {"manifest-list": other["snapshots"][0]["manifest-list"]}),
            set_ref(3),
        ],
        "manifest of another": change(metadata, 3, [*own, *foreign]),
        "file of another, added": change(metadata, 3, [*own, writer.manifest(File(path, ADDED))]),
        "file of another, existing": change(
            metadata, 3, [*own, writer.manifest(File(path, EXISTING, sequence_number=1))]
        ),
        "file of a neighbour in name": change(metadata, 3, [*own, writer.manifest(File(f"{location}x/f"))]),
        "file by a detour": change(
            metadata, 3, [*own, writer.manifest(File(f"{location}/../{path.partition('/db/')[2]}"))]
        ),
        "deletes in a list of data": change(
            metadata, 3, [*own, type(own[0])(writer.manifest(File(writer.data_path(), content=1)).path, 0, 3)]
        ),
        "nothing where the list should be": [
            add_snapshot(made | {"manifest-list": f"{location}/metadata/none.avro"}),
            set_ref(3),
        ],
        "the same manifest twice": change(metadata, 3, [*own, own[0]]),
    }


@pytest.mark.parametrize("who", [ANN, ADMIN], ids=["a writer", "an administrator"])
def test_a_table_never_takes_in_what_is_not_its_own(desk: Desk, who: Any) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.OWN)
    for what, updates in attacks(desk).items():
        with pytest.raises(BadRequestError):
            desk.commit(who, *updates)
        assert desk.metadata()["current-snapshot-id"] == 2, what


def test_a_new_table_begins_with_its_own_files(desk: Desk) -> None:
    other = stranger(desk)
    desk.grant(ANN, "lake.db", Privilege.CREATE)
    staged = desk.service.commits.stage_table(TableName(("db",), "mine"), create_request("mine"))
    metadata = wire.parsed_object(staged)
    made = snapshot(metadata, 1)
    made["manifest-list"] = Writer(metadata).manifest_list(*current_manifests(other))
    updates = [*staged_updates(metadata), add_snapshot(made), set_ref(1)]
    with pytest.raises(BadRequestError, match="own location"):
        desk.commit(ANN, *updates, name="mine", requirements=[{"type": "assert-create"}])
    assert desk.service.contents.find(TableName(("db",), "mine")) is None


@pytest.mark.parametrize(
    "updates",
    [
        [{"action": "assign-uuid", "uuid": "01234567-89ab-4def-8123-456789abcdef"}],
        [{"action": "set-location", "location": "file:/elsewhere"}],
        [{"action": "set-properties", "updates": {"write.data.path": "file:/elsewhere"}}],
        [{"action": "set-properties", "updates": {"write.metadata.path": "file:/elsewhere"}}],
        [{"action": "set-properties", "updates": {"write.object-storage.path": "file:/elsewhere"}}],
    ],
)
def test_a_table_stays_where_and_what_it_is(desk: Desk, updates: list[Json]) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.OWN)
    before = desk.service.find(T)
    with pytest.raises(BadRequestError):
        desk.commit(ANN, *updates)
    assert desk.service.find(T) == before

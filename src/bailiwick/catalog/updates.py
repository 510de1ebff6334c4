"""What each kind of update does to a table's metadata.

Pure: a `Draft` is a copy that only one commit sees. Shapes were checked before (`requests.CommitTable`); here
are the rules between the parts, as Iceberg's own catalogs keep them. Unknown fields stay where they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bailiwick.catalog import schemas
from bailiwick.catalog.refusals import BadRequestError, CommitFailedError
from bailiwick.catalog.wire import Json

LAST_ADDED = -1
MAIN = "main"
UNSORTED_ORDER_ID = 0
FIRST_PARTITION_FIELD_ID = 1000

RESERVED_PROPERTIES = frozenset(
    [
        "format-version",
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    ]
)
_OF_BRANCHES_ONLY = {"max-snapshot-age-ms", "min-snapshots-to-keep"}
_INT64_MAX = 2**63 - 1


@dataclass(slots=True)
class Draft:
    """Metadata on its way from one version to the next."""

    metadata: Json
    now_ms: int
    is_new: bool = False
    last_added: dict[str, int] = field(default_factory=dict)
    added_snapshots: dict[int, Json] = field(default_factory=dict)
    made_current: set[int] = field(default_factory=set)
    snapshots_removed: bool = False

    @property
    def format_version(self) -> int:
        return int(self.metadata["format-version"])

    def resolve(self, collection: str, id_: int) -> int:
        """`id_`, or the last one added if it is -1."""
        if id_ != LAST_ADDED:
            return id_
        if collection not in self.last_added:
            raise BadRequestError(f"-1 means the last one added, but none of the {collection} was")
        return self.last_added[collection]

    def has_snapshot(self, snapshot_id: int) -> bool:
        return any(snapshot["snapshot-id"] == snapshot_id for snapshot in self.metadata["snapshots"])


def apply(draft: Draft, update: Json) -> None:
    """Do what `update` says. Raises BadRequestError or CommitFailedError."""
    action = _ACTIONS.get(update["action"])
    if action is None:
        raise BadRequestError(f"unknown update {update['action'][:60]!r}")
    action(draft, update)


def _assign_uuid(draft: Draft, update: Json) -> None:
    uuid = update["uuid"].lower()
    if not draft.is_new and uuid != draft.metadata["table-uuid"]:
        raise BadRequestError("a table keeps its uuid")
    draft.metadata["table-uuid"] = uuid


def _set_location(draft: Draft, update: Json) -> None:
    location = update["location"].rstrip("/")
    if not draft.is_new and location != draft.metadata["location"]:
        raise BadRequestError("a table keeps its location")
    draft.metadata["location"] = location


def _upgrade_format_version(draft: Draft, update: Json) -> None:
    version = update["format-version"]
    if version < draft.format_version:
        raise BadRequestError(f"format version {draft.format_version} cannot go back to {version}")
    draft.metadata["format-version"] = version
    if version >= 2:
        draft.metadata.setdefault("last-sequence-number", 0)
    if version >= 3:
        draft.metadata.setdefault("next-row-id", 0)


def _add_schema(draft: Draft, update: Json) -> None:
    schema, last_id = update["schema"], draft.metadata["last-column-id"]
    try:
        schemas.check_format(schema, draft.format_version)
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    fields = schemas.fields_of(schema)
    highest = max(fields, default=0)
    if highest > last_id + len(fields):
        raise BadRequestError("field ids must follow the last one assigned")
    _add(draft, "schemas", "schema-id", schema, schemas.same)
    draft.metadata["last-column-id"] = max(last_id, highest)


def _set_current_schema(draft: Draft, update: Json) -> None:
    schema_id = draft.resolve("schemas", update["schema-id"])
    draft.metadata["current-schema-id"] = _known(draft, "schemas", "schema-id", schema_id)


def _add_spec(draft: Draft, update: Json) -> None:
    last_id = draft.metadata["last-partition-id"]
    fields = update["spec"]["fields"]
    given = [item["field-id"] for item in fields if "field-id" in item]
    if given and len(given) != len(fields):
        raise BadRequestError("either all partition fields have an id or none has")
    if not given:
        fields = [{**item, "field-id": last_id + 1 + index} for index, item in enumerate(fields)]
    ids = [item["field-id"] for item in fields]
    if max(ids, default=last_id) > last_id + len(ids) or len(set(ids)) != len(ids):
        raise BadRequestError("partition field ids must follow the last one assigned")
    if draft.format_version == 1 and ids != [FIRST_PARTITION_FIELD_ID + index for index in range(len(ids))]:
        raise BadRequestError("format version 1 needs partition field ids from 1000 on, without gaps")
    _add(draft, "partition-specs", "spec-id", {**update["spec"], "fields": fields}, _same_spec)
    draft.metadata["last-partition-id"] = max([last_id, *ids])


def _set_default_spec(draft: Draft, update: Json) -> None:
    spec_id = draft.resolve("partition-specs", update["spec-id"])
    draft.metadata["default-spec-id"] = _known(draft, "partition-specs", "spec-id", spec_id)


def _add_sort_order(draft: Draft, update: Json) -> None:
    order = update["sort-order"]
    _add(draft, "sort-orders", "order-id", order, lambda one, other: one["fields"] == other["fields"])


def _set_default_sort_order(draft: Draft, update: Json) -> None:
    order_id = draft.resolve("sort-orders", update["sort-order-id"])
    draft.metadata["default-sort-order-id"] = _known(draft, "sort-orders", "order-id", order_id)


def _add_snapshot(draft: Draft, update: Json) -> None:
    snapshot = update["snapshot"]
    if draft.has_snapshot(snapshot["snapshot-id"]):
        raise BadRequestError("a snapshot with this id is there already")
    if "manifest-list" not in snapshot and (draft.format_version > 1 or "manifests" not in snapshot):
        raise BadRequestError("a snapshot needs its manifest list")
    if draft.format_version > 1:
        _take_sequence_number(draft.metadata, snapshot)
    if draft.format_version > 2:
        _take_row_ids(draft.metadata, snapshot)
    draft.metadata["snapshots"].append(snapshot)
    draft.added_snapshots[snapshot["snapshot-id"]] = snapshot


def _take_sequence_number(metadata: Json, snapshot: Json) -> None:
    last, number = metadata["last-sequence-number"], snapshot.get("sequence-number")
    if number is None:
        raise BadRequestError("a snapshot needs a sequence number")
    if number <= last and "parent-snapshot-id" in snapshot:
        raise CommitFailedError("the snapshot's sequence number is behind the table's: look again and retry")
    # A number far ahead would leave none for those who come after.
    if number > last + 1:
        raise BadRequestError("a snapshot's sequence number must follow the table's last one")
    metadata["last-sequence-number"] = max(last, number)


def _take_row_ids(metadata: Json, snapshot: Json) -> None:
    next_id, first, added = metadata["next-row-id"], snapshot.get("first-row-id"), snapshot.get("added-rows")
    if first is None or added is None:
        raise BadRequestError("format version 3 needs first-row-id and added-rows in a snapshot")
    if first < next_id:
        raise CommitFailedError("the snapshot's first-row-id is behind the table's: look again and retry")
    if first > next_id or first + added > _INT64_MAX:
        raise BadRequestError("a snapshot's first-row-id must be the table's next-row-id")
    metadata["next-row-id"] = first + added


def _set_snapshot_ref(draft: Draft, update: Json) -> None:
    name = update["ref-name"]
    # Not only what we know: a later version may keep more about a ref.
    reference = {
        key: value for key, value in update.items() if key not in ("action", "ref-name") and value is not None
    }
    if not draft.has_snapshot(reference["snapshot-id"]):
        raise BadRequestError("a ref needs a snapshot that exists")
    if reference["type"] == "tag" and (name == MAIN or reference.keys() & _OF_BRANCHES_ONLY):
        raise BadRequestError("main is a branch, and tags keep no snapshots of their own")
    if draft.metadata["refs"].get(name) == reference:
        return
    draft.metadata["refs"][name] = reference
    if name == MAIN:
        _make_current(draft, reference["snapshot-id"])


def _make_current(draft: Draft, snapshot_id: int) -> None:
    draft.metadata["current-snapshot-id"] = snapshot_id
    added = draft.added_snapshots.get(snapshot_id)
    timestamp_ms = draft.now_ms if added is None else added["timestamp-ms"]
    draft.metadata["snapshot-log"].append({"timestamp-ms": timestamp_ms, "snapshot-id": snapshot_id})
    draft.made_current.add(snapshot_id)


def _remove_snapshot_ref(draft: Draft, update: Json) -> None:
    draft.metadata["refs"].pop(update["ref-name"], None)
    if update["ref-name"] == MAIN:
        draft.metadata["current-snapshot-id"] = None


def _remove_snapshots(draft: Draft, update: Json) -> None:
    gone, metadata = set(update["snapshot-ids"]), draft.metadata
    for collection in ("snapshots", "statistics", "partition-statistics"):
        metadata[collection] = [item for item in metadata[collection] if item["snapshot-id"] not in gone]
    for name in [name for name, reference in metadata["refs"].items() if reference["snapshot-id"] in gone]:
        _remove_snapshot_ref(draft, {"ref-name": name})
    draft.snapshots_removed = True


def _set_properties(draft: Draft, update: Json) -> None:
    if RESERVED_PROPERTIES & update["updates"].keys():
        raise BadRequestError("a reserved property cannot be set")
    draft.metadata["properties"].update(update["updates"])


def _remove_properties(draft: Draft, update: Json) -> None:
    for key in update["removals"]:
        draft.metadata["properties"].pop(key, None)


def _set_statistics(draft: Draft, update: Json) -> None:
    key = update["action"].removeprefix("set-")
    if not draft.has_snapshot(update[key]["snapshot-id"]):
        raise BadRequestError("statistics need a snapshot that exists")
    _drop_statistics(draft, key, update[key]["snapshot-id"])
    draft.metadata[key].append(update[key])


def _remove_statistics(draft: Draft, update: Json) -> None:
    _drop_statistics(draft, update["action"].removeprefix("remove-"), update["snapshot-id"])


def _drop_statistics(draft: Draft, key: str, snapshot_id: int) -> None:
    draft.metadata[key] = [item for item in draft.metadata[key] if item["snapshot-id"] != snapshot_id]


def _remove_specs(draft: Draft, update: Json) -> None:
    _remove(draft, "partition-specs", "spec-id", update["spec-ids"], keep=draft.metadata["default-spec-id"])


def _remove_schemas(draft: Draft, update: Json) -> None:
    _remove(draft, "schemas", "schema-id", update["schema-ids"], keep=draft.metadata["current-schema-id"])


def _add_encryption_key(draft: Draft, update: Json) -> None:
    keys = draft.metadata.setdefault("encryption-keys", [])
    if all(key["key-id"] != update["encryption-key"]["key-id"] for key in keys):
        draft.metadata["encryption-keys"] = [*keys, update["encryption-key"]]


def _remove_encryption_key(draft: Draft, update: Json) -> None:
    keys = draft.metadata.get("encryption-keys", [])
    draft.metadata["encryption-keys"] = [key for key in keys if key["key-id"] != update["key-id"]]


_ACTIONS: Mapping[str, Callable[[Draft, Json], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_schema,
    "set-current-schema": _set_current_schema,
    "add-spec": _add_spec,
    "set-default-spec": _set_default_spec,
    "add-sort-order": _add_sort_order,
    "set-default-sort-order": _set_default_sort_order,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_snapshot_ref,
    "remove-snapshots": _remove_snapshots,
    "remove-snapshot-ref": _remove_snapshot_ref,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "set-statistics": _set_statistics,
    "remove-statistics": _remove_statistics,
    "set-partition-statistics": _set_statistics,
    "remove-partition-statistics": _remove_statistics,
    "remove-partition-specs": _remove_specs,
    "remove-schemas": _remove_schemas,
    "add-encryption-key": _add_encryption_key,
    "remove-encryption-key": _remove_encryption_key,
}


def _add(draft: Draft, collection: str, id_key: str, item: Json, same: Callable[[Json, Json], bool]) -> None:
    """Add `item` under the next free id, or find the one that is there already."""
    for known in draft.metadata[collection]:
        if same(known, item):
            draft.last_added[collection] = known[id_key]
            return
    # Order 0 is kept for "not sorted".
    first = 1 if id_key == "order-id" else 0
    new_id = max([first, *(known[id_key] + 1 for known in draft.metadata[collection])])
    if id_key == "order-id" and not item["fields"]:
        new_id = UNSORTED_ORDER_ID
    draft.metadata[collection].append({**item, id_key: new_id})
    draft.last_added[collection] = new_id


def _known(draft: Draft, collection: str, id_key: str, id_: int) -> int:
    if all(item[id_key] != id_ for item in draft.metadata[collection]):
        raise BadRequestError(f"{id_key} {id_} is not among the {collection}")
    return id_


def _remove(draft: Draft, collection: str, id_key: str, ids: list[int], *, keep: int) -> None:
    if keep in ids:
        raise BadRequestError(f"the current one of the {collection} cannot be removed")
    draft.metadata[collection] = [item for item in draft.metadata[collection] if item[id_key] not in ids]


def _same_spec(one: Json, other: Json) -> bool:
    def essence(spec: Json) -> list[tuple[Any, ...]]:
        return [
            (item["name"], item["transform"], item.get("source-id"), tuple(item.get("source-ids", ())))
            for item in spec["fields"]
        ]

    return essence(one) == essence(other)

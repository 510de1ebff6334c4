"""Table metadata from one version to the next, on plain JSON.

Pure: time, ids and places come in as arguments, nothing given is changed, and whatever this module does not
know passes through. Whether the outcome is sound is for `validation` to say; who may ask is known above.
"""

from collections.abc import Sequence
from typing import Any

from bailiwick.catalog import requirements as requirement_checks
from bailiwick.catalog import schemas
from bailiwick.catalog.refusals import BadRequestError
from bailiwick.catalog.updates import FIRST_PARTITION_FIELD_ID, RESERVED_PROPERTIES, Draft, apply
from bailiwick.catalog.wire import Json

DEFAULT_FORMAT_VERSION = 2
FORMAT_VERSIONS = (1, 2, 3)

_LISTS = (
    "schemas",
    "partition-specs",
    "sort-orders",
    "snapshots",
    "statistics",
    "partition-statistics",
    "snapshot-log",
    "metadata-log",
)
_MAPS = ("properties", "refs")
_METADATA_LOG_LENGTH = 100
_METADATA_LOG_LENGTH_MAX = 1000
_DEFAULT_PROPERTIES = {"write.parquet.compression-codec": "zstd"}
"""What Iceberg writes into every new table; readers take another value where it is missing."""


def create(request: Json, *, uuid: str, location: str, now_ms: int) -> Json:
    """Metadata of the table that a `requests.CreateTable` describes, under ids of our own."""
    asked_for = dict(request.get("properties") or {})
    version = _format_version(asked_for.get("format-version"))
    fresh = schemas.fresh(request["schema"])
    properties = {key: value for key, value in asked_for.items() if key not in RESERVED_PROPERTIES}
    spec = request.get("partition-spec") or {"fields": []}
    order = request.get("write-order") or {"fields": []}
    updates: list[Json] = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "set-location", "location": location},
        {"action": "add-schema", "schema": fresh.schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {**spec, "fields": _fresh_spec_fields(spec["fields"], fresh)}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {**order, "fields": _resourced(order["fields"], fresh)}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": _DEFAULT_PROPERTIES | properties},
    ]
    return _applied(Draft(_empty(version), now_ms, is_new=True), updates)


def create_by_commit(updates: Sequence[Json], *, now_ms: int) -> Json:
    """Metadata of a table that was staged before and is now committed whole."""
    versions = [
        update["format-version"] for update in updates if update["action"] == "upgrade-format-version"
    ]
    version = versions[0] if versions else DEFAULT_FORMAT_VERSION
    return _applied(Draft(_empty(version), now_ms, is_new=True), updates)


def commit(
    base: Json, requirements: Sequence[Json], updates: Sequence[Json], *, now_ms: int, base_location: str
) -> Json | None:
    """The next version of `base`, which lies at `base_location`; None if the updates change nothing."""
    opened_base = opened(base)
    requirement_checks.check(opened_base, requirements)
    # A clock that stepped back must not make the log go back.
    now_ms = max(now_ms, base["last-updated-ms"])
    new = _applied(Draft(opened(base), now_ms), updates)
    if {**new, "last-updated-ms": 0} == {**opened_base, "last-updated-ms": 0}:
        return None
    entry = {"timestamp-ms": base["last-updated-ms"], "metadata-file": base_location}
    new["metadata-log"] = [*new["metadata-log"], entry][-_metadata_log_length(new) :]
    return new


def opened(metadata: Json) -> Json:
    """A copy whose collections are all there and may be changed, also if an old writer left some out."""
    draft = dict(metadata)
    if metadata["format-version"] == 1:
        _complete_version_1(draft)
    for key in _LISTS:
        draft[key] = list(metadata.get(key) or draft.get(key) or ())
    for key in _MAPS:
        draft[key] = dict(metadata.get(key) or {})
    if draft.get("current-snapshot-id") == -1:
        draft["current-snapshot-id"] = None
    current = draft.setdefault("current-snapshot-id", None)
    if "refs" not in metadata and current is not None:
        draft["refs"]["main"] = {"snapshot-id": current, "type": "branch"}
    return draft


def closed(metadata: Json) -> Json:
    """What is written to a file: the same, with the fields that older readers of its version expect."""
    final = dict(metadata)
    version, current = metadata["format-version"], metadata["current-snapshot-id"]
    for key in ("schema", "partition-spec", "current-snapshot-id"):
        final.pop(key, None)
    if current is not None or version < 3:
        final["current-snapshot-id"] = -1 if current is None else current
    if version == 1:
        final.pop("last-sequence-number", None)
        final["schema"] = _by_id(metadata, "schemas", "schema-id", "current-schema-id")
        final["partition-spec"] = _by_id(metadata, "partition-specs", "spec-id", "default-spec-id")["fields"]
    return final


def _applied(draft: Draft, updates: Sequence[Json]) -> Json:
    for update in updates:
        apply(draft, update)
    draft.metadata["last-updated-ms"] = draft.now_ms
    draft.metadata["snapshot-log"] = _trimmed_log(draft)
    return draft.metadata


def _trimmed_log(draft: Draft) -> list[Json]:
    """The history without snapshots that were current only inside this commit, and without gaps."""
    known = {snapshot["snapshot-id"] for snapshot in draft.metadata["snapshots"]}
    passing = (draft.made_current & draft.added_snapshots.keys()) - {draft.metadata["current-snapshot-id"]}
    log: list[Json] = []
    for entry in draft.metadata["snapshot-log"]:
        if entry["snapshot-id"] not in known and draft.snapshots_removed:
            # What lies before a removed snapshot would seem to have lasted until the next one.
            log.clear()
        elif entry["snapshot-id"] not in passing:
            log.append(entry)
    return log


def _empty(version: int) -> Json:
    metadata: Json = {
        "format-version": version,
        "table-uuid": None,
        "location": None,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": None,
        "default-spec-id": None,
        "last-partition-id": FIRST_PARTITION_FIELD_ID - 1,
        "default-sort-order-id": None,
        "current-snapshot-id": None,
    }
    if version >= 3:
        metadata["next-row-id"] = 0
    return metadata | {key: [] for key in _LISTS} | {key: {} for key in _MAPS}


def _complete_version_1(draft: Json) -> None:
    if "schemas" not in draft:
        schema = draft["schema"]
        draft["schemas"] = [{**schema, "schema-id": schema.get("schema-id", 0)}]
        draft["current-schema-id"] = schema.get("schema-id", 0)
    if "partition-specs" not in draft:
        fields = [
            {"field-id": FIRST_PARTITION_FIELD_ID + index, **item}
            for index, item in enumerate(draft["partition-spec"])
        ]
        draft["partition-specs"], draft["default-spec-id"] = [{"spec-id": 0, "fields": fields}], 0
    if "last-partition-id" not in draft:
        ids = [item["field-id"] for spec in draft["partition-specs"] for item in spec["fields"]]
        draft["last-partition-id"] = max(ids, default=FIRST_PARTITION_FIELD_ID - 1)
    if "sort-orders" not in draft:
        draft["sort-orders"], draft["default-sort-order-id"] = [{"order-id": 0, "fields": []}], 0


def _fresh_spec_fields(fields: list[Json], fresh: schemas.Fresh) -> list[Json]:
    return [
        {**item, "field-id": FIRST_PARTITION_FIELD_ID + index}
        for index, item in enumerate(_resourced(fields, fresh))
    ]


def _resourced(fields: list[Json], fresh: schemas.Fresh) -> list[Json]:
    """Partition or sort fields, pointing at the new ids of their columns."""
    try:
        resourced = [{**item, "source-id": fresh.ids[item["source-id"]]} for item in fields]
        for item in resourced:
            if "source-ids" in item:
                item["source-ids"] = [fresh.ids[old] for old in item["source-ids"]]
    except (KeyError, TypeError) as error:
        raise BadRequestError("a partition or sort field names a column that does not exist") from error
    return resourced


def _format_version(text: str | None) -> int:
    if text is None:
        return DEFAULT_FORMAT_VERSION
    if text not in {str(version) for version in FORMAT_VERSIONS}:
        raise BadRequestError("format-version must be 1, 2 or 3")
    return int(text)


def _metadata_log_length(metadata: Json) -> int:
    text = metadata["properties"].get("write.metadata.previous-versions-max", str(_METADATA_LOG_LENGTH))
    return min(max(1, int(text)), _METADATA_LOG_LENGTH_MAX) if text.isdecimal() else _METADATA_LOG_LENGTH


def _by_id(metadata: Json, collection: str, id_key: str, current_key: str) -> Any:
    return next(item for item in metadata[collection] if item[id_key] == metadata[current_key])

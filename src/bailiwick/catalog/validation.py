"""Whether metadata is sound, so that every reader can open it. Asked before a pointer moves.

These are the checks that Iceberg's own readers make when they load a table: what passes here loads there.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bailiwick.catalog import schemas, shapes, types
from bailiwick.catalog.refusals import BadRequestError
from bailiwick.catalog.schemas import Field
from bailiwick.catalog.wire import Json

CLOCK_SKEW_MS = 60_000
"""How far timestamps may go back, or be ahead of the newest: what Iceberg's readers accept."""

_WHOLE_NUMBER = re.compile(r"\d{1,9}\Z")
_NUMBER_PROPERTIES = (
    "write.metadata.previous-versions-max",
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
)
_VIEW_HISTORY = "version.history.num-entries"


def check_table(metadata: Json) -> None:
    """Return if `metadata`, as `metadata.opened` has it, is a table's. Raises BadRequestError."""
    shapes.matched(shapes.TableMetadata, metadata)
    schema = _one(metadata["schemas"], "schema-id", metadata["current-schema-id"], "current schema")
    default_spec = _one(
        metadata["partition-specs"], "spec-id", metadata["default-spec-id"], "default partition spec"
    )
    order = _one(metadata["sort-orders"], "order-id", metadata["default-sort-order-id"], "default sort order")
    fields = schemas.fields_of(schema)
    if max(fields, default=0) > metadata["last-column-id"]:
        raise BadRequestError("last-column-id is behind the schema")
    for spec in metadata["partition-specs"]:
        _check_spec_names(spec, fields)
    for item in default_spec["fields"]:
        _check_source(item, fields, "partition")
    for item in order["fields"]:
        _check_source(item, fields, "sort")
    _check_numbers(metadata)
    _check_snapshots(metadata)
    _check_logs(metadata)


def check_view(metadata: Json) -> None:
    """Return if `metadata` is a view's. Raises BadRequestError."""
    shapes.matched(shapes.ViewMetadata, metadata)
    version = _one(metadata["versions"], "version-id", metadata["current-version-id"], "current version")
    _one(metadata["schemas"], "schema-id", version["schema-id"], "schema of the current version")
    for item in metadata["versions"]:
        dialects = [representation["dialect"].lower() for representation in item["representations"]]
        if len(set(dialects)) != len(dialects):
            raise BadRequestError("a view version has one query for each dialect")
    length = metadata.get("properties", {}).get(_VIEW_HISTORY, "1")
    if not _WHOLE_NUMBER.match(length) or int(length) < 1:
        raise BadRequestError(f"property {_VIEW_HISTORY} must be a positive whole number")


def _one(items: Sequence[Json], key: str, wanted: Any, what: str) -> Json:
    ids = [item[key] for item in items if key in item]
    if len(ids) != len(items) or len(set(ids)) != len(ids):
        raise BadRequestError(f"every {key} must be there, and only once")
    for item in items:
        if item[key] == wanted:
            return item
    raise BadRequestError(f"the {what} does not exist")


def _check_spec_names(spec: Json, fields: Mapping[int, Field]) -> None:
    names = [item["name"] for item in spec["fields"]]
    if len(set(names)) != len(names):
        raise BadRequestError("a partition spec names two fields alike")
    if any("field-id" not in item for item in spec["fields"]):
        raise BadRequestError("every partition field needs its id")
    by_path = {field.path: field.id for field in fields.values()}
    for item in spec["fields"]:
        # Readers refuse a table where a partition is called like a column that it does not come from.
        if item["source-id"] in fields and by_path.get(item["name"], item["source-id"]) != item["source-id"]:
            raise BadRequestError(
                f"{item['name'][:100]!r} is the name of a partition field and of another column"
            )


def _check_source(item: Json, fields: Mapping[int, Field], what: str) -> None:
    if item["transform"] == "void":
        return
    source = fields.get(item["source-id"])
    if source is None:
        raise BadRequestError(f"the column of a {what} field does not exist")
    if not source.is_primitive or not types.transforms(item["transform"], source.type):
        raise BadRequestError(f"{item['transform']} cannot be taken of column {source.path[:100]!r}")
    while source.parent is not None:
        source = fields[source.parent]
        if source.type["type"] != "struct":
            raise BadRequestError(f"a {what} field cannot come from inside a list or map")


def _check_numbers(metadata: Json) -> None:
    version = metadata["format-version"]
    if version == 1 and metadata.get("last-sequence-number", 0) != 0:
        raise BadRequestError("format version 1 has no sequence numbers")
    if version >= 2 and "last-sequence-number" not in metadata:
        raise BadRequestError("last-sequence-number is missing")
    if version >= 3 and "next-row-id" not in metadata:
        raise BadRequestError("next-row-id is missing")
    for key in _NUMBER_PROPERTIES:
        value = metadata["properties"].get(key)
        if value is not None and not _WHOLE_NUMBER.match(value):
            raise BadRequestError(f"property {key} must be a whole number")


def _check_snapshots(metadata: Json) -> None:
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in metadata["snapshots"]}
    if len(snapshots) != len(metadata["snapshots"]):
        raise BadRequestError("a snapshot is there twice")
    schema_ids = {schema["schema-id"] for schema in metadata["schemas"]}
    for snapshot in snapshots.values():
        if snapshot.get("schema-id", metadata["current-schema-id"]) not in schema_ids:
            raise BadRequestError("the schema of a snapshot does not exist")
        if snapshot.get("sequence-number", 0) > metadata.get("last-sequence-number", 0):
            raise BadRequestError("a snapshot is ahead of last-sequence-number")
        if snapshot.get("first-row-id") is not None and snapshot.get("added-rows") is None:
            raise BadRequestError("a snapshot with first-row-id needs added-rows")
    if any(reference["snapshot-id"] not in snapshots for reference in metadata["refs"].values()):
        raise BadRequestError("a ref names a snapshot that does not exist")
    current, main = metadata["current-snapshot-id"], metadata["refs"].get("main")
    if current is not None and current not in snapshots:
        raise BadRequestError("the current snapshot does not exist")
    if main is not None and (main["snapshot-id"] != current or main["type"] != "branch"):
        raise BadRequestError("main is not the current snapshot")


def _check_logs(metadata: Json) -> None:
    for log in ("snapshot-log", "metadata-log"):
        times = [entry["timestamp-ms"] for entry in metadata[log]] + [metadata["last-updated-ms"]]
        if any(later < earlier - CLOCK_SKEW_MS for earlier, later in itertools.pairwise(times)):
            raise BadRequestError(
                f"the times in {log} are out of order: do the clocks of gateway and engines agree?"
            )

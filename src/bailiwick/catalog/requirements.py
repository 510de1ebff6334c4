"""What a writer believed about a table when it prepared its commit, checked against what is so now.

Pure. Shapes were checked before (`requests.CommitTable`).
"""

from collections.abc import Sequence
from typing import Any

from bailiwick.catalog.refusals import BadRequestError, CommitFailedError
from bailiwick.catalog.wire import Json

_FIELDS = {
    "assert-last-assigned-field-id": ("last-assigned-field-id", "last-column-id"),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id"),
    "assert-last-assigned-partition-id": ("last-assigned-partition-id", "last-partition-id"),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id"),
}


def creates(requirements: Sequence[Json]) -> bool:
    """Whether the commit makes a new table. Raises BadRequestError if it also asks for something of it."""
    kinds = {requirement["type"] for requirement in requirements}
    if "assert-create" in kinds and len(kinds) > 1:
        raise BadRequestError("assert-create goes with no other requirement")
    return "assert-create" in kinds


def check(metadata: Json, requirements: Sequence[Json]) -> None:
    """Return if every one holds. Raises CommitFailedError for the first that does not."""
    for requirement in requirements:
        match requirement["type"]:
            case "assert-table-uuid":
                _equal("the table", metadata["table-uuid"].lower(), requirement["uuid"].lower())
            case "assert-view-uuid":
                _equal("the view", metadata["view-uuid"].lower(), requirement["uuid"].lower())
            case "assert-ref-snapshot-id":
                reference = metadata.get("refs", {}).get(requirement["ref"], {})
                _equal(
                    f"ref {requirement['ref'][:100]}",
                    reference.get("snapshot-id"),
                    requirement.get("snapshot-id"),
                )
            case "assert-create":
                raise CommitFailedError("Requirement failed: the table already exists")
            case kind if kind in _FIELDS:
                asserted, actual = _FIELDS[kind]
                _equal(actual, metadata[actual], requirement[asserted])
            case kind:
                raise BadRequestError(f"unknown requirement {kind[:60]!r}")


def _equal(what: str, is_now: Any, expected: Any) -> None:
    if is_now != expected:
        raise CommitFailedError(f"Requirement failed: {what} has changed")

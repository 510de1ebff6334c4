"""Which privileges a commit needs, by what its updates really do.

Pure but for what a snapshot does to the rows, which it is handed a way to find out. Each kind of update is in
one table, and one that is not there is refused. A snapshot is measured against what its branch showed before
the commit, never against the parent that it names or the operation that it claims.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bailiwick.catalog import schemas
from bailiwick.catalog.effects import Effect
from bailiwick.catalog.refusals import BadRequestError
from bailiwick.catalog.updates import MAIN
from bailiwick.catalog.wire import Json
from bailiwick.policy.model import Privilege

Measure = Callable[[Json | None, Json], Effect]
"""What changes from one snapshot, None for an empty table, to another."""


@dataclass(frozen=True, slots=True)
class Need:
    """One of these privileges, whichever. Several needs of a commit must all be met."""

    any_of: tuple[Privilege, ...]


INSERT: Final = Need((Privilege.INSERT,))
DELETE: Final = Need((Privilege.DELETE,))
ALTER: Final = Need((Privilege.ALTER,))
REWRITE: Final = Need((Privilege.UPDATE, Privilege.DELETE))
"""Files go and others come: rows changed, rows gone, or both. Only the statement knows which."""
ANY_CHANGE: Final = Need((Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE))
"""A snapshot in which no file comes or goes, such as that of an INSERT of no rows."""
STATISTICS: Final = Need((Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE, Privilege.ALTER))

HARMLESS_WHEN_RESTRICTED: Final = frozenset({INSERT, ANY_CHANGE, STATISTICS})
"""What one may need who does not see all of a table: nothing that touches rows or columns they do not see."""

_OF_KIND: Final[Mapping[str, Need | None]] = {
    # These two are allowed to repeat what is so already, and nothing else: `updates` sees to that.
    "assign-uuid": None,
    "set-location": None,
    "upgrade-format-version": ALTER,
    "add-schema": ALTER,
    "set-current-schema": ALTER,
    "add-spec": ALTER,
    "set-default-spec": ALTER,
    "add-sort-order": ALTER,
    "set-default-sort-order": ALTER,
    "set-properties": ALTER,
    "remove-properties": ALTER,
    "remove-partition-specs": ALTER,
    "remove-schemas": ALTER,
    "add-encryption-key": ALTER,
    "remove-encryption-key": ALTER,
    "remove-snapshots": DELETE,
    "set-statistics": STATISTICS,
    "remove-statistics": STATISTICS,
    "set-partition-statistics": STATISTICS,
    "remove-partition-statistics": STATISTICS,
}


def needs(old: Json, updates: Sequence[Json], measure: Measure) -> tuple[Need, ...]:
    """Each need once. `old` is the metadata before, as `metadata.opened` has it."""
    course = _Course(
        {snapshot["snapshot-id"]: snapshot for snapshot in old["snapshots"]},
        {name: reference["snapshot-id"] for name, reference in old["refs"].items()},
        measure,
    )
    found: dict[Need, None] = {}
    for update in updates:
        found.update(dict.fromkeys(_needs(course, update)))
    found.update(dict.fromkeys(course.unattached()))
    return tuple(found)


def created(updates: Sequence[Json], measure: Measure) -> None:
    """Return if a new table may begin with these snapshots. Raises BadRequestError for files of another."""
    needs({"snapshots": [], "refs": {}}, updates, measure)


def columns_lost(old: Json, new: Json) -> frozenset[tuple[int, str]]:
    """Id and name of each column that the current schema has no longer, or by another name; and of those that
    no schema knows any more, because a rule may know a column by the name that it had."""
    gone = _columns(old, is_current=True) - _columns(new, is_current=True)
    return gone | (_columns(old) - _columns(new))


def _columns(metadata: Json, *, is_current: bool = False) -> frozenset[tuple[int, str]]:
    current = metadata["current-schema-id"]
    return frozenset(
        (field.id, field.path)
        for schema in metadata["schemas"]
        if not is_current or schema["schema-id"] == current
        for field in schemas.fields_of(schema).values()
    )


def _needs(course: "_Course", update: Json) -> Iterator[Need]:
    match update["action"]:
        case "add-snapshot":
            course.add(update["snapshot"])
        case "set-snapshot-ref" if update["type"] == "tag":
            yield ALTER
        case "set-snapshot-ref":
            yield from course.move(update["ref-name"], update["snapshot-id"])
        case "remove-snapshot-ref":
            course.heads.pop(update["ref-name"], None)
            yield DELETE
        case kind if kind in _OF_KIND:
            need = _OF_KIND[kind]
            if need is not None:
                yield need
        case kind:
            raise BadRequestError(f"unknown update {kind[:60]!r}")


@dataclass(slots=True)
class _Course:
    """Where the branches of a table are, while its updates are followed one by one."""

    snapshots: dict[int, Json]
    heads: dict[str, int]
    measure: Measure
    added: set[int] = field(default_factory=set)
    measured: set[int] = field(default_factory=set)

    def add(self, snapshot: Json) -> None:
        self.snapshots[snapshot["snapshot-id"]] = snapshot
        self.added.add(snapshot["snapshot-id"])

    def move(self, branch: str, snapshot_id: int) -> Iterator[Need]:
        head, target = self.heads.get(branch), self.snapshots.get(snapshot_id)
        if target is None:
            raise BadRequestError("a ref needs a snapshot that exists")
        self.heads[branch] = snapshot_id
        if head == snapshot_id:
            # How long its snapshots are kept, and no more.
            yield ALTER
            return
        if head is None and branch != MAIN:
            yield ALTER
        if snapshot_id not in self.added and not self._follows(target, head):
            if head is not None or branch == MAIN:
                yield DELETE
            return
        before = head if head is not None or branch == MAIN else target.get("parent-snapshot-id")
        yield from self._rows(before, target)

    def unattached(self) -> Iterator[Need]:
        """Of snapshots that no branch shows yet: what they do to the one that they name as their parent."""
        for snapshot_id in self.added - self.measured:
            snapshot = self.snapshots[snapshot_id]
            yield from self._rows(snapshot.get("parent-snapshot-id"), snapshot)

    def _rows(self, before: int | None, target: Json) -> Iterator[Need]:
        self.measured.add(target["snapshot-id"])
        effect = self.measure(None if before is None else self.snapshots.get(before), target)
        match effect.adds, effect.removes:
            case True, False:
                yield INSERT
            case False, True:
                yield DELETE
            case True, True:
                yield REWRITE
            case _:
                yield ANY_CHANGE

    def _follows(self, snapshot: Json, head: int | None) -> bool:
        """Whether one gets from `snapshot` back to `head`, parent by parent."""
        if head is None:
            return False
        seen: set[int] = set()
        parent = snapshot.get("parent-snapshot-id")
        while parent is not None and parent not in seen:
            if parent == head:
                return True
            seen.add(parent)
            parent = self.snapshots.get(parent, {}).get("parent-snapshot-id")
        return False

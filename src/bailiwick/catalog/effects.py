"""What a snapshot does to a table's rows, seen from its manifests and not from what it says of itself.

A writer names the operation of its snapshot, and nothing stops it from calling a deletion an append. So the
files before and after are compared. Pure but for the manifests, which it is handed a way to read; it asks for
those that are not in both snapshots only, because what is in both was looked at when it came.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from bailiwick.catalog.locations import is_within
from bailiwick.catalog.manifests import FILES_MAX, FileEntry, Manifest, Status
from bailiwick.catalog.refusals import BadRequestError

ReadEntries = Callable[[Manifest, bool], Iterable[FileEntry]]
"""The entries of a manifest, whole or only what and where they are."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Rows that come, rows that go. A file that was written anew without a row is both."""

    adds: bool = False
    removes: bool = False


def effect(
    before: Sequence[Manifest], after: Sequence[Manifest], entries: ReadEntries, *, location: str
) -> Effect:
    """What changes between two snapshots. Raises BadRequestError for files that are not the table's own."""
    for manifest in after:
        if not is_within(location, manifest.path):
            raise BadRequestError("a manifest must lie in the table's own location")
    was, becomes = _by_path(before), _by_path(after)
    kept = {path for path, manifest in becomes.items() if path in was and _same(was[path], manifest)}
    gone = [manifest for path, manifest in was.items() if path not in kept]
    new = [manifest for path, manifest in becomes.items() if path not in kept]
    files = _Files(entries, new)
    files.check_paths(location)
    if not files.existing:
        lost = bool(_Files(entries, gone).live)
    else:
        lost = _lost(_Files(entries, gone, whole=True).live, _Files(entries, new, whole=True).existing)
    return Effect(adds=files.adds_data, removes=lost or files.adds_deletes)


def _lost(were: set[FileEntry], remain: set[FileEntry]) -> bool:
    if not remain <= were:
        # Manifests are rewritten now and then. What they take over must be what was there, to the last bound:
        # else a file could come from elsewhere, or be hidden from those who look for its rows.
        raise BadRequestError("a manifest claims files of an earlier snapshot that were not in it")
    return bool(were - remain)


class _Files:
    """The files of some manifests, by what becomes of them."""

    def __init__(self, entries: ReadEntries, manifests: Sequence[Manifest], *, whole: bool = False) -> None:
        self.added: set[FileEntry] = set()
        self.existing: set[FileEntry] = set()
        count = 0
        for manifest in manifests:
            for entry in entries(manifest, whole):
                count += 1
                if count > FILES_MAX:
                    raise BadRequestError(f"a commit touches at most {FILES_MAX} files")
                self._put(entry)

    @property
    def live(self) -> set[FileEntry]:
        """Those that readers of these manifests read."""
        return self.added | self.existing

    @property
    def adds_data(self) -> bool:
        return any(not entry.is_delete_file for entry in self.added)

    @property
    def adds_deletes(self) -> bool:
        return any(entry.is_delete_file for entry in self.added)

    def check_paths(self, location: str) -> None:
        for entry in self.live:
            if not is_within(location, entry.path):
                raise BadRequestError("a data file must lie in the table's own location")

    def _put(self, entry: FileEntry) -> None:
        # Whether it was added then or was there already makes no difference to what it is.
        known = replace(entry, status=Status.EXISTING)
        match entry.status:
            case Status.ADDED:
                self.added.add(known)
            case Status.EXISTING:
                self.existing.add(known)
            case Status.DELETED:
                pass


def _by_path(manifests: Sequence[Manifest]) -> dict[str, Manifest]:
    return {manifest.path: manifest for manifest in manifests}


def _same(was: Manifest, becomes: Manifest) -> bool:
    """Whether readers do with it what they did before. Row ids may be given to those that had none."""
    if was.first_row_id is None:
        becomes = replace(becomes, first_row_id=None)
    return was == becomes

"""What a snapshot does, found out from the manifests on disk. Blocks; for one commit, in one thread."""

from collections.abc import Iterator

from bailiwick.catalog import manifests
from bailiwick.catalog.effects import Effect, effect
from bailiwick.catalog.files import MetadataFiles
from bailiwick.catalog.locations import is_within
from bailiwick.catalog.manifests import FileEntry, Manifest
from bailiwick.catalog.refusals import BadRequestError, DamagedMetadataError
from bailiwick.catalog.wire import Json


class Measuring:
    """Remembers the lists that it has read, not the manifests: one commit asks for each of these once."""

    def __init__(self, files: MetadataFiles, location: str) -> None:
        self._files = files
        self._location = location
        self._lists: dict[str, tuple[Manifest, ...]] = {}

    def measure(self, before: Json | None, after: Json) -> Effect:
        """Raises BadRequestError for what cannot be read, and for files that are not the table's own."""
        return effect(
            () if before is None else self._manifests(before),
            self._manifests(after),
            self._entries,
            location=self._location,
        )

    def _manifests(self, snapshot: Json) -> tuple[Manifest, ...]:
        path = snapshot.get("manifest-list")
        if path is None:
            raise BadRequestError("a snapshot needs its manifest list")
        if path not in self._lists:
            self._lists[path] = manifests.manifest_list(self._read(path))
        return self._lists[path]

    def _entries(self, manifest: Manifest, whole: bool) -> Iterator[FileEntry]:
        return manifests.entries(manifest, self._read(manifest.path), whole=whole)

    def _read(self, path: str) -> bytes:
        if not is_within(self._location, path):
            raise BadRequestError("a manifest must lie in the table's own location")
        try:
            return self._files.read(path)
        except DamagedMetadataError as error:
            raise BadRequestError("a manifest of the snapshot cannot be read") from error

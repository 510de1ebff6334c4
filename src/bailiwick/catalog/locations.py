"""Where tables and views live, and which paths are their own.

Every object has a directory of its own in the warehouse, `<schema>/<name>-<part of its uuid>`. Directories of
schemas never hold a hyphen and those of objects always do, so no object can ever lie inside another, whatever
people call their schemas. Pure: nothing here looks at the disk.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bailiwick.catalog.refusals import BadRequestError
from bailiwick.catalog.wire import Json
from bailiwick.names import TableName

PATH_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
_REFUSED_PROPERTIES = ("write.location-provider.impl",)
"""Would have the engine load a class of the writer's choice."""

_ODD = re.compile(r"[^A-Za-z0-9_]")
_ROOT = re.compile(r"(?:[A-Za-z0-9_]{1,64}/){1,16}[A-Za-z0-9_]{1,64}-[0-9a-f]{16}\Z")
_COMPONENT_LENGTH_MAX = 64
_UUID_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Locations:
    """The layout of one warehouse on a local disk."""

    warehouse: Path

    @property
    def _prefix(self) -> str:
        # One slash, as Hadoop spells it: engines write paths in that form, and we compare them as text.
        return f"file:{self.warehouse}/"

    def of(self, name: TableName, uuid: str) -> str:
        """The one place that a new object of this name and uuid may have."""
        directories = [_component(part) for part in name.parts]
        return f"{self._prefix}{'/'.join(directories)}-{uuid.replace('-', '').lower()[:_UUID_LENGTH]}"

    def is_root(self, location: str) -> bool:
        """Whether this could be the directory of an object."""
        return (
            location.startswith(self._prefix) and _ROOT.match(location.removeprefix(self._prefix)) is not None
        )

    def root_of(self, path: str) -> str | None:
        """The object's directory that `path` lies in, or None if it lies in none."""
        if not path.startswith(self._prefix):
            return None
        parts = path.removeprefix(self._prefix).split("/")
        for depth, part in enumerate(parts, start=1):
            if "-" in part:
                root = self._prefix + "/".join(parts[:depth])
                return root if self.is_root(root) and is_within(root, path) else None
        return None

    def path_of(self, location: str) -> Path:
        """The file that a location stands for. Raises ValueError unless it lies in an object's directory."""
        if self.root_of(location) is None:
            raise ValueError("the location is not in the warehouse")
        return Path(location.removeprefix("file:"))


def is_within(location: str, path: str) -> bool:
    """Whether `path` is `location` or lies below it, by its text alone and without any detour."""
    if path == location:
        return True
    below = path.removeprefix(f"{location}/").removesuffix("/")
    return path.startswith(f"{location}/") and not {"", ".", ".."} & set(below.split("/"))


def check_paths(metadata: Json) -> None:
    """Return if all that the table refers to directly lies in its own directory. Raises BadRequestError."""
    location, properties = metadata["location"], metadata.get("properties", {})
    for key in _REFUSED_PROPERTIES:
        if key in properties:
            raise BadRequestError(f"property {key} cannot be set here")
    for what, path in _paths(metadata):
        if not is_within(location, path):
            raise BadRequestError(f"{what} must lie in the table's own location")


def metadata_directory(metadata: Json) -> str:
    """Where the object's metadata files go."""
    chosen = metadata.get("properties", {}).get("write.metadata.path")
    return str(chosen).removesuffix("/") if chosen else f"{metadata['location']}/metadata"


def _paths(metadata: Json) -> Iterator[tuple[str, str]]:
    for key in PATH_PROPERTIES:
        if key in metadata.get("properties", {}):
            yield f"property {key}", metadata["properties"][key]
    for snapshot in metadata.get("snapshots", ()):
        if "manifest-list" in snapshot:
            yield "a manifest list", snapshot["manifest-list"]
        for manifest in snapshot.get("manifests", ()):
            yield "a manifest", manifest
    for key in ("statistics", "partition-statistics"):
        for file in metadata.get(key, ()):
            yield "a statistics file", file["statistics-path"]


def _component(part: str) -> str:
    """A directory's name that reads like `part`. Two names may share one: uuids keep objects apart."""
    return _ODD.sub("_", part)[:_COMPONENT_LENGTH_MAX]

"""The catalog: namespaces, tables and views, over an immutable picture in memory and with one writer.

Every method may be called from any thread. Reads cost no I/O, except for metadata that is not in memory;
everything else may block. Who may do what is decided by the caller; that a writer may *still* write is asked
of its `Fence`, inside the critical section and right before the change.
"""

import asyncio
import uuid as uuids
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bailiwick.catalog import wire
from bailiwick.catalog.backend import (
    CatalogBackend,
    CreateNamespace,
    Drop,
    DropNamespace,
    Entry,
    Kind,
    Rename,
    SetNamespaceProperties,
)
from bailiwick.catalog.commits import Commits, Fence, Loaded, no_fence
from bailiwick.catalog.contents import Contents
from bailiwick.catalog.files import MetadataFiles
from bailiwick.catalog.idempotency import Idempotency
from bailiwick.catalog.locations import Locations
from bailiwick.catalog.measuring import Measuring
from bailiwick.catalog.refusals import AlreadyExistsError, BadRequestError, NamespaceNotEmptyError
from bailiwick.catalog.state import CatalogState
from bailiwick.clock import Clock, wall
from bailiwick.names import Namespace, TableName, spelled
from bailiwick.telemetry.logs import logger

CACHE_BYTES_MAX = 256 << 20


class CatalogService:
    """`commits` makes and changes tables and views; the rest is here."""

    def __init__(
        self,
        backend: CatalogBackend,
        warehouse: Path,
        *,
        now: Clock = wall,
        new_uuid: Callable[[], uuids.UUID] = uuids.uuid4,
        cache_bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        self._locations = Locations(warehouse.resolve())
        self._files = MetadataFiles(self._locations)
        self._state = CatalogState(backend, self._files, cache_bytes_max=cache_bytes_max)
        self._log = logger(__name__)
        self.idempotency = Idempotency(backend, now=now)
        self.commits = Commits(self._state, self._files, self._locations, now=now, new_uuid=new_uuid)

    @property
    def version(self) -> int:
        """Goes up with every change: a key for whatever is remembered about the catalog."""
        return self._state.contents.version

    @property
    def revision(self) -> int:
        """Up to which change of the backend, by whomever, this is known to be complete."""
        return self._state.revision

    async def catch_up(self) -> None:
        """Take in what other gateways have changed."""
        await asyncio.to_thread(self._state.catch_up)

    @property
    def contents(self) -> Contents:
        """The whole catalog of this moment, immutable. Ask once for all that belongs together."""
        return self._state.contents

    def namespaces(self, parent: Namespace = ()) -> tuple[Namespace, ...]:
        """Those right below `parent`. Raises NoSuchNamespaceError."""
        contents = self._state.contents
        if parent:
            contents.namespace(parent)
        return contents.children(parent)

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """Raises NoSuchNamespaceError."""
        return self._state.contents.namespace(namespace).properties

    def tables(self, namespace: Namespace | None = None) -> tuple[TableName, ...]:
        """Of one namespace, or of all. Raises NoSuchNamespaceError."""
        return self._state.contents.names(Kind.TABLE, namespace)

    def views(self, namespace: Namespace | None = None) -> tuple[TableName, ...]:
        """Of one namespace, or of all. Raises NoSuchNamespaceError."""
        return self._state.contents.names(Kind.VIEW, namespace)

    def find(self, name: TableName, kind: Kind = Kind.TABLE) -> Entry:
        """Where the table or view is now. Raises NoSuchTableError or NoSuchViewError."""
        return self._state.contents.entry(name, kind)

    def load(self, name: TableName, kind: Kind = Kind.TABLE) -> Loaded:
        """Blocks if the metadata must be read from its file. Raises as `find` does."""
        entry = self.find(name, kind)
        return Loaded(name, entry, self._state.metadata(entry))

    def load_nowait(self, name: TableName, kind: Kind = Kind.TABLE) -> Loaded | None:
        """None if the metadata is not in memory. Raises as `find` does."""
        entry = self.find(name, kind)
        data = self._state.metadata_nowait(entry)
        return None if data is None else Loaded(name, entry, data)

    def metadata_at(self, entry: Entry) -> bytes:
        """The metadata that some table or view had or has, whatever it is called. Blocks.

        Raises DamagedMetadataError if it is not there any more.
        """
        return self._state.metadata(entry)

    def measuring(self, location: str) -> Measuring:
        """A look at the manifests of the table at `location`."""
        return Measuring(self._files, location)

    def create_namespace(
        self, namespace: Namespace, properties: Mapping[str, str] | None = None, *, fence: Fence = no_fence
    ) -> None:
        """Raises AlreadyExistsError, or NoSuchNamespaceError for its parent."""
        _check_namespace_properties(properties or {})
        with self._state.writing() as contents:
            if namespace in contents.namespaces:
                raise AlreadyExistsError(f"Namespace already exists: {spelled(namespace)}")
            if namespace[:-1]:
                contents.namespace(namespace[:-1])
            self._state.apply([CreateNamespace(namespace, properties or {})], fence())

    def update_namespace(
        self,
        namespace: Namespace,
        *,
        removals: Sequence[str] = (),
        updates: Mapping[str, str],
        fence: Fence = no_fence,
    ) -> tuple[str, ...]:
        """Set and remove properties. Gives the keys that were there and now are not."""
        _check_namespace_properties(updates)
        if set(removals) & set(updates):
            raise BadRequestError("a property cannot be set and removed at once")
        with self._state.writing() as contents:
            properties = dict(contents.namespace(namespace).properties)
            removed = tuple(key for key in dict.fromkeys(removals) if properties.pop(key, None) is not None)
            self._state.apply([SetNamespaceProperties(namespace, properties | dict(updates))], fence())
        return removed

    def drop_namespace(self, namespace: Namespace, *, fence: Fence = no_fence) -> None:
        """Raises NamespaceNotEmptyError if anything is in it."""
        with self._state.writing() as contents:
            if contents.namespace(namespace).objects or contents.children(namespace):
                raise NamespaceNotEmptyError(f"Namespace is not empty: {spelled(namespace)}")
            self._state.apply([DropNamespace(namespace)], fence())

    def drop(
        self, name: TableName, kind: Kind = Kind.TABLE, *, purge: bool = False, fence: Fence = no_fence
    ) -> None:
        """Forget the table or view. With `purge`, and for views, its directory is gone when this returns."""
        with self._state.writing() as contents:
            entry = contents.entry(name, kind)
            if purge:
                self._check_purge(entry)
            self._state.apply([Drop(name, entry)], fence())
            self._state.forget(entry.metadata_location)
        root = self._locations.root_of(entry.metadata_location)
        if root is not None and (purge or kind is Kind.VIEW):
            self._purge(root, name)

    def rename(self, name: TableName, new_name: TableName, kind: Kind, *, fence: Fence = no_fence) -> None:
        """The files stay where they are: a table's place is not its name."""
        with self._state.writing() as contents:
            entry = contents.entry(name, kind)
            contents.check_free(new_name)
            self._state.apply([Rename(name, new_name, entry)], fence())

    def _purge(self, root: str, name: TableName) -> None:
        try:
            self._files.purge(root)
        except OSError as error:
            # The table is gone already; that some of its files are not is no failure of the drop.
            self._log.warning("purge_incomplete", table=str(name), reason=error.strerror)

    def _check_purge(self, entry: Entry) -> None:
        properties = wire.parsed_object(self._state.metadata(entry)).get("properties", {})
        if properties.get("gc.enabled", "true").lower() == "false":
            raise BadRequestError("the table says that its files must be kept (gc.enabled is false)")


def _check_namespace_properties(properties: Mapping[str, str]) -> None:
    if "location" in properties:
        raise BadRequestError("schemas have their place in the warehouse: no location can be given")

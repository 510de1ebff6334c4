"""How tables and views come to be and change: the only writer of metadata files.

A commit is prepared (requirements, updates, validation, a new metadata file) and then made visible by one
change of pointers, all inside the state's critical section. What was prepared and not made visible is removed
again. That a writer may still write is asked of its `Fence` at the last moment.
"""

import uuid as uuids
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bailiwick.catalog import metadata as tables
from bailiwick.catalog import requirements as requirement_checks
from bailiwick.catalog import validation, views, wire
from bailiwick.catalog.backend import Create, Entry, Kind, Swap
from bailiwick.catalog.contents import Contents
from bailiwick.catalog.files import FILE_BYTES_MAX, MetadataFiles, version_of
from bailiwick.catalog.locations import Locations, check_paths, is_within, metadata_directory
from bailiwick.catalog.refusals import BadRequestError, BaseMovedError, CatalogError, CommitFailedError
from bailiwick.catalog.state import CatalogState, Witness
from bailiwick.catalog.wire import Json
from bailiwick.clock import Clock
from bailiwick.names import TableName

STAGED_MAX = 10_000

Fence = Callable[[], Witness | None]
"""Returns if the writer may still write, with a witness if it has one; raises CatalogError if it may not."""


def no_fence() -> None:
    """For writers whom nothing can overtake."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table or view as it is now; `data` is its metadata as JSON, ready to be sent."""

    name: TableName
    entry: Entry
    data: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """What a writer wants done to one table or view. Shapes were checked before."""

    name: TableName
    requirements: Sequence[Json]
    updates: Sequence[Json]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What one commit comes to. Without a change, there was nothing to do."""

    loaded: Loaded
    change: Create | Swap | None
    obsolete: tuple[str, ...] = ()


class Commits:
    def __init__(
        self,
        state: CatalogState,
        files: MetadataFiles,
        locations: Locations,
        *,
        now: Clock,
        new_uuid: Callable[[], uuids.UUID] = uuids.uuid4,
    ) -> None:
        self._state = state
        self._files = files
        self._locations = locations
        self._now = now
        self._new_uuid = new_uuid
        # What was staged and not committed yet: only these may come to be by a commit.
        self._staged: OrderedDict[str, TableName] = OrderedDict()

    def create_table(self, name: TableName, request: Json, *, fence: Fence = no_fence) -> Loaded:
        """Make the table that a `requests.CreateTable` describes."""
        with self._state.writing() as contents:
            contents.check_free(name)
            metadata = self._new_table(name, request)
            return self._finish([self._prepare_create(name, Kind.TABLE, metadata)], fence)[0]

    def stage_table(self, name: TableName, request: Json) -> bytes:
        """Metadata for a table that a later commit with `assert-create` makes. Until then nothing exists."""
        with self._state.writing() as contents:
            contents.check_free(name)
            metadata = self._new_table(name, request)
            self._staged[metadata["table-uuid"]] = name
            while len(self._staged) > STAGED_MAX:
                self._staged.popitem(last=False)
        return wire.rendered(metadata)

    def commit_tables(
        self,
        commits: Sequence[Commit],
        *,
        bases: Mapping[TableName, str | None] | None = None,
        fence: Fence = no_fence,
    ) -> list[Loaded]:
        """Do all the commits, or none of them. Gives the tables as they are then.

        With `bases`, which say where the metadata of each table was when somebody looked, raises
        BaseMovedError if one is elsewhere by now.
        """
        if len({commit.name for commit in commits}) != len(commits):
            raise BadRequestError("a table can be changed only once in a transaction")
        with self._state.writing() as contents:
            _check_bases(contents, bases or {})
            prepared: list[_Prepared] = []
            try:
                for commit in commits:
                    prepared.append(self._prepare_commit(contents, commit))
            except BaseException:
                self._discard(prepared)
                raise
            return self._finish(prepared, fence)

    def register_table(self, name: TableName, metadata_location: str, *, fence: Fence = no_fence) -> Loaded:
        """Bring in a table whose files lie in the warehouse already, such as one that was dropped."""
        root = self._locations.root_of(metadata_location)
        if root is None:
            raise BadRequestError("only metadata in this catalog's own warehouse can be registered")
        with self._state.writing() as contents:
            contents.check_free(name)
            metadata = _foreign_table(self._files.read(metadata_location))
            entry = Entry(Kind.TABLE, metadata["table-uuid"], metadata_location)
            if metadata["location"] != root or self._is_taken(contents, entry):
                raise BadRequestError("the metadata belongs to another table")
            return self._finish(
                [_Prepared(self._loaded(name, entry), Create(name, entry))], fence, keep=True
            )[0]

    def create_view(self, name: TableName, request: Json, *, fence: Fence = no_fence) -> Loaded:
        """Make the view that a `requests.CreateView` describes."""
        with self._state.writing() as contents:
            contents.check_free(name)
            uuid, location = self._new_place(name, request)
            metadata = views.create(request, uuid=uuid, location=location, now_ms=self._now_ms())
            validation.check_view(metadata)
            check_paths(metadata)
            return self._finish([self._prepare_create(name, Kind.VIEW, metadata)], fence)[0]

    def commit_view(self, commit: Commit, *, fence: Fence = no_fence) -> Loaded:
        """Do the commit. Gives the view as it is then."""
        with self._state.writing() as contents:
            base = self._loaded(commit.name, contents.entry(commit.name, Kind.VIEW))
            new = views.commit(
                wire.parsed_object(base.data), commit.requirements, commit.updates, now_ms=self._now_ms()
            )
            if new is None:
                return base
            validation.check_view(new)
            check_paths(new)
            return self._finish([self._prepare_swap(base, new)], fence)[0]

    def _prepare_commit(self, contents: Contents, commit: Commit) -> _Prepared:
        if requirement_checks.creates(commit.requirements):
            return self._prepare_staged(contents, commit)
        base = self._loaded(commit.name, contents.entry(commit.name, Kind.TABLE))
        old = wire.parsed_object(base.data)
        new = tables.commit(
            old,
            commit.requirements,
            commit.updates,
            now_ms=self._now_ms(),
            base_location=base.entry.metadata_location,
        )
        if new is None:
            return _Prepared(base, None)
        _check_table(new)
        return self._prepare_swap(base, tables.closed(new), obsolete=_obsolete(old, new))

    def _prepare_staged(self, contents: Contents, commit: Commit) -> _Prepared:
        if contents.find(commit.name) is not None:
            raise CommitFailedError(f"Requirement failed: {commit.name} already exists")
        contents.namespace(commit.name.namespace)
        new = tables.create_by_commit(commit.updates, now_ms=self._now_ms())
        uuid = new["table-uuid"]
        if self._staged.get(uuid) != commit.name or new["location"] != self._locations.of(commit.name, uuid):
            raise BadRequestError(f"{commit.name} was not staged here, or too long ago: create it again")
        _check_table(new)
        prepared = self._prepare_create(commit.name, Kind.TABLE, tables.closed(new))
        del self._staged[uuid]
        return prepared

    def _prepare_create(self, name: TableName, kind: Kind, metadata: Json) -> _Prepared:
        uuid = metadata["table-uuid" if kind is Kind.TABLE else "view-uuid"]
        location, data = self._write(metadata, 0)
        entry = Entry(kind, uuid, location)
        return _Prepared(Loaded(name, entry, data), Create(name, entry))

    def _prepare_swap(self, base: Loaded, metadata: Json, *, obsolete: tuple[str, ...] = ()) -> _Prepared:
        location, data = self._write(metadata, version_of(base.entry.metadata_location) + 1)
        entry = Entry(base.entry.kind, base.entry.uuid, location)
        return _Prepared(Loaded(base.name, entry, data), Swap(base.name, base.entry, entry), obsolete)

    def _write(self, metadata: Json, version: int) -> tuple[str, bytes]:
        data = wire.rendered(metadata)
        if len(data) > FILE_BYTES_MAX:
            raise BadRequestError("the metadata would become too large: expire snapshots first")
        location = self._files.write(metadata_directory(metadata), version, str(self._new_uuid()), data)
        return location, data

    def _finish(self, prepared: Sequence[_Prepared], fence: Fence, *, keep: bool = False) -> list[Loaded]:
        """Make visible what was prepared, or remove it again."""
        changes = [item.change for item in prepared if item.change is not None]
        try:
            witness = fence()
            if changes or witness is not None:
                self._state.apply(changes, witness)
        except CatalogError:
            # Any other failure leaves it open whether the change was made: then the files must stay.
            if not keep:
                self._discard(prepared)
            raise
        for item in prepared:
            self._state.remember(item.loaded.entry.metadata_location, item.loaded.data)
            if isinstance(item.change, Swap):
                self._state.forget(item.change.old.metadata_location)
            for location in item.obsolete:
                self._files.discard(location)
        return [item.loaded for item in prepared]

    def _discard(self, prepared: Sequence[_Prepared]) -> None:
        for item in prepared:
            if item.change is not None:
                self._files.discard(item.loaded.entry.metadata_location)

    def _new_table(self, name: TableName, request: Json) -> Json:
        uuid, location = self._new_place(name, request)
        metadata = tables.create(request, uuid=uuid, location=location, now_ms=self._now_ms())
        _check_table(metadata)
        return tables.closed(metadata)

    def _new_place(self, name: TableName, request: Json) -> tuple[str, str]:
        if request.get("location") is not None:
            raise BadRequestError(
                "tables and views have their place in the warehouse: no location can be given"
            )
        uuid = str(self._new_uuid())
        return uuid, self._locations.of(name, uuid)

    def _loaded(self, name: TableName, entry: Entry) -> Loaded:
        return Loaded(name, entry, self._state.metadata(entry))

    def _is_taken(self, contents: Contents, entry: Entry) -> bool:
        root = self._locations.root_of(entry.metadata_location)
        return any(
            other.uuid == entry.uuid or self._locations.root_of(other.metadata_location) == root
            for inside in contents.namespaces.values()
            for other in inside.objects.values()
        )

    def _now_ms(self) -> int:
        return int(self._now() * 1000)


def _check_bases(contents: Contents, bases: Mapping[TableName, str | None]) -> None:
    for name, location in bases.items():
        found = contents.find(name)
        if (None if found is None else found.metadata_location) != location:
            raise BaseMovedError("the table was changed by somebody else: look again and retry")


def _check_table(metadata: Json) -> None:
    validation.check_table(metadata)
    check_paths(metadata)


def _foreign_table(data: bytes) -> Json:
    """Table metadata that was not written here."""
    try:
        metadata = tables.opened(wire.parsed_object(data))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadRequestError("the file is no table metadata") from error
    _check_table(metadata)
    return metadata


def _obsolete(old: Json, new: Json) -> tuple[str, ...]:
    """Metadata files that fell out of the log, if the table says that they may go."""
    if new["properties"].get("write.metadata.delete-after-commit.enabled", "false").lower() != "true":
        return ()
    kept = {entry["metadata-file"] for entry in new["metadata-log"]}
    gone = [entry["metadata-file"] for entry in old.get("metadata-log", ())]
    return tuple(file for file in gone if file not in kept and is_within(new["location"], file))

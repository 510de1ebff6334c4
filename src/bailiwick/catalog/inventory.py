"""What is in the catalog, as a browsing tool wants to see it: names, columns, comments, views' texts.

Every question gets one picture of the catalog, taken at one moment, in which only what the asking principal
may see is there. Answers are put together in a few threads of its own, because metadata may have to be read
from files; what was read is remembered by where it was read from, which never changes its content.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from bailiwick.catalog import wire
from bailiwick.catalog.backend import Entry, Kind
from bailiwick.catalog.commits import Loaded
from bailiwick.catalog.contents import Contents
from bailiwick.catalog.refusals import CatalogError, NoSuchTableError, NoSuchViewError
from bailiwick.catalog.wire import Json
from bailiwick.identity.principal import Principal
from bailiwick.names import Namespace, TableName
from bailiwick.policy.access import Access
from bailiwick.policy.model import EMPTY
from bailiwick.telemetry.logs import logger

THREADS = 2
REMEMBERED_FIELDS_MAX = 100_000

T = TypeVar("T")

_NO_COLUMNS: Json = {"type": "struct", "fields": []}
_log = logger(__name__)


class Sight(Protocol):
    """What somebody may learn of: an `Access` is one."""

    def sees_namespace(self, catalog: str, namespace: Namespace) -> bool: ...

    def sees_table(self, catalog: str, name: TableName, uuid: str) -> bool:
        """Of tables and views alike."""


class Source(Protocol):
    """The catalog, as far as browsing needs it. Any thread may call."""

    @property
    def contents(self) -> Contents:
        """The whole catalog of this moment, immutable."""

    def load(self, name: TableName, kind: Kind = ...) -> Loaded:
        """The metadata of now. May block; raises CatalogError if there is no such table or view any more."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view."""

    name: TableName
    entry: Entry

    @property
    def kind(self) -> Kind:
        return self.entry.kind


@dataclass(frozen=True, slots=True)
class Described:
    """What the metadata of a table or view says. One whose metadata is damaged has no columns."""

    schema: Json
    comment: str | None = None
    view_sql: str | None = None


def without_policies(principal: Principal) -> Sight:
    """Where nothing is granted to anybody: an administrator sees all, and nobody else anything."""
    return Access(principal, EMPTY)


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


class Inventory:
    """`sight` tells what each principal sees at this moment."""

    def __init__(
        self,
        source: Source,
        sight: Callable[[Principal], Sight] = without_policies,
        *,
        catalog: str = "lake",
        remembered_fields_max: int = REMEMBERED_FIELDS_MAX,
    ) -> None:
        self._source = source
        self._sight = sight
        self._catalog = catalog
        self._memory = Memory(remembered_fields_max)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="inventory")

    async def ask(self, principal: Principal, work: Callable[["Picture"], T]) -> T:
        """What `work` makes of the catalog as this principal sees it. Runs in a thread; if the caller leaves,
        the work ends at its next look at the picture."""
        picture = Picture(self._source, self._memory, self._sight(principal), self._catalog)
        future = self._threads.submit(work, picture)
        try:
            return await asyncio.wrap_future(future)
        finally:
            picture.abandon()

    def close(self) -> None:
        """Take nothing on any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Picture:
    """The catalog of one moment through the eyes of one principal."""

    def __init__(self, source: Source, memory: "Memory", sight: Sight, catalog: str) -> None:
        self._source = source
        self._memory = memory
        self._contents = source.contents
        self._sight = sight
        self._catalog = catalog
        self._abandoned = threading.Event()

    def namespaces(self) -> list[Namespace]:
        """All that may be seen, nested ones too, in order."""
        self._check()
        return sorted(
            namespace
            for namespace in self._contents.namespaces
            if self._sight.sees_namespace(self._catalog, namespace)
        )

    def relations(
        self,
        is_wanted: Callable[[Namespace], bool] = lambda _namespace: True,
        is_named: Callable[[str], bool] = lambda _name: True,
    ) -> list[Relation]:
        """Tables and views so named in the namespaces that are wanted, in order. Reads no metadata."""
        self._check()
        found = (
            Relation(TableName(namespace, name), entry)
            for namespace, inside in self._contents.namespaces.items()
            if is_wanted(namespace)
            for name, entry in inside.objects.items()
            if is_named(name)
        )
        return sorted(
            (
                relation
                for relation in found
                if self._sight.sees_table(self._catalog, relation.name, relation.entry.uuid)
            ),
            key=lambda relation: relation.name.parts,
        )

    def describe(self, relation: Relation) -> Described | None:
        """What its metadata says; None if it was dropped since the picture was taken. May block."""
        self._check()
        described = self._memory.get(relation.entry.metadata_location)
        return self._read(relation) if described is None else described

    def abandon(self) -> None:
        """Every later question to the picture raises AbandonedError."""
        self._abandoned.set()

    def _read(self, relation: Relation) -> Described | None:
        try:
            # It may have changed since the picture was taken: then this is newer, and remembered as such.
            loaded = self._source.load(relation.name, relation.kind)
            described = _described(wire.parsed_object(loaded.data), relation.kind)
        except (NoSuchTableError, NoSuchViewError):
            return None
        except (CatalogError, KeyError, ValueError, TypeError, AttributeError) as error:
            # One damaged table must not hide all the others from whoever looks around.
            _log.warning("metadata_unreadable", relation=str(relation.name), reason=type(error).__name__)
            return Described(_NO_COLUMNS)
        self._memory.put(loaded.entry.metadata_location, described)
        return described

    def _check(self) -> None:
        if self._abandoned.is_set():
            raise AbandonedError


class Memory:
    """What metadata said, by its location, the least recently used dropped first. Any thread may call."""

    def __init__(self, fields_max: int) -> None:
        self._fields_max = fields_max
        self._fields = 0
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[Described, int]] = OrderedDict()

    def get(self, location: str) -> Described | None:
        with self._lock:
            found = self._known.get(location)
            if found is None:
                return None
            self._known.move_to_end(location)
            return found[0]

    def put(self, location: str, described: Described) -> None:
        fields = _field_count(described.schema) + 1
        with self._lock:
            self._fields += fields - self._known.pop(location, (None, 0))[1]
            self._known[location] = described, fields
            while self._fields > self._fields_max:
                _, (_, forgotten) = self._known.popitem(last=False)
                self._fields -= forgotten

    def __len__(self) -> int:
        return len(self._known)


def _described(metadata: Json, kind: Kind) -> Described:
    comment = metadata.get("properties", {}).get("comment")
    if kind is Kind.TABLE:
        return Described(_by_id(metadata["schemas"], "schema-id", metadata["current-schema-id"]), comment)
    version = _by_id(metadata["versions"], "version-id", metadata["current-version-id"])
    schema = _by_id(metadata["schemas"], "schema-id", version["schema-id"])
    return Described(schema, comment, _view_sql(version))


def _by_id(items: list[Json], key: str, wanted: Any) -> Json:
    for item in items:
        if item[key] == wanted:
            return item
    raise KeyError(key)


def _view_sql(version: Json) -> str | None:
    """Spark's text if there is one, since Spark is who runs it; else whichever is first."""
    texts = [item for item in version["representations"] if "sql" in item]
    chosen = [item["sql"] for item in texts if item.get("dialect", "").lower() == "spark"]
    return next(iter([*chosen, *(item["sql"] for item in texts)]), None)


def _field_count(type_: Any) -> int:
    match type_:
        case {"fields": list(fields)}:
            return sum(1 + _field_count(field.get("type")) for field in fields)
        case {"element": element}:
            return 1 + _field_count(element)
        case {"key": key, "value": value}:
            return 2 + _field_count(key) + _field_count(value)
        case _:
            return 0

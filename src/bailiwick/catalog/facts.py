"""What policy has to know of a table: its uuid and its columns, by every name that they have or had.

Taken from metadata once for each of its files, which never change, and remembered. Any thread may call.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from bailiwick.catalog import metadata as tables
from bailiwick.catalog import schemas, wire
from bailiwick.catalog.backend import Kind
from bailiwick.catalog.commits import Loaded
from bailiwick.catalog.locations import PATH_PROPERTIES
from bailiwick.catalog.refusals import DamagedMetadataError
from bailiwick.catalog.wire import Json
from bailiwick.policy.decide import Column, Table, TableKind

COLUMNS_MAX = 500_000
"""That are remembered, over all tables."""

QUICK_BYTES_MAX = 256 << 10
"""Of metadata that is looked through at once; for more it takes a thread."""


@dataclass(frozen=True, slots=True)
class _Known:
    columns: tuple[Column, ...]
    prefixes: tuple[str, ...]

    @property
    def size(self) -> int:
        return 1 + len(self.columns)


class Facts:
    """`catalog` is the name that people know it by."""

    def __init__(self, catalog: str, *, columns_max: int = COLUMNS_MAX) -> None:
        self.catalog = catalog
        self._columns_max = columns_max
        self._size = 0
        self._lock = threading.Lock()
        self._remembered: OrderedDict[str, _Known] = OrderedDict()

    def table(self, loaded: Loaded) -> Table:
        """May look through large metadata. Raises DamagedMetadataError."""
        if loaded.entry.kind is Kind.VIEW:
            return Table(self.catalog, loaded.name, loaded.entry.uuid, kind=TableKind.VIEW)
        return Table(self.catalog, loaded.name, loaded.entry.uuid, self._known(loaded).columns)

    def prefixes(self, loaded: Loaded) -> tuple[str, ...]:
        """Where the table's files are, each ending in a slash."""
        return self._known(loaded).prefixes

    def is_quick(self, loaded: Loaded) -> bool:
        """Whether the metadata is known or small. If not, ask in a thread."""
        return (
            len(loaded.data) <= QUICK_BYTES_MAX
            or loaded.entry.kind is Kind.VIEW
            or self._get(loaded.entry.metadata_location) is not None
        )

    def _known(self, loaded: Loaded) -> _Known:
        location = loaded.entry.metadata_location
        known = self._get(location)
        if known is None:
            metadata = wire.parsed_object(loaded.data)
            columns = columns_of(metadata)
            known = _Known(columns, prefixes_of(metadata))
            self._put(location, known)
        return known

    def _get(self, location: str) -> _Known | None:
        with self._lock:
            known = self._remembered.get(location)
            if known is not None:
                self._remembered.move_to_end(location)
            return known

    def _put(self, location: str, known: _Known) -> None:
        with self._lock:
            forgotten = self._remembered.pop(location, None)
            self._size += known.size - (0 if forgotten is None else forgotten.size)
            self._remembered[location] = known
            while self._size > self._columns_max and len(self._remembered) > 1:
                self._size -= self._remembered.popitem(last=False)[1].size


def prefixes_of(metadata: Json) -> tuple[str, ...]:
    """The table's directory, and those that its properties name besides: the catalog saw to it that all of
    them lie in it when they were set."""
    properties = metadata.get("properties", {})
    paths = [metadata["location"], *(properties[key] for key in PATH_PROPERTIES if key in properties)]
    return tuple(dict.fromkeys(f"{path.rstrip('/')}/" for path in paths))


def columns_of(metadata: Json) -> tuple[Column, ...]:
    """The columns of the current schema, with the names that they had in all the others."""
    try:
        opened = tables.opened(metadata)
        former: dict[int, set[str]] = {}
        current: dict[int, schemas.Field] = {}
        for schema in opened["schemas"]:
            fields = schemas.fields_of(schema)
            for field in fields.values():
                former.setdefault(field.id, set()).add(field.path)
            if schema["schema-id"] == opened["current-schema-id"]:
                current = fields
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedMetadataError("metadata cannot be read", cause_text=repr(error)) from error
    return tuple(
        Column(field.id, field.path, frozenset(former[field.id] - {field.path}), _type(field.type))
        for field in current.values()
    )


def _type(type_: Any) -> str:
    return type_ if isinstance(type_, str) else str(type_.get("type", ""))

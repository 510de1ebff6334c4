"""The whole catalog at one moment, in memory and immutable.

Whoever holds one may read it from any thread for as long as they like; a change makes another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from bailiwick.catalog.backend import (
    Change,
    Create,
    CreateNamespace,
    Drop,
    DropNamespace,
    Entry,
    Kind,
    Remember,
    Rename,
    SetNamespaceProperties,
    Stored,
    Swap,
)
from bailiwick.catalog.refusals import (
    AlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
)
from bailiwick.names import Namespace, TableName, spelled


@dataclass(frozen=True, slots=True)
class NamespaceContents:
    properties: Mapping[str, str]
    objects: Mapping[str, Entry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contents:
    """`version` goes up with every change."""

    version: int = 0
    namespaces: Mapping[Namespace, NamespaceContents] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: Stored, version: int) -> "Contents":
        objects: dict[Namespace, dict[str, Entry]] = {namespace: {} for namespace in stored.namespaces}
        for name, entry in stored.objects.items():
            objects[name.namespace][name.name] = entry
        return cls(
            version,
            {
                namespace: NamespaceContents(MappingProxyType(dict(properties)), objects[namespace])
                for namespace, properties in stored.namespaces.items()
            },
        )

    def find(self, name: TableName) -> Entry | None:
        """The table or view of this name, if there is one."""
        namespace = self.namespaces.get(name.namespace)
        return None if namespace is None else namespace.objects.get(name.name)

    def entry(self, name: TableName, kind: Kind) -> Entry:
        """As `find`, for one that must be there. Raises NoSuchTableError or NoSuchViewError."""
        found = self.find(name)
        if found is not None and found.kind is kind:
            return found
        if kind is Kind.TABLE:
            raise NoSuchTableError(f"Table does not exist: {name}")
        raise NoSuchViewError(f"View does not exist: {name}")

    def namespace(self, namespace: Namespace) -> NamespaceContents:
        """Raises NoSuchNamespaceError."""
        found = self.namespaces.get(namespace)
        if found is None:
            raise NoSuchNamespaceError(f"Namespace does not exist: {spelled(namespace)}")
        return found

    def check_free(self, name: TableName) -> None:
        """Raises AlreadyExistsError or NoSuchNamespaceError if nothing can be made under this name."""
        self.namespace(name.namespace)
        found = self.find(name)
        if found is not None:
            raise AlreadyExistsError(f"{found.kind.capitalize()} already exists: {name}")

    def children(self, parent: Namespace) -> tuple[Namespace, ...]:
        """The namespaces right below `parent`, in order."""
        depth = len(parent) + 1
        return tuple(sorted(item for item in self.namespaces if len(item) == depth and item[:-1] == parent))

    def names(self, kind: Kind, namespace: Namespace | None = None) -> tuple[TableName, ...]:
        """Tables or views, of one namespace or of all, in order. Raises NoSuchNamespaceError."""
        chosen = self.namespaces if namespace is None else {namespace: self.namespace(namespace)}
        return tuple(
            sorted(
                TableName(levels, name)
                for levels, inside in chosen.items()
                for name, entry in inside.objects.items()
                if entry.kind == kind
            )
        )

    def after(self, change: Change) -> "Contents":
        """The next contents. Checks nothing: the backend has."""
        namespaces = dict(self.namespaces)
        match change:
            case CreateNamespace(namespace, properties):
                namespaces[namespace] = NamespaceContents(MappingProxyType(dict(properties)))
            case SetNamespaceProperties(namespace, properties):
                namespaces[namespace] = replace(
                    namespaces[namespace], properties=MappingProxyType(dict(properties))
                )
            case DropNamespace(namespace):
                del namespaces[namespace]
            case Create(name, entry) | Swap(name, _, entry):
                _put(namespaces, name, entry)
            case Drop(name, _):
                _put(namespaces, name, None)
            case Rename(name, new_name, entry):
                _put(namespaces, name, None)
                _put(namespaces, new_name, entry)
            case Remember():
                return self
        return Contents(self.version + 1, namespaces)


def _put(namespaces: dict[Namespace, NamespaceContents], name: TableName, entry: Entry | None) -> None:
    inside = namespaces[name.namespace]
    objects = dict(inside.objects)
    if entry is None:
        del objects[name.name]
    else:
        objects[name.name] = entry
    namespaces[name.namespace] = replace(inside, objects=objects)

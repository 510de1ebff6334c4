"""A catalog backend that forgets everything when the process ends."""

import threading
from collections.abc import Mapping, Sequence
from typing import assert_never

from bailiwick.catalog.backend import (
    CatalogBackend,
    Change,
    ConcurrentChangeError,
    Create,
    CreateNamespace,
    Drop,
    DropNamespace,
    Entry,
    Rename,
    SetNamespaceProperties,
    Stored,
    Swap,
)
from bailiwick.names import Namespace, TableName


class MemoryBackend(CatalogBackend):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored = Stored({}, {})

    def load(self) -> Stored:
        return self._stored

    def apply(self, changes: Sequence[Change]) -> None:
        with self._lock:
            namespaces = dict(self._stored.namespaces)
            objects = dict(self._stored.objects)
            for change in changes:
                _apply(namespaces, objects, change)
            self._stored = Stored(namespaces, objects)


def _apply(
    namespaces: dict[Namespace, Mapping[str, str]], objects: dict[TableName, Entry], change: Change
) -> None:
    match change:
        case CreateNamespace(namespace, properties):
            parent = namespace[:-1]
            _require(namespace not in namespaces and (not parent or parent in namespaces))
            namespaces[namespace] = dict(properties)
        case SetNamespaceProperties(namespace, properties):
            _require(namespace in namespaces)
            namespaces[namespace] = dict(properties)
        case DropNamespace(namespace):
            held = [item for item in namespaces if item[:-1] == namespace]
            held_objects = [name for name in objects if name.namespace == namespace]
            _require(namespace in namespaces and not held and not held_objects)
            del namespaces[namespace]
        case Create(name, entry):
            _require(name not in objects and name.namespace in namespaces)
            objects[name] = entry
        case Swap(name, old, new):
            _require(objects.get(name) == old)
            objects[name] = new
        case Drop(name, old):
            _require(objects.get(name) == old)
            del objects[name]
        case Rename(name, new_name, entry):
            _require(
                objects.get(name) == entry and new_name not in objects and new_name.namespace in namespaces
            )
            objects[new_name] = objects.pop(name)
        case _:
            assert_never(change)


def _require(holds: bool) -> None:
    if not holds:
        raise ConcurrentChangeError

"""A catalog backend that forgets everything when the process ends."""

import threading
from collections.abc import Mapping, Sequence
from typing import assert_never

from bailiwick.catalog.backend import (
    OUTCOMES_MAX,
    CatalogBackend,
    Change,
    ConcurrentChangeError,
    Create,
    CreateNamespace,
    Drop,
    DropNamespace,
    Entry,
    Outcome,
    Remember,
    Rename,
    SetNamespaceProperties,
    Stored,
    Swap,
)
from bailiwick.names import Namespace, TableName

_OfPointers = CreateNamespace | SetNamespaceProperties | DropNamespace | Create | Swap | Drop | Rename


class MemoryBackend(CatalogBackend):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored = Stored({}, {})
        self._outcomes: dict[str, Outcome] = {}
        self._known_since = 0.0

    def load(self) -> Stored:
        return self._stored

    def revision(self) -> int:
        return self._stored.revision

    def apply(self, changes: Sequence[Change]) -> int:
        with self._lock:
            namespaces = dict(self._stored.namespaces)
            objects = dict(self._stored.objects)
            outcomes = dict(self._outcomes)
            for change in changes:
                if isinstance(change, Remember):
                    _require(change.outcome.key not in outcomes)
                    outcomes[change.outcome.key] = change.outcome
                else:
                    _apply(namespaces, objects, change)
            self._stored = Stored(namespaces, objects, self._stored.revision + 1)
            self._outcomes = outcomes
            self._forget(
                max((item.forget_before for item in changes if isinstance(item, Remember)), default=0)
            )
            return self._stored.revision

    def outcome(self, key: str) -> Outcome | None:
        return self._outcomes.get(key)

    def known_since(self) -> float:
        return self._known_since

    def _forget(self, before: float) -> None:
        while self._outcomes:
            oldest = next(iter(self._outcomes.values()))
            if oldest.done_at >= before and len(self._outcomes) <= OUTCOMES_MAX:
                break
            del self._outcomes[oldest.key]
            self._known_since = oldest.done_at


def _apply(
    namespaces: dict[Namespace, Mapping[str, str]], objects: dict[TableName, Entry], change: _OfPointers
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

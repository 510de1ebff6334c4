"""Where the catalog's pointers are kept: namespaces, and which metadata file each table and view has now.

A backend keeps what it is told, atomically. It knows no metadata, and nothing of who may do what.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bailiwick.names import Namespace, TableName


class Kind(StrEnum):
    TABLE = "table"
    VIEW = "view"


@dataclass(frozen=True, slots=True)
class Entry:
    """A table or view: what it is, and where its metadata is now."""

    kind: Kind
    uuid: str
    metadata_location: str


@dataclass(frozen=True, slots=True)
class CreateNamespace:
    """Fails if it is there already, or its parent is not."""

    namespace: Namespace
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SetNamespaceProperties:
    """Fails if there is no such namespace."""

    namespace: Namespace
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DropNamespace:
    """Fails if it is not there, or holds anything."""

    namespace: Namespace


@dataclass(frozen=True, slots=True)
class Create:
    """Fails if the name is taken, by a table or a view, or there is no such namespace."""

    name: TableName
    entry: Entry


@dataclass(frozen=True, slots=True)
class Swap:
    """Fails unless the name's metadata is still at `old.metadata_location`."""

    name: TableName
    old: Entry
    new: Entry


@dataclass(frozen=True, slots=True)
class Drop:
    """Fails unless the name's metadata is still at `old.metadata_location`."""

    name: TableName
    old: Entry


@dataclass(frozen=True, slots=True)
class Rename:
    """Fails if the new name is taken, its namespace is not there, or the old one has changed."""

    name: TableName
    new_name: TableName
    entry: Entry


@dataclass(frozen=True, slots=True)
class Place:
    """What a call changed, and where its metadata was right after."""

    name: TableName
    entry: Entry


@dataclass(frozen=True, slots=True)
class Outcome:
    """That a call was done, and what came of it, under the key that its client gave it."""

    key: str
    principal: str
    tenant: str
    route: str
    digest: str
    """Of all that was asked: another body under the same key is another call."""
    places: tuple[Place, ...]
    done_at: float


@dataclass(frozen=True, slots=True)
class Remember:
    """Fails if the key is there already. What was done before `forget_before` is forgotten."""

    outcome: Outcome
    forget_before: float


Change = CreateNamespace | SetNamespaceProperties | DropNamespace | Create | Swap | Drop | Rename | Remember


@dataclass(frozen=True, slots=True)
class Stored:
    """All that a backend keeps."""

    namespaces: Mapping[Namespace, Mapping[str, str]]
    objects: Mapping[TableName, Entry]
    revision: int = 0


OUTCOMES_MAX = 200_000
"""That are known; of more, the oldest are forgotten."""


class ConcurrentChangeError(Exception):
    """What a change relied on is not so. Nothing was changed."""


class CatalogBackend(ABC):
    """Callable from any thread, one call at a time. Every call may block.

    UnavailableError says that the store does not answer and nothing was done; whatever else goes wrong in
    `apply` leaves open whether it was done.
    """

    @property
    def is_shared(self) -> bool:
        """Whether others may change it, too. They go by other backends on the same store."""
        return False

    @abstractmethod
    def load(self) -> Stored:
        """All of it, as it was at one moment."""

    @abstractmethod
    def apply(self, changes: Sequence[Change]) -> int:
        """Make all the changes, in order, or none: then raises ConcurrentChangeError.

        Durable when this returns. Gives the revision that they made: one more than the one before.
        """

    @abstractmethod
    def revision(self) -> int:
        """How often it was changed so far, by whomever."""

    @abstractmethod
    def outcome(self, key: str) -> Outcome | None:
        """What was remembered under this key, if it was and is still known."""

    @abstractmethod
    def known_since(self) -> float:
        """Of all that was done after this moment the outcome is known."""

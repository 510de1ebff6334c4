"""What a policy is made of: roles, grants, row filters, masks, tags, rules about acting for others.

Values only. What they mean together is decided in `decide.py`; whether they may stand beside each other is
checked in `validation.py`; `Policies` is all of them at one version, indexed so that deciding is quick.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from bailiwick.names import InvalidNameError, Namespace, TableName, checked_namespace, checked_table
from bailiwick.policy import spelling
from bailiwick.policy.index import NOBODY, Index

Key = tuple[str, str, Namespace, str]
"""A securable without its uuid, as the indexes have it: scope, catalog, namespace, name."""

Order = tuple[str | Namespace, ...]
"""What elements of one kind are sorted by; it tells them apart."""


class Privilege(StrEnum):
    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    CREATE = "create"
    """To make something inside: a namespace in a catalog, a table or view in a namespace."""
    ALTER = "alter"
    DROP = "drop"
    OWN = "own"
    """All of the others, and to grant them."""


ALL_PRIVILEGES = frozenset(Privilege)
TABLE_PRIVILEGES = ALL_PRIVILEGES - {Privilege.CREATE}


class GranteeKind(StrEnum):
    USER = "user"
    ROLE = "role"


_GRANTEE_KINDS = frozenset(kind.value for kind in GranteeKind)


@dataclass(frozen=True, slots=True, order=True)
class Grantee:
    kind: GranteeKind
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `user:NAME` or `role:NAME`. Raises InvalidNameError."""
        kind, colon, name = text.partition(":")
        if not colon or not name or kind not in _GRANTEE_KINDS:
            raise InvalidNameError(f"'{text[:100]}' is neither user:NAME nor role:NAME")
        return cls(GranteeKind(kind), name)

    @classmethod
    def user(cls, name: str) -> Self:
        return cls(GranteeKind.USER, name)

    @classmethod
    def role(cls, name: str) -> Self:
        return cls(GranteeKind.ROLE, name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Scope(StrEnum):
    """How much a securable covers."""

    CATALOG = "catalog"
    """The catalog and all in it."""
    ALL_NAMESPACES = "all namespaces"
    """`lake.*`: all that is in the catalog, not the catalog itself."""
    NAMESPACE = "namespace"
    """The namespace and all in it, namespaces inside it too."""
    ALL_TABLES = "all tables"
    """`lake.sales.*`: tables and views that are directly in the namespace, not the namespace itself."""
    TABLE = "table"
    """One table or view."""


@dataclass(frozen=True, slots=True)
class Securable:
    """What a grant or a rule is about. `uuid` is the table's that had the name when it was said."""

    catalog: str
    namespace: Namespace | None = None
    name: str | None = None
    is_wildcard: bool = False
    uuid: str | None = None

    @classmethod
    def table(cls, catalog: str, name: TableName, uuid: str | None = None) -> Self:
        return cls(catalog, name.namespace, name.name, uuid=uuid)

    @classmethod
    def parse(cls, text: str, *, is_namespace: bool = False) -> Self:
        """One part is a catalog, two a namespace, more a table unless it is said to be a namespace."""
        (catalog, *rest), is_wildcard = spelling.read(text)
        if not rest:
            return cls(catalog, is_wildcard=is_wildcard)
        if is_wildcard or is_namespace or len(rest) == 1:
            return cls(catalog, checked_namespace(rest), is_wildcard=is_wildcard)
        table = checked_table(rest[:-1], rest[-1])
        return cls(catalog, table.namespace, table.name)

    @property
    def scope(self) -> Scope:
        if self.name is not None:
            return Scope.TABLE
        if self.namespace is None:
            return Scope.ALL_NAMESPACES if self.is_wildcard else Scope.CATALOG
        return Scope.ALL_TABLES if self.is_wildcard else Scope.NAMESPACE

    @property
    def key(self) -> Key:
        return (self.scope, self.catalog, self.namespace or (), self.name or "")

    @property
    def table_name(self) -> TableName:
        """Only for a table."""
        if self.namespace is None or self.name is None:
            raise InvalidNameError(f"{self} is no table")
        return TableName(self.namespace, self.name)

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.catalog, *(self.namespace or ()), *(() if self.name is None else (self.name,)))

    def __str__(self) -> str:
        return spelling.written(self.parts) + (".*" if self.is_wildcard else "")


@dataclass(frozen=True, slots=True)
class Grant:
    id: str
    to: Grantee
    on: Securable
    privilege: Privilege
    by_creation: bool = False
    """The creator of something owns it: no file says so, and none takes it away."""

    @property
    def order(self) -> Order:
        return (*self.on.key, self.on.uuid or "", self.to.kind, self.to.name, self.privilege)


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    members: frozenset[Grantee] = frozenset()
    """Who holds it: users, and everyone who holds one of these roles."""

    @property
    def order(self) -> Order:
        return (self.name,)


@dataclass(frozen=True, slots=True, order=True)
class BoundColumn:
    """A column as it was when a rule named it. Fields of structs have dots in their names."""

    name: str
    field_id: int | None = None


@dataclass(frozen=True, slots=True)
class RowFilter:
    name: str
    on: Securable
    applies_to: frozenset[Grantee]
    exempt: frozenset[Grantee]
    using: str
    columns: tuple[BoundColumn, ...] = ()
    tables: tuple[str, ...] = ()
    """In full, what its subqueries read."""

    @property
    def order(self) -> Order:
        return (*self.on.key, self.name, self.on.uuid or "")


@dataclass(frozen=True, slots=True)
class Mask:
    """On a `column` of `on`, or on all columns with `tag`; `using` or else `action` says what is shown.

    In an expression of a mask on a tag, `value` stands for the column.
    """

    name: str
    on: Securable | None
    column: BoundColumn | None
    tag: str | None
    applies_to: frozenset[Grantee]
    exempt: frozenset[Grantee]
    using: str | None = None
    action: str | None = None
    priority: int | None = None
    tables: tuple[str, ...] = ()
    columns: tuple[BoundColumn, ...] = ()
    """Which its expression reads."""

    @property
    def order(self) -> Order:
        if self.on is None:
            return (Scope.TABLE, "", (), "", self.name, self.tag or "")
        return (*self.on.key, self.name, self.on.uuid or "")


@dataclass(frozen=True, slots=True)
class ColumnTags:
    on: Securable
    column: BoundColumn
    tags: frozenset[str]

    @property
    def order(self) -> Order:
        return (*self.on.key, self.column.name, self.on.uuid or "", str(self.column.field_id or ""))


@dataclass(frozen=True, slots=True, order=True)
class Impersonation:
    """`who` may act on behalf of `as_whom`: that user, or whoever holds that role (see `membership.py`)."""

    who: Grantee
    as_whom: Grantee

    @property
    def order(self) -> Order:
        return (str(self.who), str(self.as_whom))


@dataclass(frozen=True, slots=True)
class Policies:
    """Everything that holds at one version. Immutable: any thread may keep and read it.

    The order in which things were defined is lost on purpose, so that nothing can depend on it.
    """

    version: int = 0
    roles: tuple[Role, ...] = ()
    grants: tuple[Grant, ...] = ()
    filters: tuple[RowFilter, ...] = ()
    masks: tuple[Mask, ...] = ()
    tags: tuple[ColumnTags, ...] = ()
    impersonations: tuple[Impersonation, ...] = ()
    _made: list[Index] = field(init=False, repr=False, compare=False, default_factory=list)

    def __post_init__(self) -> None:
        for name in ("roles", "grants", "filters", "masks", "tags", "impersonations"):
            object.__setattr__(self, name, tuple(sorted(getattr(self, name), key=lambda each: each.order)))

    def indexed(self) -> Self:
        """Itself, with the work done that the first to ask would have to wait for."""
        if not self._made:
            self._made.append(Index(self))
        return self

    @property
    def _index(self) -> Index:
        # Made when it is first asked for: most policies are only a step on the way to others. Two threads may
        # both make it, and make the same.
        return self.indexed()._made[0]

    def role(self, name: str) -> Role | None:
        return self._index.roles.get(name)

    def roles_with(self, member: Grantee) -> tuple[str, ...]:
        """The roles of which `member` is named as a member, without those that follow from these."""
        return self._index.memberships.get(member, ())

    def granted(self, key: Key) -> Mapping[str, frozenset[Privilege]]:
        """Who (`user:NAME`, `role:NAME`) holds what by grants on exactly this that are bound to no uuid."""
        return self._index.by_key.get(key, NOBODY)

    def granted_to_uuid(self, uuid: str) -> Mapping[str, frozenset[Privilege]]:
        """The same for the table that has this uuid, whatever its name is by now."""
        return self._index.by_uuid.get(uuid, NOBODY)

    def footholds(self, grantee: str) -> frozenset[tuple[str, Namespace]]:
        """Each catalog and namespace (`()`: a catalog itself) in which something is granted to `grantee`."""
        return self._index.footholds.get(grantee, frozenset())

    def filters_on(self, catalog: str, names: Iterable[TableName], uuid: str | None) -> tuple[RowFilter, ...]:
        """Those on a table of this uuid or of one of these names."""
        return self._index.filters.matching(catalog, names, uuid)

    def masks_on(self, catalog: str, names: Iterable[TableName], uuid: str | None) -> tuple[Mask, ...]:
        return self._index.masks.matching(catalog, names, uuid)

    def tags_on(self, catalog: str, names: Iterable[TableName], uuid: str | None) -> tuple[ColumnTags, ...]:
        return self._index.tags.matching(catalog, names, uuid)

    def tag_masks(self, tag: str) -> tuple[Mask, ...]:
        return self._index.tag_masks.get(tag, ())


EMPTY = Policies()

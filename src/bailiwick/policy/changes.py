"""What can be changed about policies, as values, each with the sentence that history keeps.

`draft.py` applies them, `validation.py` judges the outcome, the store keeps it. Names are full here, and
bound to the uuid and the field ids of what exists.
"""

from dataclasses import dataclass

from bailiwick.names import Namespace, TableName
from bailiwick.policy import spelling
from bailiwick.policy.model import (
    BoundColumn,
    ColumnTags,
    Grantee,
    Impersonation,
    Mask,
    Privilege,
    RowFilter,
    Securable,
)


@dataclass(frozen=True, slots=True)
class AddRole:
    name: str

    def __str__(self) -> str:
        return f"created role {self.name}"


@dataclass(frozen=True, slots=True)
class RemoveRole:
    """With its memberships and grants. One that filters, masks or rules name is refused."""

    name: str

    def __str__(self) -> str:
        return f"dropped role {self.name}"


@dataclass(frozen=True, slots=True)
class AddMembers:
    role: str
    members: frozenset[Grantee]

    def __str__(self) -> str:
        return f"granted role {self.role} to {_listed(self.members)}"


@dataclass(frozen=True, slots=True)
class RemoveMembers:
    role: str
    members: frozenset[Grantee]

    def __str__(self) -> str:
        return f"revoked role {self.role} from {_listed(self.members)}"


@dataclass(frozen=True, slots=True)
class AddGrants:
    to: frozenset[Grantee]
    on: Securable
    privileges: frozenset[Privilege]

    def __str__(self) -> str:
        return f"granted {_listed(self.privileges)} on {self.on.scope} {self.on} to {_listed(self.to)}"


@dataclass(frozen=True, slots=True)
class RemoveGrants:
    """Refused if there is none of them; those that are not there besides others are passed over.

    A table's grants are found by its name and by its uuid, unless `is_exact`.
    """

    to: frozenset[Grantee]
    on: Securable
    privileges: frozenset[Privilege]
    is_exact: bool = False

    def __str__(self) -> str:
        return f"revoked {_listed(self.privileges)} on {self.on.scope} {self.on} from {_listed(self.to)}"


@dataclass(frozen=True, slots=True)
class AddFilter:
    filter: RowFilter
    or_replace: bool = False

    def __str__(self) -> str:
        did = "replaced" if self.or_replace else "created"
        return f"{did} row filter {self.filter.name} on table {self.filter.on}"


@dataclass(frozen=True, slots=True)
class RemoveFilter:
    name: str
    on: Securable

    def __str__(self) -> str:
        return f"dropped row filter {self.name} on table {self.on}"


@dataclass(frozen=True, slots=True)
class AddMask:
    mask: Mask
    or_replace: bool = False

    def __str__(self) -> str:
        did = "replaced" if self.or_replace else "created"
        return f"{did} mask {self.mask.name} on {_target(self.mask.on, self.mask.tag)}"


@dataclass(frozen=True, slots=True)
class RemoveMask:
    name: str
    on: Securable | None
    tag: str | None = None

    def __str__(self) -> str:
        return f"dropped mask {self.name} on {_target(self.on, self.tag)}"


@dataclass(frozen=True, slots=True)
class AddTags:
    """These besides those that the column has."""

    tags: ColumnTags

    def __str__(self) -> str:
        column = f"{self.tags.on} column {self.tags.column.name}"
        return f"set tags {_listed(self.tags.tags)} on table {column}"


@dataclass(frozen=True, slots=True)
class RemoveTags:
    tags: ColumnTags

    def __str__(self) -> str:
        column = f"{self.tags.on} column {self.tags.column.name}"
        return f"unset tags {_listed(self.tags.tags)} on table {column}"


@dataclass(frozen=True, slots=True)
class AddImpersonation:
    rule: Impersonation

    def __str__(self) -> str:
        return f"let {self.rule.who} act on behalf of {self.rule.as_whom}"


@dataclass(frozen=True, slots=True)
class RemoveImpersonation:
    rule: Impersonation

    def __str__(self) -> str:
        return f"let {self.rule.who} act on behalf of {self.rule.as_whom} no longer"


@dataclass(frozen=True, slots=True)
class ClearRules:
    """Forget each filter, mask and tag that a table has by its name or its uuid."""

    on: Securable

    def __str__(self) -> str:
        return f"cleared the rules of table {self.on}"


@dataclass(frozen=True, slots=True)
class TableCreated:
    """Its creator owns it; what was said about its name before there was a table is bound to it now."""

    catalog: str
    name: TableName
    uuid: str
    by: str
    columns: tuple[BoundColumn, ...] = ()

    def __str__(self) -> str:
        return f"table {spelling.written((self.catalog, *self.name.parts))} was created by {self.by}"


@dataclass(frozen=True, slots=True)
class TableRenamed:
    """Its rules and grants go with it."""

    catalog: str
    old: TableName
    new: TableName
    uuid: str

    def __str__(self) -> str:
        old, new = (spelling.written((self.catalog, *name.parts)) for name in (self.old, self.new))
        return f"table {old} was renamed to {new}"


@dataclass(frozen=True, slots=True)
class TableDropped:
    """Its grants go; its rules wait under its name."""

    catalog: str
    name: TableName
    uuid: str

    def __str__(self) -> str:
        return f"table {spelling.written((self.catalog, *self.name.parts))} was dropped"


@dataclass(frozen=True, slots=True)
class NamespaceCreated:
    catalog: str
    namespace: Namespace
    by: str

    def __str__(self) -> str:
        return f"namespace {spelling.written((self.catalog, *self.namespace))} was created by {self.by}"


@dataclass(frozen=True, slots=True)
class NamespaceDropped:
    """Who owned it by creating it does not own the next one of its name."""

    catalog: str
    namespace: Namespace

    def __str__(self) -> str:
        return f"namespace {spelling.written((self.catalog, *self.namespace))} was dropped"


Wish = (
    AddRole
    | RemoveRole
    | AddMembers
    | RemoveMembers
    | AddGrants
    | RemoveGrants
    | AddFilter
    | RemoveFilter
    | AddMask
    | RemoveMask
    | AddTags
    | RemoveTags
    | AddImpersonation
    | RemoveImpersonation
    | ClearRules
)
"""What somebody asks for: refused where it makes no sense."""

Happening = TableCreated | TableRenamed | TableDropped | NamespaceCreated | NamespaceDropped
"""What has been done in the catalog already: never refused."""

Change = Wish | Happening


def _listed(items: frozenset[Grantee] | frozenset[Privilege] | frozenset[str]) -> str:
    return ", ".join(sorted(map(str, items)))


def _target(on: Securable | None, tag: str | None) -> str:
    return f"table {on}" if on is not None else f"tag {tag}"

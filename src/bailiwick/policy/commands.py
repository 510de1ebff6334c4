"""What a policy statement asks for, as values. `statements.py` makes them, `administration.py` performs them.

Names of objects are parts as they were written: what they mean depends on the asker's current catalog and
namespace, which only the performer knows.
"""

from dataclasses import dataclass
from enum import StrEnum

from bailiwick.policy.model import Grantee, Privilege

Parts = tuple[str, ...]


class ObjectKind(StrEnum):
    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"


@dataclass(frozen=True, slots=True)
class ObjectName:
    """What a privilege is on. With `is_wildcard`, all that is directly in what `parts` name."""

    kind: ObjectKind
    parts: Parts
    is_wildcard: bool = False


@dataclass(frozen=True, slots=True)
class CreateRole:
    name: str
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropRole:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class GrantRole:
    role: str
    to: tuple[Grantee, ...]


@dataclass(frozen=True, slots=True)
class RevokeRole:
    role: str
    by: tuple[Grantee, ...]
    """Those who no longer have it."""


@dataclass(frozen=True, slots=True)
class GrantPrivileges:
    privileges: frozenset[Privilege]
    on: ObjectName
    to: tuple[Grantee, ...]


@dataclass(frozen=True, slots=True)
class RevokePrivileges:
    privileges: frozenset[Privilege]
    on: ObjectName
    by: tuple[Grantee, ...]
    """Those who no longer have them."""


@dataclass(frozen=True, slots=True)
class GrantImpersonation:
    as_whom: Grantee
    to: tuple[Grantee, ...]


@dataclass(frozen=True, slots=True)
class RevokeImpersonation:
    as_whom: Grantee
    by: tuple[Grantee, ...]


@dataclass(frozen=True, slots=True)
class CreateRowFilter:
    name: str
    table: Parts
    applies_to: frozenset[Grantee]
    exempt: frozenset[Grantee]
    using: str
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateMask:
    """Of a table's column, or of every column with a tag. By an expression, or by a named action."""

    name: str
    table: Parts | None
    column: Parts | None
    tag: str | None
    applies_to: frozenset[Grantee]
    exempt: frozenset[Grantee]
    using: str | None
    action: str | None
    priority: int | None = None
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class DropRowFilter:
    name: str
    table: Parts
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropMask:
    name: str
    table: Parts | None
    tag: str | None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetTags:
    """These tags besides those that the column has."""

    table: Parts
    column: Parts
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class UnsetTags:
    table: Parts
    column: Parts
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClearPolicy:
    """Forget the rules of a table that is no more and whose name another one has now, or none."""

    table: Parts


@dataclass(frozen=True, slots=True)
class ShowRoles:
    pass


@dataclass(frozen=True, slots=True)
class ShowGrants:
    on: ObjectName | None = None
    to: Grantee | None = None


@dataclass(frozen=True, slots=True)
class ShowPolicies:
    table: Parts | None = None


@dataclass(frozen=True, slots=True)
class ShowPolicyFile:
    pass


@dataclass(frozen=True, slots=True)
class ShowPolicyHistory:
    pass


@dataclass(frozen=True, slots=True)
class ApplyPolicy:
    text: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ExplainPolicy:
    sql: str
    """The statement to explain, behind as many blanks as make its places those of the whole text."""
    as_user: str | None = None


Change = (
    CreateRole
    | DropRole
    | GrantRole
    | RevokeRole
    | GrantPrivileges
    | RevokePrivileges
    | GrantImpersonation
    | RevokeImpersonation
    | CreateRowFilter
    | CreateMask
    | DropRowFilter
    | DropMask
    | SetTags
    | UnsetTags
    | ClearPolicy
)
Show = ShowRoles | ShowGrants | ShowPolicies | ShowPolicyFile | ShowPolicyHistory
Performed = Change | ApplyPolicy | Show
"""All but EXPLAIN POLICY, which needs to know what Spark says of a statement."""
PolicyCommand = Performed | ExplainPolicy

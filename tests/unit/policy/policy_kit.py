"""A few tables and people, and short ways to say rules about them."""

from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.changes import AddFilter, AddGrants, AddMask, AddMembers, AddRole, AddTags, Wish
from bailiwick.policy.decision import Column, Table
from bailiwick.policy.draft import applied
from bailiwick.policy.model import (
    EMPTY,
    BoundColumn,
    ColumnTags,
    Grantee,
    Mask,
    Policies,
    Privilege,
    RowFilter,
    Securable,
)

ALICE = Principal("alice", frozenset({"analyst"}))
BOB = Principal("bob", frozenset({"reader"}))
EVE = Principal("eve", frozenset({"analyst", "auditor"}))
ROOT = Principal("root", frozenset({"admin"}))

SELECT, INSERT, CREATE, OWN = Privilege.SELECT, Privilege.INSERT, Privilege.CREATE, Privilege.OWN

ORDERS = Table(
    "lake",
    TableName(("sales",), "orders"),
    "uuid-orders",
    (
        Column(1, "id", type="long"),
        Column(2, "region"),
        Column(3, "email"),
        Column(4, "address", type="struct<4: zip: string>"),
        Column(5, "address.zip"),
        Column(6, "ordered_at", type="timestamptz"),
    ),
)
EMAIL = BoundColumn("email", 3)
REGION = BoundColumn("region", 2)
ON_ORDERS = Securable.table("lake", ORDERS.name, ORDERS.uuid)


def who(*texts: str) -> frozenset[Grantee]:
    return frozenset(map(Grantee.parse, texts))


def grant(on: str | Securable, *privileges: Privilege, to: str = "role:analyst") -> AddGrants:
    securable = Securable.parse(on) if isinstance(on, str) else on
    return AddGrants(who(to), securable, frozenset(privileges))


def row_filter(
    name: str = "eu_only",
    on: Securable = ON_ORDERS,
    *,
    to: str = "role:analyst",
    exempt: tuple[str, ...] = (),
    using: str = "region = 'EU'",
    columns: tuple[BoundColumn, ...] = (REGION,),
) -> AddFilter:
    return AddFilter(RowFilter(name, on, who(to), who(*exempt), using, columns))


def mask(
    name: str = "hide_email",
    on: Securable | None = ON_ORDERS,
    column: BoundColumn | None = EMAIL,
    *,
    tag: str | None = None,
    to: str = "role:analyst",
    exempt: tuple[str, ...] = (),
    using: str | None = None,
    action: str | None = None,
    priority: int | None = None,
) -> AddMask:
    if using is None and action is None:
        using = "sha2(email, 256)" if tag is None else "sha2(value, 256)"
    if tag is not None:
        on = column = None
    return AddMask(Mask(name, on, column, tag, who(to), who(*exempt), using, action, priority))


def tags(column: BoundColumn, *names: str, on: Securable = ON_ORDERS) -> AddTags:
    return AddTags(ColumnTags(on, column, frozenset(names)))


def policies(*wishes: Wish) -> Policies:
    """With the role of analysts, and alice among them."""
    return applied(EMPTY, (AddRole("analyst"), AddMembers("analyst", who("user:alice")), *wishes))

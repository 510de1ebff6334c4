"""Admins and auditors see all of policy, others what concerns themselves and never a hidden table."""

import pyarrow as pa

from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.access import Access
from bailiwick.policy.decision import Table
from bailiwick.policy.model import (
    BoundColumn,
    ColumnTags,
    Grant,
    Grantee,
    Impersonation,
    Mask,
    Policies,
    Privilege,
    Role,
    RowFilter,
    Securable,
)
from bailiwick.policy.showing import Showing

ADMIN = Principal("root", frozenset({"admin"}))
AUDITOR = Principal("ada", frozenset({"auditor"}))
ANN = Principal("ann", frozenset({"reader", "analyst"}))
OTTO = Principal("otto", frozenset({"reader"}))
BOB = Principal("bob", frozenset({"reader"}))

ORDERS = Table("lake", TableName(("sales",), "orders"), "uuid-orders")
HIDDEN = Table("lake", TableName(("crm",), "people"), "uuid-people")
ON_ORDERS = Securable.table("lake", ORDERS.name, ORDERS.uuid)
ON_HIDDEN = Securable.table("lake", HIDDEN.name, HIDDEN.uuid)
ANALYST = Grantee.role("analyst")
FOR_ANALYSTS = frozenset({ANALYST})
NOBODY: frozenset[Grantee] = frozenset()

POLICIES = Policies(
    7,
    roles=(Role("analyst", frozenset({Grantee.user("ann"), Grantee.user("zoe")})), Role("chef")),
    grants=(
        Grant("1", ANALYST, ON_ORDERS, Privilege.SELECT),
        Grant("2", Grantee.user("otto"), ON_ORDERS, Privilege.OWN),
        Grant("3", Grantee.user("zoe"), Securable("lake", ("sales",), is_wildcard=True), Privilege.INSERT),
        Grant("4", Grantee.role("chef"), Securable("lake"), Privilege.SELECT),
        Grant("5", Grantee.user("zoe"), ON_HIDDEN, Privilege.SELECT),
        Grant("6", Grantee.user("zoe"), Securable("lake", ("sales",)), Privilege.CREATE),
    ),
    filters=(
        RowFilter("eu_only", ON_ORDERS, FOR_ANALYSTS, frozenset({Grantee.user("zoe")}), "region = 'EU'"),
        RowFilter("nothing", ON_HIDDEN, FOR_ANALYSTS, NOBODY, "false"),
    ),
    masks=(
        Mask("m", ON_ORDERS, BoundColumn("email", 3), None, FOR_ANALYSTS, NOBODY, "'x'", None, 5),
        Mask("pii", None, None, "pii", FOR_ANALYSTS, NOBODY, None, "hash"),
    ),
    tags=(ColumnTags(ON_ORDERS, BoundColumn("phone", 4), frozenset({"pii"})),),
    impersonations=(Impersonation(Grantee.user("bob"), ANALYST),),
)


def showing(principal: Principal) -> Showing:
    return Showing(Access(principal, POLICIES))


def column(table: pa.Table, name: str) -> list[object]:
    values: list[object] = table[name].to_pylist()
    return values


def test_who_may_read_policy_sees_all_roles_and_members() -> None:
    for principal in (ADMIN, AUDITOR):
        rows = {row["name"]: row for row in showing(principal).roles().to_pylist()}
        assert rows["analyst"] == {"name": "analyst", "built_in": False, "members": ["user:ann", "user:zoe"]}
        assert rows["admin"]["built_in"]
        assert len(rows) == 7


def test_others_see_the_roles_they_hold_and_no_other_members() -> None:
    assert showing(ANN).roles().to_pylist() == [
        {"name": "analyst", "built_in": False, "members": ["user:ann"]},
        {"name": "reader", "built_in": True, "members": []},
    ]


def test_one_sees_what_is_granted_to_oneself_and_on_what_one_owns() -> None:
    assert len(column(showing(AUDITOR).grants(), "grantee")) == 7
    assert column(showing(ANN).grants(), "grantee") == ["role:analyst"]
    assert column(showing(OTTO).grants(), "grantee") == ["role:analyst", "user:otto"]
    assert showing(BOB).grants().to_pylist() == [
        {"grantee": "user:bob", "privilege": "impersonate", "kind": "role", "object": "analyst"}
    ]


def test_grants_to_somebody_else_are_for_who_may_read_policy() -> None:
    assert column(showing(ADMIN).grants(to=Grantee.user("zoe")), "privilege") == [
        "select",
        "create",
        "insert",
    ]
    assert column(showing(ANN).grants(to=Grantee.user("zoe")), "privilege") == []
    assert column(showing(ANN).grants(to=ANALYST), "object") == ["lake.sales.orders"]


def test_grants_on_a_table_are_all_that_reach_it() -> None:
    shown = showing(ADMIN).grants(on=ON_ORDERS, table=ORDERS).to_pylist()
    assert [(row["kind"], row["object"], row["grantee"]) for row in shown] == [
        ("catalog", "lake", "role:chef"),
        ("namespace", "lake.sales", "user:zoe"),
        ("all tables", "lake.sales.*", "user:zoe"),
        ("table", "lake.sales.orders", "role:analyst"),
        ("table", "lake.sales.orders", "user:otto"),
    ]
    on_namespace = showing(ADMIN).grants(on=Securable("lake", ("sales",)))
    assert column(on_namespace, "object") == ["lake", "lake.sales"]


def test_a_grant_bound_to_a_table_that_went_does_not_reach_its_successor() -> None:
    successor = Table("lake", ORDERS.name, "uuid-other")
    on = Securable.table("lake", ORDERS.name, successor.uuid)
    assert column(showing(ADMIN).grants(on=on, table=successor), "kind") == [
        "catalog",
        "namespace",
        "all tables",
    ]


def test_who_may_read_policy_sees_what_rules_say() -> None:
    rows = showing(AUDITOR).policies().to_pylist()
    assert [(row["kind"], row["name"], row["object"], row["column"], row["rule"]) for row in rows] == [
        ("row_filter", "nothing", "lake.crm.people", None, "false"),
        ("mask", "m", "lake.sales.orders", "email", "'x'"),
        ("row_filter", "eu_only", "lake.sales.orders", None, "region = 'EU'"),
        ("tag", "pii", "lake.sales.orders", "phone", None),
        ("mask", "pii", "tag pii", None, "ACTION 'hash'"),
    ]
    assert rows[1]["priority"] == 5
    assert rows[2]["applies_to"] == ["role:analyst"]
    assert rows[2]["exempt"] == ["user:zoe"]


def test_others_see_which_rules_meet_them_but_not_what_they_say() -> None:
    rows = showing(ANN).policies().to_pylist()
    assert [(row["kind"], row["name"]) for row in rows] == [
        ("mask", "m"),
        ("row_filter", "eu_only"),
        ("mask", "pii"),
    ]
    assert {row["rule"] for row in rows} == {None}
    assert rows[1]["exempt"] == []


def test_an_owner_sees_the_rules_on_their_table_without_what_these_say() -> None:
    rows = showing(OTTO).policies().to_pylist()
    assert [(row["kind"], row["name"], row["rule"]) for row in rows] == [
        ("mask", "m", None),
        ("row_filter", "eu_only", None),
        ("tag", "pii", None),
    ]


def test_a_rule_about_a_hidden_table_is_not_shown() -> None:
    """Filter `nothing` is for analysts, but no analyst may know of its table."""
    shown = showing(ANN).policies()
    assert "nothing" not in column(shown, "name")
    assert "lake.crm.people" not in column(shown, "object")


def test_policies_on_a_table_include_those_by_its_tags() -> None:
    assert column(showing(ADMIN).policies(ORDERS), "name") == ["m", "eu_only", "pii", "pii"]
    assert column(showing(ADMIN).policies(HIDDEN), "name") == ["nothing"]

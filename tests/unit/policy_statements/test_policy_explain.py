"""EXPLAIN POLICY tells what was decided, and tells nobody more than they may know."""

import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.access import Access
from bailiwick.policy.commands import ExplainPolicy
from bailiwick.policy.decision import Column, Table
from bailiwick.policy.explain import EXPLANATION, Scan, check_may_explain, explain_table, missing
from bailiwick.policy.model import (
    BoundColumn,
    ColumnTags,
    Grant,
    Grantee,
    Mask,
    Policies,
    Privilege,
    RowFilter,
    Securable,
)

ADMIN = Principal("root", frozenset({"admin"}))
AUDITOR = Principal("ada", frozenset({"auditor"}))
ANN = Principal("ann", frozenset({"reader", "analyst"}))
BOB = Principal("bob", frozenset({"reader"}))
COLUMNS = (Column(1, "id", type="long"), Column(3, "mail", frozenset({"email"})), Column(4, "phone"))
ORDERS = Table("lake", TableName(("sales",), "orders"), "uuid-orders", COLUMNS)
ON_ORDERS = Securable.table("lake", ORDERS.name, ORDERS.uuid)
FOR_ANALYSTS = frozenset({Grantee.role("analyst")})
NOBODY: frozenset[Grantee] = frozenset()
POLICIES = Policies(
    7,
    grants=(Grant("1", Grantee.role("analyst"), ON_ORDERS, Privilege.SELECT),),
    filters=(
        RowFilter("eu_only", ON_ORDERS, FOR_ANALYSTS, NOBODY, "region = 'EU'"),
        RowFilter("others", ON_ORDERS, frozenset({Grantee.user("zoe")}), NOBODY, "false"),
    ),
    masks=(
        Mask(
            "hide_email", ON_ORDERS, BoundColumn("email", 3), None, FOR_ANALYSTS, NOBODY, "sha2(email, 256)"
        ),
        Mask("pii", None, None, "pii", FOR_ANALYSTS, NOBODY, None, "null"),
    ),
    tags=(ColumnTags(ON_ORDERS, BoundColumn("phone", 4), frozenset({"pii"})),),
)


def scan(principal: Principal, action: Privilege = Privilege.SELECT) -> Scan:
    return Scan(str(ORDERS), action, Access(principal, POLICIES).table(action, ORDERS), ORDERS)


def test_each_scan_tells_its_grant_filters_and_masks() -> None:
    rows = explain_table([scan(ANN)], ANN).to_pylist()
    assert [(row["kind"], row["rule"], row["column"], row["allowed"]) for row in rows] == [
        ("grant", None, None, True),
        ("row_filter", "eu_only", None, True),
        ("mask", "hide_email", "mail", True),
        ("mask", "pii", "phone", True),
    ]
    assert {row["object"] for row in rows} == {"lake.sales.orders"}
    assert {row["action"] for row in rows} == {"select"}
    assert [row["because"] for row in rows] == [
        "role:analyst holds select on table lake.sales.orders.",
        "Row filter eu_only applies: it is for role:analyst.",
        "Mask hide_email applies to column email: it is for role:analyst.",
        "Mask pii applies to column phone by tag pii: it is for role:analyst.",
    ]


def test_what_a_rule_says_is_told_only_to_who_may_read_policy() -> None:
    assert {row["using"] for row in explain_table([scan(ANN)], ANN).to_pylist()} == {None}
    for asker in (ADMIN, AUDITOR):
        using = [row["using"] for row in explain_table([scan(ANN)], asker).to_pylist()]
        assert using[:3] == [None, "region = 'EU'", "sha2(email, 256)"]
        assert using[3] is not None


def test_a_rule_that_does_not_apply_is_not_told() -> None:
    assert "others" not in str(explain_table([scan(ANN)], ANN).to_pylist())


def test_a_refusal_says_what_is_missing() -> None:
    (row,) = explain_table([scan(ANN, Privilege.DELETE)], ANN).to_pylist()
    assert (row["kind"], row["allowed"]) == ("refusal", False)
    assert row["because"] == "user:ann lacks delete on table lake.sales.orders."


def test_a_hidden_table_is_told_of_as_one_that_is_missing() -> None:
    hidden = explain_table([scan(BOB)], BOB)
    absent = explain_table([missing("lake.sales.orders", Privilege.SELECT)], BOB)
    assert hidden == absent
    assert hidden.to_pylist()[0]["because"] == "There is no lake.sales.orders, or none that you may know of."
    (told,) = explain_table([scan(BOB)], ADMIN).to_pylist()
    assert told["because"] == "user:bob holds no privilege on table lake.sales.orders."


def test_a_statement_without_tables_has_an_empty_explanation() -> None:
    assert explain_table([], ANN) == EXPLANATION.empty_table()


def test_everyone_may_ask_for_themselves_and_some_for_others() -> None:
    check_may_explain(ExplainPolicy("SELECT 1"), BOB)
    check_may_explain(ExplainPolicy("SELECT 1", "bob"), BOB)
    check_may_explain(ExplainPolicy("SELECT 1", "bob"), ADMIN)
    check_may_explain(ExplainPolicy("SELECT 1", "bob"), AUDITOR)
    with pytest.raises(BailiwickError) as refused:
        check_may_explain(ExplainPolicy("SELECT 1", "ann"), BOB)
    assert refused.value.code is Code.ACCESS_DENIED

"""Rules and grants follow what happens to tables, and never show more for it."""

from dataclasses import replace

from policy_kit import ALICE, EMAIL, ON_ORDERS, ORDERS, OWN, SELECT, grant, mask, policies, row_filter, tags

from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.changes import (
    NamespaceCreated,
    NamespaceDropped,
    TableCreated,
    TableDropped,
    TableRenamed,
)
from bailiwick.policy.decide import Column, decide, decide_namespace
from bailiwick.policy.happenings import after
from bailiwick.policy.model import BoundColumn, Policies, Privilege, Securable

NEW = TableName(("archive",), "old_orders")
RENAME = TableRenamed("lake", ORDERS.name, NEW, ORDERS.uuid)
DROP = TableDropped("lake", ORDERS.name, ORDERS.uuid)
AGAIN = TableCreated(
    "lake", ORDERS.name, "uuid-2", "ann", (BoundColumn("email", 1), BoundColumn("region", 2))
)
ANN = Principal("ann", frozenset({"writer"}))

RULES = (row_filter(), mask(), mask("pii", tag="pii", priority=1), tags(BoundColumn("region", 2), "pii"))


def restrictions(found: Policies, uuid: str, name: TableName) -> tuple[set[str], set[int | None]]:
    """What alice is under: names of filters, field ids of masks."""
    table = replace(ORDERS, name=name, uuid=uuid, columns=(Column(3, "email"), Column(2, "region")))
    decision = decide(ALICE, SELECT, table, found)
    assert decision.allowed
    return {each.name for each in decision.filters}, {each.field_id for each in decision.masks}


ALL = ({"eu_only"}, {2, 3})
GRANTED = grant("lake", SELECT)


def test_who_creates_a_table_or_namespace_owns_it() -> None:
    created = after(policies(), AGAIN)
    table = replace(ORDERS, uuid="uuid-2")
    assert decide(ANN, Privilege.DROP, table, created).allowed
    assert not decide(ALICE, SELECT, table, created).is_visible
    inside = after(policies(), NamespaceCreated("lake", ("lab",), "ann"))
    assert decide_namespace(ANN, Privilege.CREATE, "lake", ("lab",), inside).allowed


def test_creating_twice_says_it_once() -> None:
    once = after(policies(), AGAIN)
    assert after(once, AGAIN) == once


def test_a_rename_keeps_rules_and_grants() -> None:
    before = policies(GRANTED, grant(ON_ORDERS, OWN), *RULES)
    renamed = after(before, RENAME)
    assert restrictions(renamed, ORDERS.uuid, NEW) == ALL
    assert decide(ALICE, OWN, replace(ORDERS, name=NEW), renamed).allowed
    assert {str(rule.on) for rule in renamed.filters} == {"lake.archive.old_orders"}


def test_a_rename_that_was_never_told_of_keeps_them_too() -> None:
    assert restrictions(policies(GRANTED, *RULES), ORDERS.uuid, NEW) == ALL


def test_a_table_that_was_renamed_away_and_replaced_takes_its_rules_along() -> None:
    renamed = after(policies(GRANTED, *RULES), RENAME)
    assert restrictions(renamed, ORDERS.uuid, NEW) == ALL
    assert restrictions(renamed, "uuid-2", ORDERS.name) == (set(), set())


def test_a_table_dropped_and_created_again_stays_covered() -> None:
    again = after(after(policies(GRANTED, *RULES), DROP), AGAIN)
    assert restrictions(again, "uuid-2", ORDERS.name) == ALL


def test_it_stays_covered_when_it_is_renamed_afterwards() -> None:
    again = after(after(policies(GRANTED, *RULES), DROP), AGAIN)
    renamed = after(again, TableRenamed("lake", ORDERS.name, NEW, "uuid-2"))
    assert restrictions(renamed, "uuid-2", NEW) == ALL


def test_it_stays_covered_where_nobody_told_of_the_drop() -> None:
    again = after(policies(GRANTED, *RULES), AGAIN)
    assert restrictions(again, "uuid-2", ORDERS.name) == ALL
    renamed = after(again, TableRenamed("lake", ORDERS.name, NEW, "uuid-2"))
    assert restrictions(renamed, "uuid-2", NEW) == ALL
    assert restrictions(renamed, ORDERS.uuid, ORDERS.name) == ALL


def test_columns_of_a_new_table_are_bound_to_its_own_ids() -> None:
    again = after(after(policies(*RULES), DROP), AGAIN)
    (rule,) = again.filters
    assert (rule.on.uuid, rule.columns) == ("uuid-2", (BoundColumn("region", 2),))
    assert {each.column for each in again.masks if each.column} == {BoundColumn("email", 1)}


def test_grants_on_a_dropped_table_end_and_do_not_come_back_with_its_name() -> None:
    dropped = after(policies(grant(ON_ORDERS, SELECT)), DROP)
    assert dropped.grants == ()
    assert not decide(ALICE, SELECT, replace(ORDERS, uuid="uuid-2"), dropped).is_visible


def test_a_grant_that_waited_for_a_table_is_bound_to_the_first_of_its_name() -> None:
    created = after(policies(grant("lake.sales.orders", SELECT)), AGAIN)
    assert decide(ALICE, SELECT, replace(ORDERS, uuid="uuid-2", name=NEW), created).allowed
    assert not decide(ALICE, SELECT, replace(ORDERS, uuid="uuid-3"), created).is_visible


def test_who_owned_a_namespace_does_not_own_the_next_of_its_name() -> None:
    lab = Securable("lake", ("lab",))
    created = after(policies(grant(lab, SELECT)), NamespaceCreated("lake", ("lab",), "ann"))
    dropped = after(created, NamespaceDropped("lake", ("lab",)))
    assert not decide_namespace(ANN, OWN, "lake", ("lab",), dropped).is_visible
    assert decide_namespace(ALICE, SELECT, "lake", ("lab",), dropped).allowed


def test_a_rename_onto_a_name_with_rules_is_under_both() -> None:
    waiting = row_filter("waits", Securable.table("lake", NEW), columns=())
    renamed = after(policies(GRANTED, waiting, row_filter(), mask(column=EMAIL)), RENAME)
    assert restrictions(renamed, ORDERS.uuid, NEW) == ({"eu_only", "waits"}, {3})

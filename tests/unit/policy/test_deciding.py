"""Default deny; what is granted is held; rules reach what they name by uuid, name, field id and old name."""

from dataclasses import replace

import pytest
from policy_kit import (
    ALICE,
    BOB,
    CREATE,
    EVE,
    INSERT,
    ON_ORDERS,
    ORDERS,
    OWN,
    ROOT,
    SELECT,
    grant,
    mask,
    policies,
    row_filter,
    tags,
)

from bailiwick.names import TableName
from bailiwick.policy.access import Access
from bailiwick.policy.coverage import covered_columns, is_covered
from bailiwick.policy.decide import Column, Decision, Table, TableKind, decide, decide_namespace
from bailiwick.policy.model import (
    ALL_PRIVILEGES,
    EMPTY,
    TABLE_PRIVILEGES,
    BoundColumn,
    Grant,
    Grantee,
    Mask,
    Policies,
    Privilege,
    Securable,
)

RENAMED = replace(ORDERS, name=TableName(("archive",), "old_orders"))
RECREATED = replace(ORDERS, uuid="uuid-other")
VIEW = replace(ORDERS, kind=TableKind.VIEW)


def of_alice(found: Policies, table: Table = ORDERS, action: Privilege = SELECT) -> Decision:
    return decide(ALICE, action, table, found)


def test_without_a_grant_nothing_is_allowed_or_visible() -> None:
    decision = of_alice(EMPTY)
    assert not decision.allowed
    assert not decision.is_visible
    assert decision.because == ("user:alice holds no privilege on table lake.sales.orders.",)


@pytest.mark.parametrize("on", ["lake", "lake.*", "lake.sales", "lake.sales.*", "lake.sales.orders"])
def test_a_grant_reaches_all_that_is_below_it(on: str) -> None:
    assert of_alice(policies(grant(on, SELECT))).allowed


@pytest.mark.parametrize("on", ["sea", "lake.crm", "lake.crm.*", "lake.sales.order", "lake.sales.orders2"])
def test_a_grant_reaches_nothing_else(on: str) -> None:
    assert not of_alice(policies(grant(on, SELECT))).is_visible


def test_a_wildcard_does_not_reach_into_namespaces_inside() -> None:
    inner = replace(ORDERS, name=TableName(("sales", "eu"), "orders"))
    assert not of_alice(policies(grant("lake.sales.*", SELECT)), inner).is_visible
    assert of_alice(policies(grant("lake.sales", SELECT)), inner).allowed


def test_another_privilege_makes_it_visible_but_not_allowed_and_says_what_is_missing() -> None:
    decision = of_alice(policies(grant("lake.sales.*", SELECT)), action=INSERT)
    assert not decision.allowed
    assert decision.is_visible
    assert decision.because[0] == "user:alice lacks insert on table lake.sales.orders."
    assert decision.because[1] == "role:analyst holds select on lake.sales.*."


def test_what_is_not_allowed_still_tells_what_holds_for_the_rest() -> None:
    decision = of_alice(policies(grant("lake", SELECT), row_filter(), mask()), action=INSERT)
    assert not decision.allowed
    assert decision.privileges == {SELECT}
    assert (len(decision.filters), len(decision.masks)) == (1, 1)


def test_owners_and_admins_may_do_all_that_a_table_knows() -> None:
    assert of_alice(policies(grant(ON_ORDERS, OWN))).privileges == TABLE_PRIVILEGES
    assert decide(ROOT, Privilege.DROP, ORDERS, EMPTY).privileges == TABLE_PRIVILEGES


def test_creating_is_no_privilege_on_a_table_so_it_shows_none() -> None:
    assert not of_alice(policies(grant("lake.sales", CREATE))).is_visible


def test_a_privilege_that_does_not_exist_is_refused() -> None:
    decision = decide(ROOT, "conquer", ORDERS, EMPTY)  # type: ignore[arg-type]
    assert not decision.allowed


def test_a_grant_bound_to_a_table_follows_it_and_not_its_name() -> None:
    found = policies(grant(ON_ORDERS, SELECT))
    assert of_alice(found).allowed
    assert of_alice(found, RENAMED).allowed
    assert not of_alice(found, RECREATED).is_visible


def test_a_grant_on_a_table_that_was_not_there_yet_goes_by_name() -> None:
    found = policies(grant("lake.sales.orders", SELECT))
    assert of_alice(found).allowed
    assert not of_alice(found, RENAMED).is_visible


def test_all_filters_for_somebody_apply_and_exemption_wins() -> None:
    found = policies(
        grant("lake", SELECT),
        grant("lake", SELECT, to="role:reader"),
        row_filter("eu_only", exempt=("role:auditor",)),
        row_filter("recent", using="id > 10"),
        row_filter("of_others", to="user:zoe"),
    )
    assert [each.name for each in of_alice(found).filters] == ["eu_only", "recent"]
    assert [each.name for each in decide(EVE, SELECT, ORDERS, found).filters] == ["recent"]
    assert not decide(BOB, SELECT, ORDERS, found).is_restricted
    assert "Row filter eu_only does not apply: role:auditor is exempt." in (
        decide(EVE, SELECT, ORDERS, found).because
    )


def test_filters_and_masks_hold_for_admins_who_are_named_by_them() -> None:
    found = policies(row_filter(to="role:admin"), mask(to="user:root"))
    decision = decide(ROOT, SELECT, ORDERS, found)
    assert decision.allowed
    assert len(decision.filters) == len(decision.masks) == 1


@pytest.mark.parametrize("table", [ORDERS, RENAMED, RECREATED])
def test_rules_reach_a_table_by_its_uuid_and_by_its_name(table: Table) -> None:
    decision = of_alice(policies(grant("lake", SELECT), row_filter(), mask()), table)
    assert [each.name for each in decision.filters] == ["eu_only"]
    assert [each.name for each in decision.masks] == ["hide_email"]


def test_field_ids_of_another_table_say_nothing_about_this_one() -> None:
    other = replace(RECREATED, columns=(Column(3, "region"), Column(7, "EMail")))
    decision = of_alice(policies(grant("lake", SELECT), row_filter(), mask()), other)
    assert decision.filters[0].columns == (BoundColumn("region"),)
    (applied_mask,) = decision.masks
    assert applied_mask.field_id == 7


def test_a_renamed_column_and_a_decoy_under_its_old_name_are_both_masked() -> None:
    table = replace(ORDERS, columns=(Column(3, "mail", frozenset({"email"})), Column(9, "email")))
    decision = of_alice(policies(grant("lake", SELECT), mask()), table)
    assert {each.field_id: each.names for each in decision.masks} == {
        3: frozenset({"mail", "email"}),
        9: frozenset({"email"}),
    }


def test_a_column_that_once_had_the_name_is_masked_without_knowing_its_id() -> None:
    table = replace(ORDERS, columns=(Column(8, "contact", frozenset({"Email"})),))
    by_name = policies(grant("lake", SELECT), mask(column=BoundColumn("email")))
    assert [each.field_id for each in of_alice(by_name, table).masks] == [8]


def test_the_mask_of_a_column_that_has_gone_stays_for_its_past() -> None:
    table = replace(ORDERS, columns=(Column(1, "id"),))
    (gone,) = of_alice(policies(grant("lake", SELECT), mask(action="hash")), table).masks
    assert (gone.field_id, gone.names) == (3, frozenset({"email"}))
    assert gone.using == "CASE WHEN false THEN value END"


def test_a_filter_on_a_column_that_has_gone_still_applies() -> None:
    table = replace(ORDERS, columns=())
    assert of_alice(policies(grant("lake", SELECT), row_filter()), table).filters[0].columns == (
        BoundColumn("region", 2),
    )


def test_a_tag_brings_its_masks_to_each_column_that_carries_it() -> None:
    found = policies(
        grant("lake", SELECT),
        mask("pii_hash", tag="pii"),
        tags(BoundColumn("email", 3), "pii", "contact"),
        tags(BoundColumn("region", 2), "pii"),
        tags(BoundColumn("id", 1), "other"),
    )
    masks = of_alice(found).masks
    assert {each.field_id for each in masks} == {2, 3}
    assert all(each.is_value for each in masks)


def test_an_action_becomes_sql_for_the_type_of_the_column() -> None:
    found = policies(
        grant("lake", SELECT),
        mask("year", column=BoundColumn("ordered_at", 6), action="truncate_to_year"),
    )
    (year,) = of_alice(found).masks
    assert (year.using, year.is_value, year.action) == (
        "date_trunc('YEAR', value)",
        True,
        "truncate-to-year",
    )


def test_the_mask_of_highest_priority_is_shown() -> None:
    found = policies(
        grant("lake", SELECT), mask("low", priority=1), mask("high", priority=2, to="user:alice")
    )
    assert [each.name for each in of_alice(found).masks] == ["high"]


@pytest.mark.parametrize("priorities", [(None, None), (1, None), (None, 1), (3, 3)])
def test_masks_that_meet_after_all_and_do_not_say_which_is_shown_refuse_the_table(
    priorities: tuple[int | None, int | None],
) -> None:
    found = policies(
        grant("lake", SELECT, INSERT),
        mask("one", priority=priorities[0]),
        mask("two", priority=priorities[1]),
    )
    decision = of_alice(found)
    assert not decision.allowed
    assert decision.is_visible
    assert decision.privileges == frozenset()
    assert "different ones" in decision.because[0]


def test_masks_on_a_struct_and_on_its_field_refuse_the_table() -> None:
    found = policies(
        grant("lake", SELECT),
        mask("whole", column=BoundColumn("address", 4), priority=1),
        mask("part", column=BoundColumn("address.zip", 5), priority=2),
    )
    assert not of_alice(found).allowed


def test_a_view_under_the_name_of_a_table_with_rules_is_refused() -> None:
    found = policies(grant("lake", SELECT), row_filter())
    assert not of_alice(found, VIEW).allowed
    assert of_alice(policies(grant("lake", SELECT)), VIEW).allowed


def test_what_holds_something_visible_is_visible() -> None:
    access = Access(ALICE, policies(grant("lake.sales.eu.orders", SELECT)))
    assert access.sees_namespace("lake", ())
    assert access.sees_namespace("lake", ("sales",))
    assert access.sees_namespace("lake", ("sales", "eu"))
    assert not access.sees_namespace("lake", ("crm",))
    assert not access.sees_namespace("sea", ())
    assert not access.namespace(CREATE, "lake", ("sales",)).allowed


def test_an_access_keeps_the_version_that_it_was_made_with() -> None:
    access = Access(ALICE, replace(policies(grant("lake.sales.*", SELECT)), version=7))
    assert access.version == 7
    assert access.table(SELECT, ORDERS).allowed
    assert access.sees_table("lake", ORDERS.name, ORDERS.uuid)
    assert not access.sees_table("lake", TableName(("crm",), "people"), "x")


def test_namespaces_are_created_by_who_may_create_in_what_holds_them() -> None:
    found = policies(grant("lake.sales", CREATE))
    assert decide_namespace(ALICE, CREATE, "lake", ("sales",), found).allowed
    assert decide_namespace(ALICE, CREATE, "lake", ("sales", "eu"), found).allowed
    refused = decide_namespace(ALICE, CREATE, "lake", (), found)
    assert (refused.allowed, refused.is_visible) == (False, True)
    assert refused.because == ("user:alice lacks create on catalog lake.",)
    assert decide_namespace(ROOT, CREATE, "lake", (), found).privileges == ALL_PRIVILEGES


def test_the_order_of_definitions_is_forgotten() -> None:
    one, other = row_filter("a"), row_filter("b")
    assert policies(one, other) == policies(other, one)


def test_columns_that_rules_name_are_known_with_the_structs_around_them() -> None:
    found = policies(row_filter(), tags(BoundColumn("address.zip", 5), "pii"))
    assert covered_columns(found, ORDERS) == frozenset({2, 4, 5})
    assert is_covered(found, "lake", ORDERS.name)
    assert is_covered(found, "lake", TableName(("x",), "y"), ORDERS.uuid)
    assert not is_covered(found, "lake", TableName(("x",), "y"), "other")


def test_names_with_dots_and_quotes_are_written_so_that_they_can_be_read() -> None:
    on = Securable("lake", ("a.b", "c`d"), "e f")
    assert str(on) == "lake.`a.b`.`c``d`.`e f`"
    assert Securable.parse(str(on)) == on


def test_values_that_policies_are_made_of_can_be_compared_and_kept_in_sets() -> None:
    alice = Grantee.user("alice")
    assert Grant("x", alice, ON_ORDERS, SELECT) in {Grant("x", alice, ON_ORDERS, SELECT)}
    assert Mask("m", None, None, "t", frozenset({alice}), frozenset()) == Mask(
        "m", None, None, "t", frozenset({alice}), frozenset()
    )

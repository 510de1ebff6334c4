"""Policies that make no sense together are refused with sentences that say what to do."""

import pytest
from policy_kit import CREATE, EMAIL, ON_ORDERS, REGION, SELECT, grant, mask, policies, row_filter, tags, who

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy.changes import (
    AddImpersonation,
    AddMembers,
    AddRole,
    ClearRules,
    RemoveFilter,
    RemoveGrants,
    RemoveImpersonation,
    RemoveMask,
    RemoveMembers,
    RemoveRole,
    RemoveTags,
    Wish,
)
from bailiwick.policy.draft import applied
from bailiwick.policy.model import BoundColumn, ColumnTags, Grantee, Impersonation, Policies, Securable
from bailiwick.policy.validation import EXPRESSION_CHARS_MAX, check

ACTS = Impersonation(Grantee.user("bi"), Grantee.role("analyst"))
ZIP = BoundColumn("address.zip", 5)


def problems(*wishes: Wish) -> str:
    with pytest.raises(BailiwickError) as refused:
        check(policies(*wishes))
    assert refused.value.code is Code.INVALID_ARGUMENTS
    return refused.value.message


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        ((AddRole("x y"),), "cannot be the name of a role"),
        ((AddRole("admin"),), "is built in"),
        ((AddRole("Analyst"),), "differ only in case"),
        ((AddMembers("analyst", who("role:nobody")),), "There is no role 'nobody'"),
        ((AddMembers("analyst", who("role:analyst")),), "a member of itself"),
        ((grant("lake", SELECT, to="role:nobody"),), "There is no role 'nobody'"),
        ((grant("lake.sales.*", CREATE),), "create is granted on catalogs and namespaces"),
        ((row_filter("no good"),), "cannot be the name of a row filter"),
        ((row_filter(on=Securable.parse("lake.sales")),), "must be on a table, not on namespace lake.sales"),
        ((row_filter(using="  "),), "The expression of row filter 'eu_only' has 1 to"),
        ((row_filter(using="x" * (EXPRESSION_CHARS_MAX + 1)),), "The expression of"),
        ((row_filter(to="user:a\nb"),), "cannot be the name of a user"),
        ((mask(action="blur"),), "There is no mask action 'blur'"),
        ((mask(using="1", action="hash"),), "either an expression or an action"),
        ((mask(priority=10_000_000),), "The priority of mask 'hide_email'"),
        ((mask(column=BoundColumn("")),), "The name of a column"),
        ((tags(EMAIL),), "at least one tag"),
        ((tags(EMAIL, "p i i"),), "cannot be the name of a tag"),
        ((tags(EMAIL, *(f"t{number}" for number in range(51))),), "over 50 tags"),
        ((AddImpersonation(Impersonation(ACTS.who, ACTS.who)),), "on behalf of itself"),
    ],
)
def test_what_makes_no_sense_is_refused(wishes: tuple[Wish, ...], says: str) -> None:
    assert says in problems(*wishes)


def test_all_problems_are_told_at_once_but_not_a_thousand() -> None:
    told = problems(row_filter("no good"), mask(action="blur"))
    assert "no good" in told
    assert "blur" in told
    assert "There are 15 more problems." in problems(*(row_filter(f"f {number}") for number in range(25)))


def test_roles_in_a_circle_are_refused_and_only_they_are_named() -> None:
    told = problems(
        *(AddRole(name) for name in ("a", "b", "c", "d")),
        AddMembers("a", who("role:b")),
        AddMembers("b", who("role:c")),
        AddMembers("c", who("role:b")),
        AddMembers("d", who("role:a")),
    )
    assert told == "Role 'b' would be a member of itself, through the roles that are its members."


def test_what_was_wrong_before_does_not_stop_others() -> None:
    before = policies(mask("one"), mask("two"))
    check(applied(before, [grant("lake", SELECT)]), before)
    with pytest.raises(BailiwickError, match="'three'"):
        check(applied(before, [mask("three")]), before)


class TestMasksThatMeet:
    @pytest.mark.parametrize(
        "wishes",
        [
            (mask("one"), mask("two")),
            (mask("one"), mask("two", to="role:reader")),
            (mask("one", to="user:ann"), mask("two", to="role:reader")),
            (mask("one", priority=1), mask("two")),
            (mask("one", priority=1), mask("two", priority=1)),
            (mask("one"), mask("two", column=BoundColumn("EMAIL"))),
            (mask("one"), mask("two", column=BoundColumn("mail", 3))),
            (mask("one"), mask("two", on=Securable("lake", ("sales",), "orders", uuid="u2"))),
            (mask("one", tag="pii"), mask("two", tag="pii")),
            (mask("one"), mask("two", tag="pii"), tags(EMAIL, "pii")),
            (mask("one", tag="pii"), mask("two", tag="contact"), tags(EMAIL, "pii", "contact")),
        ],
    )
    def test_two_that_could_meet_need_different_priorities(self, wishes: tuple[Wish, ...]) -> None:
        assert "different priorities" in problems(*wishes)

    @pytest.mark.parametrize(
        "wishes",
        [
            (mask("one", priority=1), mask("two", priority=2)),
            (mask("one", to="user:ann"), mask("two", to="user:ben")),
            (mask("one", exempt=("role:reader",)), mask("two", to="role:reader")),
            (mask("one"), mask("two", column=REGION)),
            (mask("one"), mask("two", on=Securable("lake", ("sales",), "people", uuid="u2"))),
            (mask("one"), mask("two", tag="pii"), tags(REGION, "pii")),
            (mask("one", tag="pii"), mask("two", tag="contact"), tags(EMAIL, "pii"), tags(REGION, "contact")),
        ],
    )
    def test_those_that_cannot_meet_or_say_which_is_shown_are_fine(self, wishes: tuple[Wish, ...]) -> None:
        check(policies(*wishes))

    def test_a_tag_that_makes_two_meet_is_refused_when_it_is_set(self) -> None:
        before = policies(mask("one"), mask("two", tag="pii"))
        check(before)
        with pytest.raises(BailiwickError, match=r"column email of table lake\.sales\.orders"):
            check(applied(before, [tags(EMAIL, "pii")]), before)

    def test_a_struct_and_its_field_never_both_have_masks(self) -> None:
        whole = mask("whole", column=BoundColumn("address", 4), priority=1)
        assert "leave one of them out" in problems(whole, mask("part", column=ZIP, priority=2))
        tagged = (tags(BoundColumn("address", 4), "pii"), tags(ZIP, "pii"))
        assert "leave one of them out" in problems(mask("both", tag="pii"), *tagged)


class TestWishes:
    @pytest.mark.parametrize(
        "wish",
        [
            RemoveRole("nobody"),
            AddMembers("nobody", who("user:ann")),
            RemoveMembers("analyst", who("user:zoe")),
            RemoveGrants(who("user:ann"), ON_ORDERS, frozenset({SELECT})),
            RemoveFilter("eu_only", ON_ORDERS),
            RemoveMask("hide_email", ON_ORDERS),
            RemoveMask("pii", None, "pii"),
            RemoveTags(ColumnTags(ON_ORDERS, EMAIL, frozenset({"pii"}))),
            RemoveImpersonation(ACTS),
            ClearRules(ON_ORDERS),
        ],
    )
    def test_what_is_not_there_cannot_be_removed(self, wish: Wish) -> None:
        with pytest.raises(BailiwickError) as refused:
            policies(wish)
        assert refused.value.sqlstate == "42704"

    @pytest.mark.parametrize("wish", [AddRole("analyst"), row_filter(), mask(), mask("p", tag="pii")])
    def test_what_is_there_is_not_defined_twice(self, wish: Wish) -> None:
        with pytest.raises(BailiwickError) as refused:
            policies(row_filter(), mask(), mask("p", tag="pii"), wish)
        assert refused.value.sqlstate == "42710"

    def test_what_is_added_can_be_removed_again(self) -> None:
        both = who("user:ann", "role:analyst")
        before = policies()
        after = policies(
            AddRole("night"),
            AddMembers("night", both),
            grant("lake", SELECT, to="role:night"),
            row_filter(),
            mask(),
            tags(EMAIL, "pii", "x"),
            tags(EMAIL, "y"),
            AddImpersonation(ACTS),
            RemoveImpersonation(ACTS),
            RemoveTags(ColumnTags(ON_ORDERS, EMAIL, frozenset({"pii", "x", "y"}))),
            RemoveMask("hide_email", ON_ORDERS),
            RemoveFilter("eu_only", ON_ORDERS),
            RemoveMembers("night", both),
            RemoveRole("night"),
        )
        assert after == before

    def test_dropping_a_role_takes_its_grants_and_memberships_along(self) -> None:
        after = policies(
            AddRole("night"),
            AddMembers("analyst", who("role:night")),
            grant("lake", SELECT, to="role:night"),
            RemoveRole("night"),
        )
        assert after == policies()

    def test_a_role_that_a_filter_names_cannot_be_dropped(self) -> None:
        with pytest.raises(BailiwickError, match="named by row filter 'eu_only'"):
            check(policies(row_filter(), RemoveRole("analyst")))

    def test_a_revoke_reaches_a_table_by_its_name_and_by_its_uuid(self) -> None:
        by_name = Securable.parse("lake.sales.orders")
        elsewhere = Securable("lake", ("x",), "y", uuid=ON_ORDERS.uuid)
        for on in (by_name, elsewhere):
            gone = RemoveGrants(who("role:analyst"), on, frozenset({SELECT}))
            assert policies(grant(ON_ORDERS, SELECT), gone) == policies()

    def test_clearing_takes_filters_masks_and_tags_of_one_table(self) -> None:
        left: Policies = policies(row_filter(), mask(), tags(EMAIL, "pii"), ClearRules(ON_ORDERS))
        assert left == policies()

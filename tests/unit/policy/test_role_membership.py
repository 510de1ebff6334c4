"""Roles come with roles, a circle ends, and acting for others goes by rule and no further."""

from policy_kit import ALICE, ROOT, policies, who

from bailiwick.identity.principal import Principal
from bailiwick.policy.changes import AddImpersonation, AddMembers, AddRole
from bailiwick.policy.membership import effective_roles, may_act_as
from bailiwick.policy.model import Grantee, Impersonation, Policies, Role

BI = Principal("bi", frozenset({"reader"}))


def test_roles_follow_from_the_user_and_from_roles() -> None:
    found = policies(
        AddRole("night"),
        AddRole("staff"),
        AddMembers("night", who("role:analyst")),
        AddMembers("staff", who("role:night", "role:reader")),
    )
    assert effective_roles(found, "alice", frozenset()) == {"analyst", "night", "staff"}
    assert effective_roles(found, "bob", frozenset({"reader"})) == {"reader", "staff"}
    assert effective_roles(found, "zoe", frozenset()) == frozenset()


def test_a_circle_ends() -> None:
    circle = Policies(roles=(Role("a", who("role:b")), Role("b", who("role:a", "user:zoe"))))
    assert effective_roles(circle, "zoe", frozenset()) == {"a", "b"}


def rule(who_may: str, as_whom: str) -> Policies:
    parsed = Impersonation(Grantee.parse(who_may), Grantee.parse(as_whom))
    return policies(AddImpersonation(parsed))


def test_nobody_acts_for_others_without_a_rule() -> None:
    assert not may_act_as(BI, ALICE, policies())
    assert not may_act_as(ROOT, ALICE, policies())


def test_a_rule_names_users_or_roles_on_both_sides() -> None:
    assert may_act_as(BI, ALICE, rule("user:bi", "user:alice"))
    assert may_act_as(BI, ALICE, rule("role:reader", "role:analyst"))
    assert not may_act_as(BI, ALICE, rule("user:bi", "user:bob"))
    assert not may_act_as(ALICE, BI, rule("user:bi", "user:alice"))


def test_a_rule_about_a_role_reaches_an_admin_only_for_admins() -> None:
    admin = Principal("chief", frozenset({"admin", "analyst"}))
    assert not may_act_as(BI, admin, rule("user:bi", "role:analyst"))
    assert may_act_as(BI, admin, rule("user:bi", "user:chief"))
    assert may_act_as(ROOT, admin, rule("user:root", "role:analyst"))


def test_who_acts_for_somebody_does_not_go_on_to_a_third() -> None:
    acting = Principal("bi", frozenset({"reader"}), actor="mallory")
    assert not may_act_as(acting, ALICE, rule("user:bi", "user:alice"))

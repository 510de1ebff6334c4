"""Users as principals: all roles of now, and acting for others only by rule."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.people import People
from bailiwick.identity.principal import Principal
from bailiwick.identity.users import UserStore
from bailiwick.testing.databases import opened_database

SVC = Principal("svc", frozenset({"reader"}), "acme")
ROOT = Principal("root", frozenset({"admin"}))


@dataclass
class Rules:
    """Impersonation rules and role memberships, as a policy store would hold them."""

    allowed: set[tuple[str, str]] = field(default_factory=set)
    memberships: dict[str, set[str]] = field(default_factory=dict)
    asked: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)

    def allows(self, actor: Principal, subject_name: str, subject_roles: frozenset[str]) -> bool:
        self.asked.append((actor.name, subject_name, subject_roles))
        return bool({(actor.name, one) for one in (subject_name, *subject_roles)} & self.allowed)

    def expand(self, name: str, roles: frozenset[str]) -> frozenset[str]:
        found = set(roles)
        for one in (name, *roles):
            found |= self.memberships.get(one, set())
        return frozenset(found)


@dataclass
class Town:
    users: UserStore
    rules: Rules
    people: People

    def refusal(self, actor: Principal, subject: str) -> str:
        with pytest.raises(BailiwickError) as refused:
            self.people.acted_for(actor, subject)
        assert refused.value.code is Code.ACCESS_DENIED
        return refused.value.message


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    database = opened_database(tmp_path / "bailiwick.db")
    users = UserStore(database)
    await users.load()
    for name, role, tenant in [
        ("root", "admin", "default"),
        ("svc", "reader", "acme"),
        ("bob", "reader", "acme"),
        ("boss", "admin", "acme"),
        ("far", "reader", "globex"),
    ]:
        await users.add(name, roles=frozenset({role}), password_hash=None, tenant=tenant)
    rules = Rules()
    yield Town(users, rules, People(users, expand=rules.expand, impersonations=rules))
    await users.close()
    await database.close()


def test_without_rules_everyone_has_the_roles_they_were_given_and_acts_for_themselves(town: Town) -> None:
    people = People(town.users)
    assert people.find("bob") == Principal("bob", frozenset({"reader"}), "acme")
    assert people.find("nobody") is None
    with pytest.raises(BailiwickError):
        people.acted_for(ROOT, "bob")


def test_a_role_that_is_granted_or_taken_holds_the_next_time_one_looks(town: Town) -> None:
    town.rules.memberships = {"bob": {"analyst"}, "reader": {"staff"}}
    bob = town.people.find("bob")
    assert bob is not None
    assert bob.roles == {"reader", "analyst", "staff"}
    town.rules.memberships = {}
    assert town.people.with_all_roles(bob).roles == bob.roles
    assert town.people.find("bob") == Principal("bob", frozenset({"reader"}), "acme")


def test_a_rule_lets_one_act_for_another_with_all_of_their_roles_and_both_names(town: Town) -> None:
    town.rules.allowed = {("svc", "bob")}
    town.rules.memberships = {"bob": {"analyst"}}
    acted_for = town.people.acted_for(SVC, "bob")
    assert acted_for == Principal("bob", frozenset({"reader", "analyst"}), "acme", actor="svc")
    assert town.rules.asked == [("svc", "bob", frozenset({"reader", "analyst"}))]


def test_a_rule_for_a_role_takes_in_whoever_has_it_by_membership(town: Town) -> None:
    town.rules.allowed = {("svc", "analyst")}
    town.refusal(SVC, "bob")
    town.rules.memberships = {"bob": {"analyst"}}
    assert town.people.acted_for(SVC, "bob").actor == "svc"


async def test_a_refusal_does_not_tell_whether_there_is_such_a_user(town: Town) -> None:
    town.rules.allowed = {("svc", "gone"), ("svc", "bob")}
    await town.users.change("bob", disabled=True)
    messages = {town.refusal(SVC, name) for name in ("gone", "nobody", "bob", "root", "far", "", "bob'--")}
    assert len(messages) == 1


def test_admins_are_acted_for_by_admins_only_whatever_the_rules_say(town: Town) -> None:
    town.rules.allowed = {("svc", "boss"), ("root", "boss")}
    town.refusal(SVC, "boss")
    assert town.people.acted_for(ROOT, "boss").actor == "root"


def test_built_in_roles_come_from_the_user_alone_whatever_the_policy_holds(town: Town) -> None:
    town.rules.memberships = {"bob": {"admin", "operator", "analyst"}, "root": set()}
    bob, root = town.people.find("bob"), town.people.find("root")
    assert bob is not None
    assert root is not None
    assert bob.roles == {"reader", "analyst"}
    assert root.roles == {"admin"}


def test_a_tenants_users_are_not_acted_for_from_another_tenant(town: Town) -> None:
    town.rules.allowed = {("svc", "reader"), ("root", "reader")}
    assert town.people.acted_for(SVC, "bob").tenant == "acme"
    town.refusal(SVC, "far")
    assert town.people.acted_for(ROOT, "far").tenant == "globex"


def test_admins_need_a_rule_like_everyone(town: Town) -> None:
    town.refusal(ROOT, "bob")


def test_naming_oneself_changes_nothing_and_needs_no_rule(town: Town) -> None:
    assert town.people.acted_for(SVC, "svc") == SVC


def test_nobody_acts_for_others_while_being_acted_for(town: Town) -> None:
    town.rules.allowed = {("svc", "bob"), ("bob", "svc"), ("bob", "bob")}
    acted_for = town.people.acted_for(SVC, "bob")
    town.refusal(acted_for, "svc")
    town.refusal(acted_for, "bob")

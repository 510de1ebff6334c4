"""When a user goes, whoever gets the name next finds nothing of theirs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from policy_kit import ON_ORDERS, OWN, ROOT, SELECT, grant, mask, row_filter, who

from bailiwick.identity.principal import Principal
from bailiwick.policy.access import Access
from bailiwick.policy.changes import AddImpersonation, AddMembers, AddRole
from bailiwick.policy.departing import forget_user, without_user
from bailiwick.policy.membership import effective_roles, may_act_as
from bailiwick.policy.model import EMPTY, Grantee, Impersonation
from bailiwick.policy.store import PolicyStore
from bailiwick.testing.databases import opened_database

DAN = Principal("dan", frozenset({"reader"}))
EVE = Principal("eve", frozenset({"reader"}))
WISHES = (
    AddRole("analyst"),
    AddMembers("analyst", who("user:dan", "user:eve")),
    grant("lake.sales", SELECT, to="user:dan"),
    grant("lake.sales", SELECT, to="user:eve"),
    grant(ON_ORDERS, SELECT, OWN, to="user:dan"),
    row_filter(to="role:reader", exempt=("user:dan", "user:eve")),
    row_filter("only_dan", to="user:dan"),
    mask(to="role:reader", exempt=("user:dan",)),
    AddImpersonation(Impersonation(Grantee.user("dan"), Grantee.user("eve"))),
    AddImpersonation(Impersonation(Grantee.user("eve"), Grantee.user("dan"))),
    AddImpersonation(Impersonation(Grantee.user("eve"), Grantee.role("analyst"))),
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[PolicyStore]:
    database = opened_database(tmp_path / "bailiwick.db")
    store = PolicyStore(database)
    await store.load()
    await store.change(WISHES, ROOT)
    yield store
    await store.close()
    await database.close()


async def test_nothing_that_the_user_was_given_is_left(store: PolicyStore) -> None:
    await forget_user(store, "dan", ROOT)
    policies = store.current
    assert effective_roles(policies, "dan", DAN.roles) == {"reader"}
    assert not Access(DAN, policies).sees_namespace("lake", ("sales",))
    assert not may_act_as(DAN, EVE, policies)
    assert not may_act_as(EVE, DAN, policies)
    assert without_user(policies, "dan") == ()
    given = [*policies.roles, *policies.grants, *policies.impersonations]
    assert "dan" not in str(given)
    exempt = [rule.exempt for rule in policies.filters] + [rule.exempt for rule in policies.masks]
    assert not any(Grantee.user("dan") in each for each in exempt)


async def test_what_restricts_the_name_and_what_others_have_stays(store: PolicyStore) -> None:
    await forget_user(store, "dan", ROOT)
    policies = store.current
    assert {rule.name for rule in policies.filters} == {"eu_only", "only_dan"}
    assert effective_roles(policies, "eve", EVE.roles) == {"reader", "analyst"}
    assert Access(EVE, policies).sees_namespace("lake", ("sales",))
    assert may_act_as(EVE, Principal("zoe", frozenset({"analyst"})), policies)
    (eu_only,) = [rule for rule in policies.filters if rule.name == "eu_only"]
    assert eu_only.exempt == who("user:eve")


async def test_a_user_of_whom_nothing_is_known_leaves_no_trace(store: PolicyStore) -> None:
    version = store.current.version
    await forget_user(store, "nobody", ROOT)
    assert store.current.version == version
    assert without_user(EMPTY, "dan") == ()

"""Policies on either kind of database, and changed by two gateways that share one."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.changes import AddMembers, AddRole
from bailiwick.policy.model import Grantee, Policies
from bailiwick.policy.store import PolicyStore

ROOT = Principal("root", frozenset({"admin"}))
ROLE = (AddRole("analyst"), AddMembers("analyst", frozenset({Grantee.user("alice")})))


async def loaded(database: Database) -> PolicyStore:
    store = PolicyStore(database, now=lambda: 123.0)
    await store.load()
    return store


@pytest.fixture
async def stores(shared: tuple[Database, Database]) -> AsyncIterator[tuple[PolicyStore, PolicyStore]]:
    one, other = await loaded(shared[0]), await loaded(shared[1])
    yield one, other
    await one.close()
    await other.close()


async def test_what_was_changed_is_there_after_a_restart(database: Database) -> None:
    store = await loaded(database)
    changed = await store.change(ROLE, ROOT)
    assert (await loaded(database)).current == changed
    assert [version.what for version in await store.history()] == [
        ("created role analyst", "granted role analyst to user:alice")
    ]


async def test_changes_by_two_gateways_are_all_kept_in_one_order(
    stores: tuple[PolicyStore, PolicyStore],
) -> None:
    def create(store: PolicyStore, number: int) -> Policies:
        return store.table_created("lake", TableName(("sales",), f"t{number}"), f"u{number}", ROOT)

    await asyncio.gather(
        *(
            store.change([AddRole(f"r{at}-{side}")], ROOT)
            for at in range(6)
            for side, store in enumerate(stores)
        ),
        *(asyncio.to_thread(create, stores[number % 2], number) for number in range(6)),
    )
    for store in stores:
        await store.catch_up()
    one, other = (store.current for store in stores)
    assert one == other
    assert (one.version, len(one.roles), len(one.grants)) == (18, 12, 6)
    assert [each.version for each in await stores[0].history()] == list(range(18, 0, -1))


async def test_who_expected_the_version_before_anothers_change_is_told(
    stores: tuple[PolicyStore, PolicyStore],
) -> None:
    one, other = stores
    await one.change(ROLE, ROOT)
    with pytest.raises(BailiwickError) as refused:
        await other.change([AddRole("late")], ROOT, expected_version=0)
    assert refused.value.code is Code.COMMIT_CONFLICT
    assert other.current == one.current


async def test_what_another_gateway_forbade_is_forbidden_once_caught_up(
    stores: tuple[PolicyStore, PolicyStore],
) -> None:
    one, other = stores
    heard: list[int] = []
    other.on_change(lambda policies: heard.append(policies.version))
    await one.change(ROLE, ROOT)
    assert other.current.version == 0
    await other.catch_up()
    await other.catch_up()
    assert (other.current, other.revision, heard) == (one.current, one.revision, [1])

"""The store keeps each version with who made it, refuses what is not sound, and answers from memory."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from policy_kit import (
    ALICE,
    EMAIL,
    ORDERS,
    ROOT,
    SELECT,
    grant,
    mask,
    row_filter,
    tags,
    who,
)
from sqlalchemy import insert, select, update

from bailiwick.database import schema
from bailiwick.database.database import Database
from bailiwick.database.errors import UnusableDatabaseError
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.access import Access
from bailiwick.policy.changes import AddImpersonation, AddMembers, AddRole, RemoveMask
from bailiwick.policy.model import BoundColumn, Grantee, Impersonation, Policies, Securable
from bailiwick.policy.store import PolicyStore
from bailiwick.testing.databases import opened_database

ROLE = (AddRole("analyst"), AddMembers("analyst", who("user:alice")))
EVERYTHING = (
    *ROLE,
    grant("lake", SELECT),
    grant(Securable("lake", ("a.b", "ü"), "c`d", uuid="u"), SELECT, to="user:zoe"),
    row_filter(using="owner = current_user() AND note <> 'it''s \u2028 \"x\"'", exempt=("role:auditor",)),
    mask(priority=-3),
    mask("pii", tag="pii", action="hash"),
    tags(BoundColumn("region", 2), "pii", "x"),
    AddImpersonation(Impersonation(Grantee.user("bi"), Grantee.role("analyst"))),
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = opened_database(tmp_path / "bailiwick.db")
    yield opened
    await opened.close()


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PolicyStore]:
    opened = PolicyStore(database, now=lambda: 123.0)
    await opened.load()
    yield opened
    await opened.close()


async def reopened(database: Database) -> Policies:
    store = PolicyStore(database)
    await store.load()
    return store.current


async def test_what_was_changed_is_there_after_a_restart(store: PolicyStore, database: Database) -> None:
    changed = await store.change(EVERYTHING, ROOT)
    assert store.current is changed
    assert await reopened(database) == changed
    assert changed.version == 1


async def test_each_version_says_when_who_and_what(store: PolicyStore) -> None:
    await store.change(ROLE, ROOT)
    await store.change([row_filter()], Principal("zoe", frozenset({"admin"}), actor="ann"))
    last, first = await store.history()
    assert (first.version, first.at, first.by, first.actor) == (1, 123.0, "root", None)
    assert first.what == ("created role analyst", "granted role analyst to user:alice")
    assert (last.version, last.by, last.actor) == (2, "zoe", "ann")
    assert last.what == ("created row filter eu_only on table lake.sales.orders",)
    assert len(await store.history(limit=1)) == 1


async def test_of_a_change_that_is_refused_nothing_is_kept(store: PolicyStore, database: Database) -> None:
    with pytest.raises(BailiwickError, match="different priorities"):
        await store.change([*ROLE, mask("one"), mask("two")], ROOT)
    assert store.current.version == 0
    assert await reopened(database) == Policies()
    assert await store.history() == ()


async def test_a_change_that_changes_nothing_makes_no_version(store: PolicyStore) -> None:
    await store.change([*ROLE, grant("lake", SELECT)], ROOT)
    assert (await store.change([grant("lake", SELECT)], ROOT)).version == 1


async def test_a_preview_changes_nothing_and_refuses_the_same(store: PolicyStore) -> None:
    assert store.preview(ROLE).role("analyst") is not None
    assert store.current.roles == ()
    with pytest.raises(BailiwickError):
        store.preview([AddRole("admin")])


async def test_who_expected_another_version_is_told(store: PolicyStore) -> None:
    await store.change(ROLE, ROOT, expected_version=0)
    with pytest.raises(BailiwickError) as refused:
        await store.change([row_filter()], ROOT, expected_version=0)
    assert refused.value.code is Code.COMMIT_CONFLICT
    assert "version 1, not 0" in refused.value.message


async def test_changes_from_threads_and_from_the_loop_are_all_kept(
    store: PolicyStore, database: Database
) -> None:
    def create(number: int) -> None:
        store.table_created("lake", TableName(("sales",), f"t{number}"), f"u{number}", ALICE)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    await asyncio.gather(*(store.change([AddRole(f"r{number}")], ROOT) for number in range(10)))
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert (len(store.current.roles), len(store.current.grants), store.current.version) == (10, 10, 20)
    assert await reopened(database) == store.current


async def test_a_change_whose_caller_goes_away_is_finished(store: PolicyStore, database: Database) -> None:
    task = asyncio.create_task(store.change(ROLE, ROOT))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.close()
    assert await reopened(database) == store.current


async def test_who_listens_gets_each_version(store: PolicyStore) -> None:
    heard: list[int] = []
    store.on_change(lambda policies: heard.append(policies.version))
    await store.change(ROLE, ROOT)
    await asyncio.to_thread(store.namespace_created, "lake", ("lab",), ALICE)
    assert heard == [1, 2]


async def test_what_was_begun_under_a_version_keeps_it(store: PolicyStore) -> None:
    await store.change([*ROLE, grant("lake.sales.*", SELECT)], ROOT)
    access = Access(ALICE, store.current)
    await store.change([row_filter()], ROOT)
    assert not access.table(SELECT, ORDERS).is_restricted
    assert Access(ALICE, store.current).table(SELECT, ORDERS).is_restricted


async def test_what_happens_to_tables_is_never_refused(store: PolicyStore) -> None:
    waiting = Securable("lake", ("sales",), "old")
    await store.change([*ROLE, mask(), mask("other", waiting, EMAIL)], ROOT)
    renamed = store.table_renamed("lake", ORDERS.name, TableName(("sales",), "old"), ORDERS.uuid, ALICE)
    assert {str(each.on) for each in renamed.masks} == {"lake.sales.old"}
    # They meet now. That does not stop who changes something else, or who puts it right.
    await store.change([grant("lake", SELECT)], ROOT)
    await store.change([RemoveMask("other", waiting)], ROOT)


async def test_drops_and_namespaces_are_kept_like_changes(store: PolicyStore, database: Database) -> None:
    await store.change([*ROLE, row_filter()], ROOT)
    store.namespace_created("lake", ("lab",), ALICE)
    store.namespace_dropped("lake", ("lab",), ALICE)
    store.table_dropped("lake", ORDERS.name, ORDERS.uuid, ALICE)
    assert store.current.filters[0].on == Securable("lake", ("sales",), "orders")
    assert await reopened(database) == store.current
    assert (await store.history())[0].what == ("table lake.sales.orders was dropped",)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("filters", {"until": "tomorrow"}),
        ("filters", {"using": 7}),
        ("filters", {"on": {"catalog": "lake", "shadow": True}}),
        ("wishes", {}),
    ],
)
async def test_policies_that_another_version_wrote_are_refused_not_shortened(
    store: PolicyStore, database: Database, kind: str, change: dict[str, object]
) -> None:
    await store.change([*ROLE, row_filter()], ROOT)
    elements = schema.policy_elements
    with database.synchronous.begin() as connection:
        stored = select(elements.c.definition).where(elements.c.kind == "filters")
        definition = json.loads(connection.execute(stored).scalar_one())
        changed = {"kind": kind, "definition": json.dumps({**definition, **change})}
        connection.execute(update(elements).where(elements.c.kind == "filters").values(changed))
    with pytest.raises(UnusableDatabaseError):
        await reopened(database)


async def test_a_role_without_a_field_that_has_a_default_can_be_read(
    store: PolicyStore, database: Database
) -> None:
    with database.synchronous.begin() as connection:
        connection.execute(insert(schema.policy_elements).values(kind="roles", definition='{"name":"old"}'))
    assert (await reopened(database)).role("old") is not None
    assert store.current.role("old") is None

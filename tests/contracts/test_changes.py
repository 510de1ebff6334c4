"""What one gateway changes, the other notices: told by PostgreSQL, or asked for, or nothing is decided."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.sql import SqlBackend
from bailiwick.database import postgresql, revisions
from bailiwick.database.changes import Alone, ChangeFeed, change_feed
from bailiwick.database.config import DatabaseConfig
from bailiwick.database.database import Database
from bailiwick.database.postgresql_changes import PostgresChangeFeed
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.policy.changes import AddRole
from bailiwick.policy.store import PolicyStore
from bailiwick.testing.postgres import PrivatePostgres

ROOT = Principal("root", frozenset({"admin"}))
POLL_S = 0.01


async def until(what: str, condition: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while True:
            answer = condition()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(POLL_S)


@dataclass(frozen=True)
class Gateway:
    database: Database
    policies: PolicyStore
    catalog: CatalogService
    feed: ChangeFeed

    @property
    def has_db(self) -> bool:
        return ("db",) in self.catalog.contents.namespaces


async def gateway_on(database: Database, directory: Path) -> Gateway:
    policies = PolicyStore(database)
    await policies.load()
    backend = SqlBackend.over(database, "lake")
    catalog = await asyncio.to_thread(CatalogService, backend, directory / "warehouse")
    feed = change_feed(database)
    feed.follow(revisions.POLICY, policies)
    feed.follow(revisions.catalog_topic("lake"), catalog)
    return Gateway(database, policies, catalog, feed)


@pytest.fixture
async def two(shared: tuple[Database, Database], tmp_path: Path) -> AsyncIterator[tuple[Gateway, Gateway]]:
    one, other = [await gateway_on(database, tmp_path) for database in shared]
    yield one, other
    await one.feed.close()
    await other.feed.close()


async def test_what_one_changes_comes_to_the_others_memory_by_itself(two: tuple[Gateway, Gateway]) -> None:
    one, other = two
    await other.feed.start()
    await other.feed.ensure_fresh()
    await one.policies.change([AddRole("analyst")], ROOT)
    await asyncio.to_thread(one.catalog.create_namespace, ("db",))
    await until("policies told", lambda: other.policies.current == one.policies.current)
    await until("the catalog told", lambda: other.has_db)
    assert other.catalog.revision == one.catalog.revision


async def test_who_asks_first_sees_what_was_committed_before_even_if_nobody_tells(
    two: tuple[Gateway, Gateway],
) -> None:
    one, other = two
    await one.policies.change([AddRole("analyst")], ROOT)
    await asyncio.to_thread(one.catalog.create_namespace, ("db",))
    # The feed was never started: as if its connection were lost all the time.
    await other.feed.ensure_fresh()
    assert other.policies.current == one.policies.current
    assert other.has_db


async def test_a_change_is_made_to_what_is_there_and_not_to_what_was_remembered(
    two: tuple[Gateway, Gateway],
) -> None:
    one, other = two
    await asyncio.to_thread(one.catalog.create_namespace, ("db",))
    await asyncio.to_thread(other.catalog.create_namespace, ("db", "inner"))
    await asyncio.to_thread(one.catalog.create_namespace, ("dbx",))
    assert set(one.catalog.contents.namespaces) == {("db",), ("db", "inner"), ("dbx",)}


async def test_what_is_never_too_old_is_read_before_every_decision(
    postgres: PrivatePostgres, tmp_path: Path
) -> None:
    url = postgres.new_database().url
    config = DatabaseConfig(url=url, stale_max_s=0)
    database = Database.open(tmp_path / "unused", config)
    one, other = await gateway_on(database, tmp_path), await gateway_on(database, tmp_path)
    await other.feed.start()
    for number in range(10):
        await one.policies.change([AddRole(f"r{number}")], ROOT)
        await other.feed.ensure_fresh()
        assert other.policies.current == one.policies.current
    await other.feed.close()
    await database.close()


async def test_many_who_ask_at_once_ask_the_database_once(two: tuple[Gateway, Gateway]) -> None:
    _, other = two
    await asyncio.gather(*(other.feed.ensure_fresh() for _ in range(200)))


async def test_a_follower_that_cannot_read_keeps_everything_from_being_decided(
    two: tuple[Gateway, Gateway],
) -> None:
    class Stuck:
        revision = 0

        async def catch_up(self) -> None:
            raise ValueError("a definition of another version")

    one, other = two
    other.feed.follow(revisions.POLICY, Stuck())
    await other.feed.ensure_fresh()
    await one.policies.change([AddRole("analyst")], ROOT)
    await other.feed.start()
    await until("refused", lambda: refused(other.feed))


async def refused(feed: ChangeFeed) -> bool:
    try:
        await feed.ensure_fresh()
    except BailiwickError as error:
        return error.code is Code.CATALOG_UNAVAILABLE and error.retryable and "another" not in error.message
    return False


async def test_nothing_is_decided_while_nobody_answers(tmp_path: Path, postgres: PrivatePostgres) -> None:
    database = Database.open(tmp_path / "unused", postgres.new_database())
    gateway = await gateway_on(database, tmp_path)
    await database.close()
    nowhere = DatabaseConfig(url=SecretStr("postgresql://127.0.0.1:1/x"))
    lost = Database(
        asynchronous=database.asynchronous,
        asynchronous_reads=postgresql.asynchronous_engine(nowhere.parameters(), writes=False),
        synchronous=database.synchronous,
        synchronous_reads=database.synchronous_reads,
        config=nowhere,
    )
    feed = PostgresChangeFeed(lost)
    feed.follow(revisions.POLICY, gateway.policies)
    await feed.start()
    assert await refused(feed)
    await feed.close()
    await lost.close()


async def test_alone_there_is_nothing_to_notice(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "bailiwick.db")
    feed = change_feed(database)
    assert isinstance(feed, Alone)
    gateway = await gateway_on(database, tmp_path)
    await gateway.feed.start()
    await asyncio.to_thread(gateway.catalog.create_namespace, ("db",))
    await gateway.feed.ensure_fresh()
    await gateway.feed.close()
    await database.close()


@pytest.mark.parametrize(
    "said", ["", "x", "1", "1 ", "x policy", "-1 policy", "9" * 30 + " policy", " policy"]
)
def test_what_makes_no_sense_on_the_channel_is_passed_over(said: str) -> None:
    assert revisions.parse(said) is None


def test_a_topic_may_hold_blanks() -> None:
    assert revisions.parse("7 catalog lake") == ("catalog lake", 7)

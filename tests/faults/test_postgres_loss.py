"""PostgreSQL is killed, restarted and hung under gateways: typed errors, nothing half done, nothing lost."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import event, insert

from bailiwick.audit.chain import kept
from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.audit.store import AuditStore
from bailiwick.catalog.backend import ConcurrentChangeError, CreateNamespace, SetNamespaceProperties
from bailiwick.catalog.refusals import UnavailableError
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.sql import SqlBackend
from bailiwick.database import revisions, schema
from bailiwick.database.changes import ChangeFeed, change_feed
from bailiwick.database.config import DatabaseConfig
from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId
from bailiwick.policy.changes import AddRole
from bailiwick.policy.store import PolicyStore
from bailiwick.queries.query import Query
from bailiwick.queries.sql import SqlQueryStore
from bailiwick.testing.postgres import PrivatePostgres, running_postgres, why_not

pytestmark = pytest.mark.fault
ROOT = Principal("root", frozenset({"admin"}))
POLL_S = 0.02


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    if (problem := why_not()) is not None:
        pytest.skip(problem)
    with running_postgres() as running:
        yield running


@dataclass(frozen=True)
class Gateway:
    database: Database
    backend: SqlBackend
    catalog: CatalogService
    policies: PolicyStore
    audit: AuditStore
    queries: SqlQueryStore
    feed: ChangeFeed

    @classmethod
    async def open(cls, config: DatabaseConfig, directory: Path) -> "Gateway":
        database = await asyncio.to_thread(Database.open, directory / "unused", config)
        backend = SqlBackend.over(database, "lake")
        catalog = await asyncio.to_thread(CatalogService, backend, directory / "warehouse")
        policies = PolicyStore(database)
        await policies.load()
        feed = change_feed(database)
        feed.follow(revisions.POLICY, policies)
        feed.follow(revisions.catalog_topic("lake"), catalog)
        await feed.start()
        return cls(database, backend, catalog, policies, AuditStore(database), SqlQueryStore(database), feed)

    async def close(self) -> None:
        await self.feed.close()
        await self.database.close()

    async def do_everything(self, name: str) -> None:
        """Something by each of the four engines."""
        await asyncio.to_thread(self.catalog.create_namespace, (name,))
        await self.policies.change([AddRole(name)], ROOT)
        await asyncio.to_thread(self.audit.append, [entry(name)])
        await self.queries.save([Query(QueryId(name), "ann", "acme", "x", "SELECT 1", 1.0)])
        assert await self.queries.find(QueryId(name)) is not None


@pytest.fixture
async def two(server: PrivatePostgres, tmp_path: Path) -> AsyncIterator[tuple[Gateway, Gateway]]:
    config = server.new_database()
    one, other = await Gateway.open(config, tmp_path), await Gateway.open(config, tmp_path)
    yield one, other
    await one.close()
    await other.close()


def entry(what: str) -> str:
    return kept(AuditEntry(1000.5, Kind.QUERY, "ann", what, Outcome.FINISHED))


async def code_of(gateway: Gateway) -> Code | None:
    try:
        await gateway.feed.ensure_fresh()
    except BailiwickError as error:
        return error.code
    return None


async def wait_for(gateway: Gateway, code: Code | None) -> None:
    async with asyncio.timeout(30):
        while await code_of(gateway) is not code:  # noqa: ASYNC110 - what it waits for is elsewhere
            await asyncio.sleep(POLL_S)


async def test_a_killed_server_is_a_typed_error_everywhere_and_all_goes_on_when_it_is_back(
    server: PrivatePostgres, two: tuple[Gateway, Gateway]
) -> None:
    one, other = two
    await one.do_everything("before")
    await wait_for(other, None)
    server.kill()
    for attempt in (
        asyncio.to_thread(one.catalog.create_namespace, ("lost",)),
        one.policies.change([AddRole("lost")], ROOT),
        asyncio.to_thread(one.audit.append, [entry("lost")]),
        asyncio.to_thread(one.audit.end),
        one.queries.save([Query(QueryId("lost"), "ann", "acme", "x", "SELECT 1", 1.0)]),
        one.queries.find(QueryId("before")),
        wait_for(one, Code.CATALOG_UNAVAILABLE),
        wait_for(other, Code.CATALOG_UNAVAILABLE),
    ):
        try:
            await attempt
        except BailiwickError as error:
            assert (error.code, error.retryable) == (Code.CATALOG_UNAVAILABLE, True)  # noqa: PT017
            assert "127.0.0.1" not in error.message  # noqa: PT017
    assert ("before",) in one.catalog.contents.namespaces
    server.start()
    await one.do_everything("after")
    await wait_for(other, None)
    assert other.policies.current == one.policies.current
    assert set(other.catalog.contents.namespaces) == {("before",), ("after",)}
    assert one.audit.verify().is_sound


async def test_what_was_under_way_when_the_server_was_killed_is_not_half_done(
    server: PrivatePostgres, two: tuple[Gateway, Gateway]
) -> None:
    one, _ = two

    def write() -> None:
        with one.database.synchronous.begin() as connection:
            values = {"catalog": "lake", "namespace": "half", "properties": "{}"}
            connection.execute(insert(schema.catalog_namespaces).values(values))
            server.kill()
            connection.execute(insert(schema.catalog_namespaces).values({**values, "namespace": "other"}))

    with pytest.raises(BailiwickError) as failed:
        write()
    assert failed.value.code is Code.CATALOG_UNAVAILABLE
    server.start()
    assert one.backend.load().namespaces == {}


async def test_engines_are_told_to_ask_again_only_if_nothing_was_done(
    server: PrivatePostgres, two: tuple[Gateway, Gateway]
) -> None:
    one, other = two
    event.listen(one.database.synchronous, "commit", lambda _connection: server.kill(), once=True)
    with pytest.raises(BailiwickError) as unknown:
        one.catalog.create_namespace(("maybe",))
    with pytest.raises(UnavailableError) as refused:
        one.catalog.create_namespace(("never",))
    server.start()
    assert not isinstance(unknown.value, UnavailableError)
    assert (unknown.value.code, refused.value.status) == (Code.CATALOG_UNAVAILABLE, 503)
    for gateway in (one, other):
        await wait_for(gateway, None)
        assert set(gateway.catalog.contents.namespaces) == set(one.backend.load().namespaces)
    assert ("never",) not in one.catalog.contents.namespaces


async def test_no_acknowledged_commit_is_lost_while_the_server_is_killed_again_and_again(
    server: PrivatePostgres, two: tuple[Gateway, Gateway]
) -> None:
    """Both count in the catalog and on record at once; who is not told does not know, and looks."""
    two[0].backend.apply([CreateNamespace(("db",), {"count": "0"})])
    told: list[int] = []
    over = threading.Event()

    def work(gateway: Gateway) -> None:
        while not over.is_set():
            try:
                count = int(gateway.backend.load().namespaces["db",]["count"]) + 1
                revision = gateway.backend.apply([SetNamespaceProperties(("db",), {"count": str(count)})])
                told.append(revision)
                gateway.audit.append([entry(str(revision))])
            except (BailiwickError, ConcurrentChangeError):
                continue

    threads = [threading.Thread(target=work, args=(gateway,)) for gateway in (*two, *two)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        known = len(told)
        async with asyncio.timeout(30):
            while len(told) < known + 20:  # noqa: ASYNC110 - threads do it
                await asyncio.sleep(POLL_S)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
    over.set()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    # Every revision was made once; all that were told are there; what was not told may be there, too.
    assert len(set(told)) == len(told)
    assert two[0].backend.revision() >= max(told)
    assert two[0].backend.revision() - len(told) <= 1 + 3 * len(threads)
    assert two[1].audit.verify().is_sound


async def test_a_server_that_hangs_lets_nothing_be_decided_and_nothing_hang_for_ever(
    server: PrivatePostgres, two: tuple[Gateway, Gateway]
) -> None:
    one, other = two
    await wait_for(other, None)
    server.pause()
    try:
        await wait_for(other, Code.CATALOG_UNAVAILABLE)
    finally:
        server.resume()
    await one.do_everything("after")
    await wait_for(other, None)
    assert other.policies.current == one.policies.current

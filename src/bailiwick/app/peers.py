"""Other gateways on the same database: what they change is noticed, and who dies is taken over from.

With SQLite there are none, and all of this does nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from bailiwick.config import Config
from bailiwick.database.changes import ChangeFeed, change_feed
from bailiwick.database.database import Database
from bailiwick.doors.listening import shown
from bailiwick.ids import GatewayId, QueryId
from bailiwick.queries import cancellations
from bailiwick.queries.cancellations import Cancellations, Carry
from bailiwick.queries.gateways import Gateways, OnlyOne, SharedGateways
from bailiwick.queries.owners import GatewayLeases, home_of
from bailiwick.queries.sql import SqlQueryStore


@dataclass(frozen=True, slots=True)
class Peers:
    database: Database
    feed: ChangeFeed
    leases: GatewayLeases | None

    def owner(self) -> GatewayId | None:
        """Under which name this gateway runs queries; None where it is the only one."""
        return None if self.leases is None else self.leases.id

    def cancellations(self, carry_out: Carry) -> Cancellations:
        """What others want ended here."""
        return Cancellations(self.database, carry_out)

    async def wish_end(self, query_id: QueryId, by: str) -> None:
        """Of a query that another gateway runs."""
        if self.leases is not None:
            await cancellations.wish(self.database, query_id, by)

    def gateways(self) -> Gateways:
        """All of them, as doors see them."""
        if self.leases is None:
            return OnlyOne()
        store = SqlQueryStore(self.database, self.owner)
        return SharedGateways(self.owner, self.leases.living, store, self.wish_end)

    def watch(self, stack: AsyncExitStack, end_all_work: Callable[[], Awaitable[None]]) -> None:
        """Show the others that this one lives, until `stack` ends."""
        if self.leases is not None:
            beating = asyncio.create_task(self.leases.run(end_all_work), name="gateway-lease")
            stack.push_async_callback(_ended, beating)


async def _ended(task: asyncio.Task[None]) -> None:
    """Not left to itself: it may hold a connection."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def advertised_address(config: Config) -> str | None:
    """Where clients and other gateways reach this one, if that was said: `host:port`."""
    host, port = config.server.advertised, config.server.grpc_port
    return shown(host, port) if host and port else None


def advertised_location(config: Config) -> str | None:
    """The same, as Flight spells it."""
    address = advertised_address(config)
    scheme = "grpc+tls" if config.tls.is_on else "grpc+tcp"
    return None if address is None else f"{scheme}://{address}"


async def open_peers(stack: AsyncExitStack, config: Config, data_dir: Path, database: Database) -> Peers:
    feed = change_feed(database)
    stack.push_async_callback(feed.close)
    if not database.is_shared:
        return Peers(database, feed, None)
    # Only what a person has said is told to clients: where it listens may mean nothing to them.
    address = advertised_address(config) or ""
    home = await asyncio.to_thread(home_of, data_dir)
    leases = GatewayLeases(database, home=home, address=address)
    await leases.join()
    stack.push_async_callback(leases.leave)
    return Peers(database, feed, leases)

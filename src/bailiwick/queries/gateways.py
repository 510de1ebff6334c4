"""The other gateways on the same database, as far as whoever speaks to clients must know of them.

A thing that only one gateway has, a session or a result that waits, names that gateway by its id. Here one
asks where that gateway is, and has a query ended that another one runs. Nothing is forwarded.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from bailiwick.identity.abilities import may_cancel
from bailiwick.identity.principal import Principal
from bailiwick.ids import GatewayId, QueryId
from bailiwick.queries.cancellations import CancelElsewhere
from bailiwick.queries.owners import GatewayRow
from bailiwick.queries.recorder import WRITE_EVERY_S
from bailiwick.queries.store import QueryStore

LOOKS_MAX: Final = 3
"""How often one looks for a query that another gateway may be about to write down."""


class Gateways(ABC):
    """All gateways on one database, seen from one of them."""

    @property
    @abstractmethod
    def own_id(self) -> GatewayId | None:
        """Under which this one is known now; None where it is the only one."""

    @abstractmethod
    async def addresses(self) -> Mapping[GatewayId, str]:
        """Those that live, this one among them, each with its `host:port`, or with "" if it tells none.

        One that has just died may be among them.
        """

    @abstractmethod
    async def end(self, query_ids: Sequence[QueryId], by: Principal) -> bool:
        """Have those of these queries ended that another gateway runs and `by` may end. False if none is."""


class OnlyOne(Gateways):
    """There is this one."""

    @property
    def own_id(self) -> GatewayId | None:
        return None

    async def addresses(self) -> Mapping[GatewayId, str]:
        return {}

    async def end(self, query_ids: Sequence[QueryId], by: Principal) -> bool:
        del query_ids, by
        return False


class SharedGateways(Gateways):
    """Those that show in the database that they live."""

    def __init__(
        self,
        own_id: Callable[[], GatewayId | None],
        living: Callable[[], Awaitable[Sequence[GatewayRow]]],
        store: QueryStore,
        wish_end: CancelElsewhere,
    ) -> None:
        self._own_id = own_id
        self._living = living
        self._store = store
        self._wish_end = wish_end

    @property
    def own_id(self) -> GatewayId | None:
        return self._own_id()

    async def addresses(self) -> Mapping[GatewayId, str]:
        return {row.id: row.address for row in await self._living()}

    async def end(self, query_ids: Sequence[QueryId], by: Principal) -> bool:
        for look in range(LOOKS_MAX):
            if look:
                # A gateway writes down what it has begun a moment later.
                await asyncio.sleep(WRITE_EVERY_S)
            queries = [query for query_id in query_ids if (query := await self._store.find(query_id))]
            mine = [query for query in queries if may_cancel(by, query.principal, query.tenant)]
            running = [query for query in mine if not query.state.is_terminal]
            for query in running:
                await self._wish_end(query.id, by.name)
            if queries:
                return bool(running)
        return False

"""Where a client's session has its work done, and the sessions that are nobody's own.

As long as a client's session is like any other (no view, no setting, no current schema of its own), what
only reads leaves nothing behind and can be done wherever there is room: on whichever engine, in a warm
session that others have used and will use. So a thousand clients that only ask cost no session each, and
Spark compiles what they ask once and not a thousand times.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from bailiwick.fleet.schedule import Work
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, QueryId
from bailiwick.queries.client_sessions import DEFAULT_TIME_ZONE
from bailiwick.queries.spark_side import Lease
from bailiwick.queries.statement import DEFAULT_CATALOG

Lend = Callable[[Principal, QueryId | None, Work], AbstractAsyncContextManager[Lease]]


class Place(Protocol):
    """Where work of a client's session is done."""

    @property
    def standing(self) -> LeaseId | None:
        """None where the session is not the principal's own: the guard refuses then what would stay in it."""

    def lease(
        self, principal: Principal, query_id: QueryId | None, work: Work
    ) -> AbstractAsyncContextManager[Lease]: ...

    def retire(self) -> None:
        """Its engine was lost: nothing new begins in it."""


class SharedSession:
    """Each lease is of any session that the pool has; it is as one that was just opened."""

    standing = None

    def __init__(self, lend: Lend) -> None:
        """`lend` is the pool's."""
        self._lend = lend

    @asynccontextmanager
    async def lease(self, principal: Principal, query_id: QueryId | None, work: Work) -> AsyncIterator[Lease]:
        async with self._lend(principal, query_id, work) as lease:
            await make_plain(lease)
            yield lease

    def retire(self) -> None:
        """The pool knows by itself which sessions are lost."""


async def make_plain(lease: Lease) -> None:
    """It served others before, with settings and schemas of theirs."""
    await lease.session.use(DEFAULT_CATALOG, (), lease=lease.id)
    await lease.session.localise(time_zone=DEFAULT_TIME_ZONE, double_quoted_identifiers=False)

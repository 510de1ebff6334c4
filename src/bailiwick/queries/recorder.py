"""Writes down what happens to queries, behind the queries' backs.

Most of what is recorded may be a moment late: it is gathered and written in one transaction, at most
`WRITE_EVERY_S` after it happened. What must be on disk before anything else happens waits for `save_now`. A
failing database does not stop queries that only read; it stops changes, since those must be recorded first.
"""

import asyncio
from collections.abc import Callable

import structlog

from bailiwick.clock import Clock
from bailiwick.ids import QueryId
from bailiwick.queries.query import Query
from bailiwick.queries.store import QueryStore

WRITE_EVERY_S = 0.2
PRUNE_EVERY_S = 3600.0
PENDING_MAX = 10_000
"""While the database fails, the oldest records beyond this number are given up."""

_DAY_S = 86_400.0
_log = structlog.get_logger(__name__)


class Recorder:
    def __init__(self, store: QueryStore, *, history_days: float, wall: Clock) -> None:
        self._store = store
        self._history_s = history_days * _DAY_S
        self._wall = wall
        self._pending: dict[QueryId, Query] = {}
        self._something = asyncio.Event()
        self._writing = asyncio.Lock()

    def note(self, query: Query) -> None:
        """Record `query` soon."""
        self._pending[query.id] = query
        while len(self._pending) > PENDING_MAX:
            del self._pending[next(iter(self._pending))]
        self._something.set()

    async def save_now(self, query: Query) -> None:
        """Record `query` before returning. Raises what the store raises."""
        async with self._writing:
            # What waits to be written of this query is older.
            self._pending.pop(query.id, None)
            await self._store.save([query])

    async def flush(self) -> None:
        """Write what waits to be written. Raises what the store raises; nothing is lost then."""
        async with self._writing:
            batch, self._pending = self._pending, {}
            self._something.clear()
            if not batch:
                return
            try:
                await self._store.save(list(batch.values()))
            except BaseException:
                self._pending = {**batch, **self._pending}
                raise

    async def run(self, report: Callable[[Exception], None] | None = None) -> None:
        """Write again and again, and forget what is too old. Ends by being cancelled."""
        prune_at = 0.0
        while True:
            await self._something.wait()
            await asyncio.sleep(WRITE_EVERY_S)
            try:
                await self.flush()
                if self._wall() >= prune_at:
                    prune_at = self._wall() + PRUNE_EVERY_S
                    await self._store.prune(created_before=self._wall() - self._history_s)
            except Exception as error:
                _log.exception("history_not_written", waiting=len(self._pending))
                self._something.set()
                if report is not None:
                    report(error)

"""Short reads, begun before they are fetched: the answer is under way while the client comes for it.

A read begins when its ticket is asked for; with drivers that run at once whatever they prepare, when it is
prepared. Only a guess that costs next to nothing is made: the read is small, a warm session lies idle, and
few are begun already. One that nobody fetches within moments is ended; asked for after that, it starts anew.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from bailiwick.errors import BailiwickError
from bailiwick.ids import QueryId
from bailiwick.queries import failures
from bailiwick.queries.statement import Result, Statement
from bailiwick.telemetry.logs import logger

_log = logger(__name__)


class Queries(Protocol):
    """The query service, as far as beginning early needs it."""

    def run(
        self, statement: Statement, *, query_id: QueryId | None = None, expected_schema: bytes | None = None
    ) -> AbstractAsyncContextManager[Result]: ...

    def is_trifle(self, statement: Statement) -> bool:
        """Whether it has little to read, and a session lies idle for it."""


@dataclass(frozen=True, slots=True)
class BeginningLimits:
    fetched_within_s: float = 2.0
    """A read that nobody has come for by then is ended."""
    per_principal_max: int = 4
    total_max: int = 16


@dataclass(slots=True, eq=False)
class _Begun:
    statement: Statement
    told: "asyncio.Future[Result]"
    is_promised: bool
    """Whether a client has a ticket for it."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None


class Beginnings:
    """Belongs to one event loop. Close it before the query service."""

    def __init__(self, queries: Queries, limits: BeginningLimits | None = None) -> None:
        self._queries = queries
        self._limits = limits or BeginningLimits()
        self._begun: dict[QueryId, _Begun] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._begun)

    def find(self, statement: Statement) -> QueryId | None:
        """The id of this very statement, begun and not promised to anybody yet. It is promised by this."""
        for query_id, begun in self._begun.items():
            if not begun.is_promised and begun.statement == statement:
                begun.is_promised = True
                return query_id
        return None

    def begin(
        self,
        query_id: QueryId,
        statement: Statement,
        expected_schema: bytes | None,
        *,
        is_promised: bool = True,
    ) -> None:
        """Begin it if that is worth while. It is fetched by `take`, or ended soon."""
        if statement.submission is not None or not self._has_room(statement):
            return
        if not self._queries.is_trifle(statement):
            return
        loop = asyncio.get_running_loop()
        begun = _Begun(statement, loop.create_future(), is_promised)
        begun.task = loop.create_task(self._live(begun, query_id, expected_schema), name=f"begun-{query_id}")
        begun.timer = loop.call_later(self._limits.fetched_within_s, self._give_up, query_id)
        self._begun[query_id] = begun

    @asynccontextmanager
    async def take(self, query_id: QueryId, statement: Statement) -> AsyncIterator[Result | None]:
        """What was begun under this id, if it was this very statement; None if it has to be run now.

        Raises what the query failed with. Leaving before the last frame cancels it.
        """
        begun = self._begun.pop(query_id, None)
        if begun is None or begun.statement != statement:
            if begun is not None:
                self._end(begun)
            yield None
            return
        try:
            yield await asyncio.shield(begun.told)
        finally:
            self._end(begun)

    async def close(self) -> None:
        """End what nobody has fetched."""
        for query_id in list(self._begun):
            self._give_up(query_id)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _has_room(self, statement: Statement) -> bool:
        if len(self._begun) >= self._limits.total_max:
            return False
        begun = Counter(each.statement.principal.name for each in self._begun.values())
        return begun[statement.principal.name] < self._limits.per_principal_max

    def _give_up(self, query_id: QueryId) -> None:
        begun = self._begun.pop(query_id, None)
        if begun is not None:
            self._end(begun)

    def _end(self, begun: _Begun) -> None:
        if begun.timer is not None:
            begun.timer.cancel()
        begun.released.set()
        if begun.task is not None and not begun.task.done():
            self._ending.add(begun.task)
            begun.task.add_done_callback(self._ending.discard)
            if not begun.told.done():
                begun.task.cancel()

    async def _live(self, begun: _Begun, query_id: QueryId, expected_schema: bytes | None) -> None:
        try:
            async with self._queries.run(
                begun.statement, query_id=query_id, expected_schema=expected_schema
            ) as result:
                begun.told.set_result(result)
                await begun.released.wait()
        except BailiwickError as error:
            _fail(begun, error)
        except Exception as error:
            _log.exception("beginning_broke", query_id=query_id)
            _fail(begun, failures.internal(error))
        finally:
            _fail(begun, failures.client_left())


def _fail(begun: _Begun, error: BailiwickError) -> None:
    if not begun.told.done():
        begun.told.set_exception(error)
        # Whoever asked may never come for it; then nobody looks at it, and that is fine.
        begun.told.exception()

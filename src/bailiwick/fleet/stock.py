"""The warm sessions themselves: opened ahead, warmed up, replaced when worn.

It does not know who uses them. `sessions.py` takes them out, one query at a time, and gives them back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeGuard

from bailiwick.clock import Clock
from bailiwick.engines.canary import UNGUARDED
from bailiwick.engines.config import PoolConfig
from bailiwick.engines.engine import Engine, EngineLost, EngineSession
from bailiwick.errors import BailiwickError
from bailiwick.telemetry.logs import logger

RETRY_PAUSE_S: Final = 0.5

_log = logger(__name__)


@dataclass(slots=True, eq=False)
class Stocked:
    """A session of ours, with what decides when it is worn."""

    session: EngineSession
    generation: int
    opened_at: float
    queries: int = 0


class Stock:
    """Keeps sessions ready. `prepare` warms one up and says when it is fit; `on_change` is told of both."""

    def __init__(
        self,
        engine: Engine,
        config: PoolConfig,
        clock: Clock,
        *,
        prepare: Callable[[EngineSession, Callable[[], None]], Awaitable[None]],
        on_change: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._config = config
        self._clock = clock
        self._prepare = prepare
        self._on_change = on_change
        self._idle: list[Stocked] = []
        self._lent: set[Stocked] = set()
        self._opening = 0
        self._fit: set[EngineSession] = set()
        self._retry_at = float("-inf")
        self._is_closed = False
        self.unguarded: BailiwickError | None = None
        """Why no session of the engine may be used, as far as the last one tells."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def idle_count(self) -> int:
        return len(self._idle)

    @property
    def opening_count(self) -> int:
        return self._opening

    @property
    def fit_count(self) -> int:
        """Those idle, and those that would leave their warming up for whoever asks."""
        return len(self._idle) + len(self._fit)

    def take(self) -> Stocked | None:
        """The session used last, for its code is the warmest; None if there is none that can be used now."""
        self._discard_worn()
        if not self._engine.is_ready or not self._idle:
            return None
        stocked = self._idle.pop()
        self._lent.add(stocked)
        return stocked

    def give_back(self, stocked: Stocked) -> None:
        """It is clean, and may be taken again unless it is worn."""
        stocked.queries += 1
        self._lent.discard(stocked)
        self._idle.append(stocked)
        self._discard_worn()

    def let_go(self, stocked: Stocked) -> None:
        """It is another's affair from now on, and not missed here: a new one is opened in its place."""
        self._lent.discard(stocked)

    async def drop(self, stocked: Stocked) -> None:
        """Not clean, or not known to be. Returns when Spark has ended what ran in it, or does not answer."""
        try:
            await stocked.session.close()
        finally:
            self._lent.discard(stocked)

    def keep(self, wanted: int) -> None:
        """Open what is missing, in the background. What is more than wanted stays until it is worn."""
        if self._is_closed or not self._engine.is_ready or self._clock() < self._retry_at:
            return
        self._discard_worn()
        usable_lent = sum(one.generation == self._engine.generation for one in self._lent)
        missing = wanted - len(self._idle) - usable_lent - self._opening
        if not (self.fit_count or usable_lent):
            # A cold engine is quickest to be of use when it warms up one session first.
            missing = min(missing, 1 - self._opening)
        for _ in range(missing):
            self._opening += 1
            self._spawn(self._open())

    async def close(self) -> None:
        """Give up what is being opened and close every session that is not lent."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        idle, self._idle = self._idle, []
        await asyncio.gather(*(one.session.close() for one in idle))

    async def _open(self) -> None:
        generation, opened_at = self._engine.generation, self._clock()
        session: EngineSession | None = None
        is_fit = False
        try:
            session = await self._engine.open_session()
            await self._prepare(session, partial(self._note_fit, session))
            is_fit, self.unguarded = session.is_settled, None
        except (BailiwickError, EngineLost, TimeoutError) as error:
            self._retry_at = self._clock() + RETRY_PAUSE_S
            self.unguarded = error if _is_unguarded(error) else None
            _log.warning("a session could not be prepared", error=f"{type(error).__name__}: {error}")
        finally:
            self._opening -= 1
            if session is not None:
                self._fit.discard(session)
            if session is not None and not is_fit:
                await session.close()
        if session is not None and is_fit:
            self._idle.append(Stocked(session, generation, opened_at))
        self._on_change()

    def _note_fit(self, session: EngineSession) -> None:
        self._fit.add(session)
        self._on_change()

    def _discard_worn(self) -> None:
        worn = [stocked for stocked in self._idle if self._is_worn(stocked)]
        for stocked in worn:
            self._idle.remove(stocked)
            self._spawn(stocked.session.close())

    def _is_worn(self, stocked: Stocked) -> bool:
        return (
            stocked.generation != self._engine.generation
            or stocked.queries >= self._config.session_queries_max
            or self._clock() - stocked.opened_at > self._config.session_age_max_s
        )

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        # Whoever gave the occasion has nothing to do with it: neither the log nor a trace should say so.
        task = asyncio.create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_unguarded(error: Exception) -> TypeGuard[BailiwickError]:
    return isinstance(error, BailiwickError) and error.details.get("reason") == UNGUARDED

"""Sessions that are one principal's own, for as long as a client of theirs keeps one.

Such a session is taken from the pool, warm and proven, and never goes back. Each piece of work in it is
admitted as all work is, under a lease of its own; several may be under way at once.

Besides, the session has a standing lease. What outlives the operation that made it, such as a temporary view
of a DataFrame, is loaded under that one. It belongs to one version of the policies: whoever wants to go on
after they changed renews it and makes those things anew, for then what they hold is refused.

It knows nothing of what a session is made of, nor of when its client has gone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bailiwick.clock import Clock, monotonic
from bailiwick.engines.engine import Engine, EngineLost, EngineSession
from bailiwick.engines.holders import Holders, check_same
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.config import DedicatedConfig
from bailiwick.fleet.lease import Kept, Lease
from bailiwick.fleet.schedule import ANYWHERE, Work
from bailiwick.fleet.sessions import SessionPool
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, QueryId, new_lease_id
from bailiwick.policy.access import Access
from bailiwick.telemetry.logs import logger

STANDING_AGE_MAX_S: Final = 12 * 3600.0
"""Stamps made under a standing lease live twice as long."""
RETRY_AFTER_S: Final = 30.0

_log = logger(__name__)


class Dedicated:
    """A session of `principal`'s own. Made by `DedicatedSessions`; belongs to its event loop."""

    def __init__(
        self,
        pool: SessionPool,
        holders: Holders,
        kept: Kept,
        principal: Principal,
        *,
        engine_class: str | None,
        clock: Clock,
        on_close: Callable[["Dedicated"], None],
    ) -> None:
        self._pool = pool
        self._holders = holders
        self._kept = kept
        self.engine_class = engine_class
        """The one that was asked for when it was made."""
        self._clock = clock
        self._on_close = on_close
        self._leases: set[LeaseId] = set()
        self._is_retired = False
        self._closing: asyncio.Task[None] | None = None
        self._standing: _Standing | None = None
        self.renew_standing(principal)

    @property
    def session(self) -> EngineSession:
        return self._kept.stocked.session

    @property
    def engine(self) -> Engine:
        return self._kept.member.engine

    @property
    def is_lost(self) -> bool:
        """Whether nothing new can be begun in it: its engine ended or leaves, or it was closed.

        What runs in it may end, unless the engine is gone.
        """
        return self._kept.is_lost

    @property
    def principal(self) -> Principal:
        """Whose it is, as the standing lease knows them."""
        return self._current.access.principal

    @property
    def standing(self) -> LeaseId:
        """The standing lease. It also tells the guard that the session is somebody's own."""
        return self._current.lease

    @property
    def policy_version(self) -> int:
        """Of the policies that the standing lease knows."""
        return self._current.access.version

    @property
    def lease_count(self) -> int:
        """How many use it now, the standing lease aside."""
        return len(self._leases)

    def is_standing_current(self, principal: Principal) -> bool:
        """Whether policies and roles are still those that the standing lease knows, and it is not too old."""
        current = self._current
        is_young = self._clock() - current.since < STANDING_AGE_MAX_S
        is_same = current.access.principal == principal
        return is_young and is_same and current.access.version == self._holders.policy_version

    def renew_standing(self, principal: Principal) -> LeaseId:
        """Another one in its place. What was made under the one before is refused from now on.

        ValueError if the session is somebody else's.
        """
        before, lease = self._standing, new_lease_id()
        access = self._holders.enter_beside(self.session.handle, lease, principal)
        self._standing = _Standing(lease, access, self._clock())
        if before is not None:
            self._holders.leave(self.session.handle, before.lease)
        return lease

    @asynccontextmanager
    async def lease(
        self, principal: Principal, query_id: QueryId | None = None, work: Work = ANYWHERE
    ) -> AsyncIterator[Lease]:
        """Wait for a turn on this session's engine; leases may be held side by side.

        `principal` is the session's own, with the roles that they have now. Raises EngineLost if the session
        is lost, RESOURCE_EXHAUSTED if too many wait, or for too long. Leaving never waits, and stops what the
        lease has begun, nothing else. ValueError if the session is somebody else's.
        """
        check_same(self.principal, principal)
        if self.is_lost:
            raise EngineLost(self._kept.lost_by or "the engine of this session is gone")
        here = Work(cost_bytes=work.cost_bytes, engine_class=self.engine_class, only=self.engine.node_id)
        try:
            async with self._pool.lease(principal, query_id, here, self._kept) as lease:
                self._leases.add(lease.id)
                try:
                    yield lease
                finally:
                    self._leases.discard(lease.id)
        finally:
            self._close_if_left()

    def retire(self) -> None:
        """Let nothing new begin in it, and close it when all that runs in it has ended."""
        self._kept.lose("the session was given up")
        self._is_retired = True
        self._close_if_left()

    async def close(self) -> None:
        """End what runs in it and forget it: nothing of it can be read or committed from now on."""
        await asyncio.shield(self._close())

    def _close_if_left(self) -> None:
        if self._is_retired and not self._leases:
            self._close()

    def _close(self) -> "asyncio.Task[None]":
        self._holders.leave(self.session.handle)
        self._kept.lose("the session was closed")
        self._on_close(self)
        if self._closing is None:
            self._closing = asyncio.create_task(self.session.close())
        return self._closing

    @property
    def _current(self) -> "_Standing":
        if self._standing is None:
            raise AssertionError("a session of one's own has had a standing lease since it was made")
        return self._standing


@dataclass(frozen=True, slots=True)
class _Standing:
    lease: LeaseId
    access: Access
    since: float


class DedicatedSessions:
    """Takes sessions out of `pool`, no more than `config` says. `holders` are the pool's."""

    def __init__(
        self, pool: SessionPool, holders: Holders, config: DedicatedConfig, *, clock: Clock = monotonic
    ) -> None:
        self._pool = pool
        self._holders = holders
        self._config = config
        self._clock = clock
        self._opening: list[Principal] = []
        self._open: set[Dedicated] = set()

    def __len__(self) -> int:
        """How many are open, those that are lost and not yet closed aside."""
        return sum(not one.is_lost for one in self._open)

    async def dedicate(self, principal: Principal, work: Work = ANYWHERE) -> Dedicated:
        """A session for `principal`, after waiting for a turn. RESOURCE_EXHAUSTED if there are too many."""
        self._check_room(principal)
        self._opening.append(principal)
        try:
            async with self._pool.lease(principal, None, work) as lease:
                dedicated = Dedicated(
                    self._pool,
                    self._holders,
                    self._pool.take_out(lease),
                    principal,
                    engine_class=work.engine_class,
                    clock=self._clock,
                    on_close=self._open.discard,
                )
                self._open.add(dedicated)
        finally:
            self._opening.remove(principal)
        _log.info("a session was dedicated", node_id=dedicated.engine.node_id, user=principal.name)
        return dedicated

    async def close(self) -> None:
        """Close all of them, before the pool stops."""
        await asyncio.gather(*(one.close() for one in tuple(self._open)))

    def _check_room(self, principal: Principal) -> None:
        config = self._config
        owners = [*self._opening, *(one.principal for one in self._open if not one.is_lost)]
        own = sum((one.tenant, one.name) == (principal.tenant, principal.name) for one in owners)
        if own >= config.sessions_per_user_max:
            raise _too_many(
                f"You have {own} Spark sessions open, which is as many as one may have. Stop one of them, or "
                "wait until one has been idle for long enough.",
                "sessions_per_user",
            )
        if len(owners) >= config.sessions_max:
            raise _too_many("Too many Spark sessions are open.", "sessions")


def _too_many(message: str, reason: str) -> BailiwickError:
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED, message, details={"reason": reason}, retry_after_s=RETRY_AFTER_S
    )

"""The use of a warm session, from the wish for it to its end. `sessions.py` decides who gets one, and when.

Most sessions are the pool's, and one query at a time has the sole use of one. Some are kept for one principal
(`dedicated.py`): several of their queries may use such a session at once, each under a lease of its own.
"""

import asyncio
from dataclasses import dataclass, field

from bailiwick.engines.engine import Engine, EngineSession
from bailiwick.engines.holders import Holders
from bailiwick.fleet.members import Member
from bailiwick.fleet.schedule import Work
from bailiwick.fleet.stock import Stocked
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, QueryId


@dataclass(slots=True, eq=False)
class Lease:
    """The use of `session`. Work in it carries `id` as its tag."""

    id: LeaseId
    principal: Principal
    session: EngineSession
    engine: Engine
    heap_bytes: int = 0
    """What the engine has for it, as far as that is known."""
    query_id: QueryId | None = None
    waited_s: float = 0.0
    policy_version: int = 0
    """Of the policies that hold for what is done under it."""
    is_fallback: bool = False
    """Whether it is the gateway's own engine, although others would have been preferred."""
    spoiled_by: str | None = None

    def spoil(self, reason: str) -> None:
        """The session must not serve anyone else. The first reason stays."""
        self.spoiled_by = self.spoiled_by or reason


@dataclass(slots=True, eq=False)
class Kept:
    """A session that has left the pool, for one principal's use."""

    member: Member
    stocked: Stocked
    lost_by: str | None = None

    @property
    def is_lost(self) -> bool:
        """Whether nothing new may be begun in it. What runs there may end, if its engine lives."""
        is_gone = self.stocked.generation != self.member.engine.generation
        return is_gone or self.lost_by is not None or self.member.is_leaving

    def lose(self, reason: str) -> None:
        """The first reason stays."""
        self.lost_by = self.lost_by or reason


@dataclass(slots=True, eq=False)
class Request:
    """Someone who wants a lease, until it is given or refused."""

    lease: LeaseId
    principal: Principal
    query_id: QueryId | None
    work: Work
    asked_at: float
    kept: Kept | None = None
    """The session that it must be, if it is the asker's own."""
    granted: asyncio.Future[Lease] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def is_in_vain(self) -> bool:
        return self.kept is not None and self.kept.is_lost

    def take_from(self, member: Member) -> Stocked | None:
        """The session to have on this engine; None if there is none now."""
        if self.kept is None:
            return member.take(self.lease, self.work.cost_bytes)
        member.costs[self.lease] = self.work.cost_bytes
        return self.kept.stocked


@dataclass(frozen=True, slots=True)
class Lent:
    lease: Lease
    member: Member
    stocked: Stocked
    kept: Kept | None = None

    def enter(self, holders: Holders) -> None:
        """Let the catalog know the lease. One of the pool's sessions has no other."""
        lease = self.lease
        enter = holders.enter if self.kept is None else holders.enter_beside
        access = enter(lease.session.handle, lease.id, lease.principal, lease.query_id)
        lease.policy_version = access.version

    @property
    def is_settled(self) -> bool:
        session = self.lease.session
        return session.is_settled if self.kept is None else session.is_lease_settled(self.lease.id)

    async def settle(self, timeout_s: float) -> bool:
        """Stop what the lease has begun. True when Spark confirmed it."""
        session = self.lease.session
        if self.kept is None:
            return await session.settle(timeout_s)
        return await session.settle_lease(self.lease.id, timeout_s)

    def give_back(self) -> None:
        if self.kept is None:
            self.member.stock.give_back(self.stocked)

    async def drop(self, reason: str) -> None:
        """The session is of no more use. One that is kept is closed by its keeper, when all have left it."""
        if self.kept is None:
            await self.member.stock.drop(self.stocked)
        else:
            self.kept.lose(reason)

"""The sole use of one warm session, from the wish for it to its end. Values: `sessions.py` acts on them."""

import asyncio
from dataclasses import dataclass, field

from bailiwick.engines.engine import Engine, EngineSession
from bailiwick.fleet.members import Member
from bailiwick.fleet.schedule import Work
from bailiwick.fleet.stock import Stocked
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, QueryId


@dataclass(slots=True, eq=False)
class Lease:
    """The sole use of `session`. Work in it carries `id` as its tag."""

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
class Request:
    """Someone who wants a lease, until it is given or refused."""

    lease: LeaseId
    principal: Principal
    query_id: QueryId | None
    work: Work
    asked_at: float
    granted: asyncio.Future[Lease] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True)
class Lent:
    lease: Lease
    member: Member
    stocked: Stocked

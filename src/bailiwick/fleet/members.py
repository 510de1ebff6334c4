"""One engine of the pool: its warm sessions, and what runs in them.

It knows how a new session is proved and warmed up, not who gets one: that is `sessions.py`'s affair.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bailiwick.clock import Clock
from bailiwick.engines.canary import PRINCIPAL as CANARY_PRINCIPAL
from bailiwick.engines.config import PoolConfig
from bailiwick.engines.engine import Engine, EngineSession
from bailiwick.engines.holders import Holders
from bailiwick.engines.warmup import WARMUP_PRINCIPAL, Warmup
from bailiwick.fleet.memory import Watermark
from bailiwick.fleet.schedule import EngineLoad
from bailiwick.fleet.stock import Stock, Stocked
from bailiwick.ids import LeaseId, NodeId, new_lease_id

Prove = Callable[[EngineSession, LeaseId], Awaitable[None]]
"""Raises unless a new session refuses what it must."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """What every new session goes through before anyone gets it."""

    holders: Holders
    warmup: Warmup
    prove: Prove

    async def __call__(
        self, session: EngineSession, on_fit: Callable[[], None], is_awaited: Callable[[], bool]
    ) -> None:
        """See that the session refuses what it must, then warm it up."""
        lease = new_lease_id()
        self.holders.enter(session.handle, lease, CANARY_PRINCIPAL)
        try:
            await self.prove(session, lease)
        finally:
            self.holders.leave(session.handle)
        lease = new_lease_id()
        self.holders.enter(session.handle, lease, WARMUP_PRINCIPAL)
        try:
            await self.warmup.run(session, lease, is_awaited=is_awaited, on_fit=on_fit)
        finally:
            self.holders.leave(session.handle)


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of an engine besides that it is one."""

    slots: int
    """Queries that it runs at once, long ones aside."""
    engine_class: str = "general"
    is_embedded: bool = False
    heap_bytes: int = 0


@dataclass(slots=True, eq=False)
class Member:
    engine: Engine
    traits: Traits
    stock: Stock
    costs: dict[LeaseId, int] = field(default_factory=dict)
    """What runs there, and how many bytes each is thought to read."""
    is_leaving: bool = False
    watermark: Watermark = Watermark.GREEN
    waited_s: float | None = None
    """How long the last that it took had waited. None before the first."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        traits: Traits,
        config: PoolConfig,
        clock: Clock,
        *,
        prepare: Callable[[EngineSession, Callable[[], None]], Awaitable[None]],
        on_change: Callable[[], None],
    ) -> "Member":
        return cls(engine, traits, Stock(engine, config, clock, prepare=prepare, on_change=on_change))

    @property
    def node_id(self) -> NodeId:
        return self.engine.node_id

    @property
    def is_usable(self) -> bool:
        return self.engine.is_ready and not self.is_leaving

    def load(self, long_count: int, pressure: Watermark) -> EngineLoad:
        """As the scheduler sees it; `long_count` of what runs there does not count against its slots.

        Under `pressure` in the gateway itself, an engine gets no more than a full one would.
        """
        return EngineLoad(
            node_id=self.node_id,
            engine_class=self.traits.engine_class,
            slots=self.traits.slots + long_count,
            running=len(self.costs),
            cost_running=sum(self.costs.values()),
            idle_sessions=self.stock.idle_count,
            watermark=self.watermark.or_worse(pressure),
            is_embedded=self.traits.is_embedded,
            heap_bytes=self.traits.heap_bytes,
        )

    def take(self, lease: LeaseId, cost_bytes: int) -> Stocked | None:
        stocked = self.stock.take()
        if stocked is not None:
            self.costs[lease] = cost_bytes
        return stocked

    def vacate(self, lease: LeaseId) -> None:
        self.costs.pop(lease, None)

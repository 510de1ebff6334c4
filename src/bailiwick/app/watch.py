"""Looks at memory, every second: of the gateway itself, of its own engine, of those that joined.

The pool is told how full each is, and so decides what it still gets. An engine that stays full, or is old, is
started anew. What the colours mean is `fleet/memory.py`'s, which engine is worn is `fleet/recycling.py`'s.
"""

import asyncio
import ctypes
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa

from bailiwick.clock import Clock, monotonic
from bailiwick.fleet.config import FleetConfig
from bailiwick.fleet.measures import SeenProcess, measured, measured_here
from bailiwick.fleet.memory import MemoryUse, Watermark, utilisation
from bailiwick.fleet.recycling import FULL, Wear, Worn, to_recycle
from bailiwick.fleet.registry import NodeStatus, Registry
from bailiwick.fleet.sessions import SessionPool
from bailiwick.fleet.vitals import Condition
from bailiwick.ids import NodeId
from bailiwick.telemetry.logs import logger
from bailiwick.telemetry.metrics import Metrics

LOOK_EVERY_S: Final = 1.0
GATEWAY: Final = "gateway"
"""What metrics call the memory of this process."""
GIVE_BACK_EVERY_S: Final = 10.0

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What may be held before the machine, or its container, ends who holds it."""

    gateway_bytes: int
    engine_bytes: int

    @classmethod
    def of(cls, limit_bytes: int, own_heap_bytes: int, gateway_bytes: int | None) -> "MemoryLimits":
        """The gateway has what it was given, or else what its engine's heap leaves, at least a quarter.

        >>> MemoryLimits.of(16, 8, None)
        MemoryLimits(gateway_bytes=8, engine_bytes=16)
        >>> MemoryLimits.of(16, 15, None)
        MemoryLimits(gateway_bytes=4, engine_bytes=16)
        """
        return cls(gateway_bytes or max(limit_bytes // 4, limit_bytes - own_heap_bytes), limit_bytes)


class OwnEngine(Protocol):
    """The gateway's own engine, as far as it is watched; `EmbeddedEngine` is one."""

    node_id: NodeId
    generation: int

    @property
    def is_ready(self) -> bool: ...

    @property
    def process(self) -> SeenProcess | None: ...

    async def renew(self) -> None:
        """End the process, so that another one follows."""


class Watch:
    """`engine` is the gateway's own, if it has one."""

    def __init__(
        self,
        config: FleetConfig,
        limits: MemoryLimits,
        pool: SessionPool,
        registry: Registry,
        engine: OwnEngine | None,
        metrics: Metrics,
        clock: Clock = monotonic,
    ) -> None:
        self._watermarks = config.watermarks
        self._wear = Wear(config.recycle_after_s, config.recycle_red_s)
        self._limits = limits
        self._roster = pool.roster
        self._registry = registry
        self._engine = engine
        self._metrics = metrics
        self._clock = clock
        self._known: dict[tuple[NodeId, str], Worn] = {}
        self._own: tuple[int, Worn] | None = None
        self._given_back_at = float("-inf")

    async def run(self) -> None:
        while True:
            self.look()
            await self.renew_own()
            if self._should_give_back():
                self._given_back_at = self._clock()
                await asyncio.to_thread(give_back)
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        self._roster.note_pressure(self._seen_memory(GATEWAY, measured_here(self._limits.gateway_bytes)))
        if self._engine is not None:
            self._look_at_own(self._engine)
        self._look_at_joined()

    async def renew_own(self) -> None:
        """Start the gateway's own engine anew if it is too full for anything, with nothing at work there."""
        if self._engine is None or self._own is None or not self._wear.is_full(self._own[1], self._clock()):
            return
        _log.warning("engine_recycled", node_id=self._engine.node_id, reason=FULL)
        await self._engine.renew()

    def _look_at_own(self, engine: OwnEngine) -> None:
        seen = measured(engine.process, self._limits.engine_bytes)
        watermark = self._seen_memory(engine.node_id, seen.memory)
        self._roster.note_watermark(engine.node_id, watermark)
        now = self._clock()
        worn = Worn(engine.node_id, now, is_healthy=engine.is_ready, is_drained=False)
        if self._own is not None and self._own[0] == engine.generation:
            worn = self._own[1]
        is_idle = not seen.active_operations and not self._roster.running_on(engine.node_id)
        self._own = engine.generation, replace(worn, red_since=worn.noticed(watermark, now, is_idle=is_idle))

    def _look_at_joined(self) -> None:
        known, self._known = self._known, {}
        for status in self._registry.nodes():
            report = status.report
            if status.condition is Condition.GONE:
                self._metrics.engine_gone(report.node_id)
                continue
            self._known[report.node_id, report.life] = self._seen(
                status, known.get((report.node_id, report.life))
            )
        chosen = to_recycle(list(self._known.values()), self._wear, self._clock())
        if chosen is not None:
            node_id, why = chosen
            _log.warning("engine_recycled", node_id=node_id, reason=why)
            self._registry.ask_drain(node_id)

    def _seen(self, status: NodeStatus, before: Worn | None) -> Worn:
        node_id, now = status.report.node_id, self._clock()
        watermark = self._seen_memory(node_id, status.report.memory)
        self._roster.note_watermark(node_id, watermark)
        worn = before or Worn(node_id, now, is_healthy=False, is_drained=False)
        return replace(
            worn,
            is_healthy=status.condition is Condition.HEALTHY,
            is_drained=status.condition is Condition.DRAINING,
            red_since=worn.noticed(watermark, now, is_idle=self._is_idle(status)),
            engine_class=status.report.engine_class,
        )

    def _is_idle(self, status: NodeStatus) -> bool:
        """Whether nobody's work is there, also not another gateway's."""
        report = status.report
        return report.active_operations == 0 and self._roster.running_on(report.node_id) == 0

    def _seen_memory(self, name: str, memory: MemoryUse) -> Watermark:
        used = utilisation(memory)
        self._metrics.memory_seen(name, used)
        return self._watermarks.of(used)

    def _should_give_back(self) -> bool:
        is_full = self._roster.pressure.shrinks_buffers
        return is_full and self._clock() - self._given_back_at >= GIVE_BACK_EVERY_S


def give_back() -> None:
    """Return to the machine what was freed and kept for later. Blocks for a moment."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

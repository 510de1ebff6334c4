"""What the simulated gateway keeps: queries on their way, and engines as far as it knows them. Values."""

from dataclasses import dataclass, field

from bailiwick.engines.description import Kind
from bailiwick.fleet.memory import Watermark
from bailiwick.fleet.schedule import EngineLoad, Work
from bailiwick.ids import LeaseId, NodeId, OperationId
from bailiwick.queries.query import Query
from faults.simulation.engines import SimulatedEngine, Way


@dataclass(eq=False, slots=True)
class Member:
    """An engine that joined."""

    engine: SimulatedEngine
    life: str
    warm_at_s: float
    """Before that it has no session to lend."""
    is_embedded: bool = False
    is_used: bool = False
    watermark: Watermark = Watermark.GREEN
    costs: dict[LeaseId, int] = field(default_factory=dict)
    """What runs there, and what each is thought to read."""

    @property
    def node_id(self) -> NodeId:
        return self.engine.make.name

    @property
    def slots(self) -> int:
        return self.engine.make.slots

    @property
    def way(self) -> Way:
        """A session of a life that is over is refused by the next, unless nothing gets through at all."""
        is_over = not self.is_embedded and self.life != self.engine.lifes_name
        return Way.REFUSED if is_over and self.engine.way is Way.OPEN else self.engine.way

    @property
    def is_usable(self) -> bool:
        """The gateway watches its own engine itself; of the others it knows what health says."""
        return self.engine.is_ready if self.is_embedded else self.is_used

    def load(self, long_leases: frozenset[LeaseId], now_s: float) -> EngineLoad:
        slots = self.slots + len(long_leases & self.costs.keys())
        running = len(self.costs)
        return EngineLoad(
            node_id=self.node_id,
            slots=slots,
            running=running,
            cost_running=sum(self.costs.values()),
            engine_class=self.engine.make.engine_class,
            idle_sessions=max(0, slots - running) if now_s >= self.warm_at_s else 0,
            watermark=self.watermark,
            is_embedded=self.is_embedded,
            heap_bytes=self.engine.make.heap_bytes,
        )


@dataclass(eq=False, slots=True)
class Inquiry:
    """A query with what it will turn out to be, and where it is now."""

    query: Query
    work: Work
    kind: Kind
    duration_s: float
    timeout_s: float
    fails_by_itself: bool = False
    lease: LeaseId | None = None
    """What it waits for or holds."""
    member: Member | None = None
    """Where it runs."""
    operation: OperationId | None = None
    has_rows: bool = False
    silent_s: float = 0.0
    """How long its engine has given no sign of life."""
    unreachable_s: float = 0.0
    """How long it has been looking for an engine that might take it."""
    asks: int = 0

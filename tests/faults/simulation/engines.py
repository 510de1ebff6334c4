"""Engines with their keepers, and the way to them: what really happens, whatever the gateway knows."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final

from fleet_reports import OURS, report

from bailiwick.fleet.memory import MemoryUse
from bailiwick.fleet.report import EMBEDDED, EngineState, Report
from bailiwick.ids import NodeId, OperationId, QueryId
from faults.simulation.clockwork import Act, Clockwork

BEAT_S: Final = 5.0
LATENCY_MAX_S: Final = 0.05
LOOK_AGAIN_S: Final = 0.7
DRAIN_MAX_S: Final = 10.0


class Way(Enum):
    """What one meets who calls an engine."""

    OPEN = auto()
    REFUSED = auto()
    SILENT = auto()


@dataclass(frozen=True, slots=True)
class Make:
    """What an engine is made with."""

    name: NodeId
    slots: int = 2
    engine_class: str = "general"
    heap_bytes: int = 1 << 30
    version: str = OURS.bailiwick
    address_of: NodeId | None = None
    """Whose address it claims, if not its own."""


@dataclass(eq=False, slots=True)
class Operation:
    """A statement as it was handed to an engine."""

    id: OperationId
    query_id: QueryId
    is_change: bool
    duration_s: float
    fails_by_itself: bool
    on_rows: Act
    on_end: Callable[[bool], None]
    """Told whether it ended well, or by an error of its own."""
    on_lost: Callable[[str], None]


@dataclass(eq=False, slots=True)
class SimulatedEngine:
    clockwork: Clockwork
    make: Make
    deliver: Callable[[Act], None]
    """Brings news to the gateway, when it can take them."""
    on_beat: Callable[[Report], None]
    on_change: Callable[[QueryId], None]
    """Told of every change that really happened."""
    life: int = 0
    is_up: bool = False
    is_keeper_up: bool = True
    is_ready: bool = False
    is_draining: bool = False
    memory_ratio: float = 0.1
    hung_until_s: float = 0.0
    cut_until_s: float = 0.0
    cut: Way = Way.OPEN
    mute_until_s: float = 0.0
    """Until when its heartbeats are lost."""
    operations: dict[OperationId, Operation] = field(default_factory=dict)
    _told: Report = field(default_factory=report)
    _told_life: int | None = None

    def begin(self) -> None:
        self.start(0.0)
        if self.make.name != EMBEDDED:
            self.clockwork.every(BEAT_S, self._beat, jitter_s=0.2)

    def start(self, delay_s: float) -> None:
        """A new life, ready after a moment."""
        self.life += 1
        life = self.life
        self.is_ready = self.is_draining = False

        def come_up() -> None:
            if self.life == life:
                self.is_up = True
                self.hung_until_s = 0.0
                self.clockwork.after(self.clockwork.between(0, 2), be_ready)

        def be_ready() -> None:
            self.is_ready = self.is_ready or (self.life == life and self.is_up)

        self.clockwork.after(delay_s, come_up)

    def kill(self, restart_after_s: float | None) -> None:
        """Nothing of it is left. None: its keeper is killed, too, and comes back only with peace."""
        self.clockwork.note(self.make.name, "is killed, restart after", restart_after_s)
        self.is_up = self.is_ready = False
        self._break_all("the connection broke")
        if restart_after_s is None:
            self.is_keeper_up = False
        else:
            self.start(restart_after_s)

    def hang(self, for_s: float) -> None:
        self.clockwork.note(self.make.name, "hangs for", for_s)
        self.hung_until_s = self.clockwork.now_s + for_s

    def cut_off(self, way: Way, for_s: float) -> None:
        self.clockwork.note("the way to", self.make.name, "is", way, "for", for_s)
        self.cut, self.cut_until_s = way, self.clockwork.now_s + for_s
        if way is Way.REFUSED:
            self._break_all("the connection was reset")

    def lose_heartbeats(self, for_s: float) -> None:
        self.clockwork.note("heartbeats of", self.make.name, "are lost for", for_s)
        self.mute_until_s = self.clockwork.now_s + for_s

    def drain(self) -> None:
        """The gateway wants it to end what it has begun and to start anew."""
        if self.is_draining or not self.is_ready:
            return
        self.is_draining = True
        give_up_at_s = self.clockwork.now_s + DRAIN_MAX_S
        life = self.life

        def look() -> None:
            if self.life != life or not self.is_up:
                return
            if self.operations and self.clockwork.now_s < give_up_at_s:
                self.clockwork.after(LOOK_AGAIN_S, look)
            else:
                self.kill(restart_after_s=1.0)

        self.clockwork.after(LOOK_AGAIN_S, look)

    def make_peace(self) -> None:
        """Whatever was wrong is over."""
        self.cut_until_s = self.mute_until_s = self.hung_until_s = 0.0
        self.memory_ratio = 0.1
        self.is_keeper_up = True
        if not self.is_up:
            self.start(0.0)

    @property
    def way(self) -> Way:
        now_s = self.clockwork.now_s
        if now_s < self.cut_until_s:
            return self.cut
        if not self.is_up:
            return Way.REFUSED
        return Way.SILENT if now_s < self.hung_until_s else Way.OPEN

    def probe(self, life: str, on_answer: Act, on_failure: Callable[[str], None]) -> None:
        way = Way.REFUSED if life != self.lifes_name else self.way
        if way is Way.OPEN:
            self._tell(on_answer)
        elif way is Way.REFUSED:
            self._tell(lambda: on_failure("it refused the connection"))

    def execute(self, operation: Operation) -> None:
        def arrive() -> None:
            is_cut = self.clockwork.now_s < self.cut_until_s
            if self.way is Way.REFUSED:
                self._tell(lambda: operation.on_lost("it refused the connection"))
            elif not is_cut:
                self.operations[operation.id] = operation
                self._proceed(operation, operation.duration_s / 2, lambda: self._send_rows(operation))

        self.clockwork.after(self.clockwork.between(0, LATENCY_MAX_S), arrive)

    def interrupt(self, operation: OperationId) -> None:
        if self.way is Way.OPEN:
            self.operations.pop(operation, None)

    @property
    def lifes_name(self) -> str:
        return self._of_this_life().life

    def report(self) -> Report:
        state = EngineState.READY if self.is_ready else EngineState.STARTING
        return replace(
            self._of_this_life(),
            state=EngineState.DRAINING if self.is_draining else state,
            memory=MemoryUse(rss_ratio=self.memory_ratio),
            active_operations=len(self.operations),
        )

    def _of_this_life(self) -> Report:
        """What does not change while it lives."""
        if self._told_life != self.life:
            self._told_life = self.life
            self._told = report(
                self.make.name,
                life=self.life,
                version=self.make.version,
                address=report(self.make.address_of or self.make.name).address,
                engine_class=self.make.engine_class,
                heap_bytes=self.make.heap_bytes,
                cores=self.make.slots,
            )
        return self._told

    def _beat(self) -> None:
        if self.is_keeper_up and self.clockwork.now_s >= self.mute_until_s:
            told = self.report()
            self._tell(lambda: self.on_beat(told))

    def _proceed(self, operation: Operation, after_s: float, then: Act) -> None:
        """Go on with it when there is nothing in the way, and it has not been stopped meanwhile."""

        def look() -> None:
            if operation.id not in self.operations:
                return
            if self.way is Way.OPEN:
                then()
            else:
                self.clockwork.after(LOOK_AGAIN_S, look)

        self.clockwork.after(after_s, look)

    def _send_rows(self, operation: Operation) -> None:
        if not operation.fails_by_itself:
            self._tell(operation.on_rows)
        self._proceed(operation, operation.duration_s / 2, lambda: self._end(operation))

    def _end(self, operation: Operation) -> None:
        del self.operations[operation.id]
        if operation.is_change and not operation.fails_by_itself:
            self.on_change(operation.query_id)
        self._tell(lambda: operation.on_end(not operation.fails_by_itself))

    def _break_all(self, why: str) -> None:
        lost, self.operations = list(self.operations.values()), {}
        if self.clockwork.now_s < self.cut_until_s and self.cut is Way.SILENT:
            return
        for operation in lost:
            self._tell(lambda operation=operation: operation.on_lost(why))  # type: ignore[misc]

    def _tell(self, act: Act) -> None:
        self.clockwork.after(self.clockwork.between(0, LATENCY_MAX_S), lambda: self.deliver(act))

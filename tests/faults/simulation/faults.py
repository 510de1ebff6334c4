"""A bad day, made of chance alone: which engines there are, what people ask, what breaks and when."""

from dataclasses import dataclass
from typing import Final

from fleet_reports import OURS

from bailiwick.engines.description import Kind
from bailiwick.fleet import health
from bailiwick.fleet.placement import Placement
from bailiwick.fleet.report import EMBEDDED
from bailiwick.fleet.schedule import HEAVY_BYTES, Work
from bailiwick.fleet.vitals import HealthRules
from bailiwick.ids import NodeId, QueryId
from bailiwick.queries.query import Query
from faults.simulation.clockwork import Clockwork
from faults.simulation.engines import Make, SimulatedEngine, Way
from faults.simulation.gateway import Gateway
from faults.simulation.inquiries import Inquiry

TIMEOUT_MAX_S: Final = 30.0
STOPPED_MAX_S: Final = 30.0

_PEOPLE: Final = (
    ("ann", "acme"),
    ("bob", "acme"),
    ("cy", "acme"),
    ("dee", "beta"),
    ("ed", "beta"),
    ("flo", "solo"),
)
_PLACEMENTS: Final = (*(None, Placement.REQUIRE) * 3, *(Placement.PREFER,) * 2, Placement.LOCAL)
_CHANGE, _READ = Kind.CHANGE, Kind.READ


@dataclass(eq=False, slots=True)
class Day:
    clockwork: Clockwork
    gateway: Gateway
    length_s: float
    is_peace: bool = False

    def furnish(self) -> None:
        """The engines of the day. Most join at once, some later; some never should."""
        chance = self.clockwork
        for number in range(chance.random.randint(1, 4)):
            make = Make(
                NodeId(f"n{number}"),
                slots=chance.random.randint(1, 3),
                engine_class="etl" if chance.chance(0.2) else "general",
                heap_bytes=chance.random.choice((1 << 30, 1 << 33)),
            )
            self._add(make, joins_at_s=chance.between(0, self.length_s / 2) if chance.chance(0.3) else 0.0)
        if chance.chance(0.2):
            self._add(Make(NodeId("old"), version="0.0.9"), joins_at_s=chance.between(0, self.length_s))
        if chance.chance(0.2):
            self._add(
                Make(NodeId("copy"), address_of=NodeId("n0")), joins_at_s=chance.between(0, self.length_s)
            )
        if chance.chance(0.6):
            self.gateway.add_embedded(self._add(Make(EMBEDDED, slots=1), joins_at_s=0.0))

    def people_ask(self) -> None:
        chance = self.clockwork
        for number in range(chance.random.randint(5, 40)):
            inquiry = _inquiry(chance, number)
            # Half of them come in crowds.
            at_s = chance.between(0, self.length_s)
            at_s = round(at_s / 20) * 20 if chance.chance(0.5) else at_s
            self.gateway.later(at_s, lambda inquiry=inquiry: self.gateway.submit(inquiry))  # type: ignore[misc]
            if chance.chance(0.15):
                gives_up_at_s = at_s + chance.between(0, 15)
                self.gateway.later(
                    gives_up_at_s,
                    lambda inquiry=inquiry: self.gateway.execution.cancel(inquiry),  # type: ignore[misc]
                )

    def things_break(self) -> None:
        chance = self.clockwork
        for _ in range(chance.random.randint(0, 14)):
            self.clockwork.after(chance.between(0, self.length_s), self._break_one)
        if chance.chance(0.15):
            self.clockwork.after(chance.between(0, self.length_s), self._break_all)
        for _ in range(chance.random.randint(0, 3)):
            self.clockwork.after(chance.between(0, self.length_s), self._disturb_time)

    def make_peace(self) -> None:
        self.clockwork.note("peace")
        self.is_peace = True
        for engine in self.gateway.engines.values():
            engine.make_peace()

    def _add(self, make: Make, joins_at_s: float) -> SimulatedEngine:
        engine = SimulatedEngine(
            self.clockwork,
            make,
            deliver=self.gateway.receive,
            on_beat=self.gateway.hear,
            on_change=self.gateway.promises.changed,
        )
        self.gateway.engines[make.name] = engine
        self.clockwork.after(joins_at_s, engine.begin)
        return engine

    def _break_one(self) -> None:
        chance = self.clockwork
        engine = chance.random.choice(list(self.gateway.engines.values()))
        match chance.random.randrange(9):
            case 0 | 1:
                engine.kill(restart_after_s=chance.between(1, 6))
            case 2:
                engine.kill(restart_after_s=chance.between(1, 6) if engine.make.name == EMBEDDED else None)
            case 3:
                engine.hang(chance.between(1, 40))
            case 4:
                engine.cut_off(chance.random.choice((Way.REFUSED, Way.SILENT)), chance.between(0.1, 40))
            case 5:
                engine.lose_heartbeats(chance.between(4, 60))
            case 6:
                self._flap(engine, chance.random.randint(3, 8))
            case 7:
                self.gateway.receive(lambda: self._part_with(engine))
            case _:
                engine.memory_ratio = chance.random.choice((0.1, 0.65, 0.8, 0.95))

    def _break_all(self) -> None:
        for engine in self.gateway.engines.values():
            engine.kill(restart_after_s=self.clockwork.between(1, 10))

    def _flap(self, engine: SimulatedEngine, times: int) -> None:
        if self.is_peace:
            return
        if self.clockwork.chance(0.5):
            engine.kill(restart_after_s=0.1)
        else:
            engine.cut_off(Way.REFUSED, 0.2)
        if times > 1:
            self.clockwork.after(self.clockwork.between(0.5, 4), lambda: self._flap(engine, times - 1))

    def _part_with(self, engine: SimulatedEngine) -> None:
        if engine.make.name == EMBEDDED:
            return
        if self.clockwork.chance(0.7):
            self.gateway.ask_drain(engine.make.name)
            return
        life = engine.report().life
        engine.kill(restart_after_s=None)
        self.gateway.tell_health(health.Left(engine.make.name, life))

    def _disturb_time(self) -> None:
        chance, gateway = self.clockwork, self.gateway
        gateway.promises.disturbances += 1
        match chance.random.randrange(3):
            case 0:
                gateway.jumped_s += chance.random.choice((-5.0, 30.0, 3600.0))
            case 1:
                gateway.execution.wall_jumped_s += chance.between(-1e5, 1e5)
            case _ if chance.now_s >= gateway.stopped_until_s:
                stopped_s = chance.between(0.5, STOPPED_MAX_S)
                chance.note("the gateway is stopped for", stopped_s)
                gateway.stopped_until_s = chance.now_s + stopped_s
                gateway.promises.slept_s += stopped_s
            case _:
                pass


def _inquiry(chance: Clockwork, number: int) -> Inquiry:
    principal, tenant = chance.random.choice(_PEOPLE)
    is_heavy = chance.chance(0.2)
    work = Work(
        cost_bytes=HEAVY_BYTES * 2 if is_heavy else chance.random.choice((0, 1 << 20, 1 << 28)),
        placement=chance.random.choice(_PLACEMENTS),
        engine_class=chance.random.choice((None, None, None, "general", "etl")),
        affinity=chance.random.choice((None, None, "orders")),
        heap_bytes_min=1 << 31 if chance.chance(0.05) else 0,
    )
    return Inquiry(
        _query(f"q{number:02}", principal, tenant),
        work,
        kind=_CHANGE if chance.chance(0.25) else _READ,
        duration_s=chance.random.choice((0.05, 0.5, 3.0, 15.0)),
        timeout_s=chance.between(2, TIMEOUT_MAX_S),
        fails_by_itself=chance.chance(0.1),
    )


def rehearsal(number: int) -> Inquiry:
    """A plain question on a good day, from somebody with no one else before them."""
    query = _query(f"r{number:02}", f"person-{number}", f"tenant-{number}")
    return Inquiry(query, Work(placement=Placement.REQUIRE), _READ, duration_s=3.0, timeout_s=TIMEOUT_MAX_S)


def _query(name: str, principal: str, tenant: str) -> Query:
    return Query(QueryId(name), principal, tenant, door="simulation", sql="SELECT 1", created_at=0.0)


QUICK: Final = HealthRules(
    OURS, stable_s=20.0, hold_down_s=2.0, hold_down_max_s=16.0, forget_after_s=40.0, remember_s=30.0
)
"""The same rules, with less patience, so that a day is shorter."""
PATIENT: Final = HealthRules(OURS)

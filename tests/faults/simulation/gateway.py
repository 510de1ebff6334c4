"""Does what the deciding modules say, as the registry, the pool and the query service do.

It holds no opinion of its own: every decision is that of the real modules.
"""

from typing import Final, assert_never

from fleet_reports import OURS

from bailiwick.fleet import admission, health, vitals
from bailiwick.fleet.admission import Admission, Limits
from bailiwick.fleet.health import Fleet
from bailiwick.fleet.memory import Watermarks, utilisation
from bailiwick.fleet.placement import Placement, nothing_reachable
from bailiwick.fleet.refusals import refusal
from bailiwick.fleet.report import EMBEDDED, Report
from bailiwick.fleet.schedule import LEAST_LOADED, EngineLoad, Work, heaviest_first
from bailiwick.fleet.vitals import HealthRules
from bailiwick.ids import LeaseId, NodeId, QueryId
from bailiwick.queries.query import Failure
from faults.simulation.clockwork import Act, Clockwork
from faults.simulation.engines import SimulatedEngine
from faults.simulation.execution import Execution
from faults.simulation.inquiries import Inquiry, Member
from faults.simulation.promises import Promises

TICK_S: Final = 1.0
REACHABLE_WAIT_S: Final = 3.0
LONG_MAX: Final = 1

LIMITS: Final = Limits(
    slots=0,
    long_max=0,
    interactive_s=10.0,
    queue_length_max=8,
    queue_length_per_principal_max=3,
    queue_wait_s=20.0,
    queue_length_per_tenant_max=6,
    running_per_tenant_max=5,
)


class Gateway:
    def __init__(self, clockwork: Clockwork, promises: Promises, rules: HealthRules | None = None) -> None:
        self.clockwork = clockwork
        self.promises = promises
        self.fleet = Fleet(rules or HealthRules(OURS))
        self.admission = Admission(LIMITS)
        self.engines: dict[NodeId, SimulatedEngine] = {}
        """All there are, known to health or not: the network."""
        self.members: dict[NodeId, Member] = {}
        self.inquiries: dict[QueryId, Inquiry] = {}
        self.requests: dict[LeaseId, Inquiry] = {}
        """Who waits for a session."""
        self.sessionless: list[Inquiry] = []
        """Those of them whose turn it is."""
        self.seeking: list[Inquiry] = []
        """Who waits for an engine that could take it at all."""
        self.jumped_s = 0.0
        self.stopped_until_s = 0.0
        self.execution = Execution(self)

    def begin(self) -> None:
        self.clockwork.every(TICK_S, lambda: self.receive(self._tick))

    def receive(self, act: Act) -> None:
        """Something reaches the gateway. While it is stopped, it waits outside."""
        wait_s = self.stopped_until_s - self.clockwork.now_s
        if wait_s > 0:
            self.clockwork.after(wait_s, lambda: self.receive(act))
        else:
            act()

    def later(self, delay_s: float, act: Act) -> None:
        self.clockwork.after(delay_s, lambda: self.receive(act))

    @property
    def now(self) -> float:
        """The gateway's clock, which may jump."""
        return self.clockwork.now_s + self.jumped_s

    def submit(self, inquiry: Inquiry) -> None:
        query = inquiry.query
        self.clockwork.note(query.id, "of", query.principal, inquiry.kind, inquiry.work)
        self.inquiries[query.id] = inquiry
        self.later(inquiry.timeout_s, lambda: self.execution.time_out(inquiry))
        self.ask(inquiry)

    def hear(self, report: Report) -> None:
        self.promises.heard(report)
        self.tell_health(health.Heartbeat(report))
        known = self.fleet.engines.get(report.node_id)
        member = self.members.get(report.node_id)
        if member is not None and known is not None and member.life == known.report.life:
            member.watermark = Watermarks().of(utilisation(known.report.memory))
        if known is not None and known.is_drain_asked and known.report.life == report.life:
            self.engines[report.node_id].drain()
        self.lend()

    def add_embedded(self, engine: SimulatedEngine) -> None:
        self.members[EMBEDDED] = Member(engine, "", warm_at_s=0.0, is_embedded=True)
        self._resize()

    def ask_drain(self, node_id: NodeId) -> None:
        self.clockwork.note(node_id, "is asked to drain")
        self.promises.drain_asked(self.fleet.engines.get(node_id))
        self.tell_health(health.DrainAsked(node_id))

    def tell_health(self, event: health.Event) -> None:
        self.fleet, instructions = health.step(self.fleet, event, self.now)
        for instruction in instructions:
            self.clockwork.note("health says", instruction)
            self.promises.told(instruction)
            self.obey(instruction)
        self.lend()

    def obey(self, instruction: vitals.Instruction) -> None:
        match instruction:
            case vitals.Join(report):
                warm_at_s = self.clockwork.now_s + self.clockwork.between(0, 1)
                engine = self.engines[report.node_id]
                self.members[report.node_id] = Member(engine, report.life, warm_at_s)
                self._resize()
            case vitals.Use(node_id):
                self.members[node_id].is_used = True
            case vitals.Avoid(node_id):
                self.members[node_id].is_used = False
            case vitals.Forget(node_id):
                member = self.members.pop(node_id)
                member.is_used = False
                self._resize()
                self.execution.lose_all_on(member)
            case vitals.Probe(node_id, life):
                self._probe(node_id, life)
            case vitals.Refuse():
                pass
            case _:
                assert_never(instruction)

    def ask(self, inquiry: Inquiry) -> None:
        """Get in line, if there is an engine that may take it sooner or later."""
        if inquiry.query.state.is_terminal:
            return
        if inquiry.work.placement is not None and not self.could_run(inquiry.work):
            self.seeking.append(inquiry)
            return
        inquiry.asks += 1
        inquiry.lease = LeaseId(f"{inquiry.query.id}/{inquiry.asks}")
        self.requests[inquiry.lease] = inquiry
        query = inquiry.query
        self.tell_admission(admission.Asked(inquiry.lease, query.principal, query.tenant))

    def withdraw(self, inquiry: Inquiry) -> None:
        """It wants nothing any more."""
        if inquiry in self.seeking:
            self.seeking.remove(inquiry)
        if inquiry.lease is not None and inquiry.lease in self.requests:
            self._forget(inquiry)
            self.tell_admission(admission.Left(inquiry.lease))

    def vacate(self, member: Member, lease: LeaseId) -> None:
        member.costs.pop(lease)
        self.tell_admission(admission.Left(lease))

    def tell_admission(self, event: admission.Event) -> None:
        self.admission, instructions = admission.step(self.admission, event, self.now)
        admitted: list[Inquiry] = []
        for instruction in instructions:
            match instruction:
                case admission.Admit(lease):
                    admitted.append(self.requests[lease])
                case admission.Refuse(lease):
                    self._refuse(self.requests[lease], instruction)
                case admission.Promote():
                    pass
                case _:
                    assert_never(instruction)
        self.sessionless += heaviest_first(admitted, lambda inquiry: inquiry.work.cost_bytes)
        self.lend()

    def lend(self) -> None:
        """Give a session to whoever may have one; whom nothing fits lets the others pass."""
        for inquiry in list(self.sessionless):
            if inquiry not in self.sessionless:
                continue
            loads = self.loads()
            chosen = LEAST_LOADED.choose(loads, inquiry.work)
            if chosen is not None and self._has_idle(loads, chosen):
                self._lend_of(self.members[chosen], inquiry, loads)
            elif chosen is None and any(load.idle_sessions for load in loads):
                self.put_off(inquiry)

    def _lend_of(self, member: Member, inquiry: Inquiry, loads: list[EngineLoad]) -> None:
        assert inquiry.lease is not None
        if self.admission.may_start(inquiry.lease):
            self._grant(inquiry, member, loads)
        elif self.admission.waits_for_engine(inquiry.lease):
            self.tell_admission(admission.Recalled(inquiry.lease))

    def loads(self) -> list[EngineLoad]:
        long_leases = frozenset(one.lease for one in self.admission.admitted if one.is_long)
        return [
            member.load(long_leases, self.clockwork.now_s)
            for member in self.members.values()
            if member.is_usable
        ]

    def could_run(self, work: Work) -> bool:
        obstacles = LEAST_LOADED.obstacles(self.loads(), work)
        return any(obstacle is None or obstacle.is_passing for obstacle in obstacles)

    def _has_idle(self, loads: list[EngineLoad], node_id: NodeId) -> bool:
        return any(load.node_id == node_id and load.idle_sessions for load in loads)

    def _grant(self, inquiry: Inquiry, member: Member, loads: list[EngineLoad]) -> None:
        lease = inquiry.lease
        assert lease is not None
        self._forget(inquiry)
        self.promises.chosen(inquiry, member, loads, self.fleet)
        member.costs[lease] = inquiry.work.cost_bytes
        self.tell_admission(admission.Started(lease))
        self.execution.begin(inquiry, lease, member)

    def put_off(self, inquiry: Inquiry) -> None:
        if inquiry.lease is not None and not self.admission.waits_for_engine(inquiry.lease):
            self.tell_admission(admission.PutOff(inquiry.lease))

    def _refuse(self, inquiry: Inquiry, refuse: admission.Refuse) -> None:
        is_missing = inquiry in self.sessionless or not self.loads()
        self._forget(inquiry)
        error = refusal(refuse, is_engine_missing=is_missing)
        self.promises.refused(error.message, error.retry_after_s)
        self.execution.fail(inquiry, Failure.of(error))

    def _forget(self, inquiry: Inquiry) -> None:
        if inquiry.lease is not None:
            self.requests.pop(inquiry.lease, None)
        if inquiry in self.sessionless:
            self.sessionless.remove(inquiry)

    def _resize(self) -> None:
        slots = sum(member.slots for member in self.members.values())
        self.tell_admission(admission.Resized(slots, LONG_MAX * len(self.members)))

    def _probe(self, node_id: NodeId, life: str) -> None:
        def answered() -> None:
            self.promises.answered(node_id, life)
            self.tell_health(health.ProbeAnswered(node_id, life))

        def failed(why: str) -> None:
            self.promises.broke(node_id, life)
            self.tell_health(health.ProbeFailed(node_id, why, life))

        self.engines[node_id].probe(life, answered, failed)

    def _tick(self) -> None:
        self.tell_health(health.TimePassed())
        self.tell_admission(admission.TimePassed())
        self.execution.look_for_silence(TICK_S)
        for inquiry in list(self.seeking):
            inquiry.unreachable_s += TICK_S
            if self.could_run(inquiry.work):
                self.seeking.remove(inquiry)
                self.ask(inquiry)
            elif inquiry.unreachable_s >= REACHABLE_WAIT_S:
                self.seeking.remove(inquiry)
                error = nothing_reachable(inquiry.work.placement or Placement.REQUIRE, self.fleet.tried)
                self.promises.refused(error.message, 1.0)
                self.execution.fail(inquiry, Failure.of(error))
        self.promises.looked_round(self)

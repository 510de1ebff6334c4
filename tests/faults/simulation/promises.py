"""What must hold on every day, however bad: each promise looks for itself, and keeps its own record for that.

None of them asks the module that it watches: what an engine last said, whether the way to it last failed, who
was answered, all that is written down here as it happens.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from bailiwick.fleet.health import Fleet
from bailiwick.fleet.memory import Watermark
from bailiwick.fleet.placement import Placement
from bailiwick.fleet.report import EngineState, Report
from bailiwick.fleet.schedule import HEAVY_BYTES, EngineLoad, Work
from bailiwick.fleet.vitals import Avoid, EngineHealth, Instruction, Refuse, Use
from bailiwick.ids import LeaseId, NodeId, QueryId
from bailiwick.queries.query import Query
from faults.simulation.clockwork import Clockwork

if TYPE_CHECKING:
    from faults.simulation.gateway import Gateway
    from faults.simulation.inquiries import Inquiry, Member

FREE_MAX_S: Final = 2.5
"""So long an engine may be free while somebody waits who could have it: less than anyone notices."""
USES_IN_A_MINUTE_MAX: Final = 12
RETRIES_MAX: Final = 2


class PromiseBrokenError(AssertionError):
    pass


@dataclass(slots=True)
class Known:
    """What one life of an engine last let us know."""

    life: str
    heard_at_s: float
    state: EngineState
    is_broken: bool = False
    is_drain_asked: bool = False


@dataclass(slots=True)
class Promises:
    clockwork: Clockwork
    silence_max_s: float
    slept_s: float = 0.0
    """Time in which the gateway could not hear anyone, which no engine answers for."""
    disturbances: int = 0
    known: dict[NodeId, Known] = field(default_factory=dict)
    answers: dict[QueryId, str] = field(default_factory=dict)
    rows_of: dict[QueryId, LeaseId] = field(default_factory=dict)
    changes: Counter[QueryId] = field(default_factory=Counter)
    choices: Counter[NodeId] = field(default_factory=Counter)
    uses: defaultdict[NodeId, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    free_since_s: dict[LeaseId, float] = field(default_factory=dict)
    _before_last: Known | None = None
    """What was known before the last heartbeat: one that is refused tells nothing."""

    def _require(self, is_kept: bool, promise: str, *facts: object) -> None:
        if not is_kept:
            raise PromiseBrokenError(f"{promise}: {'; '.join(map(str, facts))}")

    @property
    def watched_s(self) -> float:
        return self.clockwork.now_s - self.slept_s

    def heard(self, report: Report) -> None:
        known = self.known.get(report.node_id)
        self._before_last = known
        if known is None or known.life != report.life:
            self.known[report.node_id] = Known(report.life, self.watched_s, report.state)
        else:
            self.known[report.node_id] = replace(known, heard_at_s=self.watched_s, state=report.state)

    def broke(self, node_id: NodeId, life: str) -> None:
        known = self.known.get(node_id)
        if known is not None and known.life == life:
            known.is_broken = True

    def answered(self, node_id: NodeId, life: str) -> None:
        known = self.known.get(node_id)
        if known is not None and known.life == life:
            known.is_broken = False

    def drain_asked(self, engine: EngineHealth | None) -> None:
        known = None if engine is None else self.known.get(engine.report.node_id)
        if (
            known is not None
            and engine is not None
            and engine.is_current
            and known.life == engine.report.life
        ):
            known.is_drain_asked = True

    def told(self, instruction: Instruction) -> None:
        if isinstance(instruction, Avoid | Refuse):
            self.refused(instruction.why, 1.0)
        if isinstance(instruction, Refuse) and self._before_last is not None:
            self.known[instruction.node_id] = self._before_last
        if isinstance(instruction, Use):
            uses = self.uses[instruction.node_id]
            uses.append(self.watched_s)
            while uses[0] < self.watched_s - 60:
                uses.popleft()
            self._require(
                len(uses) <= USES_IN_A_MINUTE_MAX, "flappers are left alone", instruction.node_id, list(uses)
            )

    def refused(self, why: str, retry_after_s: float | None) -> None:
        self._require(len(why) > 5, "every refusal has a reason", repr(why))
        self._require(retry_after_s is None or retry_after_s > 0, "who is to come back is told when", why)

    def chosen(self, inquiry: Inquiry, member: Member, loads: Sequence[EngineLoad], fleet: Fleet) -> None:
        load = next(one for one in loads if one.node_id == member.node_id)
        who = (inquiry.query.id, load, inquiry.work)
        self.choices[member.node_id] += 1
        self._require(len(member.costs) < load.slots, "no engine runs more than it has slots for", *who)
        self._require(may_take(load, inquiry.work), "an engine gets only what it may take", *who)
        if inquiry.work.placement is Placement.PREFER and load.is_embedded:
            others = [one for one in loads if not one.is_embedded and fits(one, inquiry.work)]
            self._require(not others, "nobody runs here who would be taken elsewhere", *who)
        if not member.is_embedded:
            self._require_well(member, fleet)

    def _require_well(self, member: Member, fleet: Fleet) -> None:
        promise = "no engine is chosen that is not well"
        known = self.known.get(member.node_id)
        facts = (member.node_id, known, f"watched {self.watched_s:.1f}", fleet.engines[member.node_id])
        assert known is not None
        self._require(known.life == member.life, promise, "of a life that is over", *facts)
        self._require(known.state is EngineState.READY, promise, "not ready", *facts)
        self._require(not known.is_broken, promise, "the way to it is broken", *facts)
        self._require(not known.is_drain_asked, promise, "it was asked to drain", *facts)
        # A step or a jump of the clock may cost up to a second of watching.
        allowed_s = self.silence_max_s + 2 + self.disturbances
        self._require(self.watched_s - known.heard_at_s <= allowed_s, promise, "silent", *facts)

    def sent_rows(self, query_id: QueryId, lease: LeaseId) -> None:
        first = self.rows_of.setdefault(query_id, lease)
        self._require(first == lease, "rows of two attempts never meet", query_id, first, lease)

    def changed(self, query_id: QueryId) -> None:
        self.changes[query_id] += 1
        self._require(self.changes[query_id] == 1, "a change happens at most once", query_id)

    def stepped(self, before: Query, after: Query) -> None:
        self._require(
            not before.state.is_terminal or after.state is before.state, "what has ended stays so", after
        )

    def answer(self, query: Query, answer: str) -> None:
        self.clockwork.note(query.id, "is answered:", answer)
        self._require(query.id not in self.answers, "nobody is answered twice", query.id, self.answers)
        self._require(query.state.is_terminal, "an answer is the end", query)
        self._require(bool(answer), "every answer says something", query.id)
        tried = [attempt.node_id for attempt in query.attempts]
        self._require(len(tried) <= RETRIES_MAX, "nobody is tried for ever", query)
        self._require(len({*tried, query.node_id}) == len(tried) + 1, "each try is on another engine", query)
        self.answers[query.id] = answer

    def looked_round(self, gateway: Gateway) -> None:
        """Called at every tick: nobody waits for long while an engine is free that could take them."""
        for node_id, known in self.known.items():
            # What was asked of an engine, or wrong with it, is not remembered for ever once it is gone.
            is_remembered = node_id in gateway.fleet.engines
            known.is_drain_asked = known.is_drain_asked and is_remembered
            known.is_broken = known.is_broken and is_remembered
        if not gateway.requests:
            self.free_since_s = {}
            return
        loads = gateway.loads()
        free = [load for load in loads if load.idle_sessions]
        # One that was put off counts for its tenant from when its engine is free: the next place is its.
        admitted = gateway.admission.admitted
        running = Counter(one.tenant for one in admitted if one.counts_for_tenant)
        started = Counter(one.tenant for one in admitted if one.started_at is not None)
        cap = gateway.admission.limits.running_per_tenant_max or len(admitted) + 1
        for tenant, count in started.items():
            self._require(count <= cap, "a tenant runs no more than it may", tenant, gateway.admission)
        waiting = {
            lease: inquiry
            for lease, inquiry in gateway.requests.items()
            if running[inquiry.query.tenant] < cap
            and any(
                may_take(load, inquiry.work) and _is_preferred(load, loads, inquiry.work) for load in free
            )
        }
        self.free_since_s = {lease: self.free_since_s.get(lease, self.watched_s) for lease in waiting}
        for lease, since_s in self.free_since_s.items():
            self._require(
                self.watched_s - since_s <= FREE_MAX_S,
                "nobody waits while an engine is free",
                lease,
                waiting[lease].work,
                free,
                gateway.admission,
            )

    def is_quiet(self, gateway: Gateway) -> bool:
        """Whether everyone has an answer, and nothing is being cleared up."""
        return len(self.answers) == len(gateway.inquiries) and not gateway.admission.admitted

    def nobody_is_lost(self, gateway: Gateway) -> None:
        for query_id, inquiry in gateway.inquiries.items():
            self._require(query_id in self.answers, "no query is lost", inquiry.query, inquiry.lease)
            self._require(inquiry.query.state.is_terminal, "no query is left running", inquiry.query)
            if self.answers[query_id] == "rows" and inquiry.kind == "change":
                self._require(
                    self.changes[query_id] == 1, "a change that is confirmed has happened", query_id
                )
        left = (gateway.requests, gateway.sessionless, gateway.seeking, gateway.admission.admitted)
        self._require(not any(left), "nothing is left over", *left)


def fits(load: EngineLoad, work: Work) -> bool:
    """Whether the engine would take the work, sooner or later."""
    return (
        load.node_id not in work.excluded
        and work.placement is not (Placement.REQUIRE if load.is_embedded else Placement.LOCAL)
        and work.engine_class in (None, load.engine_class)
        and load.heap_bytes >= work.heap_bytes_min
    )


def may_take(load: EngineLoad, work: Work) -> bool:
    """Whether it may take the work now."""
    is_too_heavy = work.cost_bytes >= HEAVY_BYTES and load.watermark is Watermark.ORANGE
    return (
        fits(load, work)
        and load.running < load.slots
        and load.watermark is not Watermark.RED
        and not is_too_heavy
    )


def _is_preferred(load: EngineLoad, loads: Sequence[EngineLoad], work: Work) -> bool:
    has_others = any(not one.is_embedded and fits(one, work) for one in loads)
    return not (work.placement is Placement.PREFER and load.is_embedded and has_others)

"""Which engines there are, and which of them may be given work.

Pure: events and the time come in, a new state and what to do come out; `registry.py` acts on it.

    (unknown) ──► unproven ──► healthy ◄──► demoted        refused: may not join, and why
                                  │    ◄──► held_down      gone: left, or silent for too long
                                  └───────► draining

An engine starts unproven; its first heartbeat that says `ready` makes it healthy. Two things demote it: three
heartbeats that did not come, and a broken way to it, at once. What failed must succeed, once, to restore it:
a heartbeat after silence; an answered probe or query after a broken way, because a keeper that can reach us
does not prove that we can reach its engine. A query's own error demotes nobody: it is an answer, and is told
as `QuerySucceeded`.

Who fails again soon after being restored, or is started again and again, is a flapper: from the third time
on it is held down, for twice as long each time, until it has been well for a while.

Time counts only while we watch: a step moves it by at most one interval, and never back. A gateway that was
stopped for a minute, or whose clock jumped, blames no engine for it. So `step` must be called at least once
in an interval; with `TimePassed` if nothing happens.

What an engine that runs code of users reports may be that code's word. So it keeps no other engine out: it
gets an address of theirs only when they are gone, yields it to them, takes up none of their room, and leaves
them no flaps with its name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from bailiwick.fleet.acceptance import address_of, reason_to_refuse
from bailiwick.fleet.placement import Tried
from bailiwick.fleet.report import TRUSTED, Report
from bailiwick.fleet.vitals import (
    Condition,
    EngineHealth,
    Forget,
    HealthRules,
    Instruction,
    Refuse,
    after_answer,
    after_break,
    counting_flap,
    settled,
)
from bailiwick.ids import NodeId

REPLACED_LIVES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Fleet:
    rules: HealthRules
    engines: Mapping[NodeId, EngineHealth] = field(default_factory=dict)
    watched_s: float = 0.0
    """The time that passed while we watched. Where we or the clock stood still, it is behind."""
    told_at: float | None = None
    """The clock at the last step."""

    @property
    def healthy(self) -> tuple[NodeId, ...]:
        return tuple(name for name, engine in self.engines.items() if engine.condition is Condition.HEALTHY)

    @property
    def tried(self) -> tuple[Tried, ...]:
        """Those that cannot be used now, and why, as `placement.nothing_reachable` wants them."""
        return tuple(
            Tried(name, engine.why, engine.report.address, engine.report.engine_class)
            for name, engine in self.engines.items()
            if engine.condition is not Condition.HEALTHY
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    report: Report
    peer_is_loopback: bool = True
    """Whether it came from this machine. A keeper elsewhere must not give a loopback address."""


@dataclass(frozen=True, slots=True)
class TransportFailed:
    """The way to the engine broke. `reason` is a clause fit for a client; `life` tells whose way it was."""

    node_id: NodeId
    reason: str
    life: str | None = None


@dataclass(frozen=True, slots=True)
class QuerySucceeded:
    """The engine answered: with rows, or with an error that was the statement's own."""

    node_id: NodeId
    life: str | None = None


@dataclass(frozen=True, slots=True)
class ProbeAnswered:
    node_id: NodeId
    life: str | None = None


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    node_id: NodeId
    reason: str
    life: str | None = None


@dataclass(frozen=True, slots=True)
class TimePassed:
    pass


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """Somebody here wants the engine to end what it has begun, and to take nothing new in this life."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Left:
    """It said goodbye, or its keeper did. Leaving twice is fine."""

    node_id: NodeId
    life: str | None = None


Event = (
    Heartbeat
    | TransportFailed
    | QuerySucceeded
    | ProbeAnswered
    | ProbeFailed
    | TimePassed
    | DrainAsked
    | Left
)


_Change = Callable[[EngineHealth], EngineHealth]


def step(fleet: Fleet, event: Event, now: float) -> tuple[Fleet, tuple[Instruction, ...]]:
    """What becomes of `fleet` when `event` happens at `now`, and what to do about it."""
    fleet = _watch(fleet, now)
    now_s = fleet.watched_s
    instructions: tuple[Instruction, ...] = ()
    match event:
        case Heartbeat(report, peer_is_loopback):
            fleet, instructions = _hear(fleet, report, peer_is_loopback)
        case TransportFailed(node_id, reason, life) | ProbeFailed(node_id, reason, life):
            by_probe = isinstance(event, ProbeFailed)
            fleet = _change(
                fleet,
                node_id,
                life,
                lambda one: after_break(fleet.rules, one, reason, now_s, by_probe=by_probe),
            )
        case QuerySucceeded(node_id, life) | ProbeAnswered(node_id, life):
            fleet = _change(fleet, node_id, life, lambda one: after_answer(fleet.rules, one, now_s))
        case DrainAsked(node_id):
            fleet = _change(fleet, node_id, None, lambda one: replace(one, is_drain_asked=True))
        case Left(node_id, life):
            fleet = _change(fleet, node_id, life, lambda one: replace(one, left="it has left"))
        case TimePassed():
            pass
        case _:
            assert_never(event)
    fleet, consequences = _look_round(fleet)
    return fleet, instructions + consequences


def _watch(fleet: Fleet, now: float) -> Fleet:
    passed_s = 0.0 if fleet.told_at is None else now - fleet.told_at
    counted_s = min(max(passed_s, 0.0), fleet.rules.interval_s)
    return Fleet(fleet.rules, fleet.engines, fleet.watched_s + counted_s, now)


def _change(fleet: Fleet, node_id: NodeId, life: str | None, change: _Change) -> Fleet:
    """`change` the engine of that life. What is told of one that is unknown, or over, came too late."""
    engine = fleet.engines.get(node_id)
    if engine is None or life not in (None, engine.report.life) or not engine.is_current:
        return fleet
    return _with(fleet, change(engine))


def _with(fleet: Fleet, engine: EngineHealth) -> Fleet:
    return Fleet(
        fleet.rules, {**fleet.engines, engine.report.node_id: engine}, fleet.watched_s, fleet.told_at
    )


def _hear(fleet: Fleet, report: Report, peer_is_loopback: bool) -> tuple[Fleet, tuple[Instruction, ...]]:
    known = fleet.engines.get(report.node_id)
    objection = _objection(fleet, known, report, peer_is_loopback)
    if objection is not None:
        return _refuse(fleet, known, report, objection)
    fleet, evicted = _evict(fleet, report)
    if known is not None and known.is_current and known.report.is_same_engine_as(report):
        return _with(fleet, _hear_again(fleet, known, report)), evicted
    newcomer = EngineHealth(report, fleet.watched_s, since_s=fleet.watched_s, probe_due_at_s=fleet.watched_s)
    if known is None:
        return _with(fleet, newcomer), evicted
    return _with(fleet, _succeed(fleet, known, newcomer)), (*evicted, *_forget(known))


def _objection(
    fleet: Fleet, known: EngineHealth | None, report: Report, peer_is_loopback: bool
) -> str | None:
    if known is not None and known.is_present and report.life in known.replaced_lives:
        return "a newer engine has taken its node id; give each engine a node id of its own"
    flaw = reason_to_refuse(report, fleet.rules.versions, peer_is_loopback)
    if flaw is not None:
        return flaw
    namesake = next((one for one in _others_at(fleet, report) if not _yields(one, report)), None)
    if namesake is not None:
        return f"its address is also that of {namesake.report.node_id}; give each engine a port of its own"
    if known is None and _is_full(fleet, report):
        return f"there are {fleet.rules.nodes_max} engines already, which is the bound"
    return None


def _others_at(fleet: Fleet, report: Report) -> list[EngineHealth]:
    address = address_of(report.address)
    return [
        engine
        for name, engine in fleet.engines.items()
        if name != report.node_id and engine.is_current and address_of(engine.report.address) == address
    ]


def _yields(engine: EngineHealth, report: Report) -> bool:
    """Whether its address is free for whoever reports. Who is silent there is not there any more."""
    if _runs_code(engine.report) is _runs_code(report):
        return not engine.is_present
    return _runs_code(engine.report)


def _is_full(fleet: Fleet, report: Report) -> bool:
    """Engines that run code of users have a bound of their own."""
    alike = sum(_runs_code(one.report) is _runs_code(report) for one in fleet.engines.values())
    return alike >= fleet.rules.nodes_max


def _runs_code(report: Report) -> bool:
    return report.engine_class == TRUSTED


def _refuse(
    fleet: Fleet, known: EngineHealth | None, report: Report, objection: str
) -> tuple[Fleet, tuple[Instruction, ...]]:
    refuse = Refuse(report.node_id, f"The engine {report.node_id} may not join: {objection}.")
    # Whoever bears the name of an engine that is well does it no harm by being refused.
    is_another = known is not None and known.is_present and known.report.life != report.life
    if is_another or (known is None and _is_full(fleet, report)):
        return fleet, (refuse,)
    refused = EngineHealth(report, fleet.watched_s, since_s=fleet.watched_s, refused=objection)
    if known is None:
        return _with(fleet, refused), (refuse,)
    kept = replace(refused, flaps=known.flaps, held_until_s=known.held_until_s)
    return _with(fleet, kept), (*_forget(known), refuse)


def _evict(fleet: Fleet, report: Report) -> tuple[Fleet, tuple[Instruction, ...]]:
    """Two cannot listen at one address: those that had it before have yielded it."""
    instructions: tuple[Instruction, ...] = ()
    for engine in _others_at(fleet, report):
        gone = replace(engine, left=f"{report.node_id} has its address now")
        gone, consequences = settled(fleet.rules, gone, fleet.watched_s)
        fleet, instructions = _with(fleet, gone), (*instructions, *consequences)
    return fleet, instructions


def _forget(engine: EngineHealth) -> tuple[Instruction, ...]:
    return (Forget(engine.report.node_id, engine.report.life),) if engine.is_joined else ()


def _hear_again(fleet: Fleet, engine: EngineHealth, report: Report) -> EngineHealth:
    # Somebody there is awake: if the way was broken, look at once whether it still is.
    due_at_s = fleet.watched_s if engine.unreachable else engine.probe_due_at_s
    return replace(engine, report=report, heard_at_s=fleet.watched_s, silent=None, probe_due_at_s=due_at_s)


def _succeed(fleet: Fleet, known: EngineHealth, newcomer: EngineHealth) -> EngineHealth:
    """A new life under the same name begins with a clean slate, except that flapping is remembered.

    The same life that comes back after it was given up brings along what was asked of it, and what was wrong.
    """
    if _runs_code(known.report) and not _runs_code(newcomer.report):
        return newcomer
    if known.condition is Condition.HEALTHY:
        known = counting_flap(fleet.rules, known, fleet.watched_s)
    lives = known.replaced_lives
    if known.report.life != newcomer.report.life:
        lives = (*(life for life in lives if life != newcomer.report.life), known.report.life)
    return replace(
        newcomer,
        flaps=known.flaps,
        held_until_s=known.held_until_s,
        is_drain_asked=known.is_drain_asked and known.report.life == newcomer.report.life,
        unreachable=known.unreachable if known.report.is_same_engine_as(newcomer.report) else None,
        replaced_lives=lives[-REPLACED_LIVES_MAX:],
    )


def _look_round(fleet: Fleet) -> tuple[Fleet, tuple[Instruction, ...]]:
    """What follows for each engine from what is known, and from the time that has passed."""
    instructions: tuple[Instruction, ...] = ()
    engines: dict[NodeId, EngineHealth] = {}
    for name, engine in fleet.engines.items():
        engines[name], consequences = settled(fleet.rules, engine, fleet.watched_s)
        instructions += consequences
    kept = {name: engine for name, engine in engines.items() if not _is_past(fleet, engine)}
    return Fleet(fleet.rules, kept, fleet.watched_s, fleet.told_at), instructions


def _is_past(fleet: Fleet, engine: EngineHealth) -> bool:
    """Nobody asks about it any more."""
    unheard_s = fleet.watched_s - engine.heard_at_s
    if engine.condition is Condition.REFUSED:
        return unheard_s > fleet.rules.forget_after_s
    return engine.condition is Condition.GONE and fleet.watched_s - engine.since_s > fleet.rules.remember_s

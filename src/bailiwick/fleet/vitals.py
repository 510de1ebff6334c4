"""The health of one engine: what is known of it, and what follows from that.

Pure. Each change notes a fact (silent, unreachable, refused, left, a drain that was asked for); `settled`
alone draws the conclusion, so that the condition is always that of the facts, in whatever order they came.
`health.py` tells who is meant by an event, and has the story as a whole.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bailiwick.fleet.acceptance import Versions
from bailiwick.fleet.report import EngineState, Report
from bailiwick.ids import NodeId

_DOUBLINGS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class HealthRules:
    versions: Versions
    """Ours. Engines of another major or minor version do not join."""
    interval_s: float = 5.0
    misses_max: int = 3
    probe_interval_s: float = 5.0
    probe_timeout_s: float = 5.0
    flaps_max: int = 3
    """So many failures, each soon after the last recovery, are one too many."""
    stable_s: float = 60.0
    """Who has been well for so long is no flapper."""
    hold_down_s: float = 10.0
    hold_down_max_s: float = 300.0
    forget_after_s: float = 300.0
    """Silent for so long: gone."""
    remember_s: float = 600.0
    """How long one who is gone is still shown."""
    nodes_max: int = 256

    @property
    def silence_max_s(self) -> float:
        return self.interval_s * self.misses_max

    def hold_down_for_s(self, flaps: int) -> float:
        if flaps < self.flaps_max:
            return 0.0
        doublings = min(flaps - self.flaps_max, _DOUBLINGS_MAX)
        return float(min(self.hold_down_s * 2**doublings, self.hold_down_max_s))


class Condition(StrEnum):
    UNPROVEN = "unproven"
    HEALTHY = "healthy"
    DEMOTED = "demoted"
    HELD_DOWN = "held_down"
    DRAINING = "draining"
    REFUSED = "refused"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """One engine, as we know it. Moments are in watched time, see `Fleet.watched_s`."""

    report: Report
    heard_at_s: float
    """When its last heartbeat came."""
    condition: Condition = Condition.UNPROVEN
    since_s: float = 0.0
    """When it came into this condition."""
    why: str = ""
    """Why it is not healthy; fit for a client. Empty if it is."""
    silent: str | None = None
    unreachable: str | None = None
    refused: str | None = None
    left: str | None = None
    is_drain_asked: bool = False
    is_joined: bool = False
    """Whether Join was said of it, and Forget not yet."""
    flaps: int = 0
    held_until_s: float = 0.0
    probe_due_at_s: float = 0.0
    probe_sent_at_s: float | None = None
    replaced_lives: tuple[str, ...] = ()
    """Of earlier engines under this name. They do not come back while this one is there."""

    @property
    def is_current(self) -> bool:
        return self.left is None and self.refused is None

    @property
    def is_present(self) -> bool:
        """Its name and address are taken. Of one that is silent they are free for whoever comes."""
        return self.is_current and self.silent is None

    @property
    def is_draining(self) -> bool:
        return self.is_drain_asked or self.report.state is EngineState.DRAINING


@dataclass(frozen=True, slots=True)
class Join:
    """A new engine: make a way to it. It is not to be used before Use."""

    report: Report


@dataclass(frozen=True, slots=True)
class Use:
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Avoid:
    """Give it nothing new. What runs there may go on."""

    node_id: NodeId
    why: str


@dataclass(frozen=True, slots=True)
class Forget:
    """That life of the engine is over: take down the way to it."""

    node_id: NodeId
    life: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the engine for something small, and tell ProbeAnswered or ProbeFailed."""

    node_id: NodeId
    life: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The answer to a heartbeat that was not accepted. `why` is a sentence for the keeper."""

    node_id: NodeId
    why: str


Instruction = Join | Use | Avoid | Forget | Probe | Refuse


def after_break(
    rules: HealthRules, engine: EngineHealth, why: str, now_s: float, *, by_probe: bool
) -> EngineHealth:
    """The way to it is broken. Unless it was a probe that found out, one is sent at once to see how badly."""
    if not engine.is_joined:
        return engine
    engine = counting_flap(rules, engine, now_s) if engine.condition is Condition.HEALTHY else engine
    if not by_probe:
        return replace(engine, unreachable=why, probe_due_at_s=now_s)
    return replace(
        engine, unreachable=why, probe_sent_at_s=None, probe_due_at_s=now_s + rules.probe_interval_s
    )


def after_answer(rules: HealthRules, engine: EngineHealth, now_s: float) -> EngineHealth:
    return replace(
        engine, unreachable=None, probe_sent_at_s=None, probe_due_at_s=now_s + rules.probe_interval_s
    )


def counting_flap(rules: HealthRules, engine: EngineHealth, now_s: float) -> EngineHealth:
    """A healthy one fails. If it had not been well for long, it is left alone the longer."""
    flaps = engine.flaps + 1 if now_s - engine.since_s < rules.stable_s else 1
    return replace(engine, flaps=flaps, held_until_s=now_s + rules.hold_down_for_s(flaps))


def settled(
    rules: HealthRules, engine: EngineHealth, now_s: float
) -> tuple[EngineHealth, tuple[Instruction, ...]]:
    """The engine in the condition that its facts and the time make, and what to do on the way there."""
    before = engine
    engine = _noting_silence(rules, engine, now_s)
    if engine.probe_sent_at_s is not None and now_s - engine.probe_sent_at_s >= rules.probe_timeout_s:
        why = f"it did not answer within {rules.probe_timeout_s:g} s"
        engine = after_break(rules, engine, why, now_s, by_probe=True)
    condition, why = _condition(rules, engine, now_s)
    if condition is not engine.condition:
        engine = replace(engine, condition=condition, since_s=now_s)
    if why != engine.why:
        engine = replace(engine, why=why)
    engine, instructions = _announced(before, engine)
    if _is_probe_due(engine, now_s):
        engine = replace(engine, probe_sent_at_s=now_s)
        instructions += (Probe(engine.report.node_id, engine.report.life),)
    return engine, instructions


def _noting_silence(rules: HealthRules, engine: EngineHealth, now_s: float) -> EngineHealth:
    unheard_s = now_s - engine.heard_at_s
    if not engine.is_current or unheard_s <= rules.silence_max_s:
        return engine
    if engine.silent is None:
        if engine.condition is Condition.HEALTHY:
            engine = counting_flap(rules, engine, now_s)
        engine = replace(engine, silent=f"its last {rules.misses_max} heartbeats did not come")
    if unheard_s > rules.forget_after_s:
        return replace(engine, left=f"it has been silent for {rules.forget_after_s:g} s")
    return engine


def _condition(rules: HealthRules, engine: EngineHealth, now_s: float) -> tuple[Condition, str]:
    if engine.refused is not None:
        return Condition.REFUSED, engine.refused
    if engine.left is not None:
        return Condition.GONE, engine.left
    if engine.is_draining:
        # What it has begun may still end, so it is not given up sooner than others.
        silence = f"; {engine.silent}" if engine.silent else ""
        return Condition.DRAINING, f"it takes nothing new and ends what it has begun{silence}"
    if engine.report.state is EngineState.STARTING:
        return Condition.UNPROVEN, "it is starting"
    fault = engine.silent or engine.unreachable
    if now_s < engine.held_until_s:
        left_alone_s = rules.hold_down_for_s(engine.flaps)
        last = f"; last, {fault}" if fault else ""
        return (
            Condition.HELD_DOWN,
            f"it failed {engine.flaps} times in a row and is left alone for {left_alone_s:g} s{last}",
        )
    return (Condition.HEALTHY, "") if fault is None else (Condition.DEMOTED, fault)


def _announced(before: EngineHealth, engine: EngineHealth) -> tuple[EngineHealth, tuple[Instruction, ...]]:
    """What the others must be told of the change."""
    node_id = engine.report.node_id
    was_used, is_used = before.condition is Condition.HEALTHY, engine.condition is Condition.HEALTHY
    instructions: tuple[Instruction, ...] = ()
    if was_used and not is_used:
        instructions += (Avoid(node_id, engine.why),)
    if engine.is_joined and not engine.is_current:
        return replace(engine, is_joined=False), (*instructions, Forget(node_id, engine.report.life))
    if engine.is_current and not engine.is_joined and engine.report.state is EngineState.READY:
        engine, instructions = replace(engine, is_joined=True), (*instructions, Join(engine.report))
    if is_used and not was_used:
        instructions += (Use(node_id),)
    return engine, instructions


def _is_probe_due(engine: EngineHealth, now_s: float) -> bool:
    """The silent are not asked: nobody restarts or drains them, so an answer would not bring them back."""
    return (
        engine.is_joined
        and engine.is_present
        and engine.condition in (Condition.HEALTHY, Condition.DEMOTED, Condition.HELD_DOWN)
        and engine.probe_sent_at_s is None
        and now_s >= engine.probe_due_at_s
    )

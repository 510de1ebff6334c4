"""Which engine should be started anew. Pure.

One that is old, or whose memory has been at red for a while, is drained: nothing new is given to it, what
runs there ends, and its keeper starts another in its place. One at a time; never the last that works, unless
its memory stays at red: then it takes nothing, and will not by itself.

Each class is for itself: no engine stands in for one of another class, nor does it wait for its drain to end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bailiwick.fleet.memory import Watermark
from bailiwick.fleet.report import GENERAL
from bailiwick.ids import NodeId

FULL: Final = "its memory stays at the red watermark"


@dataclass(frozen=True, slots=True)
class Worn:
    """An engine that joined, as far as it matters here. Moments are of one clock."""

    node_id: NodeId
    joined_at: float
    is_healthy: bool
    is_drained: bool
    """Whether it was asked to drain, and has not come back yet."""
    red_since: float | None = None
    engine_class: str = GENERAL

    def noticed(self, watermark: Watermark, now: float, *, is_idle: bool = True) -> float | None:
        """Since when it has been at red without a break and with nothing at work that could explain it."""
        if watermark is not Watermark.RED or not is_idle:
            return None
        return now if self.red_since is None else self.red_since


@dataclass(frozen=True, slots=True)
class Wear:
    """What makes an engine worn."""

    age_max_s: float
    red_max_s: float = 60.0

    def is_full(self, engine: Worn, now: float) -> bool:
        """Whether its memory stays at red, and will not get better by itself."""
        return engine.red_since is not None and now - engine.red_since >= self.red_max_s

    def reason(self, engine: Worn, now: float) -> str | None:
        if self.is_full(engine, now):
            return FULL
        if now - engine.joined_at >= self.age_max_s:
            return "it has run for long enough"
        return None


def to_recycle(engines: Sequence[Worn], wear: Wear, now: float) -> tuple[NodeId, str] | None:
    """The engine to drain next, and why; None if none should be now."""
    worn = [
        (reason, engine)
        for engine in engines
        if engine.is_healthy
        and (reason := wear.reason(engine, now)) is not None
        and _can_be_spared(engine, engines, wear.is_full(engine, now))
    ]
    if not worn:
        return None
    reason, oldest = min(worn, key=lambda each: (each[1].red_since is None, each[1].joined_at))
    return oldest.node_id, reason


def _can_be_spared(engine: Worn, engines: Sequence[Worn], is_full: bool) -> bool:
    """Whether another of its class works, and none of them is on its way out. One that is full is no loss."""
    others = [one for one in engines if one.engine_class == engine.engine_class and one is not engine]
    return not any(one.is_drained for one in others) and (is_full or any(one.is_healthy for one in others))

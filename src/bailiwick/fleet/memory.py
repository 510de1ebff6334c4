"""How full an engine's memory is, and what follows from that.

Pure. The momentary size of the heap is not looked at: it sits near full by design, because a JVM collects
when it must and not before. What counts is what cannot be given back.

    green ── 60 % ── yellow ── 75 % ── orange ── 90 % ── red
    anything        anything,         nothing heavy,    nothing;
                    but warn          no cache fills,   queries wait
                                      small buffers
"""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Shares of a bound, from 0; above 1 is over the bound. None: not measured, or nothing to measure yet."""

    unified_ratio: float | None = None
    """Spark's unified memory in use, of its pool."""
    heap_after_full_gc_ratio: float | None = None
    """What the last full collection left, of the largest heap. None before the first one."""
    rss_ratio: float | None = None
    """What the process has in memory, of what it may have."""


class Watermark(StrEnum):
    GREEN = "green"
    YELLOW = "yellow"
    ORANGE = "orange"
    RED = "red"

    def or_worse(self, other: "Watermark") -> "Watermark":
        """The fuller of the two."""
        return max(self, other, key=list(Watermark).index)

    @property
    def takes_work(self) -> bool:
        return self is not Watermark.RED

    @property
    def takes_heavy_work(self) -> bool:
        return self in (Watermark.GREEN, Watermark.YELLOW)

    @property
    def fills_caches(self) -> bool:
        return self.takes_heavy_work

    @property
    def shrinks_buffers(self) -> bool:
        return not self.takes_heavy_work

    @property
    def warns(self) -> bool:
        return self is not Watermark.GREEN


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Where the colours begin. Raises ValueError unless they rise from above 0 up to 1."""

    yellow_ratio: float = 0.60
    orange_ratio: float = 0.75
    red_ratio: float = 0.90

    def __post_init__(self) -> None:
        if not 0 < self.yellow_ratio < self.orange_ratio < self.red_ratio <= 1:
            raise ValueError(
                "memory watermarks must rise: 0 < yellow_ratio < orange_ratio < red_ratio <= 1, not "
                f"{self.yellow_ratio:g}, {self.orange_ratio:g}, {self.red_ratio:g}"
            )

    def of(self, utilisation_ratio: float) -> Watermark:
        """The colour of that much. Red is what is above its mark; the others begin on theirs."""
        if utilisation_ratio > self.red_ratio:
            return Watermark.RED
        if utilisation_ratio >= self.orange_ratio:
            return Watermark.ORANGE
        if utilisation_ratio >= self.yellow_ratio:
            return Watermark.YELLOW
        return Watermark.GREEN


def utilisation(memory: MemoryUse) -> float:
    """The fullest of what was measured, as `bailiwick_memory_utilization_ratio` shows it; 0.0 if nothing was.

    >>> utilisation(MemoryUse(unified_ratio=0.2, rss_ratio=0.7))
    0.7
    """
    measured = (memory.unified_ratio, memory.heap_after_full_gc_ratio, memory.rss_ratio)
    return max((ratio for ratio in measured if ratio is not None), default=0.0)

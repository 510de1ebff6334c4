"""How full and how busy an engine is, as seen from outside it; and how full this process is.

What the process holds is asked of the machine; the rest is what the engine said last, without asking it: a
busy or hanging engine delays no heartbeat.
"""

import asyncio
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import psutil

from bailiwick.engines.process import EngineMeasures
from bailiwick.fleet.memory import MemoryUse

_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_STANDING_STILL: Final = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


@dataclass(frozen=True, slots=True)
class Measured:
    memory: MemoryUse
    active_operations: int = 0


class SeenProcess(Protocol):
    """An engine's process, as far as it is looked at here; `EngineProcess` is one."""

    pid: int
    measures: EngineMeasures | None
    exited: asyncio.Future[int]


def measured(process: SeenProcess | None, memory_limit_bytes: int) -> Measured:
    """What is known now. What is not known, or not true any more, is None."""
    if process is None or process.exited.done():
        return Measured(MemoryUse())
    rss, is_moving = _outside(process.pid)
    rss_ratio = None if rss is None else _ratio(rss, memory_limit_bytes)
    told = process.measures
    if told is None or not is_moving:
        return Measured(MemoryUse(rss_ratio=rss_ratio), told.active_operations if told else 0)
    return Measured(_inside(told, rss_ratio), told.active_operations)


def measured_here(memory_limit_bytes: int) -> MemoryUse:
    """Of the process that asks."""
    rss, _ = _outside(os.getpid())
    return MemoryUse(rss_ratio=None if rss is None else _ratio(rss, memory_limit_bytes))


def _inside(told: EngineMeasures, rss_ratio: float | None) -> MemoryUse:
    after_full_gc = told.heap_after_full_gc or None
    return MemoryUse(
        # With nothing at work all of it is kept data, which Spark drops as soon as it needs the room.
        unified_ratio=_ratio(told.unified_used, told.unified_max) if told.active_operations else None,
        heap_after_full_gc_ratio=None if after_full_gc is None else _ratio(after_full_gc, told.heap_max),
        rss_ratio=rss_ratio,
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 and math.isfinite(part / whole) else None


def _outside(pid: int) -> tuple[int | None, bool]:
    """Its resident bytes, and whether it moves at all: one that was stopped says nothing new."""
    try:
        process = psutil.Process(pid)
        return int(process.memory_info().rss), process.status() not in _STANDING_STILL
    except psutil.Error:
        return None, False


def memory_limit_bytes(files: tuple[Path, ...] = _CGROUP_LIMITS) -> int:
    """What a process here may hold before the machine, or its container, ends it."""
    total = int(psutil.virtual_memory().total)
    for file in files:
        try:
            return min(int(file.read_text()), total)
        except (OSError, ValueError):
            continue  # Not there, or `max`.
    return total

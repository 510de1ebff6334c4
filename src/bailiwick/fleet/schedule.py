"""Which engine a query gets.

Pure. Whoever asks lists the healthy engines only: one that is not in the list is never chosen. The least
loaded by cost wins, where cost is the bytes that running queries are thought to read; a query of unknown size
counts as a small one, so that a crowd of them is a load, too. An engine with a warm session comes before one
without.

With an affinity, queries of the same kind go to the same engine while it has room, so that what it has cached
is of use. Which one that is, is decided by hashing: when an engine comes or goes, only its own share moves.

Engines that run code of users get what asks for their class, and nothing else: what such code has done to its
engine must not reach a query that has none.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from bailiwick.fleet.memory import Watermark
from bailiwick.fleet.placement import Placement, is_of_class
from bailiwick.fleet.report import GENERAL
from bailiwick.ids import NodeId

HEAVY_BYTES: Final = 1 << 30
"""From here on a query is heavy: no engine whose memory is at orange takes it."""
QUERY_BYTES: Final = 16 << 20
"""What any query counts besides what it is thought to read."""

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """A healthy engine, as far as it matters for choosing one."""

    node_id: NodeId
    slots: int
    """How many queries it may run at once."""
    running: int = 0
    cost_running: int = 0
    """Bytes that what runs there is thought to read."""
    engine_class: str = GENERAL
    idle_sessions: int = 0
    watermark: Watermark = Watermark.GREEN
    is_embedded: bool = False
    heap_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """A query, as far as it matters for choosing an engine."""

    cost_bytes: int = 0
    excluded: frozenset[NodeId] = frozenset()
    """Engines that have failed it already."""
    placement: Placement | None = None
    """None: nobody has a wish."""
    engine_class: str | None = None
    """None: any but one that runs code of users."""
    affinity: str | None = None
    heap_bytes_min: int = 0
    only: NodeId | None = None
    """The engine that has the session which it needs."""


ANYWHERE: Final = Work()


class Obstacle(StrEnum):
    """Why an engine does not get a query."""

    EXCLUDED = "it has failed this query before"
    ELSEWHERE = "the query's own session is on another one"
    PLACEMENT = "the query's placement does not allow it"
    OTHER_CLASS = "it is of another class"
    HEAP_TOO_SMALL = "its heap is too small for this query"
    NOT_PREFERRED = "the query prefers other engines, and one of them can take it"
    MEMORY_RED = "its memory is at the red watermark"
    MEMORY_ORANGE = "its memory is at the orange watermark, and the query is heavy"
    BUSY = "it runs as many queries as it may"

    @property
    def is_passing(self) -> bool:
        """Whether waiting may remove it."""
        return self in (Obstacle.MEMORY_RED, Obstacle.MEMORY_ORANGE, Obstacle.BUSY)


class Scheduler(ABC):
    """Chooses engines. Another way to choose is another class."""

    @abstractmethod
    def choose(self, engines: Sequence[EngineLoad], work: Work) -> NodeId | None:
        """One of `engines`, or None if none of them may take the work now. The same list, the same choice."""

    @abstractmethod
    def obstacles(self, engines: Sequence[EngineLoad], work: Work) -> list[Obstacle | None]:
        """For each of `engines`, in their order, why it does not get the work; None if it might."""


@dataclass(frozen=True, slots=True)
class LeastLoaded(Scheduler):
    heavy_bytes: int = HEAVY_BYTES

    def choose(self, engines: Sequence[EngineLoad], work: Work) -> NodeId | None:
        able = [
            engine
            for engine, obstacle in zip(engines, self.obstacles(engines, work), strict=True)
            if obstacle is None
        ]
        warm = [engine for engine in able if engine.idle_sessions] or able
        if not warm:
            return None
        if work.affinity is not None:
            affinity = work.affinity
            return max(warm, key=lambda engine: _draw(affinity, engine.node_id)).node_id
        return min(warm, key=lambda engine: _load(engine, work)).node_id

    def obstacles(self, engines: Sequence[EngineLoad], work: Work) -> list[Obstacle | None]:
        found = [self._obstacle(engine, work) for engine in engines]
        has_other = any(
            not engine.is_embedded and (obstacle is None or obstacle.is_passing)
            for engine, obstacle in zip(engines, found, strict=True)
        )
        if work.placement is not Placement.PREFER or not has_other:
            return found
        # Busy is not unreachable: whoever prefers the others waits for them.
        return [
            Obstacle.NOT_PREFERRED if engine.is_embedded else obstacle
            for engine, obstacle in zip(engines, found, strict=True)
        ]

    def _obstacle(self, engine: EngineLoad, work: Work) -> Obstacle | None:
        if engine.node_id in work.excluded:
            return Obstacle.EXCLUDED
        if work.only not in (None, engine.node_id):
            return Obstacle.ELSEWHERE
        if work.placement is (Placement.REQUIRE if engine.is_embedded else Placement.LOCAL):
            return Obstacle.PLACEMENT
        if not is_of_class(engine.engine_class, work.engine_class):
            return Obstacle.OTHER_CLASS
        if engine.heap_bytes < work.heap_bytes_min:
            return Obstacle.HEAP_TOO_SMALL
        if not engine.watermark.takes_work:
            return Obstacle.MEMORY_RED
        if work.cost_bytes >= self.heavy_bytes and not engine.watermark.takes_heavy_work:
            return Obstacle.MEMORY_ORANGE
        return Obstacle.BUSY if engine.running >= engine.slots else None


LEAST_LOADED: Final = LeastLoaded()


def choose(engines: Sequence[EngineLoad], work: Work = ANYWHERE) -> NodeId | None:
    """The least loaded of `engines` that may take the work now; None if there is none."""
    return LEAST_LOADED.choose(engines, work)


def heaviest_first(waiting: Iterable[_Item], cost_bytes: Callable[[_Item], int]) -> list[_Item]:
    """Those whose turn it is at the same time, in the order to place them: equals in the order they came.

    A heavy one that comes last would run alone at the end, while engines idle.
    """
    return sorted(waiting, key=lambda one: -cost_bytes(one))


def _load(engine: EngineLoad, work: Work) -> tuple[float, float, NodeId]:
    """What the engine would have to read, for each slot, with this work. The name breaks ties."""
    read_bytes = engine.cost_running + engine.running * QUERY_BYTES
    added_bytes = work.cost_bytes + QUERY_BYTES
    return (read_bytes + added_bytes) / engine.slots, engine.running / engine.slots, engine.node_id


def _draw(affinity: str, node_id: NodeId) -> bytes:
    return hashlib.blake2b(f"{node_id}\0{affinity}".encode(), digest_size=8).digest()

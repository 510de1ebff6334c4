"""Whose fault it may be that an engine ran out of memory.

An engine that does so ends, with all that ran on it, and nothing tells which of them asked for too much. One
that was alone there is known to be it. Several are suspects, and most of them are innocent: each gets another
chance on any engine, but only one of them at a time in the whole gateway. So whoever is at it when an engine
runs out of memory again is found guilty, and no other suspect is lost with it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from bailiwick.clock import Clock, monotonic
from bailiwick.ids import NodeId

RECENT_S: Final = 5.0
"""Those whose stream breaks with an engine leave one after the other, within about this time."""


@dataclass(slots=True, eq=False)
class Stay:
    """A query on an engine, from when it was sent there to when it ended there."""

    last_parted_at: float | None = None
    """When another one left."""


class Suspects:
    """Belongs to one event loop."""

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._stays: dict[NodeId, set[Stay]] = {}
        self._chance = asyncio.Lock()

    @contextmanager
    def staying(self, node_id: NodeId) -> Iterator[Stay]:
        """Inside, a query runs on that engine."""
        stay, there = Stay(), self._stays.setdefault(node_id, set())
        there.add(stay)
        try:
            yield stay
        finally:
            there.discard(stay)
            for other in there:
                other.last_parted_at = self._clock()
            if not there and self._stays.get(node_id) is there:
                del self._stays[node_id]

    def has_company(self, node_id: NodeId, stay: Stay) -> bool:
        """Whether another query is on the engine, or was a moment ago. Asked from inside `staying`."""
        if self._stays[node_id] != {stay}:
            return True
        parted_at = stay.last_parted_at
        return parted_at is not None and self._clock() - parted_at < RECENT_S

    @asynccontextmanager
    async def chance(self, *, is_suspect: bool) -> AsyncIterator[None]:
        """Inside, no other suspect runs. Whoever is none goes in at once."""
        if not is_suspect:
            yield
            return
        async with self._chance:
            yield

"""The engines that take part now, and which of them would take a piece of work.

Engines come and go. It knows their sessions and their load, not who waits for them: that is `sessions.py`'s.
"""

import asyncio
from collections.abc import Callable, Iterator

from bailiwick.engines.engine import Engine
from bailiwick.errors import BailiwickError
from bailiwick.fleet.members import Member, Traits
from bailiwick.fleet.memory import Watermark
from bailiwick.fleet.placement import Placement
from bailiwick.fleet.report import TRUSTED
from bailiwick.fleet.schedule import EngineLoad, Scheduler, Work
from bailiwick.ids import LeaseId, NodeId
from bailiwick.telemetry.logs import logger

_log = logger(__name__)

MakeMember = Callable[[Engine, Traits], Member]


class Roster:
    """`long_leases` are those that do not count against an engine's slots."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        make_member: MakeMember,
        on_resize: Callable[[], None],
        long_leases: Callable[[], frozenset[LeaseId]],
    ) -> None:
        self._scheduler = scheduler
        self._make_member = make_member
        self._on_resize = on_resize
        self._long_leases = long_leases
        self._members: dict[NodeId, Member] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.pressure = Watermark.GREEN
        """How full the gateway's own memory is: what it is too full for, no engine gets."""

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members.values()))

    def add(self, engine: Engine, traits: Traits) -> None:
        """Its sessions are lent from now on, as they become ready. One of that name before is replaced."""
        known = self._members.get(engine.node_id)
        if known is not None:
            known.is_leaving = True
            self._close(known)
        self._members[engine.node_id] = self._make_member(engine, traits)
        self._on_resize()

    def dismiss(self, node_id: NodeId) -> None:
        """Nothing new is begun there. What runs there may end."""
        member = self._members.get(node_id)
        if member is not None:
            member.is_leaving = True
            self._on_resize()

    def remove(self, node_id: NodeId) -> None:
        """It is gone. What still runs there finds out by itself."""
        member = self._members.pop(node_id, None)
        if member is not None:
            member.is_leaving = True
            self._close(member)
            self._on_resize()

    def note_watermark(self, node_id: NodeId, watermark: Watermark) -> None:
        """How full its memory is. Told when it changes: it decides what the engine gets."""
        member = self._members.get(node_id)
        if member is not None and member.watermark is not watermark:
            tell = _log.warning if watermark.warns else _log.info
            tell("engine_memory", node_id=node_id, watermark=watermark.value)
            member.watermark = watermark

    def note_pressure(self, watermark: Watermark) -> None:
        """How full the gateway's own memory is. Told when it changes."""
        if watermark is not self.pressure:
            tell = _log.warning if watermark.warns else _log.info
            tell("gateway_memory", watermark=watermark.value)
            self.pressure = watermark

    async def close(self) -> None:
        await asyncio.gather(*self._closing, *(member.stock.close() for member in self))

    @property
    def slots(self) -> int:
        return sum(member.traits.slots for member in self._staying)

    @property
    def count(self) -> int:
        return len(self._staying)

    @property
    def unguarded(self) -> BailiwickError | None:
        """Why an engine may not be used; None if all that were looked at may.

        One that runs code of users tells nothing of the others: that code may have broken its guard.
        """
        found = [member.stock.unguarded for member in self if member.traits.engine_class != TRUSTED]
        return next((error for error in found if error is not None), None)

    def running_on(self, node_id: NodeId) -> int:
        member = self._members.get(node_id)
        return 0 if member is None else len(member.costs)

    def could_run(self, work: Work) -> bool:
        """Whether an engine that is there now would do this work, sooner or later."""
        obstacles = self._scheduler.obstacles(self._loads(), work)
        return any(obstacle is None or obstacle.is_passing for obstacle in obstacles)

    def is_starting(self, work: Work) -> bool:
        """The gateway's own engine is always on its way back, and worth waiting for."""
        return work.placement is not Placement.REQUIRE and any(
            member.traits.is_embedded and member.node_id not in work.excluded for member in self._staying
        )

    def chosen(self, work: Work) -> Member | None:
        """The engine that should do it, if one may at this moment."""
        node_id = self._scheduler.choose(self._loads(), work)
        return None if node_id is None else self._members[node_id]

    def is_held_back(self, work: Work) -> bool:
        """Whether an engine would do it if it were not too busy or too full."""
        obstacles = self._scheduler.obstacles(self._loads(), work)
        return any(obstacle is not None and obstacle.is_passing for obstacle in obstacles)

    def is_idle_elsewhere(self, work: Work) -> bool:
        """Whether a session lies idle that this work cannot have."""
        loads = self._loads()
        obstacles = self._scheduler.obstacles(loads, work)
        return any(
            obstacle is not None and load.idle_sessions
            for load, obstacle in zip(loads, obstacles, strict=True)
        )

    def keep_stocked(self) -> None:
        """Open what is missing, everywhere."""
        long_leases = self._long_leases()
        for member in self._staying:
            member.stock.keep(member.traits.slots + len(long_leases & member.costs.keys()))

    @property
    def _staying(self) -> list[Member]:
        return [member for member in self._members.values() if not member.is_leaving]

    def _loads(self) -> list[EngineLoad]:
        """Of the engines that can be used now."""
        long_leases = self._long_leases()
        return [
            member.load(len(long_leases & member.costs.keys()), self.pressure)
            for member in self
            if member.is_usable
        ]

    def _close(self, member: Member) -> None:
        closing = asyncio.create_task(member.stock.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

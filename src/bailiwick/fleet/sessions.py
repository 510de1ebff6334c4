"""Leases: one query at a time has the sole use of one warm session of one engine.

`admission.py` decides who is next, `schedule.py` which engine is theirs, `members.py` keeps the sessions of
each; this module brings them together. A lease's name is known to the catalog before the query gets the
session, and forgotten before anyone else can get it. A session goes back only when Spark has confirmed that
nothing runs in it any more; otherwise it is closed.

Engines come and go. While none is there, queries wait as they would for a busy one, and are refused when that
takes too long.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from bailiwick.clock import Clock, monotonic
from bailiwick.engines.canary import check_guard
from bailiwick.engines.config import PoolConfig
from bailiwick.engines.engine import Engine, EngineLost
from bailiwick.engines.holders import Holders
from bailiwick.engines.warmup import Warmup
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet import admission
from bailiwick.fleet.admission import Admission, Admit, Promote, Refuse
from bailiwick.fleet.lease import Kept, Lease, Lent, Request
from bailiwick.fleet.limits import first_limits
from bailiwick.fleet.members import Member, Preparation, Prove, Traits
from bailiwick.fleet.placement import Placement, Tried, nothing_reachable
from bailiwick.fleet.refusals import draining, gateway_full, refusal
from bailiwick.fleet.report import TRUSTED
from bailiwick.fleet.roster import Roster
from bailiwick.fleet.schedule import ANYWHERE, LEAST_LOADED, Scheduler, Work, heaviest_first
from bailiwick.fleet.stock import Stocked
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, NodeId, QueryId, new_lease_id
from bailiwick.policy.access import Access
from bailiwick.telemetry.logs import logger
from bailiwick.telemetry.traces import under_lease

TICK_S: Final = 0.1

_log = logger(__name__)


class SessionPool:
    """Lends warm sessions of engines. All but `holder` belongs to the event loop that started it."""

    def __init__(
        self,
        config: PoolConfig,
        *,
        clock: Clock = monotonic,
        warmup: Warmup | None = None,
        holders: Holders | None = None,
        prove: Prove = check_guard,
        scheduler: Scheduler = LEAST_LOADED,
        tried: Callable[[], Sequence[Tried]] = tuple,
    ) -> None:
        """`tried` tells of the engines that are known and cannot be used now."""
        self._config = config
        self._clock = clock
        self._tried = tried
        # The catalog may have been handed them before there was an engine to pool sessions of.
        self._holders = holders or Holders()
        self._prepare = Preparation(self._holders, warmup or Warmup(), prove)
        self._admission = Admission(first_limits(config))
        self.roster = Roster(
            scheduler, make_member=self._member, on_resize=self._resize, long_leases=self._long_leases
        )
        """The engines whose sessions are lent."""
        self._requests: dict[LeaseId, Request] = {}
        self._sessionless: list[Request] = []
        self._lent: dict[LeaseId, Lent] = {}
        self._is_draining = False
        self._is_stopped = False
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, timeout_s: float | None = 120.0) -> None:
        """Return when a session is fit for anyone; others follow. CIRCUIT_BREAKER_OPEN after `timeout_s`."""
        self.begin()
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait_until_stocked()
        except TimeoutError:
            raise BailiwickError(
                Code.CIRCUIT_BREAKER_OPEN, f"The engine was not warm within {timeout_s:g} s."
            ) from None

    def begin(self) -> None:
        """Keep sessions ready from now on; engines may join later."""
        self._spawn(self._tick_forever())
        self.tick()

    async def stop(self) -> None:
        """Refuse who waits, and close every session. Leases that are still held end with their sessions."""
        self._is_draining = self._is_stopped = True
        for request in list(self._requests.values()):
            self._refuse(request, draining())
        lent, self._lent = list(self._lent.values()), {}
        for one in lent:
            self._holders.leave(one.lease.session.handle)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(one.drop("the gateway stops") for one in lent))
        await self.roster.close()

    async def drain(self, timeout_s: float) -> bool:
        """Take nobody new; True when all who were here have ended within `timeout_s`."""
        self._is_draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._requests or self._lent:
                    await self._wait_changed()
        return not self._requests and not self._lent

    @asynccontextmanager
    async def lease(
        self,
        principal: Principal,
        query_id: QueryId | None = None,
        work: Work = ANYWHERE,
        kept: Kept | None = None,
    ) -> AsyncIterator[Lease]:
        """Wait for a turn and a session. Raises RESOURCE_EXHAUSTED if too many wait, or for too long.

        CIRCUIT_BREAKER_OPEN if no engine is there in time. Leaving never waits: what is left to do about the
        session is done in the background. With `kept` it is that session; EngineLost if it is lost.
        """
        lease = await self._wait_granted(principal, query_id, work, kept)
        try:
            with under_lease(lease.id):
                yield lease
        finally:
            self._end(lease)

    def take_out(self, lease: Lease) -> Kept:
        """Keep the session of `lease` for its principal; the pool opens another in its place."""
        held = self._lent[lease.id]
        held.member.stock.let_go(held.stocked)
        self._vacate(held)
        return Kept(held.member, held.stocked)

    def holder(self, handle: str, lease_id: str) -> Access | None:
        """What the holder of that session under that lease may, at this moment. Any thread may ask."""
        return self._holders.holder(handle, lease_id)

    def position(self, query_id: QueryId) -> int | None:
        """The query's place in the queue, from 1; None if it does not wait there."""
        for request in self._requests.values():
            if request.query_id == query_id:
                return admission.position(self._admission, request.lease)
        return None

    def could_run(self, work: Work) -> bool:
        """Whether an engine that is there now would do this work, sooner or later."""
        return self.roster.could_run(work)

    def is_returning(self, node_id: NodeId) -> bool:
        """The gateway's own engine is always on its way back."""
        return any(member.node_id == node_id and member.traits.is_embedded for member in self.roster)

    def is_free(self, work: Work) -> bool:
        """Whether this work would get a session at once, with nobody waiting for one."""
        if self._is_draining or self._requests:
            return False
        member = self.roster.chosen(work)
        return member is not None and member.stock.idle_count > 0

    @property
    def queue_length(self) -> int:
        return len(self._requests)

    @property
    def leased_count(self) -> int:
        return len(self._lent)

    @property
    def idle_count(self) -> int:
        return sum(member.stock.idle_count for member in self.roster)

    @property
    def warming_count(self) -> int:
        return sum(member.stock.opening_count for member in self.roster)

    def tick(self) -> None:
        """Let the passing of time have its effect. Called by itself ten times a second."""
        self._tell(admission.TimePassed())

    async def _wait_granted(
        self, principal: Principal, query_id: QueryId | None, work: Work, kept: Kept | None
    ) -> Lease:
        if self._is_draining:
            raise draining()
        if not self.roster.pressure.takes_work:
            raise gateway_full()
        await self._wait_reachable(work)
        request = Request(new_lease_id(), principal, query_id, work, self._clock(), kept)
        self._requests[request.lease] = request
        try:
            self._tell(admission.Asked(request.lease, principal.name, principal.tenant))
            return await request.granted
        except BaseException:
            self._withdraw(request)
            raise

    async def _wait_reachable(self, work: Work) -> None:
        """Those that must run elsewhere do not wait in line for engines that are not there."""
        if work.placement is None or self.roster.could_run(work) or self.roster.is_starting(work):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.reachable_wait_s):
                while not self.roster.could_run(work):
                    await self._wait_changed()
                return
        raise nothing_reachable(work.placement, self._tried(), work.engine_class)

    def _withdraw(self, request: Request) -> None:
        """The caller gave up, was refused, or was cancelled in the moment that its lease was granted."""
        if request.lease in self._lent:
            self._end(self._lent[request.lease].lease)
            return
        self._forget(request)
        self._tell(admission.Left(request.lease))

    def _tell(self, event: admission.Event) -> None:
        self._step(event)
        self._note_change()

    def _step(self, event: admission.Event) -> list[Request]:
        """Returns whose turn it is now."""
        self._admission, instructions = admission.step(self._admission, event, self._clock())
        admitted: list[Request] = []
        for instruction in instructions:
            match instruction:
                case Admit(lease):
                    admitted.append(self._requests[lease])
                case Promote(lease):
                    _log.info("a query counts as long from now on", lease=lease)
                case Refuse(lease):
                    self._refuse(self._requests[lease], self._refusal(instruction))
        admitted = heaviest_first(admitted, lambda request: request.work.cost_bytes)
        self._sessionless += admitted
        return admitted

    def _note_change(self) -> None:
        """Something may have become possible: lend what is there, and open what is missing."""
        if not self._is_stopped:
            self._lend()
            self.roster.keep_stocked()
        self._changed.set()
        self._changed = asyncio.Event()

    def _lend(self) -> None:
        if not self.roster.pressure.takes_work:
            return
        turns = list(self._sessionless)
        for request in turns:
            if request not in self._sessionless:
                # Whoever got a session before let this one have its turn, too.
                continue
            if request.granted.done():
                # Cancelled a moment ago; it withdraws as soon as its task runs.
                self._sessionless.remove(request)
            elif request.is_in_vain:
                self._refuse(request, EngineLost("the engine of this session is gone"))
            elif (member := self.roster.chosen(request.work)) is not None:
                turns += self._lend_of(member, request)
            elif self.roster.is_idle_elsewhere(request.work):
                # A whole line may be put off, one by one: too long to call ourselves again for each.
                turns += self._put_off(request)

    def _lend_of(self, member: Member, request: Request) -> list[Request]:
        """Returns whose turn it is now."""
        if self._admission.may_start(request.lease):
            if (stocked := request.take_from(member)) is not None:
                self._sessionless.remove(request)
                self._grant(request, member, stocked)
        elif self._admission.waits_for_engine(request.lease):
            return self._step(admission.Recalled(request.lease))
        return []

    def _put_off(self, request: Request) -> list[Request]:
        """Returns whose turn it is now."""
        if self._admission.waits_for_engine(request.lease):
            return []
        return self._step(admission.PutOff(request.lease))

    def _grant(self, request: Request, member: Member, stocked: Stocked) -> None:
        lease = Lease(
            request.lease,
            request.principal,
            stocked.session,
            member.engine,
            member.traits.heap_bytes,
            request.query_id,
            waited_s=self._clock() - request.asked_at,
            is_fallback=member.traits.is_embedded and request.work.placement is Placement.PREFER,
        )
        member.waited_s = lease.waited_s
        del self._requests[request.lease]
        held = self._lent[lease.id] = Lent(lease, member, stocked, request.kept)
        held.enter(self._holders)
        request.granted.set_result(lease)
        self._tell(admission.Started(lease.id))

    def _end(self, lease: Lease) -> None:
        # First of all: from here on the catalog refuses whatever the query may still try.
        self._holders.leave(lease.session.handle, lease.id)
        held = self._lent.get(lease.id)
        if held is None:
            return
        if lease.spoiled_by is None and held.is_settled:
            held.give_back()
            self._vacate(held)
        else:
            self._spawn(self._clear_up(held))

    async def _clear_up(self, held: Lent) -> None:
        """The place stays taken meanwhile: Spark may still be at work for it."""
        lease = held.lease
        try:
            if lease.spoiled_by is None and await held.settle(self._config.cancel_confirm_s):
                held.give_back()
            else:
                reason = lease.spoiled_by or "its work did not end in time"
                _log.warning("a session is closed", reason=reason, lease=lease.id, query_id=lease.query_id)
                await held.drop(reason)
        finally:
            self._vacate(held)

    def _vacate(self, held: Lent) -> None:
        held.member.vacate(held.lease.id)
        self._lent.pop(held.lease.id, None)
        self._tell(admission.Left(held.lease.id))

    def _refusal(self, refuse: Refuse) -> BailiwickError:
        if self.roster.unguarded is not None:
            return self.roster.unguarded
        if not self.roster.pressure.takes_work:
            return gateway_full()
        placed = next((request for request in self._sessionless if request.lease == refuse.lease), None)
        is_missing = (
            not any(member.is_usable for member in self.roster)
            if placed is None
            else not self.roster.is_held_back(placed.work)
        )
        return refusal(refuse, is_engine_missing=is_missing)

    def _refuse(self, request: Request, error: BailiwickError | EngineLost) -> None:
        self._forget(request)
        if not request.granted.done():
            request.granted.set_exception(error)

    def _forget(self, request: Request) -> None:
        self._requests.pop(request.lease, None)
        if request in self._sessionless:
            self._sessionless.remove(request)

    def _member(self, engine: Engine, traits: Traits) -> Member:
        return Member.of(
            engine,
            traits,
            self._config,
            self._clock,
            prepare=partial(self._prepare, is_awaited=lambda: bool(self._sessionless)),
            on_change=self._note_change,
        )

    def _resize(self) -> None:
        self._tell(admission.Resized(self.roster.slots, self._config.long_running_max * self.roster.count))

    def _long_leases(self) -> frozenset[LeaseId]:
        return frozenset(one.lease for one in self._admission.admitted if one.is_long)

    async def _wait_until_stocked(self) -> None:
        while not any(one.stock.fit_count for one in self.roster if one.traits.engine_class != TRUSTED):
            if self.roster.unguarded is not None:
                raise self.roster.unguarded
            await self._wait_changed()

    async def _wait_changed(self) -> None:
        await self._changed.wait()

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.tick()

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

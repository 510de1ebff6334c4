"""Leases: one query at a time has the sole use of one warm session.

`admission.py` decides who is next, `stock.py` keeps the sessions, this module brings them together. A lease's
name is known to the catalog before the query gets the session, and forgotten before anyone else can get it.
A session goes back only when Spark has confirmed that nothing runs in it any more; otherwise it is closed.

While no engine is there, queries wait as they would for a busy one, and are refused when that takes too long.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from bailiwick.clock import Clock, monotonic
from bailiwick.engines.canary import PRINCIPAL as CANARY_PRINCIPAL
from bailiwick.engines.canary import check_guard
from bailiwick.engines.config import PoolConfig
from bailiwick.engines.engine import Engine, EngineSession
from bailiwick.engines.holders import Holders
from bailiwick.engines.warmup import WARMUP_PRINCIPAL, Warmup
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet import admission
from bailiwick.fleet.admission import (
    Admission,
    Admit,
    Asked,
    Left,
    Limits,
    Promote,
    Refuse,
    Started,
    TimePassed,
)
from bailiwick.fleet.refusals import draining, refusal
from bailiwick.fleet.stock import Stock, Stocked
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, QueryId, new_lease_id
from bailiwick.policy.access import Access
from bailiwick.telemetry.logs import logger

TICK_S: Final = 0.1

Prove = Callable[[EngineSession, LeaseId], Awaitable[None]]

_log = logger(__name__)


@dataclass(slots=True, eq=False)
class Lease:
    """The sole use of `session`. Work in it carries `id` as its tag."""

    id: LeaseId
    principal: Principal
    session: EngineSession
    query_id: QueryId | None = None
    waited_s: float = 0.0
    policy_version: int = 0
    """Of the policies that hold for what is done under it."""
    spoiled_by: str | None = None

    def spoil(self, reason: str) -> None:
        """The session must not serve anyone else. The first reason stays."""
        self.spoiled_by = self.spoiled_by or reason


@dataclass(slots=True, eq=False)
class _Request:
    """Someone who wants a lease, until it is given or refused."""

    lease: LeaseId
    principal: Principal
    query_id: QueryId | None
    asked_at: float
    granted: asyncio.Future[Lease] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class SessionPool:
    """Lends warm sessions of one engine. All but `holder` belongs to the event loop that started it."""

    def __init__(
        self,
        engine: Engine,
        config: PoolConfig,
        cores: int,
        *,
        clock: Clock = monotonic,
        warmup: Warmup | None = None,
        holders: Holders | None = None,
        prove: Prove = check_guard,
    ) -> None:
        """`prove` raises unless a new session refuses what it must."""
        self._prove = prove
        self._engine = engine
        self._config = config
        self._clock = clock
        self._warmup = warmup or Warmup()
        self._admission = Admission(_limits(config, cores))
        # The catalog may have been handed them before there was an engine to pool sessions of.
        self._holders = holders or Holders()
        self._stock = Stock(engine, config, clock, prepare=self._prepare, on_change=self._note_change)
        self._requests: dict[LeaseId, _Request] = {}
        self._sessionless: deque[_Request] = deque()
        self._lent: dict[LeaseId, tuple[Lease, Stocked]] = {}
        self._is_draining = False
        self._is_stopped = False
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, timeout_s: float = 120.0) -> None:
        """Return when a session is fit for use; the others follow. CIRCUIT_BREAKER_OPEN after `timeout_s`."""
        self._spawn(self._tick_forever())
        try:
            async with asyncio.timeout(timeout_s):
                await self._engine.wait_ready(timeout_s)
                self.tick()
                await self._wait_until_stocked()
        except TimeoutError:
            raise BailiwickError(
                Code.CIRCUIT_BREAKER_OPEN, f"The engine was not warm within {timeout_s:g} s."
            ) from None

    async def stop(self) -> None:
        """Refuse who waits, and close every session. Leases that are still held end with their sessions."""
        self._is_draining = self._is_stopped = True
        for request in list(self._requests.values()):
            self._refuse(request, draining())
        lent, self._lent = list(self._lent.values()), {}
        for lease, _ in lent:
            self._holders.leave(lease.session.handle)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._stock.drop(stocked) for _, stocked in lent))
        await self._stock.close()

    async def drain(self, timeout_s: float) -> bool:
        """Take nobody new; True when all who were here have ended within `timeout_s`."""
        self._is_draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._requests or self._lent:
                    await self._wait_changed()
        return not self._requests and not self._lent

    @asynccontextmanager
    async def lease(self, principal: Principal, query_id: QueryId | None = None) -> AsyncIterator[Lease]:
        """Wait for a turn and a session. Raises RESOURCE_EXHAUSTED if too many wait, or for too long.

        CIRCUIT_BREAKER_OPEN if no engine is there in time. Leaving never waits: what is left to do about the
        session is done in the background.
        """
        lease = await self._wait_granted(principal, query_id)
        try:
            yield lease
        finally:
            self._end(lease)

    def holder(self, handle: str, lease_id: str) -> Access | None:
        """What the holder of that session under that lease may, at this moment. Any thread may ask."""
        return self._holders.holder(handle, lease_id)

    def position(self, query_id: QueryId) -> int | None:
        """The query's place in the queue, from 1; None if it does not wait there."""
        for request in self._requests.values():
            if request.query_id == query_id:
                return admission.position(self._admission, request.lease)
        return None

    @property
    def queue_length(self) -> int:
        return len(self._requests)

    @property
    def leased_count(self) -> int:
        return len(self._lent)

    @property
    def idle_count(self) -> int:
        return self._stock.idle_count

    @property
    def warming_count(self) -> int:
        return self._stock.opening_count

    def tick(self) -> None:
        """Let the passing of time have its effect. Called by itself ten times a second."""
        self._tell(TimePassed())

    async def _wait_granted(self, principal: Principal, query_id: QueryId | None) -> Lease:
        if self._is_draining:
            raise draining()
        request = _Request(new_lease_id(), principal, query_id, self._clock())
        self._requests[request.lease] = request
        try:
            self._tell(Asked(request.lease, principal.name, principal.tenant))
            return await request.granted
        except BaseException:
            self._withdraw(request)
            raise

    def _withdraw(self, request: _Request) -> None:
        """The caller gave up, was refused, or was cancelled in the moment that its lease was granted."""
        if request.lease in self._lent:
            self._end(self._lent[request.lease][0])
            return
        self._forget(request)
        self._tell(Left(request.lease))

    def _tell(self, event: admission.Event) -> None:
        self._admission, instructions = admission.step(self._admission, event, self._clock())
        for instruction in instructions:
            match instruction:
                case Admit(lease):
                    self._sessionless.append(self._requests[lease])
                case Promote(lease):
                    _log.info("a query counts as long from now on", lease=lease)
                case Refuse(lease):
                    self._refuse(self._requests[lease], self._refusal(instruction))
        self._note_change()

    def _note_change(self) -> None:
        """Something may have become possible: lend what is there, and open what is missing."""
        if not self._is_stopped:
            self._lend()
            self._stock.keep(self._admission.limits.slots + self._admission.long_count)
        self._changed.set()
        self._changed = asyncio.Event()

    def _lend(self) -> None:
        while self._sessionless:
            if self._sessionless[0].granted.done():
                # Cancelled a moment ago; it withdraws as soon as its task runs.
                self._sessionless.popleft()
                continue
            stocked = self._stock.take()
            if stocked is None:
                return
            self._grant(self._sessionless.popleft(), stocked)

    def _grant(self, request: _Request, stocked: Stocked) -> None:
        lease = Lease(
            request.lease,
            request.principal,
            stocked.session,
            request.query_id,
            waited_s=self._clock() - request.asked_at,
        )
        del self._requests[request.lease]
        self._lent[lease.id] = (lease, stocked)
        access = self._holders.enter(lease.session.handle, lease.id, lease.principal, lease.query_id)
        lease.policy_version = access.version
        request.granted.set_result(lease)
        self._tell(Started(lease.id))

    def _end(self, lease: Lease) -> None:
        # First of all: from here on the catalog refuses whatever the query may still try.
        self._holders.leave(lease.session.handle)
        held = self._lent.get(lease.id)
        if held is None:
            return
        if lease.spoiled_by is None and lease.session.is_settled:
            self._stock.give_back(held[1])
            self._vacate(lease)
        else:
            self._spawn(self._clear_up(lease, held[1]))

    async def _clear_up(self, lease: Lease, stocked: Stocked) -> None:
        """The place stays taken meanwhile: Spark may still be at work for it."""
        try:
            if lease.spoiled_by is None and await lease.session.settle(self._config.cancel_confirm_s):
                self._stock.give_back(stocked)
            else:
                reason = lease.spoiled_by or "its work did not end in time"
                _log.warning("a session is closed", reason=reason, lease=lease.id, query_id=lease.query_id)
                await self._stock.drop(stocked)
        finally:
            self._vacate(lease)

    def _vacate(self, lease: Lease) -> None:
        self._lent.pop(lease.id, None)
        self._tell(Left(lease.id))

    def _refusal(self, refuse: Refuse) -> BailiwickError:
        if self._stock.unguarded is not None:
            return self._stock.unguarded
        has_place = any(request.lease == refuse.lease for request in self._sessionless)
        return refusal(refuse, is_engine_missing=has_place or not self._engine.is_ready)

    def _refuse(self, request: _Request, error: BailiwickError) -> None:
        self._forget(request)
        if not request.granted.done():
            request.granted.set_exception(error)

    def _forget(self, request: _Request) -> None:
        self._requests.pop(request.lease, None)
        if request in self._sessionless:
            self._sessionless.remove(request)

    async def _prepare(self, session: EngineSession, on_fit: Callable[[], None]) -> None:
        """See that the session refuses what it must, then warm it up."""
        lease = new_lease_id()
        self._holders.enter(session.handle, lease, CANARY_PRINCIPAL)
        try:
            await self._prove(session, lease)
        finally:
            self._holders.leave(session.handle)
        lease = new_lease_id()
        self._holders.enter(session.handle, lease, WARMUP_PRINCIPAL)
        try:
            await self._warmup.run(session, lease, is_awaited=lambda: bool(self._sessionless), on_fit=on_fit)
        finally:
            self._holders.leave(session.handle)

    async def _wait_until_stocked(self) -> None:
        while not self._stock.fit_count:
            if self._stock.unguarded is not None:
                raise self._stock.unguarded
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


def _limits(config: PoolConfig, cores: int) -> Limits:
    return Limits(
        slots=config.sessions or cores,
        long_max=config.long_running_max,
        interactive_s=config.interactive_s,
        queue_length_max=config.queue_length_max,
        queue_length_per_principal_max=config.queue_length_per_user_max,
        queue_wait_s=config.queue_wait_s,
        queue_length_per_tenant_max=config.queue_length_per_tenant_max,
        running_per_tenant_max=config.running_per_tenant_max,
    )

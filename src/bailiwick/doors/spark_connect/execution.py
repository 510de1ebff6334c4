"""How one plan is carried out by Spark, as the work of a query.

It is admitted, recorded, ended and audited as every query. What is its own: it runs in the client's own
engine session, unless any would do (`shared_session.py`). That is made again if its engine is lost; what
changed nothing and has shown nothing is then tried once more. Responses are taken as fast as Spark gives
them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from bailiwick.doors.spark_connect.recipe import Recipe
from bailiwick.doors.spark_connect.session import Session
from bailiwick.doors.spark_connect.sessions import Sessions
from bailiwick.doors.spark_connect.shared_session import Place
from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError
from bailiwick.fleet.schedule import Work
from bailiwick.ids import new_operation_id
from bailiwick.queries import failures
from bailiwick.queries.machine import Admitted, Retried
from bailiwick.queries.pulse import Pulse
from bailiwick.queries.query import Failure
from bailiwick.queries.running import Running
from bailiwick.queries.spark_life import RETRY_PAUSE_S
from bailiwick.queries.spark_side import Lease, Loss, Lost, SparkSide, patience, wait_settled
from bailiwick.results.batches import FrameKind, frames

Take = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Errand:
    """A plan, and what is known of it."""

    plan: Any
    kind: Kind
    reads_compressed: bool = False
    """Whether whoever sent it reads batches with zstd bodies."""
    reads: tuple[str, ...] = ()
    """Full names, as far as Spark has told them before; the rest is known by what it asks of the catalog."""
    writes: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    """Full names of what may be tables, to tell how much there is to do."""
    explains: bool = False
    makes_view: bool = False
    """Whether it leaves a view behind that holds what is decided now."""
    effect: Callable[[Recipe], Recipe] | None = None
    """What it makes of the session, once it has happened."""
    may_make_views: bool = False
    """Whether Spark may need views while it analyses it."""

    @property
    def leaves_nothing(self) -> bool:
        return self.kind is Kind.READ and not self.may_make_views


class Execution:
    def __init__(self, sessions: Sessions, session: Session, errand: Errand, take: Take) -> None:
        self._sessions = sessions
        self._session = session
        self._errand = errand
        self._take = take
        self._has_answered = False

    async def live(self, running: Running, side: SparkSide) -> None:
        """The life of the query."""
        principal, reads = running.statement.principal, (*self._errand.reads, *self._errand.named)
        work = self._sessions.placed(self._session, principal, side.work_of(running.statement, reads))
        while (lost := await self._attempt(running, side, work)) is not None:
            lost.engine.note_trouble(lost.error.message)
            work = replace(
                work,
                excluded=work.excluded | {lost.engine.node_id},
                heap_bytes_min=max(work.heap_bytes_min, lost.heap_bytes_min),
            )
            if not side.pool.could_run(work):
                # The engine itself comes back, under the same name.
                work = replace(work, excluded=frozenset(), heap_bytes_min=0)
            if not self._may_retry(running, side, lost):
                running.fail(failures.after_attempts(lost.error, running.query.attempts))
                return
            pause_s = RETRY_PAUSE_S * 2 ** len(running.query.attempts)
            running.apply(Retried(side.wall(), Failure.of(lost.error)))
            await asyncio.sleep(pause_s)

    def _may_retry(self, running: Running, side: SparkSide, lost: Lost) -> bool:
        query = running.query
        return (
            not running.is_ended
            and len(query.attempts) < side.limits.retries
            and not self._has_answered
            and not query.may_have_written
            and lost.error.retryable
        )

    async def _attempt(self, running: Running, side: SparkSide, work: Work) -> Lost | None:
        """One engine's try. None if it has come to its end, good or bad."""
        async with self._place(running, side, work) as (place, lease):
            running.apply(Admitted(side.wall(), lease.engine.node_id, lease.is_fallback))
            with Loss(lease) as loss:
                try:
                    async with patience(lease, side) as pulse:
                        await self._answer(running, place, lease, side, pulse)
                except BailiwickError as error:
                    running.fail(error, by_engine=True)
                await wait_settled(lease)
                return None
        return await loss.told(side)

    @asynccontextmanager
    async def _place(
        self, running: Running, side: SparkSide, work: Work
    ) -> AsyncIterator[tuple[Place, Lease]]:
        """A session, and a turn in it. Nothing has run yet, so engines lost meanwhile are passed over."""
        principal = running.statement.principal
        async with AsyncExitStack() as stack:

            async def take_turn(place: Place) -> tuple[Place, Lease]:
                return place, await stack.enter_async_context(place.lease(principal, running.id, work))

            yield await self._sessions.ask_anywhere(
                self._session,
                principal,
                take_turn,
                work=work,
                leaves_nothing=self._errand.leaves_nothing,
                tries=1 + side.limits.retries,
            )

    async def _answer(
        self, running: Running, place: Place, lease: Lease, side: SparkSide, pulse: Pulse
    ) -> None:
        errand, principal = self._errand, running.statement.principal
        running.reads, running.writes = errand.reads, errand.writes
        running.policy_version = lease.policy_version
        if errand.kind is Kind.CHANGE:
            await side.begin_change(running)
            pulse.beat()
        # A session of one's own does several things at once, and what commands answer comes back in plans,
        # where no compressed rows are taken.
        await lease.session.compress(errand.reads_compressed and place.standing is None)
        operation = new_operation_id()
        await running.start(errand.kind, operation)
        responses = lease.session.execute_plan(
            await self._session.brought_rows.put_into(errand.plan),
            operation=operation,
            lease=lease.id,
            standing=place.standing,
            principal=principal.name,
            query_id=running.id,
            reattachable=errand.kind is Kind.CHANGE,
            may_call=principal.is_admin,
            explains=errand.explains,
            makes_view=errand.makes_view,
            reads_only=place.standing is None,
        )
        async with aclosing(responses):
            async for response in responses:
                pulse.beat()
                await self._note(running, response, side)
        if errand.kind is Kind.CHANGE:
            running.affected_rows = side.affected_rows(lease.id)
        if errand.effect is not None:
            self._session.change(errand.effect(self._session.recipe))
        await running.complete()

    async def _note(self, running: Running, response: Any, side: SparkSide) -> None:
        kind = response.WhichOneof("response_type")
        if kind == "execution_progress":
            stages = response.execution_progress.stages
            running.tasks_done = sum(stage.num_completed_tasks for stage in stages)
            running.tasks_total = sum(stage.num_tasks for stage in stages)
        elif kind == "arrow_batch":
            self._has_answered = True
            for frame in frames(response.arrow_batch.data):
                if frame.kind is FrameKind.BATCH:
                    side.count(running, frame)
        elif kind is not None:
            self._has_answered = True
        await self._take(response)

"""A query while it lives: the one place where its state changes and where that is acted upon.

`machine.py` decides; this keeps the state, does what the machine says, and tells whoever waits. The task
that does the work (its life) and those who want it to end (a client, a clock, an administrator) meet here.
It does not know what the work is.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from bailiwick.clock import Clock
from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import OperationId, QueryId
from bailiwick.queries import failures
from bailiwick.queries.machine import (
    Cancelled,
    Completed,
    Delivered,
    Discard,
    Event,
    Failed,
    Interrupt,
    Save,
    Started,
    step,
)
from bailiwick.queries.query import Failure, Query, State
from bailiwick.queries.recorder import Recorder
from bailiwick.queries.statement import UNKNOWN_ROWS, Statement
from bailiwick.results.config import ResultsConfig
from bailiwick.results.delivery import Delivery
from bailiwick.results.spool import Spool
from bailiwick.telemetry.breadcrumbs import breadcrumb

_UNCERTAIN = frozenset({Code.STORAGE_ERROR, Code.CATALOG_ERROR, Code.CATALOG_UNAVAILABLE})
"""With these the engine says that it failed, but not whether a commit had gone through before."""


class Running:
    def __init__(
        self,
        query: Query,
        statement: Statement,
        *,
        recorder: Recorder,
        spool: Spool,
        results: ResultsConfig,
        wall: Clock,
        on_end: Callable[["Running"], None],
        expected_schema: bytes | None = None,
    ) -> None:
        self._query = query
        self._recorder = recorder
        self._wall = wall
        self._on_end = on_end
        self._life: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._timeout_s = 0.0
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.statement = statement
        self.expected_schema = expected_schema
        self.delivery = Delivery(spool, results, on_idle=self.cancel)
        self.error: BailiwickError | None = None
        self.schema: bytes | None = None
        self.affected_rows = UNKNOWN_ROWS
        self.is_unseen = False
        """While this holds, nothing that it did so far can be seen by anyone: ended now, nothing happened."""
        self.category: str | None = None
        """What metrics call its kind, where that is not Spark's word."""
        # What it has to do with, for the record: full names, and by which policies it was decided.
        self.reads: tuple[str, ...] = ()
        self.writes: tuple[str, ...] = ()
        self.policy_version: int | None = None
        # Counted here and not by the machine: they change with every batch.
        self.rows = 0
        self.bytes = 0
        self.tasks_done = 0
        self.tasks_total = 0

    @property
    def query(self) -> Query:
        """The query as it is now."""
        return replace(
            self._query,
            rows=self.rows,
            bytes=self.bytes,
            tasks_done=self.tasks_done,
            tasks_total=self.tasks_total,
        )

    @property
    def id(self) -> QueryId:
        return self._query.id

    @property
    def state(self) -> State:
        return self._query.state

    @property
    def is_ended(self) -> bool:
        return self._query.state.is_terminal

    @property
    def kind(self) -> Kind | None:
        return self._query.kind

    def begin(self, life: asyncio.Task[None], timeout_s: float) -> None:
        """`life` does the work from now on, and has `timeout_s` for it."""
        self._life = life
        self._timeout_s = timeout_s
        self.renew_deadline()

    def renew_deadline(self) -> None:
        """It gets on: its time begins anew."""
        if self._deadline is not None:
            self._deadline.cancel()
        if not self.is_ended:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._timeout_s, self._time_out, self._timeout_s)

    async def wait_ready(self) -> None:
        """Return when there is something to read. Raises what the query ended with before that."""
        await asyncio.shield(self._ready)

    def tell_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def apply(self, event: Event) -> bool:
        """Let `event` happen. True if it must be recorded before anything else does: then use `reach`."""
        was_ended = self.is_ended
        self._query, instructions = step(self._query, event)
        breadcrumb(type(event).__name__.lower(), state=self._query.state.value)
        durably = False
        for instruction in instructions:
            match instruction:
                case Save(durably=wanted):
                    durably = wanted
                    self._recorder.note(self.query)
                case Interrupt():
                    self._interrupt()
                case Discard():
                    self._discard()
        if self.is_ended and not was_ended:
            self._tell_ended()
        return durably

    async def reach(self, event: Event) -> None:
        """Let `event` happen, and return when as much of it is on disk as must be."""
        if self.apply(event):
            await self._recorder.save_now(self.query)

    async def start(self, kind: Kind, operation: OperationId | None = None) -> None:
        """The work is about to begin. Raises CancelledError if somebody was quicker to end it."""
        await self.reach(Started(self._wall(), kind, operation))
        if self.is_ended:
            raise asyncio.CancelledError

    async def complete(self) -> None:
        """The work is done. The rest is the reader's, who has no deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        await self.reach(Completed(self._wall()))
        if not self.is_ended:
            self.delivery.finish()
            self.tell_ready()

    def delivered(self) -> None:
        """The reader has everything."""
        if not self.is_ended:
            self.apply(Delivered(self._wall()))

    def fail(self, error: BailiwickError, *, by_engine: bool = False) -> None:
        """It cannot go on. `by_engine`: the engine itself said so. The first end counts."""
        if not self.is_ended:
            self.error = self._signed(error, by_engine)
            self.apply(Failed(self._wall(), Failure.of(error)))

    def cancel(self, error: BailiwickError) -> None:
        """It shall not go on. The first end counts."""
        if not self.is_ended:
            self.error = self._signed(error, by_engine=False)
            self.apply(Cancelled(self._wall(), Failure.of(error)))

    def leave(self) -> None:
        """The reader has left. Whatever is still going on for it ends."""
        self.cancel(failures.client_left())
        self.delivery.close()

    def _signed(self, error: BailiwickError, by_engine: bool) -> BailiwickError:
        """A change that was ended from outside may have happened all the same."""
        error.query_id = self._query.id
        is_verdict = by_engine and error.code not in _UNCERTAIN
        may_have_written = self._query.may_have_written and not self.is_unseen
        # When the engine is done, only the record of it can still fail: the change is made by then.
        has_begun = self._query.state in (State.RUNNING, State.FINISHING)
        if has_begun and may_have_written and not is_verdict:
            error.outcome_unknown()
        return error

    def _time_out(self, timeout_s: float) -> None:
        self.fail(failures.timed_out(timeout_s))

    def _interrupt(self) -> None:
        """End the work. If it ends itself, nobody needs to be told."""
        if self._life is not None and self._life is not asyncio.current_task():
            self._life.cancel()

    def _discard(self) -> None:
        if self.error is not None and self._query.failure is not None:
            self.delivery.fail(self.error)
        else:
            self.delivery.close()

    def _tell_ended(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        failed = self._query.failure is not None
        if not self._ready.done():
            if failed and self.error is not None:
                self._ready.set_exception(self.error)
                # Whoever asked may have left; then nobody looks at it, and that is fine.
                self._ready.exception()
            else:
                self._ready.set_result(None)
        self._on_end(self)

"""What all work on Spark shares: sessions by lease, patience with engines, and how one is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Protocol, Self

from bailiwick.clock import Clock
from bailiwick.engines.engine import Engine, EngineLost, EngineSession
from bailiwick.errors import OUT_OF_MEMORY, BailiwickError
from bailiwick.fleet.schedule import ANYWHERE, Work
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, NodeId, QueryId
from bailiwick.queries import failures
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.descriptions import Descriptions, Key
from bailiwick.queries.pulse import Pulse
from bailiwick.queries.running import Running
from bailiwick.queries.statement import Statement
from bailiwick.queries.suspects import Suspects
from bailiwick.results.batches import Frame

TRIFLE_BYTES: Final = 8 << 20
"""What tables may hold that a read of no account reads."""

_TURNS_TO_SETTLE = 3
"""Turns of the event loop within which an operation that has told its end is over."""


class Lease(Protocol):
    """The sole use of one engine session, for one query."""

    @property
    def id(self) -> LeaseId: ...

    @property
    def session(self) -> EngineSession: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def heap_bytes(self) -> int: ...

    @property
    def is_fallback(self) -> bool: ...

    @property
    def policy_version(self) -> int:
        """Of the policies under which this query runs, to its end."""

    def spoil(self, reason: str) -> None:
        """The session is not fit for another query."""


class SessionPool(Protocol):
    """Lends sessions. Who leaves a lease early need not wait: the pool stops what is left running."""

    def lease(
        self, principal: Principal, query_id: QueryId | None = None, work: Work = ANYWHERE
    ) -> AbstractAsyncContextManager[Lease]: ...

    def could_run(self, work: Work) -> bool: ...

    def is_returning(self, node_id: NodeId) -> bool:
        """Whether that engine comes back by itself if it is gone, and may be waited for."""

    def is_free(self, work: Work) -> bool:
        """Whether it would get a session at once, with nobody waiting for one."""

    def position(self, query_id: QueryId) -> int | None: ...


WorkOf = Callable[[Statement, Sequence[str]], Work]
"""Where a statement may run, and how much it has to do if it reads these tables."""


@dataclass(frozen=True, slots=True)
class SparkSide:
    """What lives of Spark queries share."""

    pool: SessionPool
    tasks: asyncio.TaskGroup
    limits: LimitsConfig
    message_bytes_max: int
    catalog_version: Callable[[], int]
    policy_version: Callable[[], int]
    affected_rows: Callable[[LeaseId], int]
    """How many rows the commits of a lease added or removed; -1 where nobody knows exactly."""
    descriptions: Descriptions
    begin_change: Callable[[Running], Awaitable[None]]
    """Puts on record that a change starts, and raises if that cannot be done."""
    wall: Clock
    work_of: WorkOf = lambda _statement, _reads: ANYWHERE
    suspects: Suspects = field(default_factory=Suspects)

    def key(self, statement: Statement) -> Key:
        """Under what a description of the statement holds now."""
        return Key.of(statement, self.policy_version(), self.catalog_version())

    def work(self, statement: Statement) -> Work:
        """What is known of it before an engine has looked at it: much, if it was prepared or asked before."""
        known = self.descriptions.find(self.key(statement))
        return self.work_of(statement, () if known is None else known.reads)

    def is_trifle(self, statement: Statement) -> bool:
        """Whether Spark was asked about it before, it has little to read, and a session lies idle for it."""
        known = self.descriptions.find(self.key(statement))
        if known is None:
            return False
        work = self.work_of(statement, known.reads)
        return work.cost_bytes <= TRIFLE_BYTES and self.pool.is_free(work)

    def count(self, running: Running, frame: Frame) -> None:
        """Put a part of a result on its query's account. RESOURCE_EXHAUSTED beyond what a result may be.

        A compressed one counts as what it holds, which is the room that its reader needs.
        """
        rows, size_bytes = frame.rows, frame.content_bytes
        running.rows += rows
        running.bytes += size_bytes
        if size_bytes > self.message_bytes_max:
            raise failures.message_too_large(size_bytes, rows, self.message_bytes_max)
        if self.limits.result_rows_max and running.rows > self.limits.result_rows_max:
            raise failures.too_many_rows(self.limits.result_rows_max)
        if self.limits.result_bytes_max and running.bytes > self.limits.result_bytes_max:
            raise failures.too_many_bytes(self.limits.result_bytes_max)


@dataclass(frozen=True, slots=True)
class Lost:
    """How an attempt ended that another engine may take up."""

    engine: Engine
    error: BailiwickError
    heap_bytes_min: int = 0
    """What another engine needs to fare better."""
    is_suspect: bool = False
    """Whether it is one of several of which one cost the engine its memory."""


class Silence(Exception):  # noqa: N818  (it says what was heard)
    """The engine shows no sign of life."""


class Loss:
    """How an engine left a lease in the lurch, if it did.

    Use as a context: inside, its loss or its silence spoils the lease and ends the block. Nothing is raised.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self.cause: EngineLost | Silence | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, EngineLost | Silence):
            return False
        self._lease.spoil("no sign of life" if isinstance(error, Silence) else "engine lost")
        self.cause = error
        return True

    async def told(self, side: SparkSide, *, is_suspect: bool = False) -> Lost:
        """What to tell of it. It may take a moment: the lease is better over by then.

        `is_suspect`: another query may have been the cause, if it was for lack of memory.
        """
        engine = self._lease.engine
        if isinstance(self.cause, Silence):
            return Lost(engine, failures.stalled(side.limits.stream_idle_s))
        error = failures.engine_lost(await engine.explain_loss(), str(self.cause), is_suspect=is_suspect)
        if error.details.get("reason") != OUT_OF_MEMORY:
            return Lost(engine, error)
        return Lost(engine, error, self._lease.heap_bytes + (not is_suspect), is_suspect)


@asynccontextmanager
async def patience(lease: Lease, side: SparkSide) -> AsyncIterator[Pulse]:
    """Inside, work goes on for as long as the engine gives signs of life. Raises Silence."""
    try:
        async with asyncio.timeout(None) as ended:
            pulse = Pulse(
                lease.engine,
                side.tasks,
                idle_s=side.limits.stream_idle_s,
                on_silence=lambda: ended.reschedule(0.0),
            )
            try:
                yield pulse
            finally:
                pulse.stop()
    except TimeoutError:
        if ended.expired():
            raise Silence from None
        raise


async def wait_settled(lease: Lease) -> None:
    """Let an operation that has told its end come to it: a clean session goes back without a question."""
    for _ in range(_TURNS_TO_SETTLE):
        if lease.session.is_settled:
            return
        await asyncio.sleep(0)

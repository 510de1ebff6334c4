"""What all work on Spark shares: sessions by lease, patience with engines, and how one is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from bailiwick.clock import Clock
from bailiwick.engines.engine import Engine, EngineSession
from bailiwick.errors import BailiwickError
from bailiwick.fleet.schedule import ANYWHERE, Work
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, QueryId
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.descriptions import Descriptions, Key
from bailiwick.queries.pulse import Pulse
from bailiwick.queries.running import Running
from bailiwick.queries.statement import Statement

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

    def key(self, statement: Statement) -> Key:
        """Under what a description of the statement holds now."""
        return Key.of(statement, self.policy_version(), self.catalog_version())

    def work(self, statement: Statement) -> Work:
        """What is known of it before an engine has looked at it: much, if it was prepared or asked before."""
        known = self.descriptions.find(self.key(statement))
        return self.work_of(statement, () if known is None else known.reads)


@dataclass(frozen=True, slots=True)
class Lost:
    """How an attempt ended that another engine may take up."""

    engine: Engine
    error: BailiwickError
    heap_bytes_min: int = 0
    """What another engine needs to fare better."""


class Silence(Exception):  # noqa: N818  (it says what was heard)
    """The engine shows no sign of life."""


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

"""An engine without Spark: statements answer as the test says, and the test breaks it at will.

It keeps the promises of the port and nothing more: no SQL is understood. A statement that was not scripted
answers with one empty batch.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Batch, Completed, Engine, EngineLost, EngineSession, Event
from bailiwick.engines.parameters import ParameterValue
from bailiwick.engines.task import EngineTask
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import LeaseId, NodeId, OperationId, QueryId


@dataclass(slots=True)
class Answer:
    """What a statement does. With `hold` it goes on until that is set, or until it is interrupted."""

    tables: tuple[pa.Table, ...] = ()
    error: Exception | None = None
    is_at_once: bool = False
    """Whether the error comes before any batch."""
    hold: asyncio.Event | None = None
    is_silent: bool = False
    """Whether not even a first batch comes before it goes on."""
    ignores_interrupts: bool = False
    description: Description = field(default_factory=lambda: Description(Kind.READ, "Project"))


@dataclass(frozen=True, slots=True)
class Executed:
    handle: str
    lease: LeaseId
    sql: str
    reattachable: bool
    parameters: tuple[ParameterValue, ...] = ()


class ScriptedEngine(Engine):
    """An engine of which the test knows everything: `sessions`, `executed`, `open_handles`."""

    def __init__(
        self, answers: dict[str, Answer] | None = None, *, is_up: bool = True, name: str = "scripted"
    ) -> None:
        self.node_id = NodeId(name)
        self.troubles: list[str] = []
        self.generation = 1
        self.answers = answers or {}
        self.sessions: list[ScriptedSession] = []
        self.executed: list[Executed] = []
        self.tasks: list[EngineTask] = []
        self.asked_for_tasks = 0
        self.loss: str | None = None
        self.refuses_sessions = False
        self._up = asyncio.Event()
        if is_up:
            self._up.set()

    @property
    def is_ready(self) -> bool:
        return self._up.is_set()

    @property
    def open_handles(self) -> set[str]:
        return {session.handle for session in self.sessions if not session.is_closed}

    def die(self, reason: str = "exited") -> None:
        """Like kill -9: whatever runs is lost."""
        self._up.clear()
        self.loss = reason
        for session in self.sessions:
            session.lose()

    def revive(self) -> None:
        """Started anew: sessions of before are gone."""
        self.generation += 1
        self._up.set()

    async def wait_ready(self, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(self._up.wait(), timeout_s)
        except TimeoutError:
            raise BailiwickError(Code.CIRCUIT_BREAKER_OPEN, "The engine is being started") from None

    async def open_session(self) -> EngineSession:
        if not self.is_ready or self.refuses_sessions:
            raise EngineLost("down")
        session = ScriptedSession(self, f"{self.node_id}-handle-{len(self.sessions)}")
        self.sessions.append(session)
        return session

    def note_trouble(self, why: str) -> None:
        self.troubles.append(why)

    async def explain_loss(self) -> str | None:
        return self.loss


class ScriptedSession(EngineSession):
    def __init__(self, engine: ScriptedEngine, handle: str) -> None:
        self.handle = handle
        self.is_closed = False
        self.current: tuple[str, tuple[str, ...]] | None = None
        self.locale: tuple[str, bool] | None = None
        self._engine = engine
        self._running: dict[OperationId, asyncio.Event] = {}
        self._leases: dict[OperationId, LeaseId] = {}
        self._interruptible: set[OperationId] = set()
        self._lost = asyncio.Event()

    async def describe(
        self,
        sql: str,
        *,
        lease: LeaseId,
        timeout_s: float,
        parameters: Sequence[ParameterValue] = (),
        principal: str = "",
        standing: LeaseId | None = None,
    ) -> Description:
        del lease, timeout_s, parameters, principal, standing
        self._check_alive()
        answer = self._engine.answers.get(sql, Answer())
        if isinstance(answer.error, BailiwickError):
            raise answer.error
        return answer.description

    async def execute(
        self,
        sql: str,
        *,
        operation: OperationId,
        lease: LeaseId,
        reattachable: bool = False,
        parameters: Sequence[ParameterValue] = (),
        principal: str = "",
        may_call: bool = False,
        explains: bool = False,
        query_id: QueryId | None = None,
    ) -> AsyncIterator[Event]:
        del principal, may_call, explains, query_id
        self._check_alive()
        self._engine.executed.append(Executed(self.handle, lease, sql, reattachable, tuple(parameters)))
        answer = self._engine.answers.get(sql, Answer())
        interrupted = self._running[operation] = asyncio.Event()
        self._leases[operation] = lease
        if not answer.ignores_interrupts:
            self._interruptible.add(operation)
        if answer.is_at_once and answer.error is not None:
            del self._running[operation]
            raise answer.error
        if answer.is_silent and answer.hold is not None:
            await _first(answer.hold, interrupted, self._lost)
            self._check_alive()
        tables = answer.tables or (pa.table({}),)
        yield Batch(_stream(tables[0]), tables[0].num_rows)
        if answer.hold is not None:
            await _first(answer.hold, interrupted, self._lost)
        self._check_alive()
        # An operation whose iterator is closed at the yield above runs on, as in Spark.
        self._running.pop(operation, None)
        if interrupted.is_set():
            raise BailiwickError(Code.QUERY_CANCELLED, "cancelled")
        if answer.error is not None:
            raise answer.error
        for table in tables[1:]:
            yield Batch(_stream(table), table.num_rows)
        yield Completed()

    async def tasks(self, timeout_s: float) -> Sequence[EngineTask]:
        del timeout_s
        self._check_alive()
        self._engine.asked_for_tasks += 1
        return self._engine.tasks

    async def interrupt(self, operation: OperationId) -> None:
        self._check_alive()
        if operation in self._interruptible and operation in self._running:
            self._running[operation].set()

    async def use(self, catalog: str, namespace: tuple[str, ...], *, lease: LeaseId | None = None) -> None:
        del lease
        self._check_alive()
        self.current = (catalog, namespace)

    async def localise(self, *, time_zone: str, double_quoted_identifiers: bool) -> None:
        self._check_alive()
        self.locale = (time_zone, double_quoted_identifiers)

    async def compress(self, is_wanted: bool) -> None:
        del is_wanted  # The frames here are made beforehand.
        self._check_alive()

    async def settle(self, timeout_s: float) -> bool:
        del timeout_s
        for operation in tuple(self._running):
            if operation in self._interruptible:
                del self._running[operation]
        return self.is_settled

    @property
    def is_settled(self) -> bool:
        return not self._running and not self._lost.is_set()

    async def settle_lease(self, lease: LeaseId, timeout_s: float) -> bool:
        del timeout_s
        for operation in self._under(lease):
            if operation in self._interruptible:
                self._running.pop(operation).set()
        return self.is_lease_settled(lease)

    def is_lease_settled(self, lease: LeaseId) -> bool:
        return not self._under(lease) and not self._lost.is_set()

    def _under(self, lease: LeaseId) -> list[OperationId]:
        return [operation for operation in self._running if self._leases[operation] == lease]

    async def close(self) -> None:
        self.is_closed = True
        self.lose()

    def lose(self) -> None:
        self._lost.set()

    def _check_alive(self) -> None:
        if self._lost.is_set():
            raise EngineLost("gone")


async def _first(*events: asyncio.Event) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


async def unproved(_session: EngineSession, _lease: LeaseId) -> None:
    """For a pool whose engine has no guard: there is nothing behind it to be guarded."""

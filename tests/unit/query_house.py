"""A query service with everything it leans on, and an engine that does what the test says."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from bailiwick.clock import Clock
from bailiwick.clock import wall as wall_clock
from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Batch, Completed, Engine, EngineLost, EngineSession, Event
from bailiwick.engines.parameters import ParameterValue
from bailiwick.errors import BailiwickError
from bailiwick.fleet.schedule import ANYWHERE, Work
from bailiwick.identity.administration import Administration
from bailiwick.identity.principal import Principal
from bailiwick.identity.statements import Command
from bailiwick.ids import LeaseId, NodeId, OperationId, QueryId, new_lease_id
from bailiwick.queries.accounts import NO_ACCOUNTS, Accounts
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.memory import MemoryQueryStore
from bailiwick.queries.own import UserAnswers
from bailiwick.queries.query import Query
from bailiwick.queries.service import QueryService
from bailiwick.queries.statement import Statement
from bailiwick.queries.submissions import SubmissionStore
from bailiwick.queries.system_tables import Node
from bailiwick.results.batches import schema_message
from bailiwick.results.config import ResultsConfig
from bailiwick.results.spool import Spool
from bailiwick.telemetry.metrics import Metrics
from bailiwick.telemetry.traces import NO_TRACES, Traces

ADMIN = Principal("root", frozenset({"admin"}))
ANN = Principal("ann", frozenset({"writer"}))
RITA = Principal("rita", frozenset({"reader"}))
NOBODY = Principal("nora", frozenset())
LAKE = frozenset({"lake"})
ONE = pa.table({"n": pa.array([1], pa.int32())})
MB = 1 << 20


def batch(table: pa.Table) -> Batch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Batch(sink.getvalue().to_pybytes(), table.num_rows)


@dataclass
class Script:
    """What an engine does with one statement."""

    events: Sequence[Event | Exception | asyncio.Event] = field(
        default_factory=lambda: [batch(ONE), Completed()]
    )
    description: Description | Exception | None = None
    kind: Kind = Kind.READ

    def described(self) -> Description:
        if isinstance(self.description, Exception):
            raise self.description
        schema = schema_message(ONE.schema)
        return self.description or Description(self.kind, "Project", catalogs=LAKE, schema=schema)


class FakeSession(EngineSession):
    def __init__(self, engine: "FakeEngine") -> None:
        self.handle = "handle"
        self._engine = engine
        self._settled = True

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
        self._engine.described.append(sql)
        if self._engine.dying:
            self._engine.dying -= 1
            raise EngineLost("dying")
        if self._engine.describing is not None:
            await self._engine.describing.wait()
        return self._engine.script(sql).described()

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
        del operation, lease, parameters, principal, may_call, explains, query_id
        self._engine.executed.append((sql, reattachable))
        self._settled = False
        for event in self._engine.script(sql).events:
            match event:
                case asyncio.Event():
                    await event.wait()
                case Exception():
                    self._settled = not isinstance(event, EngineLost)
                    raise event
                case _:
                    self._settled = isinstance(event, Completed)
                    yield event

    async def interrupt(self, operation: OperationId) -> None:
        raise AssertionError(f"{operation}: the pool settles")

    async def use(self, catalog: str, namespace: tuple[str, ...], *, lease: LeaseId | None = None) -> None:
        del lease
        self._engine.used.append((catalog, namespace))

    async def localise(self, *, time_zone: str, double_quoted_identifiers: bool) -> None:
        self._engine.locales.append((time_zone, double_quoted_identifiers))

    async def compress(self, is_wanted: bool) -> None:
        # The frames here are made beforehand.
        self._engine.compressed.append(is_wanted)

    async def settle(self, timeout_s: float) -> bool:
        del timeout_s
        self._engine.interrupted += 1
        self._settled = True
        return True

    @property
    def is_settled(self) -> bool:
        return self._settled

    async def close(self) -> None:
        pass


class FakeEngine(Engine):
    def __init__(self) -> None:
        self.node_id = NodeId("fake")
        self.scripts: dict[str, Script] = {}
        self.described: list[str] = []
        self.describing: asyncio.Event | None = None
        self.executed: list[tuple[str, bool]] = []
        self.used: list[tuple[str, tuple[str, ...]]] = []
        self.locales: list[tuple[str, bool]] = []
        self.compressed: list[bool] = []
        self.interrupted = 0
        self.loss: str | None = "exited"
        self.is_deaf = False
        self.dying = 0
        """How many of the next questions it dies of."""

    def script(self, sql: str) -> Script:
        return self.scripts.setdefault(sql, Script())

    @property
    def is_ready(self) -> bool:
        return True

    async def wait_ready(self, timeout_s: float) -> None:
        pass

    async def open_session(self) -> EngineSession:
        if self.is_deaf:
            raise EngineLost("no answer")
        return FakeSession(self)

    async def explain_loss(self) -> str | None:
        return self.loss


@dataclass
class FakeLease:
    id: LeaseId
    session: EngineSession
    engine: Engine
    spoiled: str | None = None
    policy_version: int = 0
    heap_bytes: int = 0
    is_fallback: bool = False

    def spoil(self, reason: str) -> None:
        self.spoiled = reason


class FakePool:
    """One session, first come, first served."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._free = asyncio.Semaphore(1)
        self.leases: list[FakeLease] = []
        self.leased = 0

    @asynccontextmanager
    async def lease(
        self, principal: Principal, query_id: QueryId | None = None, work: Work = ANYWHERE
    ) -> AsyncIterator[FakeLease]:
        del principal, query_id, work
        async with self._free:
            lease = FakeLease(new_lease_id(), FakeSession(self._engine), self._engine)
            self.leases.append(lease)
            self.leased += 1
            try:
                yield lease
            finally:
                self.leased -= 1
                if not lease.session.is_settled:
                    await lease.session.settle(1.0)

    def position(self, query_id: QueryId) -> int | None:
        del query_id
        return 1

    def could_run(self, work: Work) -> bool:
        return self._engine.node_id not in work.excluded

    def is_free(self, work: Work) -> bool:
        return self.could_run(work) and self.leased == 0

    def is_returning(self, node_id: NodeId) -> bool:
        return node_id == self._engine.node_id


class FakeAdministration(Administration):
    def __init__(self) -> None:
        self.performed: list[Command] = []

    async def perform(self, command: Command, principal: Principal) -> pa.Table:
        self.check_access(command, principal)
        self.performed.append(command)
        return pa.table({}) if "Show" not in type(command).__name__ else pa.table({"name": ["ann"]})


@dataclass
class House:
    """A query service and everything it leans on."""

    service: QueryService
    engine: FakeEngine
    pool: FakePool
    store: MemoryQueryStore
    spool: Spool
    administration: FakeAdministration
    metrics: Metrics
    versions: list[int]

    async def ask(self, sql: str, who: Principal = ANN, **options: object) -> pa.Table:
        statement = Statement(sql, who, "flight_sql", **options)  # type: ignore[arg-type]
        async with self.service.run(statement) as result:
            frames = [frame.encapsulated() async for frame in result.frames()]
            with pa.ipc.open_stream(result.schema + b"".join(frames)) as reader:
                return reader.read_all()

    async def refusal(self, sql: str, who: Principal = ANN, **options: object) -> BailiwickError:
        with pytest.raises(BailiwickError) as refused:
            await self.ask(sql, who, **options)
        return refused.value

    async def recorded(self) -> Query:
        """The newest query, as it is on disk after a moment."""
        return (await self.service.visible())[0]


@asynccontextmanager
async def house(
    tmp_path: Path,
    limits: LimitsConfig | None = None,
    results: ResultsConfig | None = None,
    accounts: Accounts = NO_ACCOUNTS,
    *,
    store: MemoryQueryStore | None = None,
    submissions: SubmissionStore | None = None,
    traces: Traces = NO_TRACES,
    wall: Clock = wall_clock,
) -> AsyncIterator[House]:
    engine = FakeEngine()
    pool = FakePool(engine)
    store = store or MemoryQueryStore()
    spool = Spool(tmp_path / "spool", total_bytes_max=100 * MB)
    spool.clear_leftovers()
    administration = FakeAdministration()
    metrics = Metrics()
    versions = [1]
    service = QueryService(
        pool=pool,
        answerers=[UserAnswers(administration)],
        nodes=lambda: [Node(NodeId("fake"), "fake", "ready", "local")],
        store=store,
        spool=spool,
        limits=limits or LimitsConfig(),
        results=results or ResultsConfig(),
        catalog_version=lambda: versions[0],
        affected_rows=lambda _lease: 7,
        metrics=metrics,
        traces=traces,
        accounts=accounts,
        submissions=submissions,
        wall=wall,
    )
    async with service:
        yield House(service, engine, pool, store, spool, administration, metrics, versions)
    spool.close()


async def eventually(condition: Callable[[], bool], *, within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.002)

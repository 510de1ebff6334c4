"""An ingest service over a query service, and an engine that takes rows as the test says."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from query_house import ANN, LAKE, FakeAdministration, FakeEngine, FakeLease, FakePool, FakeSession, Script

from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.staging import Staging
from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Completed, EngineLost, Event
from bailiwick.engines.write import ArrowRows, Write
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.schedule import ANYWHERE, Work
from bailiwick.identity.principal import READER, Principal
from bailiwick.ids import LeaseId, OperationId, QueryId, new_lease_id
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.ingest import IfExists, IfMissing, IngestRequest, IngestService
from bailiwick.queries.memory import MemoryQueryStore
from bailiwick.queries.own import UserAnswers
from bailiwick.queries.query import Query
from bailiwick.queries.service import QueryService
from bailiwick.queries.verdict import Refusal, Verdict
from bailiwick.results.batches import frames, schema_message
from bailiwick.results.config import ResultsConfig
from bailiwick.results.spool import Spool
from bailiwick.telemetry.metrics import Metrics
from bailiwick.testing.ingesting import unpacked

TARGET = ("lake", "s", "t")
LOOK = "SELECT * FROM lake.s.t"
MANY = pa.table({"id": pa.array([index % 100 for index in range(2_400_000)], pa.int8())})
"""Three chunks."""
FEW = MANY.slice(0, 5)


class RowsEngine(FakeEngine):
    """Keeps what is written. The n-th write does what `outcomes[n]` says, if anything."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[Write] = []
        self.outcomes: dict[int, Exception | asyncio.Event] = {}

    @property
    def visible(self) -> list[Write]:
        """The writes to the table itself."""
        return [write for write in self.writes if write.table == TARGET]

    @property
    def rows_staged(self) -> int:
        return sum(
            unpacked(write.rows).num_rows
            for write in self.writes
            if isinstance(write.rows, ArrowRows) and write.table != TARGET
        )


class RowsSession(FakeSession):
    def __init__(self, engine: RowsEngine) -> None:
        super().__init__(engine)
        self._rows_engine = engine

    async def write(
        self, write: Write, *, operation: OperationId, lease: LeaseId, query_id: QueryId | None = None
    ) -> AsyncIterator[Event]:
        del operation, lease, query_id
        outcome = self._rows_engine.outcomes.get(len(self._rows_engine.writes))
        self._rows_engine.writes.append(write)
        self._settled = False
        if isinstance(outcome, asyncio.Event):
            await outcome.wait()
        if isinstance(outcome, Exception):
            self._settled = not isinstance(outcome, EngineLost)
            raise outcome
        self._settled = True
        yield Completed()


class RowsPool(FakePool):
    def __init__(self, engine: RowsEngine) -> None:
        super().__init__(engine)
        self._rows_engine = engine

    @asynccontextmanager
    async def lease(
        self, principal: Principal, query_id: QueryId | None = None, work: Work = ANYWHERE
    ) -> AsyncIterator[FakeLease]:
        del principal, query_id, work
        lease = FakeLease(new_lease_id(), RowsSession(self._rows_engine), self._rows_engine)
        self.leases.append(lease)
        yield lease


@dataclass
class Client:
    """Sends a table, message by message; `sent` counts them. After `breaks_after` messages it breaks."""

    messages: list[bytes]
    breaks_after: int | None = None
    stalls_after: int | None = None
    sent: int = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for message in self.messages:
            if self.sent == self.breaks_after:
                yield b"\xff\xff\xff\xff\x08\0\0\0not Arrow"
            if self.sent == self.stalls_after:
                await asyncio.Event().wait()
            self.sent += 1
            yield message


def client(table: pa.Table, *, rows: int = 200_000, **ways: int) -> Client:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return Client([frame.encapsulated() for frame in frames(sink.getvalue().to_pybytes())], **ways)


@dataclass
class IngestHouse:
    ingests: IngestService
    queries: QueryService
    engine: RowsEngine
    catalog: CatalogService
    staging_directory: Path
    tables: dict[str, pa.Schema] = field(default_factory=dict)

    def has_table(self, schema: pa.Schema) -> None:
        described = Description(Kind.READ, "Project", catalogs=LAKE, schema=schema_message(schema))
        self.engine.scripts[LOOK] = Script(description=described)

    async def put(
        self,
        sender: Client,
        if_missing: IfMissing = IfMissing.CREATE,
        if_exists: IfExists = IfExists.APPEND,
        *,
        who: Principal = ANN,
        namespace: tuple[str, ...] = ("s",),
        catalog: str = "lake",
        query_id: QueryId | None = None,
    ) -> int:
        request = IngestRequest(who, "flight_sql", "t", catalog, namespace, if_missing, if_exists)
        return await self.ingests.ingest(request, aiter(sender), query_id=query_id)

    async def recorded(self) -> Query:
        return (await self.queries.visible())[0]

    def staged_files(self) -> Iterable[Path]:
        return [path for path in self.staging_directory.rglob("*") if path.is_file()]


def _may_write(who: Principal) -> Verdict:
    if who.roles - {READER}:
        return Verdict()
    return Verdict((Refusal(Code.ACCESS_DENIED, "insert", f"{who.name} may not write."),))


@asynccontextmanager
async def ingest_house(
    tmp_path: Path, *, client_idle_s: float = 30.0, limits: LimitsConfig | None = None
) -> AsyncIterator[IngestHouse]:
    engine = RowsEngine()
    engine.scripts[LOOK] = Script(description=BailiwickError(Code.TABLE_NOT_FOUND, "no such table"))
    catalog = CatalogService(MemoryBackend(), tmp_path / "warehouse")
    catalog.create_namespace(("s",))
    staging = Staging(tmp_path / "staging")
    spool = Spool(tmp_path / "spool", total_bytes_max=1 << 20)
    queries = QueryService(
        pool=RowsPool(engine),
        answerers=[UserAnswers(FakeAdministration())],
        nodes=list,
        store=MemoryQueryStore(),
        spool=spool,
        limits=limits or LimitsConfig(),
        results=ResultsConfig(),
        catalog_version=lambda: 1,
        metrics=Metrics(),
    )
    ingests = IngestService(
        queries, catalog, staging, client_idle_s=client_idle_s, may_write=lambda who, _table: _may_write(who)
    )
    async with queries:
        yield IngestHouse(ingests, queries, engine, catalog, tmp_path / "staging")
    await ingests.close()
    spool.close()

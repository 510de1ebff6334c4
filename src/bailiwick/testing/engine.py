"""A real engine with a real catalog and nothing else: no doors, no pool, no queries service.

For tests of what the engine itself promises. Leases are the test's own to give and take.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from bailiwick.catalog.facade import CallDecided, CommitSeen
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.server import FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.engines.config import EngineConfig
from bailiwick.engines.embedded import Connect, EmbeddedEngine
from bailiwick.engines.engine import Batch, EngineSession
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.identity.principal import ADMIN, Principal
from bailiwick.ids import LeaseId, new_lease_id, new_operation_id
from bailiwick.policy.access import Access
from bailiwick.policy.model import EMPTY

CREDENTIAL = "the-credential-of-the-test-engine"


ADMINISTRATOR = Access(Principal("test", frozenset({ADMIN})), EMPTY)


class OpenLeases:
    """Leases by hand, with a memory of who asked. Also the facade's observer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: dict[str, tuple[LeaseId, Access]] = {}
        self.asked: list[tuple[str, LeaseId]] = []
        self.commits: list[CommitSeen] = []

    def give(self, session: EngineSession, access: Access = ADMINISTRATOR) -> LeaseId:
        """A new lease for `session`; the one before is worth nothing from now on."""
        lease = new_lease_id()
        with self._lock:
            self._current[session.handle] = (lease, access)
        return lease

    def holder(self, session_handle: str, lease_id: LeaseId) -> Access | None:
        with self._lock:
            self.asked.append((session_handle, lease_id))
            current, access = self._current.get(session_handle, (None, None))
        return access if current == lease_id else None

    def answered(self, *, route: str, status: int, seconds: float, lease: LeaseId) -> None: ...

    def commit_seen(self, seen: CommitSeen) -> None:
        self.commits.append(seen)

    def decided(self, decided: CallDecided) -> None: ...


@dataclass(frozen=True, slots=True)
class RunningEngine:
    engine: EmbeddedEngine
    leases: OpenLeases
    catalog: CatalogService
    directory: Path
    _sessions: list[EngineSession] = field(default_factory=list)

    async def session(self) -> EngineSession:
        opened = await self.engine.open_session()
        self._sessions.append(opened)
        return opened

    async def run(self, sql: str, session: EngineSession | None = None) -> pa.Table:
        """The whole result, under a lease of its own."""
        session = session or await self.session()
        return await run(session, sql, self.leases.give(session))


async def run(session: EngineSession, sql: str, lease: LeaseId) -> pa.Table:
    events = session.execute(sql, operation=new_operation_id(), lease=lease, may_call=True)
    streams = [event.data async for event in events if isinstance(event, Batch)]
    return pa.concat_tables(pyarrow.ipc.open_stream(stream).read_all() for stream in streams)


@asynccontextmanager
async def running_engine(
    directory: Path, config: EngineConfig, *, connect: Connect = SparkConnectChannel
) -> AsyncIterator[RunningEngine]:
    leases = OpenLeases()
    catalog = CatalogService(MemoryBackend(), directory / "warehouse")
    engine: EmbeddedEngine | None = None
    facade = FacadeServer(
        catalog,
        leases,
        CREDENTIAL,
        observer=leases,
        stamp_key=lambda: None if engine is None else engine.stamp_key,
    )
    port = await asyncio.to_thread(facade.start)
    try:
        engine = EmbeddedEngine(
            config.model_copy(update={"quick_compile": True}),
            directory,
            catalog_uri=f"http://127.0.0.1:{port}/iceberg",
            credential=CREDENTIAL,
            connect=connect,
        )
        async with engine:
            yield RunningEngine(engine, leases, catalog, directory)
    finally:
        await asyncio.to_thread(facade.stop)

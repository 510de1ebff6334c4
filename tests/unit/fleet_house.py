"""A query service over several scripted engines, with the pool that chooses among them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from query_house import ANN

from bailiwick.engines.config import PoolConfig
from bailiwick.engines.warmup import Warmup
from bailiwick.errors import BailiwickError
from bailiwick.fleet.members import Traits
from bailiwick.fleet.schedule import ANYWHERE, Work
from bailiwick.fleet.sessions import SessionPool
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.memory import MemoryQueryStore
from bailiwick.queries.query import Query
from bailiwick.queries.service import QueryService
from bailiwick.queries.statement import Statement
from bailiwick.results.config import ResultsConfig
from bailiwick.results.spool import Spool
from bailiwick.telemetry.metrics import Metrics
from bailiwick.testing.engines import ScriptedEngine, unproved

COLD = Warmup(rounds=0)


@dataclass
class FleetHouse:
    service: QueryService
    pool: SessionPool
    work: Work

    async def ask(self, sql: str) -> pa.Table:
        statement = Statement(sql, ANN, "flight_sql")
        async with self.service.run(statement) as result:
            frames = [frame.encapsulated() async for frame in result.frames()]
            with pa.ipc.open_stream(result.schema + b"".join(frames)) as reader:
                return reader.read_all()

    async def refusal(self, sql: str) -> BailiwickError:
        with pytest.raises(BailiwickError) as refused:
            await self.ask(sql)
        return refused.value

    async def recorded(self) -> Query:
        return (await self.service.visible())[0]


@asynccontextmanager
async def fleet_house(
    tmp_path: Path,
    engines: Mapping[ScriptedEngine, Traits],
    *,
    work: Work = ANYWHERE,
    limits: LimitsConfig | None = None,
    settings: dict[str, float] | None = None,
) -> AsyncIterator[FleetHouse]:
    config = PoolConfig.model_validate(settings or {})
    pool = SessionPool(config, warmup=COLD, prove=unproved)
    for engine, traits in engines.items():
        pool.roster.add(engine, traits)
    await pool.start(timeout_s=5)
    spool = Spool(tmp_path / "spool", total_bytes_max=1 << 20)
    service = QueryService(
        pool=pool,
        answerers=[],
        nodes=list,
        store=MemoryQueryStore(),
        spool=spool,
        limits=limits or LimitsConfig(),
        results=ResultsConfig(),
        catalog_version=lambda: 1,
        metrics=Metrics(),
        work_of=lambda _statement, _reads: work,
    )
    async with service:
        yield FleetHouse(service, pool, work)
    await pool.stop()
    spool.close()

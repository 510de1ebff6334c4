"""A real engine, a real catalog and a pool over them, from which sessions of one's own are taken."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from guarded_lake import EU_ONLY, SETUP, anna, mask
from pyspark.sql.connect import proto

from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.server import FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.engines.config import EngineConfig, PoolConfig
from bailiwick.engines.embedded import EmbeddedEngine
from bailiwick.engines.holders import Holders
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.engines.warmup import Warmup
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.config import DedicatedConfig
from bailiwick.fleet.dedicated import Dedicated, DedicatedSessions
from bailiwick.fleet.lease import Lease
from bailiwick.fleet.members import Traits
from bailiwick.fleet.sessions import SessionPool
from bailiwick.identity.principal import ADMIN, Principal
from bailiwick.ids import new_operation_id
from bailiwick.policy.model import EMPTY, Policies

CREDENTIAL = "the-credential-of-the-test-engine"
ROOT = Principal("root", frozenset({ADMIN}))

ANNA = Principal("anna", frozenset({"analyst"}))
OTTO = Principal("otto", frozenset({"analyst"}))

BRACKETED = mask("ssn", "concat('<', right(ssn, 4), '>')", "ssn", name="bracketed")
"""Put on twice it would show."""
RESTRICTED = anna(EU_ONLY, BRACKETED).policies
SEEN = [(1, "<1111>"), (3, "<3333>")]
"""What these leave of `id` and `ssn`."""

Rows = list[tuple[Any, ...]]


class DedicatedHouse:
    """`policies` are those that hold now; a test changes them at will."""

    def __init__(self, engine: EmbeddedEngine, holders: Holders, policies: list[Policies]) -> None:
        self.holders = holders
        self._policies = policies
        self.pool = SessionPool(PoolConfig(sessions=2), holders=holders, warmup=Warmup(rounds=0))
        self.pool.roster.add(engine, Traits(slots=4, is_embedded=True))
        self.dedicated = DedicatedSessions(self.pool, holders, DedicatedConfig())

    def enact(self, policies: Policies) -> None:
        self._policies[0] = policies

    async def administer(self, *statements: str) -> Rows:
        """Run them as an administrator, in a session of the pool. Gives the rows of the last."""
        rows: Rows = []
        for statement in statements:
            async with self.pool.lease(ROOT) as lease:
                responses = lease.session.execute_plan(
                    sql(statement), operation=new_operation_id(), lease=lease.id
                )
                rows = [row async for response in responses for row in rows_in(response)]
        return rows


@dataclass(frozen=True, slots=True)
class Client:
    """Somebody with a session of their own."""

    own: Dedicated
    principal: Principal

    def lease(self) -> Any:
        return self.own.lease(self.principal)

    async def run(self, plan: proto.Plan, **settings: Any) -> Rows:
        """In a lease of its own."""
        async with self.lease() as lease:
            return await self.run_under(lease, plan, **settings)

    async def run_under(self, lease: Lease, plan: proto.Plan, **settings: Any) -> Rows:
        settings = {"standing": self.own.standing, "principal": self.principal.name, **settings}
        responses = self.own.session.execute_plan(
            plan, operation=new_operation_id(), lease=lease.id, **settings
        )
        return [row async for response in responses for row in rows_in(response)]

    async def refusal(self, plan: proto.Plan, **settings: Any) -> str:
        """The reason for which it is refused."""
        with pytest.raises(BailiwickError) as caught:
            await self.run(plan, **settings)
        assert caught.value.code is Code.ACCESS_DENIED, caught.value
        return caught.value.details["reason"]

    async def analyse(self, request: proto.AnalyzePlanRequest) -> Any:
        async with self.lease() as lease:
            return await self.own.session.analyse(
                request,
                lease=lease.id,
                timeout_s=60,
                standing=self.own.standing,
                principal=self.principal.name,
            )


def sql(text: str) -> proto.Plan:
    plan = proto.Plan()
    plan.root.sql.query = text
    return plan


def command(text: str) -> proto.Plan:
    """As the stock client sends every statement."""
    plan = proto.Plan()
    plan.command.sql_command.input.sql.query = text
    return plan


def table(name: str) -> proto.Plan:
    plan = proto.Plan()
    plan.root.read.named_table.unparsed_identifier = name
    return plan


def call(*functions: str) -> proto.Plan:
    """One row, of what these functions give without arguments."""
    plan = proto.Plan()
    plan.root.project.input.range.start = 0
    plan.root.project.input.range.end = 1
    plan.root.project.input.range.step = 1
    for name in functions:
        plan.root.project.expressions.add().unresolved_function.function_name = name
    return plan


def view(name: str, of: proto.Plan, *, is_global: bool = False) -> proto.Plan:
    plan = proto.Plan()
    made = plan.command.create_dataframe_view
    made.name, made.replace, made.is_global = name, True, is_global
    made.input.CopyFrom(of.root)
    return plan


def sql_with_frame(text: str, name: str, frame: proto.Plan) -> proto.Plan:
    """What `spark.sql(text, frame=…)` sends."""
    plan = proto.Plan()
    related = plan.command.sql_command.input.with_relations
    related.root.sql.query = text
    reference = related.references.add()
    reference.subquery_alias.alias = name
    reference.subquery_alias.input.CopyFrom(frame.root)
    return plan


def rows_in(response: Any) -> Sequence[tuple[Any, ...]]:
    if response.HasField("sql_command_result"):
        relation = response.sql_command_result.relation
        data = relation.local_relation.data if relation.HasField("local_relation") else b""
        return _rows(data) if data else []
    return _rows(response.arrow_batch.data) if response.HasField("arrow_batch") else []


def _rows(data: bytes) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in pa.ipc.open_stream(data).read_all().columns]
    return [tuple(row) for row in zip(*columns, strict=True)]


@asynccontextmanager
async def dedicated_house(directory: Path) -> AsyncIterator[DedicatedHouse]:
    policies = [EMPTY]
    holders = Holders(lambda: policies[0])
    catalog = CatalogService(MemoryBackend(), directory / "warehouse")
    engine: EmbeddedEngine | None = None
    facade = FacadeServer(
        catalog, holders, CREDENTIAL, stamp_key=lambda: None if engine is None else engine.stamp_key
    )
    port = await asyncio.to_thread(facade.start)
    try:
        engine = EmbeddedEngine(
            EngineConfig(memory="1g"),
            directory,
            catalog_uri=f"http://127.0.0.1:{port}/iceberg",
            credential=CREDENTIAL,
            connect=SparkConnectChannel,
        )
        async with engine:
            house = DedicatedHouse(engine, holders, policies)
            await house.pool.start()
            await house.administer(*SETUP)
            yield house
            await house.dedicated.close()
            await house.pool.stop()
    finally:
        await asyncio.to_thread(facade.stop)

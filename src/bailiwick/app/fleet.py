"""The engines, put together: the gateway's own, those that keepers bring, and the pool that lends of all."""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Final

import psutil
import pyspark
from starlette.routing import Route

from bailiwick import __version__
from bailiwick.app.beginning import BegunEngine
from bailiwick.app.lake import FacadeObserver, Lake, known_tables
from bailiwick.app.policy import Governance, StoredOwnership
from bailiwick.catalog.server import EncryptedListener, FacadeServer
from bailiwick.catalog.sizes import TableSizes
from bailiwick.clock import Clock, monotonic
from bailiwick.config import Config
from bailiwick.doors.config import TlsConfig
from bailiwick.doors.http.engines import engine_routes
from bailiwick.doors.tls import Tls
from bailiwick.engines.embedded import EmbeddedEngine
from bailiwick.engines.holders import Holders
from bailiwick.engines.launch import CATALOG, heap_bytes, local_cores
from bailiwick.engines.warmup import Warmup
from bailiwick.errors import CannotStartError
from bailiwick.fleet.acceptance import Versions
from bailiwick.fleet.config import FleetConfig
from bailiwick.fleet.link import Link, LinkFiles, MutualTlsLink, PlainLink
from bailiwick.fleet.members import Traits
from bailiwick.fleet.memory import utilisation
from bailiwick.fleet.recycling import Wear, Worn, to_recycle
from bailiwick.fleet.registry import CatalogUris, NodeStatus, Registry
from bailiwick.fleet.remote import RemoteEngine
from bailiwick.fleet.schedule import Work
from bailiwick.fleet.sessions import SessionPool
from bailiwick.fleet.vitals import Condition, HealthRules
from bailiwick.identity.service_tokens import ServiceTokens
from bailiwick.ids import NodeId
from bailiwick.names import TableName
from bailiwick.policy import spelling
from bailiwick.queries.allowance import placement
from bailiwick.queries.statement import Statement
from bailiwick.telemetry.logs import logger
from bailiwick.telemetry.metrics import Metrics
from bailiwick.telemetry.traces import Traces

LOOK_EVERY_S: Final = 1.0
_BACKLOG: Final = 256

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Spark:
    """Everything that runs queries, and the tables that they are about."""

    engine: EmbeddedEngine | None
    pool: SessionPool
    registry: Registry
    lake: Lake

    @property
    def is_ready(self) -> bool:
        """Whether some engine takes queries."""
        return any(member.is_usable for member in self.pool.roster)


@dataclass(frozen=True, slots=True)
class Ends:
    """Where engines of this machine, and of others, call the catalog."""

    uris: CatalogUris
    encrypted: EncryptedListener | None = None


async def open_spark(
    stack: AsyncExitStack,
    config: Config,
    begun: BegunEngine,
    lake: Lake,
    governance: Governance,
    metrics: Metrics,
    traces: Traces,
) -> Spark:
    """The catalog answers engines, and engines may join. None of them is waited for."""
    engine = begun.engine
    holders = Holders(lambda: governance.policies.current)
    pool = SessionPool(
        config.pool,
        warmup=Warmup(known_tables(lake)),
        holders=holders,
        tried=lambda: registry.tried,
    )
    ends = await open_ends(stack, config.fleet, begun.catalog_socket.getsockname()[1])
    registry = new_registry(config.fleet, ends, pool)
    facade = FacadeServer(
        lake.catalog,
        holders,
        begun.credential.reveal(),
        listening=begun.catalog_socket,
        encrypted=ends.encrypted,
        joined=registry.keys_of,
        stamp_key=lambda: None if engine is None else engine.stamp_key,
        ownership=StoredOwnership(governance.policies),
        observer=FacadeObserver(metrics, lake.affected, holders, governance, traces),
        staging=lake.staging,
    )
    stack.callback(facade.stop)
    await asyncio.to_thread(facade.start)
    stack.push_async_callback(pool.stop)
    await stack.enter_async_context(registry)
    spark = Spark(engine, pool, registry, lake)
    watching = asyncio.create_task(Watch(config.fleet, spark, metrics).run())
    stack.callback(watching.cancel)
    metrics.engine_up.set_function(lambda: float(spark.is_ready))
    metrics.engine_memory_bytes.set_function(lambda: 0.0 if engine is None else float(engine.memory_bytes))
    return spark


async def warm_up(spark: Spark, config: Config) -> None:
    """Return when a query would be answered at once. Raises if the gateway's own engine does not come up."""
    if spark.engine is None:
        await spark.pool.start(None)
        return
    await spark.engine.first_ready()
    spark.pool.roster.add(spark.engine, own_traits(config))
    await spark.pool.start(config.engine.start_timeout_s)


async def open_ends(stack: AsyncExitStack, config: FleetConfig, loopback_port: int) -> Ends:
    """Bind what is wanted besides loopback. Raises CannotStartError."""
    loopback = f"http://127.0.0.1:{loopback_port}/iceberg"
    if config.catalog_bind is None:
        return Ends(CatalogUris(loopback))
    files = TlsConfig(certificate_file=config.certificate_file, key_file=config.key_file)
    tls = await stack.enter_async_context(Tls.open(files))
    assert tls is not None  # noqa: S101 - there is a certificate, the settings saw to that
    host, _, port = config.catalog_bind.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host.strip("[]"), int(port)), family=family, backlog=_BACKLOG)
    except (OSError, ValueError) as error:
        raise CannotStartError(f"fleet.catalog_bind {config.catalog_bind}: {error}") from error
    stack.callback(bound.close)
    uri = config.catalog_uri or f"https://{host}:{bound.getsockname()[1]}/iceberg"
    return Ends(CatalogUris(loopback, uri), EncryptedListener(bound, tls.http_context()))


def new_registry(config: FleetConfig, ends: Ends, pool: SessionPool) -> Registry:
    """Engines that join are lent from."""

    def join(engine: RemoteEngine) -> None:
        report = engine.report
        traits = Traits(report.cores, engine_class=report.engine_class, heap_bytes=report.heap_bytes)
        pool.roster.add(engine, traits)

    return Registry(
        HealthRules(
            Versions(__version__, pyspark.__version__),
            interval_s=config.heartbeat_s,
            misses_max=config.heartbeats_missed_max,
            probe_interval_s=config.heartbeat_s,
        ),
        _link(config),
        ends.uris,
        on_join=join,
        on_leave=pool.roster.remove,
        in_use=pool.roster.running_on,
    )


def keeper_routes(config: FleetConfig, registry: Registry) -> list[Route]:
    """What keepers call; nothing if none may join. Raises CannotStartError."""
    return [] if config.token_file is None else engine_routes(registry, ServiceTokens(config.token_file))


def work_of(config: Config, sizes: TableSizes) -> Callable[[Statement, Sequence[str]], Work]:
    """Where statements may run, and about how much they have to read."""

    def find(statement: Statement, reads: Sequence[str]) -> Work:
        return Work(
            cost_bytes=sum(sizes.size_bytes(name) for name in map(_table, reads) if name is not None),
            placement=placement(
                config.limits,
                statement,
                server=config.fleet.placement,
                has_remote_configured=config.fleet.is_open,
            ),
        )

    return find


class Watch:
    """Looks at the memory and the age of engines: the pool is told, and worn ones are started anew."""

    def __init__(self, config: FleetConfig, spark: Spark, metrics: Metrics, clock: Clock = monotonic) -> None:
        self._watermarks = config.watermarks
        self._wear = Wear(config.recycle_after_s, config.recycle_red_s)
        self._spark = spark
        self._metrics = metrics
        self._clock = clock
        self._known: dict[tuple[NodeId, str], Worn] = {}

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        known, self._known = self._known, {}
        for status in self._spark.registry.nodes():
            report = status.report
            if status.condition is Condition.GONE:
                self._metrics.engine_gone(report.node_id)
                continue
            self._known[report.node_id, report.life] = self._seen(
                status, known.get((report.node_id, report.life))
            )
        chosen = to_recycle(list(self._known.values()), self._wear, self._clock())
        if chosen is not None:
            node_id, why = chosen
            _log.warning("engine_recycled", node_id=node_id, reason=why)
            self._spark.registry.ask_drain(node_id)

    def _seen(self, status: NodeStatus, before: Worn | None) -> Worn:
        node_id, now = status.report.node_id, self._clock()
        used = utilisation(status.report.memory)
        watermark = self._watermarks.of(used)
        self._spark.pool.roster.note_watermark(node_id, watermark)
        self._metrics.memory_seen(node_id, used)
        worn = before or Worn(node_id, now, is_healthy=False, is_drained=False)
        return replace(
            worn,
            is_healthy=status.condition is Condition.HEALTHY,
            is_drained=status.condition is Condition.DRAINING,
            red_since=worn.noticed(watermark, now),
        )


def own_traits(config: Config) -> Traits:
    """Of the gateway's own engine."""
    return Traits(
        slots=config.pool.sessions or own_cores(config),
        is_embedded=True,
        heap_bytes=heap_bytes(config.engine, psutil.virtual_memory().total),
    )


def own_cores(config: Config) -> int:
    return local_cores(config.engine.master, os.cpu_count() or 1)


def _link(config: FleetConfig) -> Link:
    if config.certificate_file is None or config.key_file is None or config.authority_file is None:
        return PlainLink()
    return MutualTlsLink(LinkFiles(config.certificate_file, config.key_file, config.authority_file))


def _table(full_name: str) -> TableName | None:
    parts, is_wildcard = spelling.read(full_name)
    if is_wildcard or len(parts) < 3 or parts[0] != CATALOG:
        return None
    return TableName(parts[1:-1], parts[-1])

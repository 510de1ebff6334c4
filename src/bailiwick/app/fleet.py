"""The engines, put together: the gateway's own, those that keepers bring, and the pool that lends of all."""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import psutil
import pyspark
from starlette.routing import Route

from bailiwick import __version__
from bailiwick.app.beginning import BegunEngine
from bailiwick.app.lake import FacadeObserver, Lake, known_tables
from bailiwick.app.policy import Governance, StoredOwnership
from bailiwick.app.watch import MemoryLimits, Watch
from bailiwick.catalog.server import EncryptedListener, FacadeServer
from bailiwick.catalog.sizes import TableSizes
from bailiwick.config import Config
from bailiwick.doors.config import TlsConfig
from bailiwick.doors.http.engines import KeeperTokens, engine_routes
from bailiwick.doors.tls import Tls
from bailiwick.engines.embedded import EmbeddedEngine
from bailiwick.engines.holders import Holders
from bailiwick.engines.launch import CATALOG, heap_bytes, local_cores
from bailiwick.engines.warmup import Warmup
from bailiwick.errors import CannotStartError
from bailiwick.fleet.acceptance import Versions
from bailiwick.fleet.config import DedicatedConfig, FleetConfig
from bailiwick.fleet.dedicated import DedicatedSessions
from bailiwick.fleet.link import Link, LinkFiles, MutualTlsLink, PlainLink
from bailiwick.fleet.measures import memory_limit_bytes
from bailiwick.fleet.members import Traits
from bailiwick.fleet.placement import STARTING, Tried
from bailiwick.fleet.registry import CatalogUris, Registry
from bailiwick.fleet.remote import RemoteEngine
from bailiwick.fleet.schedule import ANYWHERE, Work
from bailiwick.fleet.sessions import SessionPool
from bailiwick.fleet.vitals import HealthRules
from bailiwick.identity.service_tokens import ServiceTokens
from bailiwick.names import TableName
from bailiwick.policy import spelling
from bailiwick.queries.allowance import placement
from bailiwick.queries.statement import Statement
from bailiwick.telemetry.metrics import Metrics
from bailiwick.telemetry.traces import Traces

_BACKLOG: Final = 256


@dataclass(frozen=True, slots=True)
class Spark:
    """Everything that runs queries, and the tables that they are about."""

    engine: EmbeddedEngine | None
    pool: SessionPool
    registry: Registry
    lake: Lake
    dedicated: DedicatedSessions

    @property
    def is_ready(self) -> bool:
        """Whether some engine takes queries. Those that run code of users take no others."""
        return self.pool.could_run(ANYWHERE)


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
        tried=lambda: (*own_tried(engine, pool), *registry.tried),
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
    dedicated = DedicatedSessions(
        pool,
        holders,
        DedicatedConfig(
            sessions_per_user_max=config.spark_connect.engine_sessions_per_user_max,
            sessions_max=config.spark_connect.engine_sessions_max,
        ),
    )
    stack.push_async_callback(dedicated.close)
    await stack.enter_async_context(registry)
    spark = Spark(engine, pool, registry, lake, dedicated)
    watch = Watch(config.fleet, memory_limits(config), pool, registry, engine, metrics)
    watching = asyncio.create_task(watch.run())
    stack.callback(watching.cancel)
    metrics.engine_up.set_function(lambda: float(spark.is_ready))
    metrics.engine_memory_bytes.set_function(lambda: 0.0 if engine is None else float(engine.memory_bytes))
    return spark


def own_tried(engine: EmbeddedEngine | None, pool: SessionPool) -> tuple[Tried, ...]:
    """The gateway's own engine, as long as it comes up: whoever may run only there can wait for it."""
    if engine is None or any(member.engine is engine for member in pool.roster):
        return ()
    return (Tried(engine.node_id, STARTING),)


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
    general, trusted = (
        None if file is None else ServiceTokens(file)
        for file in (config.token_file, config.trusted_token_file)
    )
    if general is None and trusted is None:
        return []
    return engine_routes(registry, KeeperTokens(general, trusted))


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


def own_traits(config: Config) -> Traits:
    """Of the gateway's own engine."""
    return Traits(
        slots=config.pool.sessions or own_cores(config),
        is_embedded=True,
        heap_bytes=heap_bytes(config.engine, psutil.virtual_memory().total),
    )


def memory_limits(config: Config) -> MemoryLimits:
    heap = own_traits(config).heap_bytes if config.fleet.embedded else 0
    return MemoryLimits.of(memory_limit_bytes(), heap, config.server.memory_bytes_max)


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

"""The gateway, put together. This module only wires: what each part does stands in its own package.

`Gateway.open` is the whole product in one process: its database, its catalog facade (on a thread of its own),
its embedded engine, its doors. `serve` is the same with signals and the one line that says it is ready.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bailiwick import __version__
from bailiwick.catalog.facade import CommitSeen
from bailiwick.catalog.inventory import Inventory
from bailiwick.catalog.server import FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.sql import SqlBackend
from bailiwick.catalog.staging import Staging
from bailiwick.config import Config, ServerConfig
from bailiwick.database.database import Database
from bailiwick.database.lock import DirectoryLock
from bailiwick.doors.flight_sql.caller import Callers
from bailiwick.doors.flight_sql.door import FlightSqlDoor, FlightSqlLimits
from bailiwick.doors.flight_sql.lookups import Lookups
from bailiwick.doors.flight_sql.service import SERVICE as FLIGHT_SERVICE
from bailiwick.doors.flight_sql.service import FlightSqlService
from bailiwick.doors.flight_sql.session_options import SessionOptions
from bailiwick.doors.flight_sql.sql_info import Abilities
from bailiwick.doors.grpc_server import GrpcLimits, GrpcServer
from bailiwick.doors.http.health import health_app
from bailiwick.doors.http.server import HttpServer
from bailiwick.doors.listening import listen, shown
from bailiwick.doors.tls import Tls
from bailiwick.engines.embedded import EmbeddedEngine
from bailiwick.engines.holders import Holders
from bailiwick.engines.launch import CATALOG, local_cores
from bailiwick.engines.sessions import SessionPool
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.engines.warmup import Warmup
from bailiwick.identity.administration import Administration
from bailiwick.identity.authenticator import FailureKind
from bailiwick.identity.chain import Chain
from bailiwick.identity.keys import load_or_create_key
from bailiwick.identity.passwords import Passwords, StoredPasswords
from bailiwick.identity.seals import Seal
from bailiwick.identity.static_tokens import StaticTokens
from bailiwick.identity.tokens import SignedTokens
from bailiwick.identity.users import UserStore
from bailiwick.names import Namespace
from bailiwick.queries.affected import AffectedRows
from bailiwick.queries.client_sessions import ClientSessions, sessions_table
from bailiwick.queries.ingest import IngestService
from bailiwick.queries.service import QueryService
from bailiwick.queries.sql import SqlQueryStore
from bailiwick.queries.system_tables import Node
from bailiwick.results.spool import Spool
from bailiwick.secrets import Secret, new_secret, write_secret
from bailiwick.telemetry import breadcrumbs, logs
from bailiwick.telemetry.metrics import Metrics

Announce = Callable[[str], None]
Report = Callable[[str], None]
"""Told what is being done, a line a step, for people who wait."""

_log = logs.logger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    chain: Chain
    administration: Administration
    admin_password: str | None
    """Drawn just now, on an empty directory; otherwise nobody but its owner knows it."""


@dataclass(frozen=True, slots=True)
class _Spark:
    """What the query service needs of the Spark side."""

    engine: EmbeddedEngine
    pool: SessionPool
    lake: "_Lake"


@dataclass(frozen=True, slots=True)
class _Lake:
    """The catalog and what is known of it."""

    catalog: CatalogService
    staging: Staging
    inventory: Inventory
    affected: AffectedRows

    async def has_schema(self, catalog: str, namespace: Namespace) -> bool:
        return catalog == CATALOG and namespace in self.catalog.contents.namespaces


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that answers. Its parts are public: the demo and the benchmarks reach for them."""

    config: Config
    engine: EmbeddedEngine
    pool: SessionPool
    catalog: CatalogService
    queries: QueryService
    metrics: Metrics
    grpc: GrpcServer
    http: HttpServer
    admin_password: str | None

    @property
    def grpc_address(self) -> str:
        return shown(self.grpc.addresses[0], self.grpc.port)

    @property
    def http_address(self) -> str:
        return shown(self.http.addresses[0], self.http.port)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, config: Config, data_dir: Path, report: Report = lambda _line: None
    ) -> AsyncIterator["Gateway"]:
        """Everything up and warm inside the block; everything down after it, in the opposite order."""
        async with AsyncExitStack() as stack:
            yield await _open(stack, config, await asyncio.to_thread(_made, data_dir), report)

    async def drain(self) -> None:
        """Take no more queries, let those that run end, then cancel what is left."""
        _log.info("draining", timeout_s=self.config.server.drain_s)
        await self.grpc.set_ready(False)
        await self.queries.drain(self.config.server.drain_s)
        _log.info("drained")


async def serve(config: Config, data_dir: Path, announce: Announce) -> None:
    """Serve until SIGINT or SIGTERM. `announce` gets the first admin's password, once, and the ready line."""
    logs.configure(config.logging)
    breadcrumbs.switch(config.logging.breadcrumbs)
    asked_to_stop = asyncio.Event()
    with suppress(asyncio.CancelledError), _stopping_by_signal(asked_to_stop) as now_ready:
        async with Gateway.open(config, data_dir, lambda line: _log.info("starting", step=line)) as gateway:
            now_ready()
            if gateway.admin_password is not None:
                kept = data_dir / "admin-password"
                announce(f"user admin has the password {gateway.admin_password} (kept in {kept})")
            announce(f"ready grpc={gateway.grpc_address} http={gateway.http_address}")
            await asked_to_stop.wait()
            await gateway.drain()
    _log.info("stopped")


@contextmanager
def _stopping_by_signal(asked_to_stop: asyncio.Event) -> Iterator[Callable[[], None]]:
    """SIGINT and SIGTERM set the event. Before the yielded function was called they break off the start."""
    loop, starting = asyncio.get_running_loop(), asyncio.current_task()

    def stop() -> None:
        asked_to_stop.set()
        if starting is not None:
            starting.cancel()

    def ready() -> None:
        nonlocal starting
        starting = None

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield ready
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _open(stack: AsyncExitStack, config: Config, data_dir: Path, report: Report) -> Gateway:
    _log.info("opening", version=__version__)
    stack.enter_context(DirectoryLock.acquire(data_dir))
    _check_ports(config.server)
    tls = await stack.enter_async_context(Tls.open(config.tls))
    metrics = Metrics()
    database = await asyncio.to_thread(Database.open, data_dir / "bailiwick.db")
    stack.push_async_callback(database.close)
    identity = await _open_identity(stack, config, data_dir, database, metrics)
    lake = await asyncio.to_thread(_open_lake, database, data_dir)
    stack.callback(lake.inventory.close)
    engine, pool = await _open_engine(stack, config, data_dir, lake, metrics, report)
    spark = _Spark(engine, pool, lake)
    sessions = ClientSessions()
    queries = await _open_queries(stack, config, data_dir, database, identity, spark, sessions, metrics)
    flight = await _open_flight(stack, config, data_dir, identity, queries, lake, sessions)
    grpc, http = await _open_ports(stack, config, flight, engine, metrics, tls)
    return Gateway(config, engine, pool, lake.catalog, queries, metrics, grpc, http, identity.admin_password)


def _open_lake(database: Database, data_dir: Path) -> _Lake:
    catalog = CatalogService(SqlBackend(database.synchronous, CATALOG), data_dir / "warehouse")
    return _Lake(catalog, Staging(data_dir / "staging"), Inventory(catalog), AffectedRows())


async def _open_identity(
    stack: AsyncExitStack, config: Config, data_dir: Path, database: Database, metrics: Metrics
) -> Identity:
    settings = config.identity
    users = UserStore(database)
    await users.load()
    stack.push_async_callback(users.close)
    static = StaticTokens(database, users)
    await static.load()
    stack.push_async_callback(static.close)
    passwords = Passwords(threads=settings.hashing_threads)
    stack.callback(passwords.close)
    key = await asyncio.to_thread(load_or_create_key, data_dir / "keys" / "token-signing")
    chain = Chain(
        StoredPasswords(users, passwords),
        SignedTokens(key, users, life_s=settings.token_s),
        [static],
        failure_delay_s=settings.failure_delay_s,
        hashing_threads=settings.hashing_threads,
        on_failure=lambda kind: metrics.login_failed("password" if kind is FailureKind.PASSWORD else "token"),
    )
    stack.push_async_callback(chain.close)
    administration = Administration(
        users, static, passwords, static_token_ttl_max_s=settings.static_token_ttl_max_s
    )
    drawn = await administration.bootstrap(
        lambda password: write_secret(data_dir / "admin-password", Secret(password))
    )
    return Identity(chain, administration, drawn)


async def _open_engine(
    stack: AsyncExitStack,
    config: Config,
    data_dir: Path,
    lake: _Lake,
    metrics: Metrics,
    report: Report,
) -> tuple[EmbeddedEngine, SessionPool]:
    holders = Holders()
    credential = new_secret()
    observer = _FacadeObserver(metrics, lake.affected)
    facade = FacadeServer(lake.catalog, holders, credential.reveal(), observer=observer, staging=lake.staging)
    stack.callback(facade.stop)
    port = await asyncio.to_thread(facade.start)
    engine = EmbeddedEngine(
        config.engine,
        data_dir,
        catalog_uri=f"http://127.0.0.1:{port}/iceberg",
        credential=credential.reveal(),
        connect=SparkConnectChannel,
        report=report,
    )
    report("starting Spark")
    await stack.enter_async_context(engine)
    pool = SessionPool(
        engine, config.pool, _cores(config), warmup=Warmup(_known_tables(lake.catalog)), holders=holders
    )
    stack.push_async_callback(pool.stop)
    report("warming up")
    await pool.start(config.engine.start_timeout_s)
    metrics.engine_up.set_function(lambda: float(engine.is_ready))
    metrics.engine_memory_bytes.set_function(lambda: float(engine.memory_bytes))
    return engine, pool


async def _open_queries(
    stack: AsyncExitStack,
    config: Config,
    data_dir: Path,
    database: Database,
    identity: Identity,
    spark: _Spark,
    sessions: ClientSessions,
    metrics: Metrics,
) -> QueryService:
    spool = await asyncio.to_thread(
        lambda: Spool(data_dir / "spool", total_bytes_max=config.results.spool_total_bytes_max)
    )
    stack.callback(spool.close)
    await asyncio.to_thread(spool.clear_leftovers)
    return await stack.enter_async_context(
        QueryService(
            pool=spark.pool,
            engine=spark.engine,
            administration=identity.administration,
            nodes=lambda: [_node(config, spark.engine, spark.pool)],
            store=SqlQueryStore(database),
            spool=spool,
            limits=config.limits,
            results=config.results,
            catalog_version=lambda: spark.lake.catalog.version,
            affected_rows=spark.lake.affected.take,
            metrics=metrics,
            inventory=spark.lake.inventory,
            system_tables=[sessions_table(sessions)],
        )
    )


async def _open_flight(
    stack: AsyncExitStack,
    config: Config,
    data_dir: Path,
    identity: Identity,
    queries: QueryService,
    lake: _Lake,
    sessions: ClientSessions,
) -> FlightSqlService:
    seal = Seal(await asyncio.to_thread(load_or_create_key, data_dir / "keys" / "ticket-sealing"))
    ingests = IngestService(queries, lake.catalog, lake.staging, client_idle_s=config.results.reader_idle_s)
    stack.push_async_callback(ingests.close)
    abilities = Abilities(
        cancel=True, bulk_ingestion=True, batch_updates=True, sql_bytes_max=config.limits.sql_bytes_max
    )
    limits = FlightSqlLimits(
        ticket_s=config.identity.ticket_s, message_bytes_max=config.results.message_bytes_max
    )
    door = FlightSqlDoor(
        queries,
        seal,
        limits,
        lookups=Lookups(lake.inventory, system_tables=lambda: queries.system_tables, abilities=abilities),
        options=SessionOptions(sessions, lake.has_schema),
        ingests=ingests,
    )
    stack.push_async_callback(door.close)
    return FlightSqlService(door, Callers(identity.chain, sessions, seal))


async def _open_ports(
    stack: AsyncExitStack,
    config: Config,
    flight: FlightSqlService,
    engine: EmbeddedEngine,
    metrics: Metrics,
    tls: Tls | None,
) -> tuple[GrpcServer, HttpServer]:
    server = config.server
    grpc = GrpcServer(
        server.bind,
        server.grpc_port,
        [flight],
        GrpcLimits(server.message_bytes_max, config.results.message_bytes_max),
        services=[FLIGHT_SERVICE],
        tls=tls,
    )

    health = health_app(is_ready=lambda: engine.is_ready, metrics=metrics.render)
    http = HttpServer(server.bind, server.http_port, health, tls=tls)
    await grpc.start()
    stack.push_async_callback(grpc.stop, 1.0)
    await http.start()
    stack.push_async_callback(http.stop, 1.0)
    await grpc.set_ready(True)
    return grpc, http


def _check_ports(server: ServerConfig) -> None:
    """A taken port should be told now, not after Spark has started. Raises CannotListenError."""
    for port in (server.grpc_port, server.http_port):
        for bound in listen(server.bind, port):
            bound.close()


def _made(data_dir: Path) -> Path:
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    return data_dir.resolve()


class _FacadeObserver:
    def __init__(self, metrics: Metrics, affected: AffectedRows) -> None:
        self._metrics = metrics
        self._affected = affected

    def answered(self, *, route: str, status: int, seconds: float) -> None:
        self._metrics.facade_answered(route=route, status=status, seconds=seconds)

    def commit_seen(self, seen: CommitSeen) -> None:
        self._affected.note(seen.lease, seen.summary)


def _cores(config: Config) -> int:
    return local_cores(config.engine.master, os.cpu_count() or 1)


def _known_tables(catalog: CatalogService) -> tuple[str, ...]:
    """A first look at a table loads much of Iceberg: better before somebody waits for it."""
    return tuple(f"SELECT * FROM {CATALOG}.{name} LIMIT 1" for name in catalog.tables()[:1])  # noqa: S608


def _node(config: Config, engine: EmbeddedEngine, pool: SessionPool) -> Node:
    return Node(
        engine.node_id,
        kind="embedded",
        state="ready" if engine.is_ready else "starting",
        master=config.engine.master,
        cores=_cores(config),
        memory_bytes=engine.memory_bytes,
        sessions=pool.idle_count + pool.leased_count,
        running=pool.leased_count,
        started_at=engine.started_at,
        restarts=engine.restarts,
    )

"""The whole product in one process: database, catalog facade (on a thread of its own), engine, doors.

Here is what stands around an engine that was begun already (`beginning.py`).
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from grpc import GenericRpcHandler

from bailiwick.app.beginning import BegunEngine, Report
from bailiwick.app.fleet import Spark, keeper_routes, open_spark, warm_up, work_of
from bailiwick.app.identity import Identity, open_identity
from bailiwick.app.lake import Lake, open_lake
from bailiwick.app.nodes import nodes
from bailiwick.app.peers import Peers, advertised_location, open_peers
from bailiwick.app.policy import CatalogFacts, Governance, Ingress, open_governance
from bailiwick.app.spark_connect import open_spark_connect
from bailiwick.catalog.sizes import TableSizes
from bailiwick.clock import wall
from bailiwick.config import Config
from bailiwick.database import revisions
from bailiwick.database.database import Database
from bailiwick.doors.flight_sql.caller import Callers
from bailiwick.doors.flight_sql.door import FlightSqlDoor, FlightSqlLimits
from bailiwick.doors.flight_sql.lookups import Lookups
from bailiwick.doors.flight_sql.service import SERVICE as FLIGHT_SERVICE
from bailiwick.doors.flight_sql.service import FlightSqlService
from bailiwick.doors.flight_sql.session_options import SessionOptions
from bailiwick.doors.flight_sql.sql_info import Abilities
from bailiwick.doors.flight_sql.whereabouts import Whereabouts
from bailiwick.doors.grpc_server import GrpcLimits, GrpcServer
from bailiwick.doors.http.health import health_app
from bailiwick.doors.http.server import HttpServer
from bailiwick.doors.listening import shown
from bailiwick.doors.spark_connect.service import SERVICE as SPARK_SERVICE
from bailiwick.doors.spark_connect.service import SparkConnectService
from bailiwick.doors.tls import Tls
from bailiwick.engines.launch import CATALOG
from bailiwick.identity.keys import load_or_create_key
from bailiwick.identity.seals import Seal
from bailiwick.policy.administration import PolicyAdministration
from bailiwick.queries.accounts import Accounts
from bailiwick.queries.audit_answers import AuditAnswers
from bailiwick.queries.client_sessions import ClientSessions, SessionLimits, sessions_table
from bailiwick.queries.commit_answers import CommitAnswers
from bailiwick.queries.expression_checks import EngineChecks
from bailiwick.queries.ingest import IngestService
from bailiwick.queries.own import UserAnswers
from bailiwick.queries.policy_answers import AuditStatements, PolicyAnswers
from bailiwick.queries.policy_decisions import policy_decisions_table
from bailiwick.queries.service import QueryService
from bailiwick.queries.sql import SqlQueryStore
from bailiwick.queries.submissions_sql import SqlSubmissionStore
from bailiwick.queries.tasks import TaskReader, tasks_table
from bailiwick.results.spool import Spool
from bailiwick.telemetry import logs
from bailiwick.telemetry.metrics import Metrics
from bailiwick.telemetry.traces import Traces
from bailiwick.telemetry.tracing import open_traces

_log = logs.logger(__name__)


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that answers. Its parts are public: the demo and the benchmarks reach for them."""

    config: Config
    spark: Spark
    queries: QueryService
    metrics: Metrics
    grpc: GrpcServer
    http: HttpServer
    spark_connect: SparkConnectService | None
    admin_password: str | None = field(repr=False)

    @property
    def grpc_address(self) -> str:
        return shown(self.grpc.addresses[0], self.grpc.port)

    @property
    def http_address(self) -> str:
        return shown(self.http.addresses[0], self.http.port)

    async def drain(self) -> None:
        """Take no more queries, let those that run or are read end, then end what is left."""
        drain_s = self.config.server.drain_s
        _log.info("draining", timeout_s=drain_s)
        await self.grpc.set_ready(False)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.queries.drain(drain_s))
            if self.spark_connect is not None:
                tasks.create_task(self.spark_connect.drain(drain_s))
        _log.info("drained")


async def open_around(
    stack: AsyncExitStack, config: Config, data_dir: Path, begun: BegunEngine, report: Report
) -> Gateway:
    """Everything else of a gateway, up and warm; `stack` takes it down, in the opposite order."""
    tls = await stack.enter_async_context(Tls.open(config.tls))
    metrics = Metrics()
    traces = await stack.enter_async_context(open_traces(config.tracing, metrics))
    database = await asyncio.to_thread(Database.open, data_dir / "bailiwick.db", config.database)
    stack.push_async_callback(database.close)
    peers = await open_peers(stack, config, data_dir, database)
    governance = await open_governance(stack, database, data_dir)
    identity = await open_identity(stack, config, data_dir, database, governance, metrics, peers.feed)
    lake = await asyncio.to_thread(
        lambda: open_lake(
            database, data_dir, governance, warehouse=config.catalog.warehouse_dir, owner=peers.owner
        )
    )
    stack.callback(lake.inventory.close)
    peers.feed.follow(revisions.POLICY, governance.policies)
    peers.feed.follow(revisions.catalog_topic(CATALOG), lake.catalog)
    spark = await open_spark(stack, config, begun, lake, governance, metrics, traces)
    limits = config.sessions
    sessions = ClientSessions(SessionLimits(limits.idle_s, limits.per_user_max, limits.total_max))
    queries = await _open_queries(
        stack, config, data_dir, database, identity, governance, spark, sessions, metrics, traces, peers
    )
    peers.watch(stack, queries.end_all)
    peers.feed.follow(revisions.CANCELLATIONS, peers.cancellations(queries.carry_out))
    await peers.feed.start()
    flight = await _open_flight(stack, config, data_dir, identity, governance, queries, lake, sessions, peers)
    services: dict[str, GenericRpcHandler] = {FLIGHT_SERVICE: flight}
    spark_connect: SparkConnectService | None = None
    if config.spark_connect.enabled:
        services[SPARK_SERVICE] = spark_connect = open_spark_connect(
            stack, config, identity.authenticator, queries, spark.dedicated, sessions
        )
    grpc, http = await _open_ports(stack, config, services, spark, metrics, traces, tls)
    report("warming up")
    await warm_up(spark, config)
    await grpc.set_ready(True)
    return Gateway(config, spark, queries, metrics, grpc, http, spark_connect, identity.admin_password)


async def _open_queries(
    stack: AsyncExitStack,
    config: Config,
    data_dir: Path,
    database: Database,
    identity: Identity,
    governance: Governance,
    spark: Spark,
    sessions: ClientSessions,
    metrics: Metrics,
    traces: Traces,
    peers: Peers,
) -> QueryService:
    spool = await asyncio.to_thread(
        lambda: Spool(
            data_dir / "spool",
            total_bytes_max=config.results.spool_total_bytes_max,
            is_memory_short=lambda: spark.pool.roster.pressure.shrinks_buffers,
        )
    )
    stack.callback(spool.close)
    await asyncio.to_thread(spool.clear_leftovers)
    facts = CatalogFacts(spark.lake.catalog)
    policy = PolicyAdministration(governance.policies, EngineChecks(spark.pool), facts)
    audit = AuditAnswers(governance.audit)
    tasks = TaskReader(lambda: [member.engine for member in spark.pool.roster])
    queries = QueryService(
        pool=spark.pool,
        answerers=[
            UserAnswers(identity.administration),
            PolicyAnswers(policy, facts, identity.people.find),
            AuditStatements(audit),
            CommitAnswers(spark.lake.catalog.idempotency),
        ],
        nodes=lambda: nodes(config, spark),
        store=SqlQueryStore(database, peers.owner),
        spool=spool,
        limits=config.limits,
        results=config.results,
        catalog_version=lambda: spark.lake.catalog.version,
        policy_version=lambda: governance.policies.current.version,
        accounts=Accounts(governance.audit, governance.decisions, wall=wall),
        affected_rows=spark.lake.affected.take,
        metrics=metrics,
        traces=traces,
        inventory=spark.lake.inventory,
        submissions=SqlSubmissionStore(database),
        cancel_elsewhere=peers.wish_end,
        work_of=work_of(config, TableSizes(spark.lake.catalog)),
        system_tables=[
            sessions_table(sessions),
            policy_decisions_table(governance.decisions, governance.audit),
            audit.table(),
            # The service that they belong to is only about to be made.
            tasks_table(tasks.read, lambda whose: queries.visible(whose), governance.decisions.of),  # noqa: PLW0108
        ],
    )
    return await stack.enter_async_context(queries)


async def _open_flight(
    stack: AsyncExitStack,
    config: Config,
    data_dir: Path,
    identity: Identity,
    governance: Governance,
    queries: QueryService,
    lake: Lake,
    sessions: ClientSessions,
    peers: Peers,
) -> FlightSqlService:
    keys_dir = config.server.keys_dir or data_dir / "keys"
    seal = Seal(await asyncio.to_thread(load_or_create_key, keys_dir / "ticket-sealing"))
    ingests = IngestService(
        queries,
        lake.catalog,
        lake.staging,
        client_idle_s=config.results.reader_idle_s,
        may_write=Ingress(governance.policies, lake.catalog).may_write,
    )
    stack.push_async_callback(ingests.close)
    abilities = Abilities(
        cancel=True, bulk_ingestion=True, batch_updates=True, sql_bytes_max=config.limits.sql_bytes_max
    )
    limits = FlightSqlLimits(
        ticket_s=config.identity.ticket_s, message_bytes_max=config.results.message_bytes_max
    )
    whereabouts = Whereabouts(peers.gateways(), advertised_location(config))
    door = FlightSqlDoor(
        queries,
        seal,
        limits,
        lookups=Lookups(lake.inventory, system_tables=lambda: queries.system_tables, abilities=abilities),
        options=SessionOptions(sessions, lake.has_schema),
        ingests=ingests,
        whereabouts=whereabouts,
    )
    stack.push_async_callback(door.close)
    return FlightSqlService(door, Callers(identity.authenticator, sessions, seal, whereabouts=whereabouts))


async def _open_ports(
    stack: AsyncExitStack,
    config: Config,
    services: Mapping[str, GenericRpcHandler],
    spark: Spark,
    metrics: Metrics,
    traces: Traces,
    tls: Tls | None,
) -> tuple[GrpcServer, HttpServer]:
    server = config.server
    grpc = GrpcServer(
        server.bind,
        server.grpc_port,
        list(services.values()),
        GrpcLimits(server.message_bytes_max, config.results.message_bytes_max),
        services=list(services),
        tls=tls,
        traces=traces,
    )

    health = health_app(
        is_ready=lambda: spark.is_ready,
        metrics=metrics.render,
        more=keeper_routes(config.fleet, spark.registry),
    )
    http = HttpServer(server.bind, server.http_port, health, tls=tls, traces=traces)
    await grpc.start()
    stack.push_async_callback(grpc.stop, 1.0)
    await http.start()
    stack.push_async_callback(http.stop, 1.0)
    return grpc, http

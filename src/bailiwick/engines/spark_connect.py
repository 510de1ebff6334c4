"""Spark Connect, spoken as protobuf: a channel to one server, and the sessions we open through it.

No object of the pyspark client takes part: it doubles the latency, and its process-wide pool can deadlock.
Retrying is not done here, except for mending the stream of an operation that runs on.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import grpc
from pyspark.sql.connect import proto

from bailiwick.engines.description import Description, full_name
from bailiwick.engines.engine import EngineLost, EngineSession, Event
from bailiwick.engines.parameters import ParameterValue
from bailiwick.engines.spark_analysis import analysis_plan, read_analysis
from bailiwick.engines.spark_answers import told
from bailiwick.engines.spark_calls import SparkCalls
from bailiwick.engines.spark_expressions import check_plan, checked
from bailiwick.engines.spark_literals import describe_plan, parse_plan, run_plan
from bailiwick.engines.spark_operation import Operation, operation_tags
from bailiwick.engines.spark_tasks import parse_tasks, tasks_plan
from bailiwick.engines.spark_write import write_plan
from bailiwick.engines.task import EngineTask
from bailiwick.engines.write import Write
from bailiwick.errors import BailiwickError
from bailiwick.ids import LeaseId, OperationId, QueryId, new_operation_id, new_session_id
from bailiwick.policy.expressions import Checked, ExpressionKind

CONNECT_TIMEOUT_S: Final = 10.0
CALL_TIMEOUT_S: Final = 10.0
USE_TIMEOUT_S: Final = 60.0
"""The first use of a catalog loads it, and a fresh Java takes its time."""
CLOSE_TIMEOUT_S: Final = 5.0
INTERRUPT_EVERY_S: Final = 0.25

_OTHER_CATALOG: Final = "spark_catalog"
_TIME_ZONE: Final = "spark.sql.session.timeZone"
_DOUBLE_QUOTED_IDENTIFIERS: Final = "spark.sql.ansi.doubleQuotedIdentifiers"
_BATCH_CODEC: Final = "spark.sql.execution.arrow.compression.codec"
_FIRST_LOCALE: Final = ("UTC", False)
"""What the engine is started with (`launch.py`), and so what every session begins with."""
_OPTIONS: Final = (
    # Spark's server bears a ping every five minutes; after a few more it hangs up on every session of the
    # channel (`too_many_pings`). So pings find a dead wire only; a hanging engine is noticed from above.
    ("grpc.keepalive_time_ms", 330_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # One row of a table may be large, and Spark never splits a row.
    ("grpc.max_receive_message_length", 512 << 20),
    ("grpc.max_send_message_length", 128 << 20),
    ("grpc.max_metadata_size", 1 << 20),
    # Never by way of a proxy of the environment: what stands between us and an engine is our keeper.
    ("grpc.enable_http_proxy", 0),
    # A channel to the same address as one of before must not inherit that one's pause before it tries again.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class SparkConnectChannel:
    """The way to one life of one Connect server, which asks for `token`.

    Without `credentials` the address must be a loopback port: the token is sent as it is. With them
    (`grpc.ssl_channel_credentials`) it is that of a keeper, which asks for our certificate and shows its own.
    """

    def __init__(self, address: str, token: str, credentials: Any = None) -> None:
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(address, credentials, options=_OPTIONS)
        self._stub = proto.SparkConnectServiceStub(self._channel)
        self._token = token
        self._own = self._new_calls()

    async def open_session(self, handle: str, conf: Mapping[str, str]) -> "SparkConnectSession":
        """A new session, known to the catalog by `handle`. Raises EngineLost if nobody answers."""
        await self.wait_connected()
        session = SparkConnectSession(handle, self._new_calls())
        await session.configure(conf)
        return session

    async def wait_connected(self, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        try:
            await asyncio.wait_for(self._channel.channel_ready(), timeout_s)
        except TimeoutError:
            raise EngineLost(f"no connection within {timeout_s:g} s") from None

    async def ping(self, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Return if the server answers. Raises EngineLost if it does not."""
        request = proto.AnalyzePlanRequest()
        request.spark_version.SetInParent()
        await self._own.unary("AnalyzePlan", request, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the connection, not the sessions: streams that are open end with EngineLost."""
        await self._channel.close()

    def _new_calls(self) -> SparkCalls:
        return SparkCalls(self._stub, self._token, new_session_id(), user_id=new_session_id())


class SparkConnectSession(EngineSession):
    def __init__(self, handle: str, calls: SparkCalls) -> None:
        self.handle = handle
        self._calls = calls
        self._running: set[Operation] = set()
        self._tainted: set[LeaseId | None] = set()
        self._current: tuple[str, tuple[str, ...]] | None = None
        self._locale: tuple[str, bool] | None = _FIRST_LOCALE
        self._is_compressed: bool | None = False

    async def configure(self, conf: Mapping[str, str]) -> None:
        """Set these until they are set again. A catalog reads its own only when it is first used."""
        operation = proto.ConfigRequest.Operation()
        operation.set.pairs.extend(proto.KeyValue(key=key, value=value) for key, value in conf.items())
        await self._calls.unary("Config", proto.ConfigRequest(operation=operation), timeout_s=CALL_TIMEOUT_S)

    def execute(
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
        plan = run_plan(sql, parameters)
        tags = operation_tags(principal, may_call=may_call, explains=explains, query_id=query_id)
        return self._run(
            plan, operation=operation, lease=lease, reattachable=reattachable, sql=sql, tags=tags
        ).events()

    def execute_plan(
        self,
        plan: proto.Plan,
        *,
        operation: OperationId,
        lease: LeaseId,
        standing: LeaseId | None = None,
        principal: str = "",
        query_id: QueryId | None = None,
        user_tags: Sequence[str] = (),
        reattachable: bool = False,
        may_call: bool = False,
        explains: bool = False,
        makes_view: bool = False,
        reads_only: bool = False,
    ) -> AsyncGenerator[Any, None]:
        if not reads_only:
            # It may be one that sets them.
            self._current = self._locale = None
        tags = operation_tags(
            principal,
            may_call=may_call,
            explains=explains,
            query_id=query_id,
            standing=standing,
            reads_only=reads_only,
            user_tags=user_tags,
        )
        running = self._run(
            plan,
            operation=operation,
            lease=lease,
            reattachable=reattachable,
            tags=tags,
            loads_under=standing if makes_view else None,
        )
        return running.responses()

    async def analyse(
        self,
        request: proto.AnalyzePlanRequest,
        *,
        lease: LeaseId,
        timeout_s: float,
        standing: LeaseId | None = None,
        principal: str = "",
        query_id: QueryId | None = None,
    ) -> Any:
        tags = operation_tags(principal, query_id=query_id, standing=standing)
        plan = analysis_plan(request)
        events = self._run(plan, operation=new_operation_id(), lease=lease, tags=tags).events()
        return read_analysis(await told(events, timeout_s, "the plan"))

    async def config(self, operation: proto.ConfigRequest.Operation) -> Any:
        request = proto.ConfigRequest(operation=operation)
        return await self._calls.unary("Config", request, timeout_s=CALL_TIMEOUT_S)

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
        described = self._run(
            describe_plan(sql, parameters),
            operation=new_operation_id(),
            lease=lease,
            sql=sql,
            tags=operation_tags(principal, standing=standing),
        )
        return Description.from_json(str(await told(described.events(), timeout_s, "the statement")))

    async def parse(
        self, sql: str, *, lease: LeaseId, timeout_s: float, standing: LeaseId | None = None
    ) -> Description:
        tags = operation_tags("", standing=standing)
        parsed = self._run(parse_plan(sql), operation=new_operation_id(), lease=lease, sql=sql, tags=tags)
        return Description.from_json(str(await told(parsed.events(), timeout_s, "the statement")))

    async def check_expression(
        self,
        table: tuple[str, ...] | None,
        kind: ExpressionKind,
        column: str | None,
        sql: str,
        value_type: str | None,
        *,
        lease: LeaseId,
        timeout_s: float,
    ) -> Checked:
        del column  # What is masked has a name like any other column.
        plan = check_plan(table, kind, sql, value_type)
        events = self._run(plan, operation=new_operation_id(), lease=lease, sql=sql).events()
        return checked(str(await told(events, timeout_s, "the expression")))

    def write(
        self, write: Write, *, operation: OperationId, lease: LeaseId, query_id: QueryId | None = None
    ) -> AsyncIterator[Event]:
        tags = operation_tags("", query_id=query_id)
        plan = write_plan(write)
        return self._run(plan, operation=operation, lease=lease, reattachable=True, tags=tags).events()

    async def tasks(self, timeout_s: float) -> Sequence[EngineTask]:
        events = self._run(tasks_plan(), operation=new_operation_id(), lease=None).events()
        answer = await told(events, timeout_s, "its newest task")
        return await asyncio.to_thread(parse_tasks, str(answer))

    async def interrupt(self, operation: OperationId) -> None:
        request = proto.InterruptRequest(
            interrupt_type=proto.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID, operation_id=operation
        )
        await self._calls.unary("Interrupt", request, timeout_s=CALL_TIMEOUT_S)

    async def use(self, catalog: str, namespace: tuple[str, ...], *, lease: LeaseId | None = None) -> None:
        if self._current == (catalog, namespace):
            return
        # Until all of it has happened nobody knows what is current.
        known, self._current = self._current, None
        if known is None or known[0] != catalog or not namespace:
            await self._use_catalog(catalog, lease)
        if namespace:
            plan = proto.Plan()
            plan.root.catalog.set_current_database.db_name = full_name(namespace)
            await self._finish(plan, lease)
        self._current = (catalog, namespace)

    async def localise(self, *, time_zone: str, double_quoted_identifiers: bool) -> None:
        wanted = (time_zone, double_quoted_identifiers)
        if self._locale == wanted:
            return
        # Until Spark has confirmed it nobody knows what holds.
        self._locale = None
        await self.configure(
            {
                _TIME_ZONE: time_zone,
                _DOUBLE_QUOTED_IDENTIFIERS: str(double_quoted_identifiers).lower(),
            }
        )
        self._locale = wanted

    async def compress(self, is_wanted: bool) -> None:
        # No plan that passes the doors sets it, so what Spark has confirmed goes on holding.
        if self._is_compressed is not is_wanted:
            self._is_compressed = None
            await self.configure({_BATCH_CODEC: "zstd" if is_wanted else "none"})
            self._is_compressed = is_wanted

    async def settle(self, timeout_s: float) -> bool:
        await self._settle(self._running, self._interrupt_all, timeout_s)
        return self.is_settled

    async def settle_lease(self, lease: LeaseId, timeout_s: float) -> bool:
        held = {operation for operation in self._running if operation.lease == lease}
        await self._settle(held, self._interrupt_each, timeout_s)
        return self.is_lease_settled(lease)

    @property
    def is_settled(self) -> bool:
        return not _unconfirmed(self._running) and not self._tainted

    def is_lease_settled(self, lease: LeaseId) -> bool:
        running = _unconfirmed(self._running)
        return lease not in self._tainted and not any(one.lease == lease for one in running)

    async def close(self) -> None:
        for operation in self._running:
            operation.ended.cancel()
        with suppress(BailiwickError, EngineLost):
            await self._calls.unary(
                "ReleaseSession", proto.ReleaseSessionRequest(), timeout_s=CLOSE_TIMEOUT_S
            )

    def _run(
        self,
        plan: proto.Plan,
        *,
        operation: OperationId,
        lease: LeaseId | None,
        reattachable: bool = False,
        sql: str = "",
        tags: Sequence[str] = (),
        loads_under: LeaseId | None = None,
    ) -> Operation:
        running = Operation(
            self._calls,
            plan,
            operation=operation,
            lease=lease,
            reattachable=reattachable,
            sql=sql,
            tags=tags,
            loads_under=loads_under,
        )
        self._running.add(running)
        running.ended.add_done_callback(lambda _: self._note_end(running))
        return running

    def _note_end(self, operation: Operation) -> None:
        self._running.discard(operation)
        if not operation.is_confirmed:
            self._tainted.add(operation.lease)

    async def _settle(
        self,
        operations: set[Operation],
        interrupt: Callable[[list[Operation]], Awaitable[None]],
        timeout_s: float,
    ) -> None:
        for operation in operations:
            operation.abandon()
        with suppress(TimeoutError, BailiwickError, EngineLost):
            async with asyncio.timeout(timeout_s):
                # Again and again: an interrupt that overtakes its operation finds nothing to stop.
                while unconfirmed := _unconfirmed(operations & self._running):
                    await interrupt(unconfirmed)
                    tasks = [operation.ended for operation in unconfirmed]
                    await asyncio.wait(tasks, timeout=INTERRUPT_EVERY_S)

    async def _interrupt_each(self, operations: list[Operation]) -> None:
        await asyncio.gather(*(self.interrupt(operation.id) for operation in operations))

    async def _interrupt_all(self, _operations: list[Operation]) -> None:
        request = proto.InterruptRequest(interrupt_type=proto.InterruptRequest.INTERRUPT_TYPE_ALL)
        await self._calls.unary("Interrupt", request, timeout_s=CALL_TIMEOUT_S)

    async def _use_catalog(self, catalog: str, lease: LeaseId | None) -> None:
        """Spark forgets the namespace only when the catalog changes, so it is changed there and back."""
        for name in (_OTHER_CATALOG, catalog):
            plan = proto.Plan()
            plan.root.catalog.set_current_catalog.catalog_name = name
            await self._finish(plan, lease)

    async def _finish(self, plan: proto.Plan, lease: LeaseId | None) -> None:
        try:
            async with asyncio.timeout(USE_TIMEOUT_S):
                async for _ in self._run(plan, operation=new_operation_id(), lease=lease).events():
                    pass
        except TimeoutError:
            raise EngineLost(f"no answer within {USE_TIMEOUT_S:g} s") from None


def _unconfirmed(operations: set[Operation]) -> list[Operation]:
    return [operation for operation in operations if not operation.is_confirmed]

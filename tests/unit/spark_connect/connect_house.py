"""A Spark Connect door on a real port, in front of engine sessions that do what the test says."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from pyspark.sql.connect import proto
from query_house import ANN, RITA, FakeEngine, FakeLease, FakeSession, House, batch, house

from bailiwick.doors.spark_connect.config import SparkConnectConfig
from bailiwick.doors.spark_connect.door import SparkConnectDoor
from bailiwick.doors.spark_connect.responses import LogLimits
from bailiwick.doors.spark_connect.service import SparkConnectService
from bailiwick.doors.spark_connect.sessions import Sessions
from bailiwick.doors.spark_connect.shared_session import SharedSession
from bailiwick.engines.description import Description
from bailiwick.engines.engine import Batch, EngineLost
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.schedule import Work
from bailiwick.identity.authenticator import NOBODY as NO_PEER
from bailiwick.identity.authenticator import Authenticator, Peer
from bailiwick.identity.impersonation import ON_BEHALF_OF_HEADER
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, NodeId, QueryId, new_lease_id, new_session_id
from bailiwick.queries.client_sessions import ClientSessions
from bailiwick.queries.config import LimitsConfig

ROWS = pa.table({"n": pa.array([1, 2, 3], pa.int64())})


def rows_response(table: pa.Table = ROWS, data: Batch | None = None) -> Any:
    data = data or batch(table)
    response = proto.ExecutePlanResponse(session_id="the engine's", response_id="the engine's")
    response.arrow_batch.data, response.arrow_batch.row_count = data.data, data.rows
    return response


class Spark(FakeSession):
    """Plans answer with `answers`, in turn; without any, with three rows."""

    def __init__(self, desk: "Desk") -> None:
        super().__init__(desk.engine)
        self.desk = desk

    async def execute_plan(self, plan: Any, **told: Any) -> AsyncGenerator[Any, None]:
        self.desk.ran.append((plan, told))
        for answer in self.desk.answers.pop(0) if self.desk.answers else [rows_response()]:
            match answer:
                case asyncio.Event():
                    await answer.wait()
                case Exception():
                    raise answer
                case _:
                    copy = proto.ExecutePlanResponse()
                    copy.CopyFrom(answer)
                    yield copy

    async def analyse(self, request: Any, **told: Any) -> Any:
        self.desk.analysed.append((request, told))
        response = proto.AnalyzePlanResponse()
        response.tree_string.tree_string = "a tree"
        return response

    async def parse(
        self, sql: str, *, lease: LeaseId, timeout_s: float, standing: LeaseId | None = None
    ) -> Description:
        del lease, timeout_s, standing
        return self.desk.engine.script(sql).described()

    async def config(self, operation: Any) -> Any:
        self.desk.configured.append(operation)
        response = proto.ConfigResponse()
        for key in operation.get_option.keys:
            response.pairs.add(key=key, value=self.desk.confs.get(key))
        if operation.HasField("get_all"):
            for key, value in self.desk.confs.items():
                response.pairs.add(key=key, value=value)
        return response


class FakeDedicated:
    def __init__(self, desk: "Desk", principal: Principal, engine_class: str | None = None) -> None:
        self.session = Spark(desk)
        self.engine = desk.engine
        self.standing = new_lease_id()
        self.principal = principal
        self.engine_class = engine_class
        self.is_lost = False
        self.is_closed = False
        self.is_current = True
        self.dies_under_waiters = False
        self.is_retired = False
        self.leases = 0

    def is_standing_current(self, principal: Principal) -> bool:
        return self.is_current and principal == self.principal

    def renew_standing(self, principal: Principal) -> LeaseId:
        self.standing, self.principal, self.is_current = new_lease_id(), principal, True
        return self.standing

    @asynccontextmanager
    async def lease(
        self, principal: Principal, query_id: QueryId | None, work: Work
    ) -> AsyncIterator[FakeLease]:
        del principal, query_id, work
        if self.is_lost or self.dies_under_waiters:
            raise EngineLost("gone")
        self.leases += 1
        try:
            yield FakeLease(new_lease_id(), self.session, self.engine)
        finally:
            self.leases -= 1
            self.is_closed = self.is_closed or (self.is_retired and not self.leases)

    def retire(self) -> None:
        self.is_retired = self.is_lost = True
        self.is_closed = not self.leases

    async def close(self) -> None:
        self.is_closed = self.is_lost = True


@dataclass
class Desk:
    """What the engine side was asked, and what it answers."""

    engine: FakeEngine = field(default_factory=FakeEngine)
    answers: list[list[Any]] = field(default_factory=list)
    confs: dict[str, str] = field(default_factory=dict)
    ran: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)
    analysed: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)
    configured: list[Any] = field(default_factory=list)
    made: list[FakeDedicated] = field(default_factory=list)
    lent: int = 0
    """How often a session that is nobody's own was used."""
    dying: int = 0
    """How many of those are lost before they can be."""
    room: int = 100
    opening: asyncio.Event | None = None
    """Until this is set no session is opened, as when all places are taken."""

    @asynccontextmanager
    async def lend(
        self, principal: Principal, query_id: QueryId | None, work: Work
    ) -> AsyncIterator[FakeLease]:
        """A session that is nobody's own."""
        del principal, query_id, work
        if self.dying:
            self.dying -= 1
            raise EngineLost("gone")
        if self.opening is not None:
            await self.opening.wait()
        self.lent += 1
        yield FakeLease(new_lease_id(), Spark(self), self.engine)

    async def dedicate(self, principal: Principal, work: Work) -> FakeDedicated:
        if self.opening is not None:
            await self.opening.wait()
        if sum(not one.is_lost for one in self.made) >= self.room:
            raise BailiwickError(Code.RESOURCE_EXHAUSTED, "Too many.", details={"reason": "sessions"})
        self.made.append(FakeDedicated(self, principal, work.engine_class))
        return self.made[-1]


class Doorkeeper(Authenticator):
    """A token is a user's name."""

    async def authenticate_basic(self, name: str, password: str, *, peer: Peer = NO_PEER) -> Principal:
        raise AssertionError(f"this door takes tokens, no passwords: {name}, {len(password)}, {peer}")

    async def authenticate_bearer(self, token: str, *, peer: Peer = NO_PEER) -> Principal:
        del peer
        for known in (ANN, RITA):
            if token == known.name:
                return known
        raise BailiwickError(Code.AUTHENTICATION_FAILED, "The token is wrong.")

    def act_for(self, actor: Principal, subject_name: str) -> Principal:
        if (actor, subject_name) != (ANN, RITA.name):
            raise BailiwickError(Code.ACCESS_DENIED, f"{actor.name} may not act for {subject_name}.")
        return replace(RITA, actor=actor.name)

    def issue(self, principal: Principal) -> str:
        raise AssertionError(f"no token is issued here, for {principal}")


@dataclass
class Client:
    """Speaks the protobuf, as one session of one user."""

    stub: Any
    token: str = "ann"
    session_id: str = field(default_factory=new_session_id)
    header: str = "authorization"
    observed: str = ""
    subject: str = ""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        subject = ((ON_BEHALF_OF_HEADER, self.subject),) if self.subject else ()
        return (*(((self.header, f"Bearer {self.token}"),) if self.token else ()), *subject)

    def request(self, kind: Any, **fields: Any) -> Any:
        request = kind(session_id=self.session_id, **fields)
        request.user_context.user_id = "somebody else"
        if self.observed:
            request.client_observed_server_side_session_id = self.observed
        return request

    def execute(self, plan: Any, **fields: Any) -> Any:
        request = self.request(proto.ExecutePlanRequest, plan=plan, **fields)
        if fields.get("operation_id"):
            request.request_options.add().reattach_options.reattachable = True
        return self.stub.ExecutePlan(request, metadata=self.metadata)

    async def run(self, plan: Any, **fields: Any) -> list[Any]:
        return [response async for response in self.execute(plan, **fields)]

    async def call(self, method: str, kind: Any, **fields: Any) -> Any:
        return await getattr(self.stub, method)(self.request(kind, **fields), metadata=self.metadata)

    def reattach(self, operation_id: str, after: str | None = None) -> Any:
        request = self.request(
            proto.ReattachExecuteRequest, operation_id=operation_id, last_response_id=after
        )
        return self.stub.ReattachExecute(request, metadata=self.metadata)

    async def differ(self) -> None:
        """Make the session one that is not like any other."""
        await self.set("spark.sql.shuffle.partitions", "7")

    async def set(self, key: str, value: str) -> Any:
        operation = proto.ConfigRequest.Operation()
        operation.set.pairs.add(key=key, value=value)
        return await self.call("Config", proto.ConfigRequest, operation=operation)

    async def get(self, *keys: str) -> dict[str, str]:
        operation = proto.ConfigRequest.Operation()
        operation.get_option.keys.extend(keys)
        response = await self.call("Config", proto.ConfigRequest, operation=operation)
        return {pair.key: pair.value for pair in response.pairs if pair.HasField("value")}


@dataclass
class ConnectHouse:
    house: House
    desk: Desk
    door: SparkConnectDoor
    channel: Any

    def client(self, **options: Any) -> Client:
        return Client(proto.SparkConnectServiceStub(self.channel), **options)


@asynccontextmanager
async def connect_house(
    tmp_path: Path, config: SparkConnectConfig | None = None, limits: LimitsConfig | None = None
) -> AsyncIterator[ConnectHouse]:
    desk, config = Desk(), config or SparkConnectConfig()
    async with house(tmp_path, limits) as inner:
        desk.engine.node_id = NodeId("own")
        door = SparkConnectDoor(
            inner.service,
            Sessions(desk, SharedSession(desk.lend), ClientSessions(), inner.spool, config),
            inner.spool,
            config,
            LogLimits(),
        )
        door.start()
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((SparkConnectService(door, Doorkeeper()),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        try:
            yield ConnectHouse(inner, desk, door, channel)
        finally:
            await channel.close()
            await door.close()
            await server.stop(None)


def table_plan(name: str = "sales.orders") -> Any:
    plan = proto.Plan()
    plan.root.read.named_table.unparsed_identifier = name
    return plan


def sql_plan(text: str) -> Any:
    plan = proto.Plan()
    plan.command.sql_command.input.sql.query = text
    return plan


def view_plan(name: str, of: str = "sales.orders") -> Any:
    plan = proto.Plan()
    view = plan.command.create_dataframe_view
    view.name, view.replace = name, True
    view.input.read.named_table.unparsed_identifier = of
    return plan


def error_info(error: grpc.aio.AioRpcError) -> ErrorInfo:
    """What a client reads of the error."""
    info = ErrorInfo()
    found = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    assert Status.FromString(found).details[0].Unpack(info)
    return info


def condition(error: grpc.aio.AioRpcError) -> str:
    return str(error_info(error).metadata["errorClass"])


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


def kinds(responses: list[Any]) -> list[str | None]:
    return [response.WhichOneof("response_type") for response in responses]


def operation_id() -> str:
    return str(uuid.uuid4())

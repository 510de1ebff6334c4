"""A real Flight SQL door on a real port, with a scripted query service behind it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa
from adbc_driver_flightsql import dbapi
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.catalog.inventory import Inventory
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.service import CatalogService
from bailiwick.clock import wall
from bailiwick.doors.flight_sql.caller import Callers
from bailiwick.doors.flight_sql.door import AllQueries, FlightSqlDoor, FlightSqlLimits
from bailiwick.doors.flight_sql.ingest import Ingests
from bailiwick.doors.flight_sql.lookups import Lookups
from bailiwick.doors.flight_sql.service import SERVICE, FlightSqlService
from bailiwick.doors.flight_sql.session_options import SessionOptions
from bailiwick.doors.flight_sql.whereabouts import Whereabouts
from bailiwick.doors.grpc_server import GrpcLimits, GrpcServer
from bailiwick.doors.tls import Tls
from bailiwick.engines.description import Kind, Parameter
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import Authenticator
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.ids import QueryId
from bailiwick.names import Namespace
from bailiwick.queries.client_sessions import ClientSessions
from bailiwick.queries.ingest import IngestRequest
from bailiwick.testing.listed_users import ListedUsers
from bailiwick.testing.scripted_queries import Script, ScriptedQueries

ANN = Principal("ann", frozenset({"writer"}))
BOB = Principal("bob", frozenset({"reader"}))
PASSWORD = "pass:word ü"
NUMBERS = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{n}" for n in range(10)]})
NO_COLUMNS = pa.table({})


def zero_columns(rows: int) -> pa.Table:
    return pa.table({"x": pa.array([0] * rows)}).select([])


def scripts() -> dict[str, Script]:
    return {
        "numbers": Script(NUMBERS),
        "empty": Script(NUMBERS.slice(0, 0)),
        "no columns": Script(zero_columns(3)),
        "show": Script(NUMBERS.slice(0, 1), kind=Kind.SHOWS),
        "insert": Script(NO_COLUMNS, kind=Kind.CHANGE, affected_rows=3),
        "create": Script(NO_COLUMNS, kind=Kind.CHANGE),
        "call": Script(NUMBERS.slice(0, 2), kind=Kind.CHANGE),
        "set": Script(NO_COLUMNS, kind=Kind.SESSION),
        "untold": Script(NUMBERS, schema_unknown=True),
        "altered": Script(NUMBERS, announced=pa.schema([("id", pa.int32())])),
        "parametrised": Script(NUMBERS, parameters=(Parameter(0, "bigint"), Parameter(1, None))),
        "huge": Script(pa.table({"x": ["y" * (2 << 20)]})),
        "fails late": Script(NUMBERS, failure=BailiwickError(Code.DIVISION_BY_ZERO, "Division by zero.")),
        "fails early": Script(NUMBERS, breaks=True),
    }


@dataclass(slots=True)
class Door:
    port: int
    queries: ScriptedQueries
    users: ListedUsers
    channel: Any
    clock: "MovedClock"
    server: GrpcServer

    @property
    def uri(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def token(self, principal: Principal = ANN) -> str:
        return self.users.issue(principal)

    def headers(self, principal: Principal = ANN) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token(principal)}"),)

    def adbc(self, user: str = "ann", password: str = PASSWORD, *, autocommit: bool = True) -> Any:
        credentials = {"username": user, "password": password}
        return dbapi.connect(self.uri, db_kwargs=credentials, autocommit=autocommit)

    async def unary(self, method: str, request: bytes, principal: Principal = ANN) -> bytes:
        call = self.channel.unary_unary(f"/{SERVICE}/{method}")
        answer: bytes = await call(request, metadata=self.headers(principal))
        return answer

    async def stream(self, method: str, request: bytes, principal: Principal = ANN) -> list[bytes]:
        call = self.channel.unary_stream(f"/{SERVICE}/{method}")(request, metadata=self.headers(principal))
        return [message async for message in call]

    async def put(self, first: bytes, principal: Principal = ANN) -> list[bytes]:
        call = self.channel.stream_stream(f"/{SERVICE}/DoPut")(
            iter([first]), metadata=self.headers(principal)
        )
        return [message async for message in call]


@dataclass(slots=True)
class MovedClock:
    ahead_s: float = field(default=0.0)

    def __call__(self) -> float:
        return wall() + self.ahead_s


class NoIngests(Ingests):
    async def ingest(
        self, request: IngestRequest, messages: AsyncIterator[bytes], *, query_id: QueryId | None = None
    ) -> int:
        del request, messages
        raise BailiwickError(Code.NOT_SUPPORTED, "Nothing can be ingested here.", query_id=query_id)


async def _no_schema(_who: Principal, _catalog: str, _namespace: Namespace) -> bool:
    return False


@asynccontextmanager
async def serving(
    limits: FlightSqlLimits | None = None,
    *,
    key: bytes | None = None,
    authenticator: Authenticator | None = None,
    tls: Tls | None = None,
    ingests: Ingests | None = None,
    transport: GrpcLimits | None = None,
    behind: AllQueries | None = None,
    whereabouts: Whereabouts | None = None,
) -> AsyncIterator[Door]:
    """A door for `ann` and `bob`, or for whomever `authenticator` knows. Not scripted is what is `behind`."""
    queries, clock = ScriptedQueries(scripts()), MovedClock()
    users = ListedUsers({"ann": (PASSWORD, ANN), "bob": (PASSWORD, BOB)})
    seal = Seal(key or secrets.token_bytes(32))
    sessions = ClientSessions(now=clock)
    door = FlightSqlDoor(
        behind or queries,
        seal,
        limits or FlightSqlLimits(message_bytes_max=1 << 20),
        lookups=Lookups(Inventory(CatalogService(MemoryBackend(), Path("nowhere")))),
        options=SessionOptions(sessions, _no_schema),
        ingests=ingests or NoIngests(),
        whereabouts=whereabouts,
        now=clock,
    )
    callers = Callers(authenticator or users, sessions, seal, whereabouts=whereabouts, now=clock)
    service = FlightSqlService(door, callers)
    server = GrpcServer(
        ("127.0.0.1", "::1"),
        0,
        [service],
        transport or GrpcLimits(receive_bytes_max=1 << 20),
        services=[SERVICE],
        tls=tls,
    )
    await server.start()
    await server.set_ready(True)
    options = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=options) as channel:
            yield Door(server.port, queries, users, channel, clock, server)
    finally:
        await server.stop(0)
        await door.close()


def packed(message: Message) -> bytes:
    return packed_as(message.DESCRIPTOR.full_name, message.SerializeToString())


def packed_as(full_name: str, value: bytes) -> bytes:
    return AnyMessage(type_url=f"type.googleapis.com/{full_name}", value=value).SerializeToString()


def descriptor(command: Message | bytes) -> bytes:
    cmd = command if isinstance(command, bytes) else packed(command)
    return flight.FlightDescriptor(type=flight.FlightDescriptor.CMD, cmd=cmd).SerializeToString()


def error_code(error: grpc.aio.AioRpcError) -> str:
    return str(dict(error.trailing_metadata() or ()).get("bailiwick-error-code"))


async def become(what: str, is_so: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Let the loop run until it is so."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not is_so():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not {what} within {timeout_s:.0f} s")
        await asyncio.sleep(0.01)

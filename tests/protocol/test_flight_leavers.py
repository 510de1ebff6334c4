"""Clients that leave at every point of the protocol, in three ways: queries end, and nothing is left of them.

They cancel their call, close their channel, or their connection breaks without a word (a TCP reset).
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import psutil
import pyarrow as pa
import pytest
from cut_line import Line, reset
from flight_door import NUMBERS, PASSWORD, Door, become, descriptor, packed, serving
from flight_mutations import arrow_data
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.door import FlightSqlLimits
from bailiwick.doors.flight_sql.ingest import Ingests
from bailiwick.doors.flight_sql.polling import PollLimits
from bailiwick.doors.flight_sql.service import SERVICE
from bailiwick.engines.description import Kind, Parameter
from bailiwick.ids import QueryId
from bailiwick.queries.ingest import IngestRequest
from bailiwick.testing.scripted_queries import Script

LIMITS = FlightSqlLimits(polls=PollLimits(answer_s=0.05, abandoned_s=0.3, keep_s=0.3))
PAIR = pa.table({"a": pa.array([7], pa.int64()), "b": ["x"]})
WIDE = pa.table({"x": pa.array(["y" * 1_000] * 64_000)})
WAYS = ("cancel", "close", "reset")


@dataclass(slots=True)
class WaitingIngests(Ingests):
    """Takes messages for as long as they come. `written` says how often all of them had come."""

    begun: int = 0
    ended: int = 0
    written: int = 0

    async def ingest(
        self, request: IngestRequest, messages: AsyncIterator[bytes], *, query_id: QueryId | None = None
    ) -> int:
        del request, query_id
        try:
            count = 0
            async for _ in messages:
                self.begun += 1
                count += 1
            self.written += 1
            return count
        finally:
            self.ended += 1


@dataclass(slots=True)
class Client:
    door: Door
    channel: Any
    ingests: WaitingIngests
    headers: tuple[tuple[str, str], ...] = ()
    calls: list[Any] = field(default_factory=list)

    def begin(self, method: str, request: bytes) -> Any:
        """A call under way. Every unary method can be asked as a stream of one answer."""
        call = self.channel.unary_stream(f"/{SERVICE}/{method}")(request, metadata=self.headers)
        self.calls.append(call)
        return call

    async def send(self, method: str, *messages: bytes) -> Any:
        """A call that has sent these messages, and might send more."""
        call = self.channel.stream_stream(f"/{SERVICE}/{method}")(metadata=self.headers)
        self.calls.append(call)
        for message in messages:
            await call.write(message)
        return call

    async def all(self, method: str, request: bytes) -> list[bytes]:
        return [message async for message in self.begin(method, request)]

    async def info(self, text: str) -> flight.FlightInfo:
        command = descriptor(sql.CommandStatementQuery(query=text))
        return flight.FlightInfo.FromString((await self.all("GetFlightInfo", command))[0])

    async def fetch(self, text: str, messages: int) -> None:
        ticket = (await self.info(text)).endpoint[0].ticket.SerializeToString()
        call = self.begin("DoGet", ticket)
        for _ in range(messages):
            assert await call.read()
        await self.running()

    async def prepare(self, text: str) -> bytes:
        body = packed(sql.ActionCreatePreparedStatementRequest(query=text))
        action = flight.Action(type="CreatePreparedStatement", body=body).SerializeToString()
        made = sql.ActionCreatePreparedStatementResult()
        result = flight.Result.FromString((await self.all("DoAction", action))[0])
        AnyMessage.FromString(result.body).Unpack(made)
        handle: bytes = made.prepared_statement_handle
        return handle

    async def running(self) -> None:
        await become("running", lambda: any(not run.ended.is_set() for run in self.door.queries.runs))


def data(command: Message, table: pa.Table | None = None) -> list[bytes]:
    parts = arrow_data(table) if table is not None else [(b"", b"")]
    messages = [flight.FlightData(data_header=header, data_body=body) for header, body in parts]
    messages[0].flight_descriptor.ParseFromString(descriptor(command))
    return [message.SerializeToString() for message in messages]


Step = Callable[[Client], Awaitable[None]]
UNDER_WAY: dict[str, Step] = {}
DONE: dict[str, Step] = {}


def step(steps: dict[str, Step]) -> Callable[[Step], Step]:
    def add(function: Step) -> Step:
        steps[function.__name__] = function
        return function

    return add


@step(UNDER_WAY)
async def handshake_begun(client: Client) -> None:
    client.headers = ()
    await client.send("Handshake", flight.HandshakeRequest().SerializeToString()[:0])


@step(DONE)
async def handshake_done(client: Client) -> None:
    client.headers = ()
    payload = flight.BasicAuth(username="ann", password=PASSWORD).SerializeToString()
    call = await client.send("Handshake", flight.HandshakeRequest(payload=payload).SerializeToString())
    assert flight.HandshakeResponse.FromString(await call.read()).payload


@step(DONE)
async def prepared(client: Client) -> None:
    await client.prepare("numbers")


@step(UNDER_WAY)
async def action_begun(client: Client) -> None:
    client.begin("DoAction", flight.Action(type="GetSessionOptions").SerializeToString())


@step(UNDER_WAY)
async def parameters_half_bound(client: Client) -> None:
    handle = await client.prepare("parametrised")
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
    await client.send("DoPut", *data(command, PAIR))


@step(DONE)
async def parameters_bound(client: Client) -> None:
    handle = await client.prepare("parametrised")
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
    call = await client.send("DoPut", *data(command, PAIR))
    await call.done_writing()
    assert await call.read()


@step(DONE)
async def info_of_a_read(client: Client) -> None:
    await client.info("numbers")


@step(DONE)
async def info_of_a_change(client: Client) -> None:
    await client.info("insert")


@step(UNDER_WAY)
async def change_running(client: Client) -> None:
    client.begin("GetFlightInfo", descriptor(sql.CommandStatementQuery(query="held change")))
    await client.running()


@step(UNDER_WAY)
async def poll_running(client: Client) -> None:
    await client.all("PollFlightInfo", descriptor(sql.CommandStatementQuery(query="slow")))
    client.begin("PollFlightInfo", descriptor(sql.CommandStatementQuery(query="slow")))
    await become("both running", lambda: len(client.door.queries.runs) == 2)


@step(DONE)
async def poll_finished(client: Client) -> None:
    [answer] = await client.all("PollFlightInfo", descriptor(sql.CommandStatementQuery(query="numbers")))
    assert flight.PollInfo.FromString(answer).info.endpoint


@step(UNDER_WAY)
async def fetch_before_the_first_message(client: Client) -> None:
    await client.fetch("slow", 0)


@step(UNDER_WAY)
async def fetch_after_the_schema(client: Client) -> None:
    await client.fetch("held", 1)


@step(UNDER_WAY)
async def fetch_after_a_batch(client: Client) -> None:
    await client.fetch("held", 2)


@step(UNDER_WAY)
async def fetch_of_more_than_is_read(client: Client) -> None:
    await client.fetch("wide", 4)


@step(UNDER_WAY)
async def update_running(client: Client) -> None:
    await client.send("DoPut", *data(sql.CommandStatementUpdate(query="held change")))
    await client.running()


@step(UNDER_WAY)
async def update_without_its_rows(client: Client) -> None:
    handle = await client.prepare("held parametrised")
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    await client.send("DoPut", data(command, PAIR)[0])


@step(UNDER_WAY)
async def update_with_half_of_its_rows(client: Client) -> None:
    handle = await client.prepare("held parametrised")
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    await client.send("DoPut", *data(command, PAIR))


@step(UNDER_WAY)
async def update_running_for_a_row(client: Client) -> None:
    handle = await client.prepare("held parametrised")
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    call = await client.send("DoPut", *data(command, PAIR))
    await call.done_writing()
    await client.running()


@step(UNDER_WAY)
async def put_without_a_word(client: Client) -> None:
    await client.send("DoPut")


@step(UNDER_WAY)
async def ingest_in_the_middle(client: Client) -> None:
    options = sql.CommandStatementIngest.TableDefinitionOptions
    definition = options(
        if_not_exist=options.TABLE_NOT_EXIST_OPTION_CREATE, if_exists=options.TABLE_EXISTS_OPTION_APPEND
    )
    command = sql.CommandStatementIngest(table="t", table_definition_options=definition)
    await client.send("DoPut", *data(command, PAIR))
    await become("begun", lambda: client.ingests.begun == 2)


@step(UNDER_WAY)
async def exchange_begun(client: Client) -> None:
    await client.send("DoExchange")


def held_scripts() -> dict[str, Script]:
    never = asyncio.Event
    two = (Parameter(0, "bigint"), Parameter(1, "string"))
    return {
        "slow": Script(NUMBERS, slow=never()),
        "held": Script(NUMBERS, held=never()),
        "held change": Script(NUMBERS, kind=Kind.CHANGE, held=never()),
        "held parametrised": Script(NUMBERS, kind=Kind.CHANGE, held=never(), parameters=two),
        "wide": Script(WIDE),
    }


@pytest.fixture
def ingests() -> WaitingIngests:
    return WaitingIngests()


@pytest.fixture
async def door(ingests: WaitingIngests) -> AsyncIterator[Door]:
    async with serving(LIMITS, ingests=ingests) as running:
        running.queries.scripts |= held_scripts()
        assert len(await running.stream("ListActions", b"")) > 0
        yield running


@asynccontextmanager
async def connected(door: Door, ingests: WaitingIngests) -> AsyncIterator[tuple[Client, Line]]:
    async with Line(door.port).open() as line:
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
        async with grpc.aio.insecure_channel(f"127.0.0.1:{line.port}", options=options) as channel:
            yield Client(door, channel, ingests, door.headers()), line


def cases() -> Iterator[Any]:
    for name, act in UNDER_WAY.items():
        for way in WAYS:
            yield pytest.param(act, way, id=f"{name}-{way}")
    for name, act in DONE.items():
        for way in WAYS[1:]:
            yield pytest.param(act, way, id=f"{name}-{way}")


@pytest.mark.parametrize(("act", "way"), list(cases()))
async def test_whoever_leaves_takes_everything_along(
    door: Door, ingests: WaitingIngests, act: Step, way: str
) -> None:
    process, tasks = psutil.Process(), len(asyncio.all_tasks())
    files = process.num_fds()
    async with connected(door, ingests) as (client, line):
        await act(client)
        begun = len(door.queries.runs)
        runs = [run for run in door.queries.runs if not run.ended.is_set()]
        match way:
            case "cancel":
                client.calls[-1].cancel()
            case "close":
                await client.channel.close()
            case "reset":
                line.cut()
        await become("ended", lambda: all(run.ended.is_set() for run in door.queries.runs))
        assert all(run.cancelled for run in runs)
        await become("over", lambda: ingests.ended == (ingests.begun > 0))
        assert ingests.written == 0
        client.calls.clear()
    await become("no more tasks", lambda: len(asyncio.all_tasks()) <= tasks)
    assert len(door.queries.runs) == begun
    gc.collect()
    await become("no more files", lambda: process.num_fds() <= files)
    assert len(await door.stream("ListActions", b"")) > 0


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"PRI * HTTP/2.0\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc",
        b"\xff" * 4_096,
    ],
    ids=["nothing", "half a preface", "preface", "half a frame", "HTTP/1", "TLS", "noise"],
)
async def test_connections_that_break_before_they_make_sense_leave_nothing(door: Door, said: bytes) -> None:
    process = psutil.Process()
    files = process.num_fds()
    for _ in range(20):
        _, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(said)
        reset(writer)
    await become("no more files", lambda: process.num_fds() <= files)
    assert len(await door.stream("ListActions", b"")) > 0

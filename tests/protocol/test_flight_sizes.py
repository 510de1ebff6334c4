"""Messages at and over each limit of the Flight SQL door: at works, over is told, the connection lives."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa
import pytest
from flight_door import ANN, Door, descriptor, error_code, packed, serving
from flight_mutations import arrow_data
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.binding import BindingLimits
from bailiwick.doors.flight_sql.caller import COOKIE_HEADER_CHARS_MAX
from bailiwick.doors.flight_sql.cancelling import ENDPOINTS_MAX
from bailiwick.doors.flight_sql.door import FlightSqlLimits
from bailiwick.doors.flight_sql.patterns import LENGTH_MAX
from bailiwick.doors.flight_sql.polling import PollLimits
from bailiwick.doors.flight_sql.reading import LOOKUP_BYTES_MAX
from bailiwick.doors.flight_sql.service import SERVICE
from bailiwick.doors.flight_sql.session_options import OPTIONS_MAX, VALUE_CHARS_MAX
from bailiwick.doors.flight_sql.wire import TYPE_URL_CHARS_MAX
from bailiwick.doors.grpc_server import GrpcLimits
from bailiwick.engines.description import Kind, Parameter
from bailiwick.testing.scripted_queries import Script

MESSAGE_BYTES_MAX = 2 << 20
LIMITS = FlightSqlLimits(
    message_bytes_max=1 << 20,
    bindings=BindingLimits(rows_max=50, bytes_max=100_000),
    polls=PollLimits(per_principal_max=3, descriptor_bytes_max=10_000),
)
EXHAUSTED = (grpc.StatusCode.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED")
INVALID = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENTS")
PARSE = (grpc.StatusCode.INVALID_ARGUMENT, "PARSE_ERROR")
_Value = flight.SessionOptionValue


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with serving(LIMITS, transport=GrpcLimits(receive_bytes_max=MESSAGE_BYTES_MAX)) as running:
        running.queries.scripts["insert ?"] = Script(
            pa.table({}), kind=Kind.CHANGE, affected_rows=1, parameters=(Parameter(0, None),)
        )
        running.queries.by_prefix["long"] = running.queries.scripts["numbers"]
        yield running
        # Whatever was refused before, the same connection goes on.
        assert len(await running.stream("DoGet", await ticket_for(running, "numbers"))) == 2


async def ticket_for(door: Door, text: str) -> bytes:
    answer = await door.unary("GetFlightInfo", descriptor(sql.CommandStatementQuery(query=text)))
    return flight.FlightInfo.FromString(answer).endpoint[0].ticket.SerializeToString()


async def refusal(awaitable: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable
    return caught.value.code(), error_code(caught.value)


async def lookup(door: Door, command: Message) -> list[bytes]:
    info = flight.FlightInfo.FromString(await door.unary("GetFlightInfo", descriptor(command)))
    return await door.stream("DoGet", info.endpoint[0].ticket.SerializeToString())


async def act(door: Door, name: str, body: bytes) -> bytes:
    [result] = await door.stream("DoAction", flight.Action(type=name, body=body).SerializeToString())
    answer: bytes = flight.Result.FromString(result).body
    return answer


def filled(size_bytes: int) -> bytes:
    """A statement's descriptor of exactly this many bytes."""
    text = "long"
    while (missing := size_bytes - len(descriptor(sql.CommandStatementQuery(query=text)))) > 0:
        text += "x" * missing
        if len(descriptor(sql.CommandStatementQuery(query=text))) > size_bytes:
            text = text[: size_bytes - len(descriptor(sql.CommandStatementQuery(query=text)))]
    return descriptor(sql.CommandStatementQuery(query=text))


async def test_a_message(door: Door) -> None:
    at = filled(MESSAGE_BYTES_MAX)
    assert len(at) == MESSAGE_BYTES_MAX
    assert await door.unary("GetSchema", at)
    # gRPC itself turns it away, before anything of ours could read it: the status is all it says.
    code, _ = await refusal(door.unary("GetSchema", filled(MESSAGE_BYTES_MAX + 1)))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_headers(door: Door) -> None:
    limit = GrpcLimits().metadata_bytes_max
    call = door.channel.unary_unary(f"/{SERVICE}/GetSchema")
    request = descriptor(sql.CommandStatementQuery(query="numbers"))
    below = (*door.headers(), ("x-more", "y" * (limit - 2_000)))
    assert await call(request, metadata=below)
    # Up to a quarter more gRPC turns away by chance only, so that those near the limit notice early.
    over = (*door.headers(), ("x-more", "y" * (limit * 2)))
    code, _ = await refusal(call(request, metadata=over))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_cookie_header(door: Door) -> None:
    """One that is too long is passed over, as cookies of others are."""
    call = door.channel.unary_unary(f"/{SERVICE}/GetSchema")
    request = descriptor(sql.CommandStatementQuery(query="numbers"))
    cookie = "arrow_flight_session_id=nonsense; x="
    at = cookie + "y" * (COOKIE_HEADER_CHARS_MAX - len(cookie))
    code, ours = await refusal(call(request, metadata=(*door.headers(), ("cookie", at))))
    assert (code, ours) == (grpc.StatusCode.UNAUTHENTICATED, "SESSION_EXPIRED")
    assert await call(request, metadata=(*door.headers(), ("cookie", at + "y")))


async def test_a_types_name(door: Door) -> None:
    value = sql.CommandGetCatalogs().SerializeToString()
    name = "/arrow.flight.protocol.sql.CommandGetCatalogs"
    url = "x" * (TYPE_URL_CHARS_MAX - len(name)) + name
    assert await door.unary(
        "GetFlightInfo", descriptor(AnyMessage(type_url=url, value=value).SerializeToString())
    )
    over = AnyMessage(type_url="x" + url, value=value).SerializeToString()
    assert await refusal(door.unary("GetFlightInfo", descriptor(over))) == PARSE


@pytest.mark.parametrize("method", ["GetFlightInfo", "GetSchema", "PollFlightInfo"])
async def test_a_lookup(door: Door, method: str) -> None:
    spare = LOOKUP_BYTES_MAX - len(packed(sql.CommandGetTables(table_name_filter_pattern="x" * (1 << 20))))
    at = sql.CommandGetTables(table_name_filter_pattern="x" * ((1 << 20) + spare))
    assert len(packed(at)) == LOOKUP_BYTES_MAX
    assert await door.unary(method, descriptor(at))
    at.table_name_filter_pattern += "x"
    assert await refusal(door.unary(method, descriptor(at))) == EXHAUSTED


async def test_codes_of_facts_and_types_of_tables_by_the_hundred_thousand(door: Door) -> None:
    assert len(await lookup(door, sql.CommandGetSqlInfo(info=range(1_000_000, 1_200_000)))) == 2
    assert len(await lookup(door, sql.CommandGetTables(table_types=["table"] * 100_000))) == 2


@pytest.mark.parametrize(
    "pattern", ["_" * LENGTH_MAX, "%a" * LENGTH_MAX, "_" * (LENGTH_MAX + 1), "%" * 900_000]
)
async def test_a_pattern_of_any_length_is_answered(door: Door, pattern: str) -> None:
    """Longer than any name can be, it matches nothing: that is no error."""
    for command in (
        sql.CommandGetTables(db_schema_filter_pattern=pattern),
        sql.CommandGetDbSchemas(db_schema_filter_pattern=pattern),
    ):
        assert len(await lookup(door, command)) == 2


async def test_options(door: Door) -> None:
    options = {f"option {number}": _Value(string_value="x") for number in range(OPTIONS_MAX)}
    request = flight.SetSessionOptionsRequest(session_options=options)
    result = flight.SetSessionOptionsResult.FromString(
        await act(door, "SetSessionOptions", request.SerializeToString())
    )
    assert len(result.errors) == OPTIONS_MAX
    request.session_options["one more"].string_value = "x"
    assert await refusal(act(door, "SetSessionOptions", request.SerializeToString())) == INVALID
    many = {str(number): _Value(bool_value=True) for number in range(100_000)}
    request = flight.SetSessionOptionsRequest(session_options=many)
    assert await refusal(act(door, "SetSessionOptions", request.SerializeToString())) == INVALID


async def test_an_options_value_and_its_name(door: Door) -> None:
    options = {
        "schema": _Value(string_value="x" * VALUE_CHARS_MAX),
        "time_zone": _Value(string_value="x" * (VALUE_CHARS_MAX + 1)),
        "n" * 1_000_000: _Value(string_value="x"),
    }
    request = flight.SetSessionOptionsRequest(session_options=options)
    answer = await act(door, "SetSessionOptions", request.SerializeToString())
    errors = flight.SetSessionOptionsResult.FromString(answer).errors
    names = flight.SetSessionOptionsResult
    assert errors["schema"].value == errors["time_zone"].value == names.INVALID_VALUE
    assert len(errors) == 3
    assert len(answer) < 1_000


async def test_endpoints(door: Door) -> None:
    answer = await door.unary("GetFlightInfo", descriptor(sql.CommandStatementQuery(query="numbers")))
    info = flight.FlightInfo.FromString(answer)
    for _ in range(ENDPOINTS_MAX - 1):
        info.endpoint.append(info.endpoint[0])
    for name, request in _cancels(info):
        assert await act(door, name, request)
    info.endpoint.append(info.endpoint[0])
    for name, request in _cancels(info):
        assert await refusal(act(door, name, request)) == INVALID


def _cancels(info: flight.FlightInfo) -> list[tuple[str, bytes]]:
    older = sql.ActionCancelQueryRequest(info=info.SerializeToString())
    return [
        ("CancelFlightInfo", flight.CancelFlightInfoRequest(info=info).SerializeToString()),
        ("CancelQuery", packed(older)),
    ]


async def bind(door: Door, handle: bytes, table: pa.Table) -> list[bytes]:
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    messages = [flight.FlightData(data_header=header, data_body=body) for header, body in arrow_data(table)]
    messages[0].flight_descriptor.ParseFromString(descriptor(command))
    sent = iter([message.SerializeToString() for message in messages])
    call = door.channel.stream_stream(f"/{SERVICE}/DoPut")(sent, metadata=door.headers(ANN))
    return [message async for message in call]


async def prepared(door: Door) -> bytes:
    body = packed(sql.ActionCreatePreparedStatementRequest(query="insert ?"))
    made = sql.ActionCreatePreparedStatementResult()
    AnyMessage.FromString(await act(door, "CreatePreparedStatement", body)).Unpack(made)
    handle: bytes = made.prepared_statement_handle
    return handle


async def test_rows_of_parameters(door: Door) -> None:
    handle, rows_max = await prepared(door), LIMITS.bindings.rows_max
    [answer] = await bind(door, handle, pa.table({"a": range(rows_max)}))
    result = flight.PutResult.FromString(answer)
    assert sql.DoPutUpdateResult.FromString(result.app_metadata).record_count == rows_max
    assert await refusal(bind(door, handle, pa.table({"a": range(rows_max + 1)}))) == EXHAUSTED
    assert len(door.queries.runs) == rows_max


async def test_bytes_of_parameters(door: Door) -> None:
    handle, bytes_max = await prepared(door), LIMITS.bindings.bytes_max
    assert await bind(door, handle, pa.table({"a": ["x" * (bytes_max - 2_000)]}))
    assert await refusal(bind(door, handle, pa.table({"a": ["x" * bytes_max]}))) == EXHAUSTED
    assert await refusal(bind(door, handle, pa.table({"a": ["x" * (bytes_max * 15)]}))) == EXHAUSTED
    assert len(door.queries.runs) == 1


async def test_a_part_of_a_result(door: Door) -> None:
    for text, size_bytes in (("fits", (1 << 20) - 2_000), ("too large", 1 << 20)):
        door.queries.scripts[text] = Script(pa.table({"x": ["y" * size_bytes]}))
    assert len(await door.stream("DoGet", await ticket_for(door, "fits"))) == 2
    assert await refusal(door.stream("DoGet", await ticket_for(door, "too large"))) == EXHAUSTED


async def test_what_is_polled(door: Door) -> None:
    limit = LIMITS.polls.descriptor_bytes_max
    assert await refusal(door.unary("PollFlightInfo", filled(limit + 1))) == EXHAUSTED
    for _ in range(LIMITS.polls.per_principal_max):
        assert await door.unary("PollFlightInfo", filled(limit))
    assert await refusal(door.unary("PollFlightInfo", filled(limit))) == EXHAUSTED


async def test_calls_at_once_on_one_connection(door: Door) -> None:
    """Beyond that gRPC turns calls away by chance, as UNAVAILABLE: clients come again by themselves."""
    call = door.channel.unary_unary(f"/{SERVICE}/GetSchema")
    request, headers = descriptor(sql.CommandStatementQuery(query="numbers")), door.headers()
    calls = [call(request, metadata=headers) for _ in range(GrpcLimits().streams_per_connection_max)]
    assert all([await each for each in calls])

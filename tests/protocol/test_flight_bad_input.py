"""What the Flight SQL door does with what it should not have been sent: a typed refusal, never INTERNAL."""

import base64
from collections.abc import AsyncIterator, Awaitable

import grpc
import grpc.aio
import pyarrow as pa
import pytest
from flight_door import ANN, BOB, NUMBERS, PASSWORD, Door, descriptor, error_code, packed, packed_as, serving
from google.protobuf.any_pb2 import Any as AnyMessage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.door import FlightSqlLimits
from bailiwick.doors.flight_sql.outcomes import OutcomeLimits
from bailiwick.doors.flight_sql.service import SERVICE

QUERY = sql.CommandStatementQuery(query="numbers")
PACKAGE = "arrow.flight.protocol.sql."
INVALID, UNIMPLEMENTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with serving() as running:
        yield running


@pytest.fixture(scope="module")
async def lasting_door() -> AsyncIterator[Door]:
    async with serving() as running:
        yield running


async def refused(awaitable: Awaitable[object]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable
    return caught.value


async def status_of(awaitable: Awaitable[object]) -> grpc.StatusCode:
    try:
        await awaitable
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def ticket_for(door: Door, statement: str) -> flight.Ticket:
    answer = await door.unary("GetFlightInfo", descriptor(sql.CommandStatementQuery(query=statement)))
    return flight.FlightInfo.FromString(answer).endpoint[0].ticket


@pytest.mark.parametrize(
    "command",
    [
        b"\xff\xff\xff",
        b"",
        packed(QUERY)[:-3],
        packed_as(PACKAGE + "CommandStatementQuery", b"\x0a\xff"),
        packed_as(PACKAGE + "CommandStatementQuery", b"\x0a\x02\xc3\x28"),
        packed_as(PACKAGE + "CommandStatementQuery", QUERY.SerializeToString() + b"\x7a\x01x"),
        packed_as("", b""),
    ],
    ids=["noise", "nothing", "truncated", "truncated inside", "not UTF-8", "unknown field", "no type"],
)
@pytest.mark.parametrize("method", ["GetFlightInfo", "GetSchema"])
async def test_malformed_commands_are_parse_errors(door: Door, method: str, command: bytes) -> None:
    error = await refused(door.unary(method, descriptor(command)))
    assert (error.code(), error_code(error)) == (INVALID, "PARSE_ERROR")
    assert door.queries.prepared == []


async def test_a_malformed_message_around_the_command_is_a_parse_error(door: Door) -> None:
    for method, ask in (("GetFlightInfo", door.unary), ("DoGet", door.stream), ("DoAction", door.stream)):
        error = await refused(ask(method, b"\x0a\xff\xff"))
        assert (error.code(), error_code(error)) == (INVALID, "PARSE_ERROR"), method


@pytest.mark.parametrize(
    "name",
    ["CommandStatementSubstraitPlan", "CommandStatementIngest", "CommandNobodyKnows"],
)
async def test_commands_we_do_not_serve_are_not_supported_and_named(door: Door, name: str) -> None:
    error = await refused(door.unary("GetFlightInfo", descriptor(packed_as(PACKAGE + name, b""))))
    assert (error.code(), error_code(error)) == (UNIMPLEMENTED, "NOT_SUPPORTED")
    assert name in (error.details() or "")


async def test_paths_and_foreign_messages_are_not_supported(door: Door) -> None:
    path = flight.FlightDescriptor(type=flight.FlightDescriptor.PATH, path=["a"]).SerializeToString()
    foreign = descriptor(packed_as("google.protobuf.Empty", b""))
    for request in (path, foreign):
        assert error_code(await refused(door.unary("GetFlightInfo", request))) == "NOT_SUPPORTED"


@pytest.mark.parametrize("method", ["ListFlights", "DoExchange"])
async def test_calls_we_do_not_serve_are_not_supported(door: Door, method: str) -> None:
    if method == "ListFlights":
        error = await refused(door.stream(method, b""))
    else:
        call = door.channel.stream_stream(f"/{SERVICE}/{method}")(iter([b""]), metadata=door.headers())
        error = await refused(call.read())
    assert (error.code(), error_code(error)) == (UNIMPLEMENTED, "NOT_SUPPORTED")


async def test_actions_we_do_not_serve_are_not_supported(door: Door) -> None:
    for name in ("BeginTransaction", "EndSavepoint", "CreatePreparedSubstraitPlan", "x" * 10_000):
        error = await refused(door.stream("DoAction", flight.Action(type=name).SerializeToString()))
        assert (error.code(), error_code(error)) == (UNIMPLEMENTED, "NOT_SUPPORTED")
        assert len(error.details() or "") < 300


async def test_a_transaction_that_was_never_begun_is_refused(door: Door) -> None:
    command = sql.CommandStatementQuery(query="numbers", transaction_id=b"t")
    assert error_code(await refused(door.unary("GetFlightInfo", descriptor(command)))) == "INVALID_ARGUMENTS"


async def test_closing_a_prepared_statement_always_succeeds(door: Door) -> None:
    body = packed(sql.ActionClosePreparedStatementRequest(prepared_statement_handle=b"never seen"))
    action = flight.Action(type="ClosePreparedStatement", body=body).SerializeToString()
    assert await door.stream("DoAction", action) == []


async def test_closing_a_session_succeeds(door: Door) -> None:
    results = await door.stream("DoAction", flight.Action(type="CloseSession").SerializeToString())
    closed = flight.CloseSessionResult.FromString(flight.Result.FromString(results[0]).body)
    assert closed.status == flight.CloseSessionResult.CLOSED


async def test_oversize_messages_are_refused_and_the_connection_lives(door: Door) -> None:
    big = sql.CommandStatementQuery(query="x" * (2 << 20))
    error = await refused(door.unary("GetFlightInfo", descriptor(big)))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await ticket_for(door, "numbers")


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", "Bearer forged"),),
        (("authorization", "Bearer "),),
        (("authorization", "Digest x"),),
        (("authorization", "Basic " + base64.b64encode(f"ann:{PASSWORD}".encode()).decode()),),
        (("authorization", "Bearer a"), ("authorization", "Bearer b")),
        (("auth-token-bin", b"\xff\xfe"),),
    ],
    ids=["none", "forged", "empty", "scheme", "basic", "two", "not text"],
)
async def test_no_call_is_answered_without_a_good_token(
    door: Door, metadata: tuple[tuple[str, str | bytes], ...]
) -> None:
    ticket = (await ticket_for(door, "numbers")).SerializeToString()
    before = len(door.queries.prepared)
    for method, request in (
        ("GetFlightInfo", descriptor(QUERY)),
        ("GetSchema", descriptor(QUERY)),
        ("PollFlightInfo", b""),
    ):
        call = door.channel.unary_unary(f"/{SERVICE}/{method}")
        assert (await refused(call(request, metadata=metadata))).code() is UNAUTHENTICATED, method
    for method, request in (("DoGet", ticket), ("DoAction", b""), ("ListActions", b""), ("ListFlights", b"")):
        call = door.channel.unary_stream(f"/{SERVICE}/{method}")
        assert (await refused(call(request, metadata=metadata).read())).code() is UNAUTHENTICATED, method
    for method in ("DoPut", "DoExchange"):
        call = door.channel.stream_stream(f"/{SERVICE}/{method}")
        assert (await refused(call(iter([b""]), metadata=metadata).read())).code() is UNAUTHENTICATED, method
    assert len(door.queries.prepared) == before
    assert door.queries.runs == []


async def test_an_expired_token_says_that_one_must_sign_in_again(door: Door) -> None:
    token = door.token()
    door.users.expire(token)
    call = door.channel.unary_unary(f"/{SERVICE}/GetSchema")
    error = await refused(call(descriptor(QUERY), metadata=(("authorization", f"Bearer {token}"),)))
    assert (error.code(), error_code(error)) == (UNAUTHENTICATED, "SESSION_EXPIRED")


@pytest.mark.parametrize(
    "header",
    [
        "Basic !!!",
        "Basic " + base64.b64encode(b"nocolon").decode(),
        "Basic " + base64.b64encode(b":x").decode(),
    ],
)
async def test_malformed_basic_credentials_are_refused(door: Door, header: str) -> None:
    call = door.channel.stream_stream(f"/{SERVICE}/Handshake")(
        iter([]), metadata=(("authorization", header),)
    )
    assert error_code(await refused(call.read())) == "AUTHENTICATION_FAILED"


async def test_basic_credentials_may_lack_their_padding(door: Door) -> None:
    encoded = base64.b64encode(f"ann:{PASSWORD}".encode()).decode().rstrip("=")
    call = door.channel.stream_stream(f"/{SERVICE}/Handshake")(
        iter([]), metadata=(("authorization", f"Basic {encoded}"),)
    )
    answers = [flight.HandshakeResponse.FromString(message) async for message in call]
    token = dict(await call.initial_metadata())["authorization"]
    assert token == f"Bearer {answers[0].payload.decode()}"


async def test_a_handshake_without_credentials_is_refused(door: Door) -> None:
    call = door.channel.stream_stream(f"/{SERVICE}/Handshake")(iter([]))
    assert error_code(await refused(call.read())) == "AUTHENTICATION_FAILED"


async def test_someone_elses_ticket_is_worth_no_more_than_a_forged_one(door: Door) -> None:
    ticket = await ticket_for(door, "numbers")
    bobs = await refused(door.stream("DoGet", ticket.SerializeToString(), BOB))
    handle = packed(sql.TicketStatementQuery(statement_handle=b"forged" * 20))
    forged = await refused(door.stream("DoGet", flight.Ticket(ticket=handle).SerializeToString(), BOB))
    assert error_code(bobs) == error_code(forged) == "INVALID_ARGUMENTS"
    assert bobs.details() == forged.details()
    assert door.queries.runs == []


async def test_an_expired_ticket_is_refused(door: Door) -> None:
    ticket = await ticket_for(door, "numbers")
    door.clock.ahead_s = 301
    error = await refused(door.stream("DoGet", ticket.SerializeToString()))
    assert error_code(error) == "INVALID_ARGUMENTS"


async def test_after_a_restart_reads_go_on_and_outcomes_are_gone() -> None:
    key = b"k" * 32
    async with serving(key=key) as before:
        read, outcome = await ticket_for(before, "numbers"), await ticket_for(before, "call")
    async with serving(key=key) as after:
        assert len(await after.stream("DoGet", read.SerializeToString())) == 2
        assert (
            error_code(await refused(after.stream("DoGet", outcome.SerializeToString())))
            == "INVALID_ARGUMENTS"
        )
        assert [run.statement.sql for run in after.queries.runs] == ["numbers"]


async def test_a_handle_of_one_kind_does_not_pass_for_the_other(door: Door) -> None:
    body = packed(sql.ActionCreatePreparedStatementRequest(query="numbers"))
    action = flight.Action(type="CreatePreparedStatement", body=body).SerializeToString()
    result = flight.Result.FromString((await door.stream("DoAction", action))[0])
    made = sql.ActionCreatePreparedStatementResult()
    AnyMessage.FromString(result.body).Unpack(made)
    ticket = packed(sql.TicketStatementQuery(statement_handle=made.prepared_statement_handle))
    error = await refused(door.stream("DoGet", flight.Ticket(ticket=ticket).SerializeToString()))
    assert error_code(error) == "INVALID_ARGUMENTS"
    query = sql.CommandPreparedStatementQuery(prepared_statement_handle=made.prepared_statement_handle)
    error = await refused(door.unary("GetFlightInfo", descriptor(query), BOB))
    assert error_code(error) == "INVALID_ARGUMENTS"


async def test_updates_are_answered_on_the_first_message(door: Door) -> None:
    first = put_message(sql.CommandStatementUpdate(query="insert"))
    call = door.channel.stream_stream(f"/{SERVICE}/DoPut")(metadata=door.headers())
    await call.write(first)
    answer = flight.PutResult.FromString(await call.read())
    assert sql.DoPutUpdateResult.FromString(answer.app_metadata).record_count == 3


async def test_an_update_may_come_with_a_schema_of_no_columns_only(door: Door) -> None:
    command = sql.CommandStatementUpdate(query="insert")
    assert len(await door.put(put_message(command, pa.schema([])))) == 1
    error = await refused(door.put(put_message(command, NUMBERS.schema)))
    assert error_code(error) == "INVALID_ARGUMENTS"
    noise = flight.FlightData.FromString(put_message(command))
    noise.data_header = b"no schema at all"
    assert error_code(await refused(door.put(noise.SerializeToString()))) == "INVALID_ARGUMENTS"
    assert len(door.queries.runs) == 1


async def test_a_query_is_not_an_update(door: Door) -> None:
    error = await refused(door.put(put_message(sql.CommandStatementUpdate(query="numbers"))))
    assert error_code(error) == "INVALID_ARGUMENTS"
    assert door.queries.runs[0].cancelled


async def test_a_put_without_a_command_is_a_parse_error(door: Door) -> None:
    assert error_code(await refused(door.put(b""))) == "PARSE_ERROR"
    call = door.channel.stream_stream(f"/{SERVICE}/DoPut")(iter([]), metadata=door.headers())
    assert error_code(await refused(call.read())) == "PARSE_ERROR"


async def test_an_outcome_too_large_to_keep_is_an_error_that_says_that_it_ran() -> None:
    tight = FlightSqlLimits(outcomes=OutcomeLimits(bytes_max=10))
    async with serving(tight) as door:
        command = descriptor(sql.CommandStatementQuery(query="call"))
        error = await refused(door.unary("GetFlightInfo", command))
        assert error_code(error) == "RESOURCE_EXHAUSTED"
        assert "ran" in (error.details() or "")


async def test_a_cancelled_change_ends(door: Door) -> None:
    door.queries.hold("call")
    # As a stream of one answer, because then grpc.aio shows headers before the answer is there.
    call = door.channel.unary_stream(f"/{SERVICE}/GetFlightInfo")(
        descriptor(sql.CommandStatementQuery(query="call")), metadata=door.headers(ANN)
    )
    announced = dict(await call.initial_metadata())["bailiwick-query-id"]
    await door.queries.started.wait()
    call.cancel()
    await door.queries.runs[0].ended.wait()
    assert door.queries.runs[0].cancelled
    assert door.queries.runs[0].query_id == announced


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.data())
async def test_no_bytes_make_the_door_fail_by_itself(lasting_door: Door, noise: st.DataObject) -> None:
    names = [
        "CommandStatementQuery",
        "CommandPreparedStatementQuery",
        "CommandGetSqlInfo",
        "TicketStatementQuery",
    ]
    bodies = st.binary(max_size=60)
    packed_noise = st.builds(
        lambda name, body: packed_as(PACKAGE + name, body), st.sampled_from(names), bodies
    )
    command = noise.draw(bodies | packed_noise)
    requests = {
        "GetFlightInfo": lasting_door.unary("GetFlightInfo", descriptor(command)),
        "GetSchema": lasting_door.unary("GetSchema", command),
        "DoGet": lasting_door.stream("DoGet", flight.Ticket(ticket=command).SerializeToString()),
        "DoAction": lasting_door.stream(
            "DoAction",
            flight.Action(type="CreatePreparedStatement", body=command).SerializeToString(),
        ),
        "DoPut": lasting_door.put(
            flight.FlightData(
                flight_descriptor=flight.FlightDescriptor(type=flight.FlightDescriptor.CMD, cmd=command),
                data_header=noise.draw(bodies),
            ).SerializeToString()
        ),
    }
    for method, request in requests.items():
        assert await status_of(request) in (grpc.StatusCode.OK, INVALID, UNIMPLEMENTED), method


def put_message(command: sql.CommandStatementUpdate, schema: pa.Schema | None = None) -> bytes:
    data = flight.FlightData(
        flight_descriptor=flight.FlightDescriptor(type=flight.FlightDescriptor.CMD, cmd=packed(command))
    )
    if schema is not None:
        data.data_header = schema.serialize().to_pybytes()[8:]
    return data.SerializeToString()

"""Damaged messages on every Flight method: each ends in a result or in an error of ours, and leaves nothing.

The messages come from a fixed seed. `make test` sends a selection, `make test-all` all of them.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from random import Random

import grpc
import grpc.aio
import psutil
import pytest
from flight_door import Door, become, descriptor, packed, serving
from flight_mutations import METHODS, MUTATIONS, Held, Sent, calls, valid_calls
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.door import FlightSqlLimits
from bailiwick.doors.flight_sql.ingest import Ingests
from bailiwick.doors.flight_sql.polling import PollLimits
from bailiwick.doors.flight_sql.service import SERVICE
from bailiwick.errors import Code
from bailiwick.ids import QueryId
from bailiwick.queries.ingest import IngestRequest
from bailiwick.queries.ingest_columns import for_new_table
from bailiwick.queries.ingest_stream import Chunker, MessageReader

SEED = 20_261_115
AT_ONCE = 16
WARM_UP = 300
HEADERS = 600
GROWTH_BYTES_MAX = 64 << 20
UNARY = ("GetFlightInfo", "GetSchema", "PollFlightInfo")
STREAMS_IN = ("Handshake", "DoPut", "DoExchange")
LIMITS = FlightSqlLimits(
    message_bytes_max=1 << 20,
    # So many polls that none is refused for that, and kept so shortly that none is left at the end.
    polls=PollLimits(per_principal_max=10_000, total_max=10_000, keep_s=0.2, abandoned_s=0.2),
)


class ReadingIngests(Ingests):
    """Reads what comes as an ingest would, up to where Spark would be given it."""

    async def ingest(
        self, request: IngestRequest, messages: AsyncIterator[bytes], *, query_id: QueryId | None = None
    ) -> int:
        del request, query_id
        return await asyncio.to_thread(_rows, [message async for message in messages])


def _rows(messages: list[bytes]) -> int:
    reader = MessageReader()
    columns = for_new_table(reader.schema(messages[0] if messages else b""))
    chunker = Chunker(columns)
    batches = [batch for message in messages[1:] if (batch := reader.batch(message)) is not None]
    chunks = [chunk for batch in batches for chunk in chunker.add(batch)]
    last = chunker.finish()
    return sum(chunk.rows for chunk in (*chunks, *((last,) if last else ())))


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with serving(LIMITS, ingests=ReadingIngests()) as running:
        yield running


async def held(door: Door) -> Held:
    """What a client of this door would have in hand."""
    numbers, change, lookup = [
        flight.FlightInfo.FromString(await door.unary("GetFlightInfo", descriptor(command)))
        for command in (
            sql.CommandStatementQuery(query="numbers"),
            sql.CommandStatementQuery(query="call"),
            sql.CommandGetTables(),
        )
    ]
    tickets = [
        sql.TicketStatementQuery.FromString(AnyMessage.FromString(info.endpoint[0].ticket.ticket).value)
        for info in (numbers, change, lookup)
    ]
    return Held(
        await prepared(door, "numbers"),
        await prepared(door, "parametrised"),
        numbers,
        tuple(ticket.statement_handle for ticket in tickets),
    )


async def prepared(door: Door, text: str) -> bytes:
    body = packed(sql.ActionCreatePreparedStatementRequest(query=text))
    request = flight.Action(type="CreatePreparedStatement", body=body).SerializeToString()
    result = flight.Result.FromString((await door.stream("DoAction", request))[0])
    made = sql.ActionCreatePreparedStatementResult()
    AnyMessage.FromString(result.body).Unpack(made)
    handle: bytes = made.prepared_statement_handle
    return handle


async def answer_to(door: Door, sent: Sent, headers: tuple[tuple[str, str], ...]) -> str:
    """`result`, or the code of the error; an AssertionError if it is none of ours."""
    path = f"/{SERVICE}/{sent.method}"
    credentials = () if sent.method == "Handshake" else headers
    try:
        if sent.method in UNARY:
            await door.channel.unary_unary(path)(sent.messages[0], metadata=credentials)
        elif sent.method in STREAMS_IN:
            call = door.channel.stream_stream(path)(iter(sent.messages), metadata=credentials)
            [message async for message in call]
        else:
            call = door.channel.unary_stream(path)(sent.messages[0], metadata=credentials)
            [message async for message in call]
    except grpc.aio.AioRpcError as error:
        return our_code(error, sent)
    return "result"


def our_code(error: grpc.aio.AioRpcError, sent: Sent) -> str:
    trailing = dict(error.trailing_metadata() or ())
    story = (error.code(), error.details(), sent)
    assert error.code() not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN), story
    assert "grpc-status-details-bin" in trailing, story
    status = Status.FromString(trailing["grpc-status-details-bin"])
    info = ErrorInfo.FromString(status.details[0].value)
    assert info.domain == "bailiwick", story
    assert info.reason == trailing["bailiwick-error-code"], story
    return Code(info.reason).value


async def send_all(door: Door, messages: list[Sent]) -> Counter[tuple[str, str]]:
    """Send them, some at a time, and count what came back by method."""
    headers, waiting = door.headers(), asyncio.Semaphore(AT_ONCE)

    async def one(sent: Sent) -> tuple[str, str]:
        async with waiting:
            async with asyncio.timeout(30):
                return sent.method, await answer_to(door, sent, headers)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(sent)) for sent in messages]
    door.queries.runs.clear()
    door.queries.prepared.clear()
    door.users.peers.clear()
    return Counter(task.result() for task in tasks)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.full)])
async def test_any_message_is_answered_with_a_result_or_an_error_of_ours_and_leaves_nothing(
    door: Door, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    process, random = psutil.Process(), Random(SEED)
    valid = valid_calls(await held(door))
    await send_all(door, calls(Random(SEED + 1), valid, WARM_UP))
    gc.collect()
    resident, files, tasks = process.memory_info().rss, process.num_fds(), len(asyncio.all_tasks())
    messages = calls(random, valid, count)
    answers = await send_all(door, messages)
    assert {sent.method for sent in messages} == set(METHODS)
    assert {sent.damage for sent in messages} == {*MUTATIONS, "none", "stream", "noise"}
    await become("no more tasks", lambda: len(asyncio.all_tasks()) <= tasks)
    gc.collect()
    grown = process.memory_info().rss - resident
    assert process.num_fds() <= files
    assert grown < GROWTH_BYTES_MAX
    assert (
        len(await door.stream("DoGet", (await held(door)).info.endpoint[0].ticket.SerializeToString())) == 2
    )
    with capsys.disabled():
        tell(answers, grown)


async def test_any_credential_and_any_cookie_is_one_of_ours_or_refused(door: Door) -> None:
    random, token = Random(SEED), door.token()
    good = ("authorization", f"Bearer {token}")
    call = door.channel.unary_unary(f"/{SERVICE}/GetSchema")
    request = descriptor(sql.CommandStatementQuery(query="numbers"))
    first = call(request, metadata=(good,))
    await first
    session = dict(await first.initial_metadata())["authorization"]
    cookie = session.replace("Bearer ", "arrow_flight_session_id=")
    answers: Counter[str] = Counter()
    for _ in range(HEADERS):
        headers = random.choice(
            (
                (("authorization", garbled(random, good[1])),),
                (("authorization", garbled(random, session)),),
                (("auth-token-bin", random.randbytes(random.randint(0, 60))),),
                (good, ("cookie", garbled(random, cookie))),
            )
        )
        try:
            await call(request, metadata=headers)
            answers["result"] += 1
        except grpc.aio.AioRpcError as error:
            answers[our_code(error, Sent("GetSchema", (request,), str(headers)))] += 1
    # A cookie whose name is damaged is somebody else's cookie.
    assert set(answers) == {"result", "AUTHENTICATION_FAILED", "SESSION_EXPIRED"}
    assert answers["result"] < HEADERS / 4


def garbled(random: Random, text: str) -> str:
    at = random.randrange(len(text))
    odd = "".join(chr(random.randint(32, 126)) for _ in range(random.randint(0, 3)))
    return text[:at] + odd + text[at + random.randint(1, 3) :]


def tell(answers: Counter[tuple[str, str]], grown: int) -> None:
    lines = [f"{sum(answers.values())} messages, memory {grown / (1 << 20):+.1f} MB"]
    for method in METHODS:
        of_method = {code: count for (name, code), count in sorted(answers.items()) if name == method}
        lines.append(f"  {method}: " + ", ".join(f"{count} {code}" for code, count in of_method.items()))
    print("\n" + "\n".join(lines))  # noqa: T201 - what a release's log shows of this test

"""What DoPut of an ingest makes of a client's messages."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql import commands
from bailiwick.doors.flight_sql.ingest import IngestDoor, arrow_message
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId
from bailiwick.queries.client_sessions import SessionSettings
from bailiwick.queries.ingest import IngestRequest
from bailiwick.queries.ingest_stream import MessageReader
from bailiwick.results.batches import frames

ANN = Principal("ann", frozenset({"writer"}))
ROWS = pa.table({"id": [1, 2, 3]})


@dataclass
class KeptIngests:
    requests: list[IngestRequest] = field(default_factory=list)
    rows: int = 0

    async def ingest(
        self, request: IngestRequest, messages: AsyncIterator[bytes], *, query_id: QueryId | None = None
    ) -> int:
        del query_id
        self.requests.append(request)
        reader = MessageReader()
        reader.schema(await anext(messages))
        async for message in messages:
            batch = reader.batch(message)
            self.rows += 0 if batch is None else batch.num_rows
        return self.rows


def flight_messages(table: pa.Table) -> list[bytes]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return [
        flight.FlightData(data_header=bytes(frame.header), data_body=bytes(frame.body)).SerializeToString()
        for frame in frames(sink.getvalue().to_pybytes())
    ]


async def stream(messages: list[bytes]) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


def command(**given: object) -> commands.Ingest:
    values: dict[str, object] = {
        "table": "t",
        "schema": None,
        "catalog": None,
        "if_missing": commands.IfMissing.CREATE,
        "if_exists": commands.IfExists.FAIL,
    }
    return commands.Ingest(**{**values, **given})  # type: ignore[arg-type]


class Listening:
    """A client that is there, or not any more, when it is told its query's id."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.is_gone = is_gone
        self.told: list[QueryId] = []

    async def __call__(self, query_id: QueryId) -> None:
        if self.is_gone:
            raise ConnectionError("nobody there")
        self.told.append(query_id)


async def put(
    ingests: KeptIngests,
    asked: commands.Ingest,
    messages: list[bytes] | None = None,
    listening: Listening | None = None,
) -> int:
    settings = SessionSettings(namespace=("current",), timeout_s=7.0)
    first, *rest = messages or flight_messages(ROWS)
    announce = listening or Listening()
    return await IngestDoor(ingests).put(ANN, settings, asked, first, stream(rest), announce)


async def test_all_rows_of_the_call_are_taken_and_counted() -> None:
    assert await put(KeptIngests(), command()) == 3


async def test_the_client_is_told_its_query_s_id_when_it_has_sent_everything() -> None:
    listening = Listening()
    await put(KeptIngests(), command(), listening=listening)
    assert len(listening.told) == 1


async def test_a_stream_that_ends_because_its_client_is_gone_has_not_ended() -> None:
    ingests = KeptIngests()
    with pytest.raises(BailiwickError) as refused:
        await put(ingests, command(), listening=Listening(is_gone=True))
    assert (refused.value.code, refused.value.details) == (Code.QUERY_CANCELLED, {"reason": "client_left"})


async def test_names_that_are_not_given_are_the_session_s() -> None:
    ingests = KeptIngests()
    await put(ingests, command())
    await put(ingests, command(schema="other", catalog="lake"))
    assert [(one.catalog, one.namespace, one.timeout_s) for one in ingests.requests] == [
        ("lake", ("current",), 7.0),
        ("lake", ("other",), 7.0),
    ]


async def test_messages_without_arrow_are_passed_over() -> None:
    empty = flight.FlightData(app_metadata=b"hello").SerializeToString()
    schema, *rest = flight_messages(ROWS)
    assert await put(KeptIngests(), command(), [empty, schema, empty, *rest, empty]) == 3


async def test_temporary_tables_are_refused() -> None:
    with pytest.raises(BailiwickError) as refused:
        await put(KeptIngests(), command(temporary=True))
    assert refused.value.code is Code.NOT_SUPPORTED


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff", flight.FlightData(data_body=b"rows of nothing").SerializeToString()]
)
def test_a_message_that_is_no_flight_data_is_refused(data: bytes) -> None:
    with pytest.raises(BailiwickError) as refused:
        arrow_message(data)
    assert refused.value.code is Code.PARSE_ERROR

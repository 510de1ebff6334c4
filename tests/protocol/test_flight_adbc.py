"""The Flight SQL door, as the drivers that people use see it: ADBC and pyarrow.flight."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.flight as pyarrow_flight
import pytest
from adbc_driver_manager import dbapi as adbc
from flight_door import ANN, NUMBERS, PASSWORD, Door, packed, serving

from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.commands import ActionName

T = TypeVar("T")


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with serving() as running:
        yield running


async def with_cursor(door: Door, action: Callable[[Any], T]) -> T:
    """Blocking drivers get a thread; the door is on this loop."""

    def work() -> T:
        with door.adbc() as connection, connection.cursor() as cursor:
            return action(cursor)

    return await asyncio.to_thread(work)


def fetched(statement: str) -> Callable[[Any], pa.Table]:
    def action(cursor: Any) -> pa.Table:
        cursor.execute(statement)
        return cursor.fetch_arrow_table()

    return action


async def test_a_query_comes_back_whole(door: Door) -> None:
    assert await with_cursor(door, fetched("numbers")) == NUMBERS
    assert door.queries.runs[0].statement.principal == ANN
    assert not door.queries.runs[0].cancelled


async def test_a_short_read_has_begun_when_it_is_prepared_and_runs_once(door: Door) -> None:
    door.queries.is_idle = True

    def prepare_and_fetch(cursor: Any) -> tuple[int, pa.Table]:
        cursor.adbc_prepare("numbers")
        begun = len(door.queries.runs)
        cursor.execute("numbers")
        return begun, cursor.fetch_arrow_table()

    begun, table = await with_cursor(door, prepare_and_fetch)
    assert begun == 1
    assert table == NUMBERS
    assert len(door.queries.runs) == 1
    assert not door.queries.runs[0].cancelled


async def test_a_read_has_begun_when_its_ticket_is_made_and_every_fetch_after_the_first_runs_it_again(
    door: Door,
) -> None:
    door.queries.is_idle = True
    info = await pyarrow_info(door, "numbers")
    await asyncio.wait_for(door.queries.started.wait(), 5.0)

    def rows(client: Any) -> pa.Table:
        return client.read_all()

    assert await read(door, info, rows) == NUMBERS
    assert len(door.queries.runs) == 1
    assert await read(door, info, rows) == NUMBERS
    assert len(door.queries.runs) == 2
    assert door.queries.runs[0].query_id != door.queries.runs[1].query_id


async def test_an_empty_result_keeps_its_columns(door: Door) -> None:
    table = await with_cursor(door, fetched("empty"))
    assert table.num_rows == 0
    assert table.schema == NUMBERS.schema


async def test_a_result_without_columns_keeps_its_rows(door: Door) -> None:
    def count(client: Any) -> int:
        table: pa.Table = client.read_all()
        return int(table.num_rows)

    info = await pyarrow_info(door, "no columns")
    assert await read(door, info, count) == 3


async def test_a_change_runs_once_and_before_anyone_fetches(door: Door) -> None:
    def insert(cursor: Any) -> int:
        cursor.execute("insert")
        return int(cursor.rowcount)

    assert await with_cursor(door, insert) == 3
    assert len(door.queries.runs) == 1


async def test_a_change_may_answer_with_rows(door: Door) -> None:
    table = await with_cursor(door, fetched("call"))
    assert table == NUMBERS.slice(0, 2)
    assert len(door.queries.runs) == 1


async def test_executing_the_same_text_again_runs_it_again(door: Door) -> None:
    def twice(cursor: Any) -> int:
        return int(fetched("numbers")(cursor).num_rows + fetched("numbers")(cursor).num_rows)

    assert await with_cursor(door, twice) == 20
    assert len(door.queries.runs) == 2
    assert len({run.query_id for run in door.queries.runs}) == 2


async def test_a_handle_that_has_aged_is_described_anew(door: Door) -> None:
    def later(cursor: Any) -> None:
        fetched("numbers")(cursor)
        door.clock.ahead_s += 60
        fetched("numbers")(cursor)

    await with_cursor(door, later)
    assert len(door.queries.prepared) == 2


async def test_preparing_runs_nothing(door: Door) -> None:
    def schema(cursor: Any) -> pa.Schema:
        return cursor.adbc_execute_schema("insert")

    await with_cursor(door, schema)
    assert door.queries.runs == []


async def test_a_schema_that_cannot_be_told_comes_with_the_data(door: Door) -> None:
    assert await with_cursor(door, fetched("untold")) == NUMBERS


async def test_columns_that_changed_since_they_were_announced_are_an_error(door: Door) -> None:
    with pytest.raises(adbc.Error, match="SEMANTIC_ERROR"):
        await with_cursor(door, fetched("altered"))


async def test_a_failure_in_the_middle_reaches_the_driver_with_its_code(door: Door) -> None:
    with pytest.raises(adbc.Error, match="DIVISION_BY_ZERO: Division by zero") as caught:
        await with_cursor(door, fetched("fails late"))
    assert (b"bailiwick-error-code", b"DIVISION_BY_ZERO") in _details(caught.value)
    assert (b"bailiwick-sqlstate", b"22012") in _details(caught.value)


async def test_an_unforeseen_failure_tells_the_client_nothing(door: Door) -> None:
    with pytest.raises(adbc.Error, match="INTERNAL_ERROR") as caught:
        await with_cursor(door, fetched("fails early"))
    assert "secret" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


async def test_a_part_too_large_for_a_message_is_an_error_that_says_so(door: Door) -> None:
    with pytest.raises(adbc.Error, match="RESOURCE_EXHAUSTED: A part of the result has"):
        await with_cursor(door, fetched("huge"))


async def test_parameters_are_announced_and_must_be_bound(door: Door) -> None:
    def parameters(cursor: Any) -> pa.Schema:
        cursor.adbc_prepare("parametrised")
        return cursor.adbc_statement.get_parameter_schema()

    def bind(cursor: Any) -> None:
        cursor.execute("numbers", (1,))

    schema = pa.schema(await with_cursor(door, parameters))
    assert schema.types == [pa.int64(), pa.string()]
    with pytest.raises(adbc.ProgrammingError, match="has 2 parameters, and none is bound"):
        await with_cursor(door, fetched("parametrised"))
    with pytest.raises(adbc.ProgrammingError, match="has 0 parameters, and 1 were bound"):
        await with_cursor(door, bind)


async def test_transactions_are_refused_with_a_reason(door: Door) -> None:
    def begin() -> None:
        with pytest.warns(Warning, match="autocommit"), door.adbc(autocommit=False):
            pass

    await asyncio.to_thread(begin)


async def test_the_server_says_what_it_is(door: Door) -> None:
    def info() -> dict[str, Any]:
        with door.adbc() as connection:
            return dict(connection.adbc_get_info())

    told = await asyncio.to_thread(info)
    assert told["vendor_name"] == "Bailiwick"
    assert told["vendor_arrow_version"] == pa.__version__


async def test_wrong_passwords_are_refused(door: Door) -> None:
    def connect() -> None:
        with door.adbc(password="wrong"):
            pass

    with pytest.raises(adbc.Error, match="AUTHENTICATION_FAILED"):
        await asyncio.to_thread(connect)


async def test_a_closed_cursor_ends_its_query(door: Door) -> None:
    door.queries.hold("numbers")

    def abandon() -> None:
        with door.adbc() as connection, connection.cursor() as cursor:
            cursor.execute("numbers")
            cursor.fetch_record_batch().read_next_batch()

    await asyncio.to_thread(abandon)
    async with asyncio.timeout(10):
        await door.queries.runs[0].ended.wait()
    assert door.queries.runs[0].cancelled


async def test_pyarrow_signs_in_with_a_header_and_reads(door: Door) -> None:
    info = await pyarrow_info(door, "numbers")
    assert info.schema == NUMBERS.schema
    assert info.total_records == -1
    assert len(info.endpoints) == 1
    assert info.endpoints[0].locations == []
    assert await read(door, info, lambda reader: reader.read_all()) == NUMBERS


async def test_the_first_fetch_runs_under_the_announced_id_and_the_next_under_another(door: Door) -> None:
    info = await pyarrow_info(door, "numbers")
    announced = json.loads(info.app_metadata)["query_id"]
    for _ in range(3):
        assert await read(door, info, lambda reader: reader.read_all()) == NUMBERS
    ids = [run.query_id for run in door.queries.runs]
    assert ids[0] == announced
    assert len(set(ids)) == 3


async def test_pyarrow_signs_in_with_a_message(door: Door) -> None:
    class Handler(pyarrow_flight.ClientAuthHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._token = b""

        def authenticate(self, outgoing: Any, incoming: Any) -> None:
            outgoing.write(pyarrow_flight.BasicAuth(username="ann", password=PASSWORD).serialize())
            self._token = incoming.read()

        def get_token(self) -> bytes:
            return self._token

    def actions() -> list[str]:
        with pyarrow_flight.connect(door.uri) as client:
            client.authenticate(Handler())
            return [action.type for action in client.list_actions()]

    assert await asyncio.to_thread(actions) == [name.value for name in ActionName]


async def pyarrow_info(door: Door, statement: str) -> pyarrow_flight.FlightInfo:
    command = packed(sql.CommandStatementQuery(query=statement))

    def ask() -> pyarrow_flight.FlightInfo:
        with pyarrow_flight.connect(door.uri) as client:
            token = client.authenticate_basic_token("ann", PASSWORD)
            descriptor = pyarrow_flight.FlightDescriptor.for_command(command)
            return client.get_flight_info(descriptor, pyarrow_flight.FlightCallOptions(headers=[token]))

    return await asyncio.to_thread(ask)


async def read(door: Door, info: pyarrow_flight.FlightInfo, action: Callable[[Any], T]) -> T:
    def fetch() -> T:
        with pyarrow_flight.connect(door.uri) as client:
            token = client.authenticate_basic_token("ann", PASSWORD)
            options = pyarrow_flight.FlightCallOptions(headers=[token])
            return action(client.do_get(info.endpoints[0].ticket, options))

    return await asyncio.to_thread(fetch)


def _details(error: adbc.Error) -> list[tuple[bytes, bytes]]:
    details: list[tuple[Any, Any]] = list(error.details)
    return [(bytes(name), bytes(value)) for name, value in details]

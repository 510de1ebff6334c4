"""Binding at the door: what drivers bind arrives as values, belongs to who bound it, and is bounded."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

import grpc
import pyarrow as pa
import pytest
from adbc_driver_manager import dbapi as adbc
from flight_door import ANN, BOB, NO_COLUMNS, NUMBERS, Door, descriptor, error_code, packed, serving

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.service import SERVICE
from bailiwick.doors.flight_sql.wire import pack
from bailiwick.engines.description import Kind, Parameter
from bailiwick.engines.parameters import ParameterValue, Row
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.testing.scripted_queries import Script

T = TypeVar("T")
TWO = (Parameter(0, "bigint"), Parameter(1, None))


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with serving() as running:
        running.queries.scripts |= {
            "change": Script(NO_COLUMNS, kind=Kind.CHANGE, affected_rows=2, parameters=TWO),
            "fails": Script(
                NO_COLUMNS,
                kind=Kind.CHANGE,
                parameters=TWO,
                failure=BailiwickError(Code.INVALID_CAST, "That is no number."),
            ),
        }
        yield running


async def with_cursor(door: Door, action: Callable[[Any], T]) -> T:
    """Blocking drivers get a thread; the door is on this loop."""

    def work() -> T:
        with door.adbc() as connection, connection.cursor() as cursor:
            return action(cursor)

    return await asyncio.to_thread(work)


def row(*values: object) -> Row:
    return tuple(ParameterValue.of(value) for value in values)


def bound(door: Door) -> list[Row]:
    return [run.statement.parameters for run in door.queries.runs]


class Raw:
    """A client that does what it is told, message by message."""

    def __init__(self, door: Door, principal: Principal = ANN) -> None:
        self._door = door
        self._principal = principal

    async def prepare(self, text: str) -> bytes:
        body = packed(sql.ActionCreatePreparedStatementRequest(query=text))
        action = flight.Action(type="CreatePreparedStatement", body=body).SerializeToString()
        (answer,) = await self._door.stream("DoAction", action, self._principal)
        result = sql.ActionCreatePreparedStatementResult()
        envelope = flight.Result.FromString(answer).body
        result.ParseFromString(unpacked(envelope))
        return result.prepared_statement_handle

    async def put(self, command: Any, table: pa.Table | None, extra: Sequence[bytes] = ()) -> list[bytes]:
        """The app_metadata of each answer."""
        call = self._door.channel.stream_stream(f"/{SERVICE}/DoPut")(
            iter([*messages(command, table), *extra]), metadata=self._door.headers(self._principal)
        )
        return [flight.PutResult.FromString(message).app_metadata async for message in call]

    async def bind(self, handle: bytes, table: pa.Table | None) -> bytes:
        command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
        (answer,) = await self.put(command, table)
        return sql.DoPutPreparedStatementResult.FromString(answer).prepared_statement_handle

    async def execute(self, handle: bytes) -> list[bytes]:
        command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
        info = flight.FlightInfo.FromString(
            await self._door.unary("GetFlightInfo", descriptor(command), self._principal)
        )
        ticket = info.endpoint[0].ticket.SerializeToString()
        fetched: list[bytes] = await self._door.stream("DoGet", ticket, self._principal)
        return fetched

    async def update(self, handle: bytes, table: pa.Table | None) -> int:
        command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
        (answer,) = await self.put(command, table)
        return sql.DoPutUpdateResult.FromString(answer).record_count

    async def refusal(self, failing: Any) -> tuple[str, str]:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await failing
        return error_code(refused.value), refused.value.details() or ""


def unpacked(envelope: bytes) -> bytes:
    from google.protobuf.any_pb2 import Any as AnyMessage

    return AnyMessage.FromString(envelope).value


def messages(command: Any, table: pa.Table | None) -> list[bytes]:
    target = flight.FlightDescriptor(type=flight.FlightDescriptor.CMD, cmd=pack(command))
    if table is None:
        return [flight.FlightData(flight_descriptor=target).SerializeToString()]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    parts = [
        flight.FlightData(data_header=each.metadata.to_pybytes(), data_body=each.body.to_pybytes())
        for each in pa.ipc.MessageReader.open_stream(sink.getvalue())
    ]
    parts[0].flight_descriptor.CopyFrom(target)
    return [part.SerializeToString() for part in parts]


def values(*rows: tuple[Any, ...]) -> pa.Table:
    return pa.table({str(index): list(column) for index, column in enumerate(zip(*rows, strict=True))})


async def test_what_adbc_binds_arrives_as_typed_values(door: Door) -> None:
    def action(cursor: Any) -> pa.Table:
        cursor.execute("parametrised", (7, "ü'"))
        return cursor.fetch_arrow_table()

    assert await with_cursor(door, action) == NUMBERS
    assert bound(door) == [row(7, "ü'")]
    assert door.queries.prepared[-1].parameters == row(7, "ü'")


async def test_one_prepared_statement_runs_with_other_values_again_and_again(door: Door) -> None:
    def action(cursor: Any) -> None:
        for number in range(3):
            cursor.execute("parametrised", (number, None))
            cursor.fetchall()

    await with_cursor(door, action)
    assert bound(door) == [row(number, None) for number in range(3)]
    assert len([each for each in door.queries.prepared if not each.parameters]) == 1


async def test_a_change_runs_with_what_is_bound_and_tells_its_rows(door: Door) -> None:
    def action(cursor: Any) -> int:
        cursor.execute("change", (1, "x"))
        return int(cursor.rowcount)

    assert await with_cursor(door, action) == 2
    assert bound(door) == [row(1, "x")]


async def test_many_rows_run_one_after_the_other_and_add_up(door: Door) -> None:
    def action(cursor: Any) -> int:
        cursor.executemany("change", [(1, "a"), (2, "b"), (3, "c")])
        return int(cursor.rowcount)

    assert await with_cursor(door, action) == 6
    assert bound(door) == [row(1, "a"), row(2, "b"), row(3, "c")]


async def test_the_first_of_many_rows_that_fails_ends_it(door: Door) -> None:
    def action(cursor: Any) -> None:
        cursor.executemany("fails", [(1, "a"), (2, "b")])

    with pytest.raises(adbc.Error, match=r"Row 1 of 2 failed.*That is no number"):
        await with_cursor(door, action)
    assert len(door.queries.runs) == 1


async def test_a_driver_may_go_on_with_the_new_handle_or_with_the_old_one(door: Door) -> None:
    raw = Raw(door)
    handle = await raw.prepare("parametrised")
    adopted = await raw.bind(handle, values((1, "a")))
    assert adopted not in (b"", handle)
    await raw.execute(adopted)
    await raw.execute(handle)
    await raw.bind(handle, values((2, "b")))
    await raw.execute(handle)
    await raw.execute(adopted)
    assert bound(door) == [row(1, "a"), row(1, "a"), row(2, "b"), row(1, "a")]


async def test_what_one_principal_binds_no_other_runs(door: Door) -> None:
    ann, bob = Raw(door), Raw(door, BOB)
    handle = await ann.prepare("parametrised")
    adopted = await ann.bind(handle, values((1, "a")))
    for foreign in (handle, adopted):
        code, _ = await bob.refusal(bob.execute(foreign))
        assert code == Code.INVALID_ARGUMENTS
        code, _ = await bob.refusal(bob.bind(foreign, values((2, "b"))))
        assert code == Code.INVALID_ARGUMENTS
    assert bound(door) == []


async def test_a_statement_whose_parameters_are_not_bound_does_not_run(door: Door) -> None:
    raw = Raw(door)
    for text, run in (("parametrised", raw.execute), ("change", raw.execute)):
        code, message = await raw.refusal(run(await raw.prepare(text)))
        assert code == Code.INVALID_ARGUMENTS
        assert "2 parameters" in message
    code, message = await raw.refusal(raw.update(await raw.prepare("change"), None))
    assert (code, "2 parameters" in message) == (Code.INVALID_ARGUMENTS, True)
    assert bound(door) == []


@pytest.mark.parametrize(
    ("text", "table", "told"),
    [
        ("parametrised", values((1,)), "2 parameters, and 1 were bound"),
        ("parametrised", values((1, 2, 3)), "2 parameters, and 3 were bound"),
        ("parametrised", values((1, "a"), (2, "b")), "one row of parameters, and 2 were bound"),
        ("parametrised", values((1, "a")).slice(0, 0), "one row of parameters, and 0 were bound"),
        ("numbers", values((1,)), "0 parameters, and 1 were bound"),
    ],
)
async def test_a_binding_that_does_not_fit_is_refused_with_both_numbers(
    door: Door, text: str, table: pa.Table, told: str
) -> None:
    raw = Raw(door)
    code, message = await raw.refusal(raw.bind(await raw.prepare(text), table))
    assert code == Code.INVALID_ARGUMENTS
    assert told in message


async def test_no_rows_at_all_change_nothing(door: Door) -> None:
    raw = Raw(door)
    assert await raw.update(await raw.prepare("change"), values((1, "a")).slice(0, 0)) == 0
    assert bound(door) == []


async def test_an_update_without_parameters_may_bring_an_empty_batch(door: Door) -> None:
    raw = Raw(door)
    handle = await raw.prepare("insert")
    assert await raw.update(handle, None) == 3
    assert await raw.update(handle, NO_COLUMNS) == 3
    assert bound(door) == [(), ()]


async def test_a_bound_update_that_brings_no_rows_runs_with_what_was_bound(door: Door) -> None:
    raw = Raw(door)
    adopted = await raw.bind(await raw.prepare("change"), values((1, "a")))
    assert await raw.update(adopted, None) == 2
    assert bound(door) == [row(1, "a")]


async def test_garbage_in_the_stream_is_a_typed_error(door: Door) -> None:
    raw = Raw(door)
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=await raw.prepare("parametrised"))
    for extra in (b"\xff", flight.FlightData(data_header=b"nonsense").SerializeToString()):
        code, _ = await raw.refusal(raw.put(command, values((1, "a")), [extra]))
        assert code in (Code.PARSE_ERROR, Code.INVALID_ARGUMENTS)


async def test_too_many_rows_are_refused_with_advice(door: Door) -> None:
    raw = Raw(door)
    code, message = await raw.refusal(
        raw.update(await raw.prepare("change"), values(*[(number, "x") for number in range(1_001)]))
    )
    assert code == Code.RESOURCE_EXHAUSTED
    assert "adbc_ingest" in message
    assert bound(door) == []

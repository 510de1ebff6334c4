"""What a driver binds: rows read from Arrow messages within bounds, run in order, kept for who bound them."""

import datetime
from collections.abc import AsyncIterator, Sequence

import pyarrow as pa
import pytest

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql.binding import BindingLimits, Bindings, only_row, read_rows, run_rows
from bailiwick.doors.flight_sql.prepared import Handles, PreparedStatement
from bailiwick.engines.description import Kind
from bailiwick.engines.parameters import ParameterValue, Row
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.queries.statement import Prepared

ANN = Principal("ann")
BOB = Principal("bob")
ELSEWHERE = Principal("ann", tenant="another")
LIMITS = BindingLimits(rows_max=10, bytes_max=20_000)
COMMAND = flight.FlightDescriptor(type=flight.FlightDescriptor.CMD, cmd=b"command")


def row(*values: object) -> Row:
    return tuple(ParameterValue.of(value) for value in values)


def put(table: pa.Table, *, compression: str | None = None) -> list[bytes]:
    """A DoPut's messages as pyarrow would send them: the command and the schema first, then the batches."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    messages = [
        flight.FlightData(data_header=each.metadata.to_pybytes(), data_body=each.body.to_pybytes())
        for each in reader
    ]
    messages[0].flight_descriptor.CopyFrom(COMMAND)
    return [message.SerializeToString() for message in messages]


async def read(messages: Sequence[bytes], count: int = 1) -> tuple[Row, ...] | None:
    async def rest() -> AsyncIterator[bytes]:
        for message in messages[1:]:
            yield message

    return await read_rows(messages[0], rest(), count, LIMITS)


async def test_rows_are_read_in_order_with_the_types_they_were_sent_with() -> None:
    table = pa.table({"a": pa.array([1, 2], pa.uint8()), "b": [datetime.date(2026, 1, 1), None]})
    rows = await read(put(table), 2)
    assert rows is not None
    assert [[value.scalar.as_py() for value in each] for each in rows] == [
        [1, datetime.date(2026, 1, 1)],
        [2, None],
    ]
    assert [value.type for value in rows[1]] == [pa.int16(), pa.date32()]


async def test_dictionaries_are_read_as_the_values_they_stand_for() -> None:
    column = pa.array(["x", "y", "x"]).dictionary_encode()
    assert await read(put(pa.table({"a": column}))) == (row("x"), row("y"), row("x"))


async def test_the_schema_may_follow_in_a_message_of_its_own() -> None:
    messages = put(pa.table({"a": [1]}))
    schema = flight.FlightData.FromString(messages[0])
    schema.ClearField("flight_descriptor")
    command = flight.FlightData(flight_descriptor=COMMAND).SerializeToString()
    assert await read([command, schema.SerializeToString(), *messages[1:]]) == (row(1),)


async def test_a_stream_with_the_command_alone_binds_nothing() -> None:
    assert await read([flight.FlightData(flight_descriptor=COMMAND).SerializeToString()]) is None


async def test_a_schema_without_rows_binds_no_rows() -> None:
    assert await read(put(pa.table({"a": [1]}))[:1]) == ()


async def test_nothing_is_waited_for_where_there_are_no_parameters() -> None:
    never = _repeated(b"read by nobody")
    for table in (pa.table({}), None):
        first = put(table)[0] if table else flight.FlightData(flight_descriptor=COMMAND).SerializeToString()
        assert await read_rows(first, never, 0, LIMITS) is None
    assert await anext(never) == b"read by nobody"


@pytest.mark.parametrize(("columns", "count"), [(1, 2), (3, 2), (1, 0), (0, 1)])
async def test_a_wrong_number_of_parameters_is_told_with_both_numbers(columns: int, count: int) -> None:
    table = pa.table({str(number): [1] for number in range(columns)})
    with pytest.raises(BailiwickError) as refused:
        await read(put(table), count)
    assert refused.value.code is Code.INVALID_ARGUMENTS
    assert f"has {count} parameter" in refused.value.message
    assert f"{columns} were bound" in refused.value.message


async def test_a_type_that_cannot_be_bound_is_told_with_its_position() -> None:
    table = pa.table({"a": [1], "b": [datetime.time(1, 2)]})
    with pytest.raises(BailiwickError, match=r"Parameter 2 is of the Arrow type time64\[us\]") as refused:
        await read(put(table), 2)
    assert refused.value.code is Code.NOT_SUPPORTED


async def test_too_many_rows_are_refused_with_what_to_use_instead() -> None:
    assert len(await read(put(pa.table({"a": range(10)}))) or ()) == 10
    with pytest.raises(BailiwickError, match="adbc_ingest") as refused:
        await read(put(pa.table({"a": range(11)})))
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert not refused.value.retryable


async def test_too_many_bytes_are_refused_before_the_stream_ends() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b""

    first, *_ = put(pa.table({"a": ["x"]}))
    for rest in (endless(), _repeated(put(pa.table({"a": ["x" * 15_000]}))[1])):
        with pytest.raises(BailiwickError, match="20000 bytes") as refused:
            await read_rows(first, rest, 1, LIMITS)
        assert refused.value.code is Code.RESOURCE_EXHAUSTED


async def _repeated(message: bytes) -> AsyncIterator[bytes]:
    while True:
        yield message


async def test_rows_that_share_one_long_value_count_it_each_time() -> None:
    column = pa.array(["x" * 15_000] * 5).dictionary_encode()
    with pytest.raises(BailiwickError, match="20000 bytes"):
        await read(put(pa.table({"a": column})))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
async def test_compressed_rows_are_refused(compression: str) -> None:
    with pytest.raises(BailiwickError, match="compressed"):
        await read(put(pa.table({"a": ["x" * 5_000]}), compression=compression))


@pytest.mark.parametrize(
    "messages",
    [
        [b"\xff"],
        [flight.FlightData(data_header=b"nonsense").SerializeToString()],
        [flight.FlightData(data_body=b"nonsense").SerializeToString()],
        [put(pa.table({"a": [1]}))[1]],
        [put(pa.table({"a": [1]}))[0], flight.FlightData(data_header=b"\0" * 64).SerializeToString()],
        [put(pa.table({"a": ["x"]}))[0], put(pa.table({"a": [1]}))[1]],
        [put(pa.table({"a": [1]}))[0], put(pa.table({"a": [1]}))[0]],
    ],
)
async def test_garbage_is_refused_with_a_typed_error(messages: list[bytes]) -> None:
    with pytest.raises(BailiwickError) as refused:
        await read(messages)
    assert refused.value.code in (Code.PARSE_ERROR, Code.INVALID_ARGUMENTS)


async def test_every_single_byte_that_is_broken_is_read_or_refused() -> None:
    messages = put(pa.table({"a": ["one", "two"], "b": [1, None]}))
    codes: set[Code] = set()
    for index, message in enumerate(messages):
        for position in range(len(message)):
            broken = bytearray(message)
            broken[position] ^= 0xFF
            try:
                await read([*messages[:index], bytes(broken), *messages[index + 1 :]], 2)
            except BailiwickError as refused:
                codes.add(refused.code)
    assert codes <= {Code.PARSE_ERROR, Code.INVALID_ARGUMENTS, Code.NOT_SUPPORTED, Code.RESOURCE_EXHAUSTED}


def test_a_query_takes_one_row() -> None:
    assert only_row([row(1)]) == row(1)
    for rows in ([], [row(1), row(2)]):
        with pytest.raises(BailiwickError, match=f"one row of parameters, and {len(rows)} were bound"):
            only_row(rows)


async def test_rows_run_in_order_and_add_up() -> None:
    ran: list[Row] = []

    async def run(each: Row) -> int:
        ran.append(each)
        return len(ran)

    assert await run_rows([row(1), row(2), row(3)], run) == 6
    assert ran == [row(1), row(2), row(3)]
    assert await run_rows([], run) == 0


async def test_one_unknown_count_makes_the_sum_unknown() -> None:
    counts = iter([2, -1, 3])

    async def run(_: Row) -> int:
        return next(counts)

    assert await run_rows([row(1)] * 3, run) == -1


@pytest.mark.parametrize(
    ("failing", "told"), [(1, "Nothing ran before"), (3, "What 2 rows before it changed is committed")]
)
async def test_the_first_failure_ends_it_and_says_what_is_committed(failing: int, told: str) -> None:
    ran = 0

    async def run(_: Row) -> int:
        nonlocal ran
        ran += 1
        if ran == failing:
            raise BailiwickError(Code.COMMIT_CONFLICT, "Somebody else was faster.", details={"table": "t"})
        return 1

    with pytest.raises(BailiwickError) as failed:
        await run_rows([row(1)] * 4, run)
    assert ran == failing
    assert failed.value.code is Code.COMMIT_CONFLICT
    assert f"Row {failing} of 4 failed" in failed.value.message
    assert told in failed.value.message
    assert "Somebody else was faster." in failed.value.message
    assert failed.value.details == {"table": "t", "row": str(failing)}
    assert failed.value.retryable is (failing == 1)


async def test_a_single_row_fails_as_a_plain_statement_does() -> None:
    async def run(_: Row) -> int:
        raise BailiwickError(Code.TABLE_NOT_FOUND, "No such table.")

    with pytest.raises(BailiwickError) as failed:
        await run_rows([row(1)], run)
    assert failed.value.message == "No such table."


class Time:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_what_is_bound_is_found_by_who_bound_it_and_nobody_else() -> None:
    bindings = Bindings(LIMITS, now=Time())
    bindings.remember(ANN, b"handle", row(1))
    assert bindings.find(ANN, b"handle") == row(1)
    assert bindings.find(ANN, b"other") is None
    assert bindings.find(BOB, b"handle") is None
    assert bindings.find(ELSEWHERE, b"handle") is None


def test_binding_again_replaces_and_closing_forgets() -> None:
    bindings = Bindings(LIMITS, now=Time())
    bindings.remember(ANN, b"handle", row(1))
    bindings.remember(ANN, b"handle", row(2))
    assert bindings.find(ANN, b"handle") == row(2)
    bindings.forget(BOB, b"handle")
    assert bindings.find(ANN, b"handle") == row(2)
    bindings.forget(ANN, b"handle")
    bindings.forget(ANN, b"handle")
    assert bindings.find(ANN, b"handle") is None
    assert len(bindings) == 0


def test_what_is_bound_expires() -> None:
    time = Time()
    bindings = Bindings(LIMITS, now=time)
    bindings.remember(ANN, b"1", row(1))
    time.now_s += LIMITS.remembered_s
    assert bindings.find(ANN, b"1") is None
    bindings.remember(ANN, b"2", row(2))
    assert len(bindings) == 1


def test_bindings_are_bounded_in_number_and_in_size() -> None:
    few = Bindings(BindingLimits(remembered_max=3), now=Time())
    for number in range(5):
        few.remember(ANN, bytes([number]), row(number))
    assert len(few) == 3
    assert few.find(ANN, bytes([4])) == row(4)
    small = Bindings(BindingLimits(remembered_bytes_max=3_000), now=Time())
    for number in range(5):
        small.remember(ANN, bytes([number]), row("x" * 1_000))
    assert len(small) == 2


def test_a_bound_handle_carries_its_values_and_is_to_be_described_anew() -> None:
    handles = Handles(Seal(b"k" * 32), now=Time())
    statement = PreparedStatement("SELECT ?", Kind.READ, b"schema", 1)
    assert not statement.is_complete
    with pytest.raises(BailiwickError, match="1 parameter, and none is bound"):
        statement.check_complete()
    bound, is_fresh = handles.open(ANN, handles.bind(ANN, statement, row("x")))
    assert (bound.sql, bound.parameters, bound.parameter_count) == ("SELECT ?", row("x"), 1)
    assert bound.is_complete
    assert not is_fresh
    described = bound.described_as(Prepared(Kind.SHOWS, b"other"))
    assert (described.kind, described.schema, described.parameters) == (Kind.SHOWS, b"other", row("x"))
    with pytest.raises(BailiwickError):
        handles.open(BOB, handles.bind(ANN, statement, row("x")))

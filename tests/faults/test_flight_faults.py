"""The Flight SQL door of a real gateway, with clients that lie, forget, hoard, leave, or come back too late.

The gateway here has been restarted on its data: what clients held from before is tried as well.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import grpc
import psutil
import pyarrow as pa
import pytest

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.testing.asking import failure, rows, running_queries, value, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.ingesting import batches, staged_files
from bailiwick.testing.raw_flight import (
    RawFlight,
    Refused,
    descriptor,
    packed,
    put,
    raw_flight,
    table_of,
)

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(400)]

TICKET_S = 10.0
SETTINGS = {"BAILIWICK__ENGINE__MEMORY": "1g", "BAILIWICK__IDENTITY__TICKET_S": str(TICKET_S)}
PASSWORD = "a long password"
IDLE = 500
SQL_BYTES_MAX = 1 << 20
MEGABYTE = 1 << 20
CREATE_APPEND = sql.CommandStatementIngest.TableDefinitionOptions(
    if_not_exist=sql.CommandStatementIngest.TableDefinitionOptions.TABLE_NOT_EXIST_OPTION_CREATE,
    if_exists=sql.CommandStatementIngest.TableDefinitionOptions.TABLE_EXISTS_OPTION_APPEND,
)


@dataclass(frozen=True, slots=True)
class Before:
    """What ann held when the gateway was stopped."""

    token: str
    prepared: bytes
    parametrised: bytes
    bound: bytes
    read: bytes
    outcome: bytes
    polled: bytes


@dataclass(frozen=True, slots=True)
class Restarted:
    gateway: RunningGateway
    before: Before


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    data_dir = tmp_path_factory.mktemp("gateway") / "data"
    with running_gateway(data_dir, settings=SETTINGS) as first:
        rows(first, "CREATE NAMESPACE faults")
        for name in ("ann", "bob"):
            rows(first, f"CREATE USER {name} PASSWORD '{PASSWORD}' ROLES (writer)")
            rows(first, f"GRANT ALL ON NAMESPACE faults TO USER {name}")
        with signed_in(first, "ann") as ann:
            before = _held(ann)
    with running_gateway(data_dir, settings=SETTINGS) as second:
        yield Restarted(second, before)


def _held(ann: RawFlight) -> Before:
    parametrised = ann.prepare("SELECT ? + 1 AS n")
    return Before(
        dict(ann.metadata)["authorization"].removeprefix("Bearer "),
        ann.prepare("SELECT 41 + 1 AS n"),
        parametrised,
        ann.bind(parametrised, pa.table({"p": [41]})),
        ann.ticket("SELECT 42 AS n"),
        ann.ticket("CREATE TABLE faults.old AS SELECT 1 AS n"),
        ann.poll(descriptor(sql.CommandStatementQuery(query="SELECT 42 AS n")))
        .info.endpoint[0]
        .ticket.SerializeToString(),
    )


@pytest.fixture(scope="module")
def gateway(restarted: Restarted) -> RunningGateway:
    return restarted.gateway


@contextmanager
def signed_in(gateway: RunningGateway, name: str) -> Iterator[RawFlight]:
    with raw_flight(gateway.grpc_address, basic=(name, PASSWORD)) as client:
        yield client


@pytest.fixture
def ann(gateway: RunningGateway) -> Iterator[RawFlight]:
    with signed_in(gateway, "ann") as client:
        yield client


@pytest.fixture
def bob(gateway: RunningGateway) -> Iterator[RawFlight]:
    with signed_in(gateway, "bob") as client:
        yield client


def refusal(call: Callable[[], object]) -> str:
    """The code that this must be refused with; never one of the gateway's own failing."""
    with pytest.raises(Refused) as refused:
        call()
    assert refused.value.status not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN), refused.value
    return refused.value.code


def answer(client: RawFlight) -> int:
    return int(client.fetch(client.ticket("SELECT 42 AS n"))["n"][0].as_py())


def prepared_query(handle: bytes) -> bytes:
    return descriptor(sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))


def prepared_update(handle: bytes, table: pa.Table) -> list[bytes]:
    return put(sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle), table)


def test_a_prepared_statement_outlives_a_restart_with_what_its_handle_carries(
    restarted: Restarted, ann: RawFlight
) -> None:
    before = restarted.before
    assert ann.run_prepared(before.prepared).to_pydict() == {"n": [42]}
    assert ann.run_prepared(before.bound).to_pydict() == {"n": [42]}
    # What was bound to the handle itself was remembered by the process that is gone.
    assert refusal(lambda: ann.run_prepared(before.parametrised)) == "INVALID_ARGUMENTS"
    again = ann.bind(before.parametrised, pa.table({"p": [1]}))
    assert ann.run_prepared(again).to_pydict() == {"n": [2]}


def test_after_a_restart_one_signs_in_again_and_what_was_kept_in_memory_is_gone(
    restarted: Restarted, ann: RawFlight
) -> None:
    before = restarted.before
    with raw_flight(restarted.gateway.grpc_address, token=before.token) as returning:
        assert refusal(lambda: answer(returning)) == "SESSION_EXPIRED"
    assert refusal(lambda: ann.fetch(before.outcome)) == "INVALID_ARGUMENTS"
    assert refusal(lambda: ann.fetch(before.polled)) == "INVALID_ARGUMENTS"
    assert ann.fetch(ann.ticket("SELECT n FROM faults.old")).to_pydict() == {"n": [1]}


def test_malformed_and_unknown_commands_are_refused_and_the_connection_lives(ann: RawFlight) -> None:
    query = sql.CommandStatementQuery(query="SELECT 1")
    forged = packed(sql.TicketStatementQuery(statement_handle=b"forged" * 30))
    named = b"\x0a\x05a/b.c\x12\x00"
    for method, request, code in (
        ("GetFlightInfo", descriptor(b"\xff\xff\xff"), "PARSE_ERROR"),
        ("GetFlightInfo", descriptor(packed(query)[:-3]), "PARSE_ERROR"),
        ("GetFlightInfo", descriptor(named), "NOT_SUPPORTED"),
        ("GetSchema", descriptor(sql.CommandStatementSubstraitPlan()), "NOT_SUPPORTED"),
        ("PollFlightInfo", descriptor(forged), "INVALID_ARGUMENTS"),
        ("DoGet", flight.Ticket(ticket=forged).SerializeToString(), "INVALID_ARGUMENTS"),
        ("DoGet", b"\xff", "PARSE_ERROR"),
        ("DoAction", flight.Action(type="CancelQuery", body=b"\xff").SerializeToString(), "PARSE_ERROR"),
        ("DoAction", flight.Action(type="EndSavepoint").SerializeToString(), "NOT_SUPPORTED"),
        ("GetFlightInfo", prepared_query(b"never seen"), "INVALID_ARGUMENTS"),
        ("DoPut", b"\xff\xff", "PARSE_ERROR"),
        ("DoExchange", b"", "NOT_SUPPORTED"),
        ("ListFlights", b"", "NOT_SUPPORTED"),
    ):
        assert refusal(lambda method=method, request=request: ann.call(method, request)) == code, method  # type: ignore[misc]
        assert answer(ann) == 42


def test_a_statement_at_the_limit_runs_and_one_byte_more_is_told(ann: RawFlight) -> None:
    at = "SELECT 42 AS n -- "
    at += "ü" * ((SQL_BYTES_MAX - len(at.encode())) // 2)
    assert len(at.encode()) == SQL_BYTES_MAX
    assert ann.fetch(ann.ticket(at)).to_pydict() == {"n": [42]}
    assert ann.run_prepared(ann.prepare(at)).to_pydict() == {"n": [42]}
    update = sql.CommandStatementUpdate(query=at + "x")
    for attempt in (
        lambda: ann.ticket(at + "x"),
        lambda: ann.prepare(at + "x"),
        lambda: ann.poll(descriptor(sql.CommandStatementQuery(query=at + "x"))),
        lambda: ann.call("DoPut", *put(update, pa.table({}))),
    ):
        assert refusal(attempt) == "RESOURCE_EXHAUSTED"
    assert answer(ann) == 42


def test_what_is_anns_is_nothing_to_bob(ann: RawFlight, bob: RawFlight) -> None:
    prepared = ann.prepare("SELECT ? AS n")
    one = pa.table({"p": [1]})
    bound = ann.bind(prepared, one)
    info = ann.info(sql.CommandStatementQuery(query="SELECT 42 AS n"))
    ticket = info.endpoint[0].ticket.SerializeToString()
    outcome = ann.ticket("CREATE OR REPLACE TABLE faults.anns AS SELECT 1 AS n")
    polled = ann.poll(descriptor(sql.CommandStatementQuery(query="SELECT 42 AS n")))
    fetch_polled = polled.info.endpoint[0].ticket.SerializeToString()
    cancel = flight.CancelFlightInfoRequest(info=info).SerializeToString()
    renew = flight.RenewFlightEndpointRequest(endpoint=info.endpoint[0]).SerializeToString()
    for attempt in (
        lambda: bob.run_prepared(bound),
        lambda: bob.bind(prepared, one),
        lambda: bob.call("DoPut", *prepared_update(prepared, one)),
        lambda: bob.fetch(ticket),
        lambda: bob.fetch(outcome),
        lambda: bob.fetch(fetch_polled),
        lambda: bob.act("CancelFlightInfo", cancel),
        lambda: bob.act("RenewFlightEndpoint", renew),
    ):
        assert refusal(attempt) == "INVALID_ARGUMENTS"
    bob.act("ClosePreparedStatement", packed(_closing(prepared)))
    assert ann.run_prepared(prepared).to_pydict() == {"n": [1]}
    assert ann.fetch(ticket).to_pydict() == {"n": [42]}
    assert ann.fetch(fetch_polled).to_pydict() == {"n": [42]}
    assert ann.fetch(outcome).num_rows == 0


def _closing(handle: bytes) -> sql.ActionClosePreparedStatementRequest:
    return sql.ActionClosePreparedStatementRequest(prepared_statement_handle=handle)


def test_anns_session_is_no_session_of_bobs(gateway: RunningGateway, ann: RawFlight, bob: RawFlight) -> None:
    zone = {"time_zone": flight.SessionOptionValue(string_value="Asia/Tokyo")}
    ann.act("SetSessionOptions", flight.SetSessionOptionsRequest(session_options=zone).SerializeToString())
    token = dict(ann.metadata)["authorization"].removeprefix("Bearer ")
    cookie = ("cookie", f"arrow_flight_session_id={token}")
    static = rows(gateway, "CREATE TOKEN FOR bob")[0][1]
    with raw_flight(gateway.grpc_address, token=static) as thief:
        thief.metadata = (*thief.metadata, cookie)
        assert refusal(lambda: thief.act("GetSessionOptions")) == "SESSION_EXPIRED"
        assert refusal(lambda: thief.act("CloseSession")) == "SESSION_EXPIRED"
    assert _time_zone(bob) == "UTC"
    assert _time_zone(ann) == "Asia/Tokyo"
    listed = "SELECT DISTINCT principal FROM system.runtime.sessions"
    assert ann.fetch(ann.ticket(listed)).to_pydict() == {"principal": ["ann"]}
    assert bob.fetch(bob.ticket(listed)).to_pydict() == {"principal": ["bob"]}


def _time_zone(client: RawFlight) -> str:
    result = flight.GetSessionOptionsResult.FromString(client.act("GetSessionOptions"))
    return result.session_options["time_zone"].string_value


def test_a_closed_sessions_token_is_refused_and_its_owner_may_come_again(
    gateway: RunningGateway, ann: RawFlight
) -> None:
    assert answer(ann) == 42
    ann.act("CloseSession")
    for attempt in (
        lambda: answer(ann),
        lambda: ann.act("CloseSession"),
        lambda: ann.call("ListActions", b""),
    ):
        assert refusal(attempt) == "SESSION_EXPIRED"
    with signed_in(gateway, "ann") as again:
        assert answer(again) == 42


@pytest.mark.parametrize(
    ("table", "code"),
    [
        (pa.table({"p": ["no number"]}), "INVALID_CAST"),
        (pa.table({"p": [1], "q": [2]}), "INVALID_ARGUMENTS"),
        (pa.table({}), "INVALID_ARGUMENTS"),
        (pa.table({"p": [1, 2]}), "INVALID_ARGUMENTS"),
        (pa.table({"p": pa.array([1], pa.time64("us"))}), "NOT_SUPPORTED"),
        (pa.table({"p": [[[1]]]}), "TYPE_MISMATCH"),
    ],
    ids=["not a number", "too many", "none", "two rows", "time", "lists"],
)
def test_parameters_that_do_not_fit_are_told_and_the_statement_stays(
    ann: RawFlight, table: pa.Table, code: str
) -> None:
    handle = ann.prepare("SELECT CAST(? AS INT) + 1 AS n")
    assert refusal(lambda: ann.run_prepared(ann.bind(handle, table))) == code
    assert ann.run_prepared(ann.bind(handle, pa.table({"p": [41]}))).to_pydict() == {"n": [42]}


def ingest(table: str) -> sql.CommandStatementIngest:
    return sql.CommandStatementIngest(table=table, schema="faults", table_definition_options=CREATE_APPEND)


def few(rows_count: int = 3) -> pa.Table:
    return pa.table({"id": range(rows_count), "label": [f"row {number}" for number in range(rows_count)]})


def nothing_is_left(gateway: RunningGateway, table: str) -> None:
    wait_until("no ingest", lambda: not running_queries(gateway, f"INGEST INTO lake.faults.{table}"))
    wait_until("nothing staged", lambda: not staged_files(gateway), 40)
    assert "TABLE_NOT_FOUND" in failure(gateway, f"SELECT * FROM faults.{table}")


def test_rows_that_do_not_follow_their_schema_leave_nothing(gateway: RunningGateway, ann: RawFlight) -> None:
    schema, batch = put(ingest("wrong"), few())
    other = put(ingest("wrong"), pa.table({"x": [1.5]}))
    damaged = flight.FlightData.FromString(batch)
    damaged.data_body = damaged.data_body[:8]
    bare = flight.FlightData.FromString(schema)
    bare.ClearField("data_header")
    for messages in (
        [schema, batch, other[1]],
        [schema, batch, other[0]],
        [schema, damaged.SerializeToString()],
        [bare.SerializeToString(), batch],
        [schema, batch, b"\xff\xff"],
    ):
        code = refusal(lambda messages=messages: ann.call("DoPut", *messages))  # type: ignore[misc]
        assert code in ("INVALID_ARGUMENTS", "PARSE_ERROR")
        nothing_is_left(gateway, "wrong")


def test_an_ingest_that_is_cancelled_in_the_middle_leaves_nothing(
    gateway: RunningGateway, ann: RawFlight
) -> None:
    rows_to_come = list(batches(8))
    messages = put(ingest("cut"), pa.Table.from_batches(rows_to_come))

    def halting() -> Iterator[bytes]:
        yield from messages
        wait_until("rows staged or given up", lambda: is_over or staged_files(gateway), 60)
        wait_until("given up", lambda: is_over, 60)

    is_over: list[bool] = []
    call = ann.begin("DoPut", halting())
    try:
        wait_until("rows staged", lambda: staged_files(gateway), 60)
    finally:
        call.cancel()
        is_over.append(True)
    nothing_is_left(gateway, "cut")
    assert answer(ann) == 42


def test_clients_that_never_fetch_hold_nothing_after_their_tickets_expired(
    gateway: RunningGateway, ann: RawFlight
) -> None:
    answer(ann)
    process = psutil.Process(gateway.pid)
    resident, files = process.memory_info().rss, process.num_fds()
    tickets = [ann.ticket(f"SELECT {number % 5} AS n") for number in range(300)]
    issued_at = time.monotonic()
    rows(gateway, "CREATE OR REPLACE TABLE faults.unread AS SELECT 1 AS n")
    outcomes = [ann.ticket("INSERT INTO faults.unread VALUES (2)") for _ in range(3)]
    wait_until("nothing is begun any more", lambda: running_queries(gateway, "AS n") == [], 10.0)
    assert process.num_fds() <= files + 5
    assert process.memory_info().rss - resident < 50 * MEGABYTE
    wait_until("expired", lambda: time.monotonic() - issued_at > TICKET_S + 5, TICKET_S + 30)
    for ticket in (tickets[0], tickets[-1], *outcomes):
        assert refusal(lambda ticket=ticket: ann.fetch(ticket)) == "INVALID_ARGUMENTS"  # type: ignore[misc]
    assert value(gateway, "SELECT count(*) FROM faults.unread") == 4


def test_five_hundred_idle_connections_keep_nobody_waiting(gateway: RunningGateway, ann: RawFlight) -> None:
    answer(ann)
    process = psutil.Process(gateway.pid)
    resident, files = process.memory_info().rss, process.num_fds()
    token = dict(ann.metadata)["authorization"].removeprefix("Bearer ")
    with ExitStack() as stack:
        idle = [stack.enter_context(raw_flight(gateway.grpc_address, token=token)) for _ in range(IDLE)]
        for client in idle:
            assert client.call("ListActions", b"")
        assert process.num_fds() - files >= IDLE
        assert process.num_fds() - files < IDLE + 50
        assert process.memory_info().rss - resident < 200 * MEGABYTE
        times = []
        for _ in range(20):
            started = time.monotonic()
            assert answer(ann) == 42
            times.append(time.monotonic() - started)
        assert statistics.median(times) < 1.0
        assert table_of(idle[-1].call("DoGet", idle[-1].ticket("SELECT 42 AS n"))).num_rows == 1
    wait_until("connections closed", lambda: process.num_fds() <= files + 10, 30)

"""Two doors that share a key, as two gateways do, and drivers that come to either by a proxy in turns."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from flight_door import ANN, BOB, NO_COLUMNS, NUMBERS, PASSWORD, Door, serving

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.whereabouts import Whereabouts
from bailiwick.engines.description import Kind
from bailiwick.identity.principal import Principal
from bailiwick.ids import GatewayId, QueryId
from bailiwick.queries.gateways import Gateways
from bailiwick.testing.asking import wait_until
from bailiwick.testing.line import Line, laid
from bailiwick.testing.listed_users import ListedUsers
from bailiwick.testing.raw_flight import RawFlight, Refused, descriptor, raw_flight
from bailiwick.testing.scripted_queries import Script, ScriptedQueries

KEY = b"k" * 32
ONE, TWO = GatewayId("gone"), GatewayId("gtwo")
LARGE = pa.table({"text": ["y" * 10_000]})


@dataclass
class Street:
    """What the gateways know of each other."""

    addresses: dict[GatewayId, str] = field(
        default_factory=lambda: {ONE: "one.example:1", TWO: "two.example:2"}
    )
    queries: dict[GatewayId, ScriptedQueries] = field(default_factory=dict)


@dataclass
class Neighbour(Gateways):
    street: Street
    id: GatewayId

    @property
    def own_id(self) -> GatewayId | None:
        return self.id

    async def addresses(self) -> Mapping[GatewayId, str]:
        return self.street.addresses

    async def end(self, query_ids: Sequence[QueryId], by: Principal) -> bool:
        others = [queries for id, queries in self.street.queries.items() if id != self.id]
        found = [(each, id) for each in others for id in query_ids if each.progress(id) is not None]
        for queries, query_id in found:
            await queries.cancel(query_id, by)
        return bool(found)


@dataclass
class Pair:
    street: Street
    users: ListedUsers
    one: Door
    two: Door
    turns: int = 0
    line: Line | None = None

    def next_target(self) -> tuple[str, int]:
        door = (self.one, self.two)[self.turns % 2]
        self.turns += 1
        return "127.0.0.1", door.port

    def adbc(self) -> Any:
        assert self.line is not None
        credentials = {"username": "ann", "password": PASSWORD}
        return dbapi.connect(f"grpc://{self.line.address}", db_kwargs=credentials, autocommit=True)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    street = Street()
    users = ListedUsers({"ann": (PASSWORD, ANN), "bob": (PASSWORD, BOB)})
    async with AsyncExitStack() as stack:

        async def opened(id: GatewayId, uri: str) -> Door:
            whereabouts = Whereabouts(Neighbour(street, id), uri)
            door = await stack.enter_async_context(
                serving(key=KEY, authenticator=users, whereabouts=whereabouts)
            )
            street.queries[id] = door.queries
            door.queries.scripts["report"] = Script(LARGE, kind=Kind.CHANGE)
            return door

        made = Pair(
            street, users, await opened(ONE, "grpc+tcp://one.example:1"), await opened(TWO, "grpc+tcp://b:2")
        )
        made.line = stack.enter_context(laid(made.next_target))
        yield made


def client(stack: AsyncExitStack, door: Door, user: str = "ann") -> RawFlight:
    return stack.enter_context(raw_flight(f"127.0.0.1:{door.port}", basic=(user, PASSWORD)))


def refused(action: Any) -> Refused:
    with pytest.raises(Refused) as error:
        action()
    return error.value


async def both(pair: Pair, act: Any) -> Any:
    """Blocking clients of both doors, in a thread: the doors are on this loop."""

    async def work() -> Any:
        async with AsyncExitStack() as stack:
            one = await asyncio.to_thread(client, stack, pair.one)
            two = await asyncio.to_thread(client, stack, pair.two)
            return await asyncio.to_thread(act, one, two)

    return await work()


async def test_adbc_connections_take_turns_and_each_works(pair: Pair) -> None:
    def work() -> None:
        for _ in range(4):
            with pair.adbc() as connection, connection.cursor() as cursor:
                cursor.execute("numbers")
                assert cursor.fetch_arrow_table() == NUMBERS
                cursor.execute("insert")
                cursor.execute("parametrised", (1, "x"))
                assert cursor.fetch_arrow_table() == NUMBERS

    await asyncio.to_thread(work)
    assert len(pair.one.queries.runs) == len(pair.two.queries.runs) == 6


async def test_a_session_at_another_gateway_is_told_where_it_is_and_finds_itself_again(pair: Pair) -> None:
    def work() -> str:
        assert pair.line is not None
        with pair.adbc() as connection:
            run(connection, "SET TIME ZONE 'Europe/Berlin'")
            pair.line.reset()
            with pytest.raises(dbapi.Error) as told:
                run_anew(connection, "numbers")
            pair.line.reset()
            run_anew(connection, "numbers")
            return str(told.value)

    told = await asyncio.to_thread(work)
    assert "SESSION_EXPIRED" in told
    assert "one.example:1" in told
    assert pair.two.queries.runs == []
    assert [run.statement.time_zone for run in pair.one.queries.runs] == ["Europe/Berlin"]


async def test_a_connection_that_breaks_in_the_middle_is_an_error_and_then_the_session_is_over(
    pair: Pair,
) -> None:
    pair.one.queries.hold("numbers")

    def break_line() -> None:
        assert pair.line is not None
        wait_until("it runs", lambda: pair.one.queries.runs)
        pair.line.reset()

    def work() -> list[str]:
        told = []
        with pair.adbc() as connection:
            run(connection, "SET TIME ZONE 'Europe/Berlin'")
            breaking = threading.Thread(target=break_line)
            breaking.start()
            for _ in range(2):
                with pytest.raises(dbapi.Error) as error:
                    run(connection, "numbers")
                told.append(str(error.value))
                pair.street.addresses.pop(ONE, None)
            breaking.join()
        return told

    first, second = await asyncio.to_thread(work)
    assert first
    assert "is gone" in second


async def test_a_session_of_a_lost_gateway_is_over(pair: Pair) -> None:
    def work(one: RawFlight, two: RawFlight) -> Refused:
        two.metadata = one.metadata
        del pair.street.addresses[ONE]
        return refused(lambda: two.ticket("numbers"))

    told = await both(pair, work)
    assert told.code == "SESSION_EXPIRED"
    assert "is gone" in str(told)


async def test_a_cookie_of_one_does_not_open_a_new_session_at_the_other(pair: Pair) -> None:
    def work(one: RawFlight, two: RawFlight) -> Refused:
        cookie = f"arrow_flight_session_id={one.metadata[0][1].removeprefix('Bearer ')}"
        two.metadata = (("authorization", f"Bearer {pair.users.issue(ANN)}"), ("cookie", cookie))
        return refused(lambda: two.ticket("numbers"))

    told = await both(pair, work)
    assert told.code == "SESSION_EXPIRED"
    assert "one.example:1" in str(told)


async def test_a_read_and_a_prepared_statement_are_good_at_either(pair: Pair) -> None:
    def work(one: RawFlight, two: RawFlight) -> None:
        assert two.fetch(one.ticket("numbers")) == NUMBERS
        handle = one.prepare("parametrised")
        row = pa.table({"a": pa.array([7], pa.int64()), "b": ["x"]})
        bound = two.bind(handle, row)
        assert one.run_prepared(bound) == NUMBERS
        assert two.run_prepared(handle) == NUMBERS
        assert refused(lambda: one.run_prepared(handle)).code == "INVALID_ARGUMENTS"

    await both(pair, work)
    assert [run.statement.parameters[0].scalar.as_py() for run in pair.one.queries.runs] == [7]


async def test_a_change_runs_once_and_its_small_answer_is_good_at_either_even_when_one_is_lost(
    pair: Pair,
) -> None:
    def work(one: RawFlight, two: RawFlight) -> None:
        info = one.info(sql.CommandStatementQuery(query="insert"))
        assert not info.endpoint[0].location
        ticket = info.endpoint[0].ticket.SerializeToString()
        assert two.fetch(ticket).schema == NO_COLUMNS.schema
        del pair.street.addresses[ONE]
        assert two.fetch(ticket).schema == NO_COLUMNS.schema

    await both(pair, work)
    assert len(pair.one.queries.runs) == 1
    assert pair.two.queries.runs == []


async def test_a_large_answer_of_a_change_says_where_it_is(pair: Pair) -> None:
    def work(one: RawFlight, two: RawFlight) -> None:
        info = one.info(sql.CommandStatementQuery(query="report"))
        assert [place.uri for place in info.endpoint[0].location] == ["grpc+tcp://one.example:1"]
        ticket = info.endpoint[0].ticket.SerializeToString()
        assert "one.example:1" in str(refused(lambda: two.fetch(ticket)))
        assert one.fetch(ticket) == LARGE
        del pair.street.addresses[ONE]
        lost = refused(lambda: two.fetch(ticket))
        assert (lost.code, "look at the table" in str(lost)) == ("EXECUTION_FAILED", True)

    await both(pair, work)


async def test_a_poll_is_answered_by_its_owner_and_cancelled_by_either(pair: Pair) -> None:
    pair.one.queries.scripts["numbers"] = Script(NUMBERS, slow=asyncio.Event())

    def work(one: RawFlight, two: RawFlight) -> None:
        begun = one.poll(descriptor(sql.CommandStatementQuery(query="numbers")))
        again = begun.flight_descriptor.SerializeToString()
        assert "one.example:1" in str(refused(lambda: two.poll(again)))
        assert cancelled(two, begun.info) == flight.CANCEL_STATUS_CANCELLING
        assert refused(lambda: one.poll(again)).code == "QUERY_CANCELLED"
        del pair.street.addresses[ONE]
        assert refused(lambda: two.poll(again)).code == "EXECUTION_FAILED"

    await both(pair, work)


async def test_a_read_of_one_that_runs_at_the_other_is_cancelled_at_either(pair: Pair) -> None:
    pair.two.queries.hold("numbers")

    def begun_and_cancelled(one: RawFlight, two: RawFlight) -> tuple[int, int]:
        statuses = []
        for by in (one, two):
            info = one.info(sql.CommandStatementQuery(query="numbers"))
            reading = two.begin("DoGet", [info.endpoint[0].ticket.SerializeToString()])
            next(reading)
            statuses.append(cancelled(by, info))
            with pytest.raises(grpc.RpcError, match="QUERY_CANCELLED"):
                list(reading)
        return statuses[0], statuses[1]

    statuses = await both(pair, begun_and_cancelled)
    assert statuses == (flight.CANCEL_STATUS_CANCELLING, flight.CANCEL_STATUS_CANCELLED)


def run_anew(connection: Any, statement: str) -> None:
    """After the line was broken. What the driver sends before it has noticed is lost, and never asked."""

    def outcome() -> tuple[dbapi.Error | None] | None:
        try:
            run(connection, statement)
        except dbapi.Error as error:
            return None if "error reading from server" in str(error) else (error,)
        return (None,)

    told = wait_until("the driver has noticed that its line was broken", outcome)
    assert told is not None
    if told[0] is not None:
        raise told[0]


def run(connection: Any, statement: str) -> None:
    """With a cursor of its own: one that has failed cannot be used again."""
    cursor = connection.cursor()
    try:
        cursor.execute(statement)
        cursor.fetchall()
    finally:
        with suppress(dbapi.Error):
            cursor.close()
        # Where closing fails, because nobody is there, the driver would try again, and break.
        cursor._closed = True


def cancelled(by: RawFlight, info: flight.FlightInfo) -> int:
    body = flight.CancelFlightInfoRequest(info=info).SerializeToString()
    return int(flight.CancelFlightInfoResult.FromString(by.act("CancelFlightInfo", body)).status)

"""Keys, placements and where an answer came from, on the wire: real gRPC and a real driver, a fake engine."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from flight_door import ANN, BOB, Door, descriptor, error_code, packed, serving
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from query_house import ONE, House, Script, batch, eventually, house

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.door import FlightSqlLimits
from bailiwick.doors.flight_sql.polling import PollLimits
from bailiwick.doors.flight_sql.service import SERVICE
from bailiwick.engines.description import Description, Kind, Parameter
from bailiwick.engines.engine import Completed, Event
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.placement import Placement
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId
from bailiwick.queries.statement import RanOn
from bailiwick.testing.scripted_queries import Script as Scripted

CHANGE = Description(Kind.CHANGE, "AppendData")
KEY = "order-17"
HEADER = "adbc.flight.sql.rpc.call_header.idempotency-key"
PLACEMENT = "adbc.flight.sql.rpc.call_header.bailiwick-placement"


def insert(*events: Event | Exception | asyncio.Event) -> Script:
    return Script(list(events) or [Completed()], description=CHANGE)


@dataclass
class World:
    door: Door
    home: House

    async def call(
        self, method: str, request: bytes, *headers: tuple[str, str], who: Principal = ANN
    ) -> tuple[bytes, dict[str, Any]]:
        """The answer and the headers that came with it."""
        metadata = (*self.door.headers(who), *headers)
        call = self.door.channel.unary_unary(f"/{SERVICE}/{method}")(request, metadata=metadata)
        answer = await call
        return answer, {**dict(await call.initial_metadata()), **dict(await call.trailing_metadata())}

    async def info(
        self, text: str, key: str | None = KEY, who: Principal = ANN
    ) -> tuple[flight.FlightInfo, dict[str, Any]]:
        headers = (("idempotency-key", key),) if key is not None else ()
        command = descriptor(sql.CommandStatementQuery(query=text))
        answer, told = await self.call("GetFlightInfo", command, *headers, who=who)
        return flight.FlightInfo.FromString(answer), told

    async def poll(self, text: str | bytes, key: str | None = KEY) -> flight.PollInfo:
        request = text if isinstance(text, bytes) else descriptor(sql.CommandStatementQuery(query=text))
        headers = (("idempotency-key", key),) if key is not None else ()
        return flight.PollInfo.FromString((await self.call("PollFlightInfo", request, *headers))[0])

    async def fetch(self, info: flight.FlightInfo) -> list[bytes]:
        return await self.door.stream("DoGet", info.endpoint[0].ticket.SerializeToString())

    def runs(self, text: str) -> int:
        return sum(executed == text for executed, _ in self.home.engine.executed)


@asynccontextmanager
async def opened(tmp_path: Path, limits: FlightSqlLimits | None = None) -> AsyncIterator[World]:
    async with house(tmp_path) as home, serving(limits, behind=home.service) as door:
        home.engine.scripts["INSERT"] = insert()
        yield World(door, home)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path) as world:
        yield world


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def facts(error: grpc.aio.AioRpcError) -> tuple[dict[str, str], float | None]:
    """What an error tells programs: its details, and after how many seconds to come back."""
    status = Status.FromString(dict(error.trailing_metadata() or ())["grpc-status-details-bin"])
    info, retry = ErrorInfo(), RetryInfo()
    for detail in status.details:
        detail.Unpack(info) or detail.Unpack(retry)
    has_retry = any(detail.Is(RetryInfo.DESCRIPTOR) for detail in status.details)
    return dict(info.metadata), retry.retry_delay.ToTimedelta().total_seconds() if has_retry else None


async def test_a_change_sent_twice_runs_once_and_answers_alike(world: World) -> None:
    first, told = await world.info("INSERT")
    again, told_again = await world.info("INSERT")
    assert first.total_records == again.total_records == 7
    assert told["bailiwick-query-id"] == told_again["bailiwick-query-id"]
    assert json.loads(first.app_metadata)["query_id"] == json.loads(again.app_metadata)["query_id"]
    assert await world.fetch(first) == await world.fetch(again)
    assert world.runs("INSERT") == 1


async def test_rows_that_a_change_answered_with_are_fetched_again_while_they_are_kept(world: World) -> None:
    world.home.engine.scripts["CALL"] = insert(batch(ONE), Completed())
    first, _ = await world.info("CALL")
    again, _ = await world.info("CALL")
    assert len(await world.fetch(again)) == len(await world.fetch(first)) == 2
    assert world.runs("CALL") == 1


async def test_two_who_send_a_change_at_once_get_one_execution(world: World) -> None:
    rest = asyncio.Event()
    world.home.engine.scripts["INSERT"] = insert(rest, Completed())
    asked = [asyncio.create_task(world.info("INSERT")) for _ in range(5)]
    await eventually(lambda: world.runs("INSERT") == 1)
    rest.set()
    ids = {told["bailiwick-query-id"] for _, told in await asyncio.gather(*asked)}
    assert (len(ids), world.runs("INSERT")) == (1, 1)


async def test_another_statement_under_the_same_key_is_refused(world: World) -> None:
    world.home.engine.scripts["INSERT other"] = insert()
    await world.info("INSERT")
    error = await refused(world.info("INSERT other"))
    assert error_code(error) == "INVALID_ARGUMENTS"
    assert facts(error)[0]["reason"] == "idempotency_key_reused"
    assert (await world.info("INSERT", who=BOB))[0].total_records == 7
    assert world.runs("INSERT") == 2


async def test_a_recorded_error_is_told_again_under_its_first_id(world: World) -> None:
    world.home.engine.scripts["INSERT"] = insert(BailiwickError(Code.DIVISION_BY_ZERO, "A row divides."))
    first, again = await refused(world.info("INSERT")), await refused(world.info("INSERT"))
    assert error_code(first) == error_code(again) == "DIVISION_BY_ZERO"
    assert facts(first)[0]["query_id"] == facts(again)[0]["query_id"]
    assert facts(again)[0]["recorded"] == "true"
    assert world.runs("INSERT") == 1


async def test_a_read_that_runs_under_the_key_is_told_with_its_id_and_state(world: World) -> None:
    rest = asyncio.Event()
    world.home.engine.scripts["slow"] = Script([batch(ONE), rest, Completed()])
    first, _ = await world.info("slow")
    second, _ = await world.info("slow")
    reading = asyncio.create_task(world.fetch(first))
    await eventually(lambda: world.runs("slow") == 1)
    error = await refused(world.fetch(second))
    told, retry_after_s = facts(error)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (told["reason"], told["state"]) == ("in_progress", "running")
    assert told["query_id"] == json.loads(first.app_metadata)["query_id"]
    assert retry_after_s is not None
    assert dict(error.trailing_metadata() or ())["retry-after"] == "2"
    rest.set()
    assert len(await reading) == 2
    assert len(await world.fetch(second)) == 2


async def test_a_polled_statement_that_is_sent_again_is_the_same_poll(tmp_path: Path) -> None:
    limits = FlightSqlLimits(polls=PollLimits(answer_s=0.05))
    async with opened(tmp_path, limits) as world:
        rest = asyncio.Event()
        world.home.engine.scripts["slow"] = Script([rest, batch(ONE), Completed()])
        await world.home.ask("other")
        first = await world.poll("slow")
        again = await world.poll("slow")
        assert first.info.app_metadata == again.info.app_metadata
        assert error_code(await refused(world.poll("other"))) == "INVALID_ARGUMENTS"
        rest.set()
        done = again
        while not done.info.endpoint:
            done = await world.poll(done.flight_descriptor.SerializeToString(), None)
        assert len(await world.fetch(done.info)) == 2
        assert world.runs("slow") == 1


async def test_a_polled_statement_that_waits_tells_its_place_in_the_queue(tmp_path: Path) -> None:
    limits = FlightSqlLimits(polls=PollLimits(answer_s=0.05))
    async with opened(tmp_path, limits) as world:
        rest = asyncio.Event()
        world.home.engine.scripts["slow"] = Script([batch(ONE), rest, Completed()])
        await world.home.ask("waits")
        running = asyncio.create_task(world.home.ask("slow"))
        await eventually(lambda: world.runs("slow") == 1)
        waiting = await world.poll("waits", None)
        assert json.loads(waiting.info.app_metadata)["queue_position"] == 1
        rest.set()
        await running


async def test_an_update_sent_twice_runs_once(world: World) -> None:
    message = flight.FlightData(
        flight_descriptor=flight.FlightDescriptor(
            type=flight.FlightDescriptor.CMD, cmd=packed(sql.CommandStatementUpdate(query="INSERT"))
        )
    ).SerializeToString()
    metadata = (*world.door.headers(), ("idempotency-key", KEY))
    for _ in range(2):
        call = world.door.channel.stream_stream(f"/{SERVICE}/DoPut")(iter([message]), metadata=metadata)
        (answer,) = [flight.PutResult.FromString(each) async for each in call]
        assert sql.DoPutUpdateResult.FromString(answer.app_metadata).record_count == 7
    assert world.runs("INSERT") == 1


def keyed(cursor: Any, key: str = KEY) -> Any:
    cursor.adbc_statement.set_options(**{HEADER: key})
    return cursor


async def test_a_driver_sends_the_key_as_a_call_header(world: World) -> None:
    def drive() -> list[int]:
        counts = []
        for _ in range(2):
            with world.door.adbc() as connection, keyed(connection.cursor()) as cursor:
                cursor.execute("INSERT")
                counts.append(cursor.adbc_statement.execute_update())
        return counts

    assert await asyncio.to_thread(drive) == [7, 7]
    assert world.runs("INSERT") == 1


async def test_each_row_of_an_executemany_runs_once_however_often_it_is_sent(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        text = "INSERT ?"
        described = Description(Kind.CHANGE, "AppendData", parameters=(Parameter(0, "bigint"),))
        world.home.engine.scripts[text] = Script([Completed()], description=described)
        rows = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})

        def drive(given: pa.RecordBatch) -> int:
            with world.door.adbc() as connection, keyed(connection.cursor()) as cursor:
                statement = cursor.adbc_statement
                statement.set_sql_query(text)
                statement.prepare()
                statement.bind(given)
                return int(statement.execute_update())

        assert await asyncio.to_thread(drive, rows) == 21
        assert await asyncio.to_thread(drive, rows) == 21
        assert world.runs(text) == 3
        with pytest.raises(Exception, match="another statement"):
            await asyncio.to_thread(drive, rows.slice(0, 2))
        assert world.runs(text) == 3


@pytest.mark.parametrize("key", ["", "a b", "x" * 129, "-", "a;b"])
async def test_what_is_no_key_is_refused_before_anything_runs(world: World, key: str) -> None:
    error = await refused(world.info("INSERT", key))
    assert error_code(error) == "INVALID_ARGUMENTS"
    assert world.runs("INSERT") == 0


async def test_two_keys_in_one_call_are_refused(world: World) -> None:
    command = descriptor(sql.CommandStatementQuery(query="INSERT"))
    keys = (("idempotency-key", "a"), ("idempotency-key", "b"))
    assert error_code(await refused(world.call("GetFlightInfo", command, *keys))) == "INVALID_ARGUMENTS"


async def test_an_ingest_takes_no_key(world: World) -> None:
    def drive() -> None:
        with world.door.adbc() as connection, keyed(connection.cursor()) as cursor:
            cursor.adbc_ingest("t", pa.table({"n": [1]}), mode="append")

    with pytest.raises(Exception, match="takes no idempotency key"):
        await asyncio.to_thread(drive)


async def test_a_placement_comes_by_header_or_session_and_the_header_wins() -> None:
    async with serving() as door:

        def drive() -> None:
            with door.adbc() as connection, connection.cursor() as cursor:
                cursor.execute("numbers")
                cursor.fetchall()
                connection.adbc_connection.set_options(
                    **{"adbc.flight.sql.session.option.placement": "prefer"}
                )
                cursor.execute("numbers")
                cursor.fetchall()
                cursor.adbc_statement.set_options(**{PLACEMENT: "local"})
                cursor.execute("numbers")
                cursor.fetchall()
                cursor.execute("insert")

        await asyncio.to_thread(drive)
        placements = [run.statement.placement for run in door.queries.runs]
        assert placements == [None, Placement.PREFER, Placement.LOCAL, Placement.LOCAL]


async def test_a_placement_of_getflightinfo_holds_for_its_ticket() -> None:
    async with serving() as door:
        metadata = (*door.headers(), ("bailiwick-placement", "require"))
        command = descriptor(sql.CommandStatementQuery(query="numbers"))
        answer = await door.channel.unary_unary(f"/{SERVICE}/GetFlightInfo")(command, metadata=metadata)
        info = flight.FlightInfo.FromString(answer)
        await door.stream("DoGet", info.endpoint[0].ticket.SerializeToString())
        assert door.queries.runs[0].statement.placement is Placement.REQUIRE
        metadata = (*door.headers(), ("bailiwick-placement", "anywhere"))
        call = door.channel.unary_unary(f"/{SERVICE}/GetFlightInfo")(command, metadata=metadata)
        assert error_code(await refused(call)) == "INVALID_ARGUMENTS"


async def test_where_an_answer_came_from_is_told_with_it() -> None:
    async with serving() as door:
        for text in ("numbers", "insert"):
            script = door.queries.scripts[text]
            door.queries.scripts[text] = Scripted(
                script.table, script.kind, ran_on=RanOn(NodeId("embedded"), is_fallback=True)
            )
        read = flight.FlightInfo.FromString(
            await door.unary("GetFlightInfo", descriptor(sql.CommandStatementQuery(query="numbers")))
        )
        ticket = read.endpoint[0].ticket.SerializeToString()
        call = door.channel.unary_stream(f"/{SERVICE}/DoGet")(ticket, metadata=door.headers())
        messages = [flight.FlightData.FromString(message) async for message in call]
        trailing = dict(await call.trailing_metadata())
        assert (trailing["bailiwick-ran-on"], trailing["bailiwick-fallback"]) == ("embedded", "true")
        told = json.loads(messages[0].app_metadata)
        assert (told["ran_on"], told["is_fallback"]) == ("embedded", True)

        change = door.channel.unary_unary(f"/{SERVICE}/GetFlightInfo")(
            descriptor(sql.CommandStatementQuery(query="insert")), metadata=door.headers()
        )
        told = json.loads(flight.FlightInfo.FromString(await change).app_metadata)
        assert (told["ran_on"], told["is_fallback"]) == ("embedded", True)
        assert dict(await change.trailing_metadata())["bailiwick-ran-on"] == "embedded"

        def drive() -> int:
            with door.adbc() as connection, connection.cursor() as cursor:
                cursor.execute("numbers")
                return len(cursor.fetchall())

        assert await asyncio.to_thread(drive) == 10


async def test_an_answer_from_where_it_was_meant_to_run_has_a_trailer_only(world: World) -> None:
    info, _ = await world.info("SELECT 1", None)
    messages = [flight.FlightData.FromString(each) for each in await world.fetch(info)]
    assert [message.app_metadata for message in messages] == [b"", b""]
    change, told = await world.info("INSERT", None)
    assert (told["bailiwick-ran-on"], "bailiwick-fallback" in told) == ("fake", False)
    assert json.loads(change.app_metadata)["is_fallback"] is False


async def test_a_full_queue_says_when_to_come_back() -> None:
    async with serving() as door:
        full = BailiwickError(Code.RESOURCE_EXHAUSTED, "The queue is full.", retry_after_s=3.0)
        door.queries.scripts["insert"] = Scripted(pa.table({}), Kind.CHANGE, failure=full)
        error = await refused(
            door.unary("GetFlightInfo", descriptor(sql.CommandStatementQuery(query="insert")))
        )
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert facts(error)[1] == 3.0
        assert dict(error.trailing_metadata() or ())["retry-after"] == "3"

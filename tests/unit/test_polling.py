"""Polled statements: they run behind their clients' backs, and nothing is left of those nobody asks about."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pytest
from query_house import eventually

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.cancelling import Cancelling
from bailiwick.doors.flight_sql.outcomes import OutcomeLimits, Outcomes
from bailiwick.doors.flight_sql.polling import Described, PollLimits, Polls
from bailiwick.doors.flight_sql.reading import read_ticket
from bailiwick.doors.flight_sql.tickets import Outcome, Read, Tickets
from bailiwick.doors.flight_sql.wire import pack
from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.ids import QueryId, new_query_id
from bailiwick.queries.statement import Statement
from bailiwick.testing.scripted_queries import Script, ScriptedQueries

ANN = Principal("ann", frozenset({"writer"}))
BOB = Principal("bob", frozenset({"writer"}))
NUMBERS = pa.table({"id": pa.array(range(10), pa.int64())})
TICKET_S = 300.0
QUICK = PollLimits(answer_s=0.02, per_principal_max=2, total_max=3)


@dataclass
class World:
    queries: ScriptedQueries
    tickets: Tickets
    polls: Polls
    outcomes: Outcomes
    cancelling: Cancelling
    clock: list[float]

    async def ask(self, text: str | bytes, who: Principal = ANN) -> flight.PollInfo:
        """Poll for a statement, or on with a descriptor that was given."""
        descriptor = text if isinstance(text, bytes) else command(text)

        async def describe(asked: bytes) -> Described:
            assert asked == descriptor
            assert isinstance(text, str)
            prepared = await self.queries.prepare(Statement(text, who, "flight_sql"))
            return Described(Statement(text, who, "flight_sql"), prepared.kind, prepared.schema)

        return flight.PollInfo.FromString(await self.polls.poll(who, descriptor, describe))

    async def on(self, info: flight.PollInfo, who: Principal = ANN) -> flight.PollInfo:
        return await self.ask(info.flight_descriptor.SerializeToString(), who)

    def ticket(self, info: flight.FlightInfo, who: Principal = ANN) -> QueryId:
        handle = read_ticket(info.endpoint[0].ticket.SerializeToString())
        errand = self.tickets.redeem(who, handle)
        assert isinstance(errand, Outcome)
        return errand.query_id

    async def rows(self, info: flight.FlightInfo, who: Principal = ANN) -> int:
        async with self.polls.fetch(who, self.ticket(info, who)) as result:
            return sum([frame.rows async for frame in result.frames()])

    async def cancel(self, info: flight.FlightInfo, who: Principal = ANN) -> int:
        request = flight.CancelFlightInfoRequest(info=info).SerializeToString()
        return flight.CancelFlightInfoResult.FromString(
            await self.cancelling.cancel_info(who, request)
        ).status


@asynccontextmanager
async def world(limits: PollLimits = QUICK) -> AsyncIterator[World]:
    clock = [1_000_000.0]

    def now() -> float:
        return clock[0]

    queries = ScriptedQueries(
        {
            "numbers": Script(NUMBERS),
            "slow": Script(NUMBERS, slow=asyncio.Event()),
            "insert": Script(pa.table({}), kind=Kind.CHANGE, affected_rows=3),
            "slow insert": Script(pa.table({}), kind=Kind.CHANGE, slow=asyncio.Event()),
            "call": Script(NUMBERS, kind=Kind.CHANGE),
            "fails": Script(
                pa.table({}), kind=Kind.CHANGE, failure=BailiwickError(Code.DIVISION_BY_ZERO, "by zero")
            ),
            "breaks": Script(NUMBERS, breaks=True),
        }
    )
    seal = Seal(secrets.token_bytes(32))
    tickets = Tickets(seal, ticket_s=TICKET_S, now=now)
    polls = Polls(queries, seal, tickets, limits, now=now)
    outcomes = Outcomes(OutcomeLimits(), keep_s=TICKET_S, now=now)
    cancelling = Cancelling(queries, tickets, polls, extend=outcomes.extend, ticket_s=TICKET_S, now=now)
    try:
        yield World(queries, tickets, polls, outcomes, cancelling, clock)
    finally:
        await polls.close()


def command(text: str) -> bytes:
    return flight.FlightDescriptor(
        type=flight.FlightDescriptor.CMD, cmd=pack(sql.CommandStatementQuery(query=text))
    ).SerializeToString()


async def test_a_quick_statement_is_there_with_the_first_answer() -> None:
    async with world() as home:
        answer = await home.ask("numbers")
        assert not answer.HasField("flight_descriptor")
        assert answer.progress == 1.0
        assert answer.info.flight_descriptor.SerializeToString() == command("numbers")
        assert answer.info.endpoint[0].expiration_time.seconds == 1_000_300
        assert await home.rows(answer.info) == 10
        assert len(home.polls) == 0


async def test_a_slow_one_tells_how_far_it_is_until_it_is_there() -> None:
    async with world() as home:
        answer = await home.ask("slow")
        assert (answer.progress, len(answer.info.endpoint)) == (0.25, 0)
        answer = await home.on(answer)
        assert answer.HasField("flight_descriptor")
        slow = home.queries.scripts["slow"].slow
        assert slow is not None
        slow.set()
        answer = await home.on(answer)
        assert not answer.HasField("flight_descriptor")
        assert await home.rows(answer.info) == 10
        assert len(home.queries.runs) == 1


async def test_progress_is_never_whole_before_the_end() -> None:
    async with world() as home:
        home.queries.tasks = (2, 2)
        answer = await home.ask("slow")
        assert 0.9 < answer.progress < 1.0
        home.queries.tasks = (2, 20_002)
        assert (await home.on(answer)).progress < 0.01


async def test_a_reads_result_is_fetched_once() -> None:
    async with world() as home:
        answer = await home.ask("numbers")
        assert await home.rows(answer.info) == 10
        with pytest.raises(BailiwickError) as refused:
            await home.rows(answer.info)
        assert refused.value.code is Code.INVALID_ARGUMENTS


async def test_leaving_a_fetch_early_ends_the_query() -> None:
    async with world() as home:
        answer = await home.ask("numbers")
        async with home.polls.fetch(ANN, home.ticket(answer.info)):
            pass
        await home.queries.runs[0].ended.wait()
        assert home.queries.runs[0].cancelled


async def test_a_change_runs_once_and_tells_its_rows() -> None:
    async with world() as home:
        answer = await home.ask("insert")
        assert answer.info.total_records == 3
        assert not home.queries.runs[0].cancelled
        again = await home.ask("call")
        assert [await home.rows(again.info), await home.rows(again.info)] == [10, 10]
        assert len(home.queries.runs) == 2


async def test_a_failure_is_told_as_often_as_one_asks() -> None:
    async with world() as home:
        with pytest.raises(BailiwickError) as refused:
            await home.ask("fails")
        assert refused.value.code is Code.DIVISION_BY_ZERO
        with pytest.raises(BailiwickError) as broken:
            await home.ask("breaks")
        assert broken.value.code is Code.INTERNAL_ERROR
        assert "secret" not in broken.value.message


async def test_a_poll_of_another_does_not_exist() -> None:
    async with world() as home:
        waiting, ready = await home.ask("slow"), await home.ask("numbers")
        for attempt in (home.on(waiting, BOB), home.rows(ready.info, BOB), home.cancel(ready.info, BOB)):
            with pytest.raises(BailiwickError) as refused:
                await attempt
            assert refused.value.code is Code.INVALID_ARGUMENTS
        with pytest.raises(BailiwickError):
            async with home.polls.fetch(BOB, home.ticket(ready.info)):
                pass
        assert not home.queries.runs[0].ended.is_set()


async def test_a_forged_descriptor_is_refused() -> None:
    async with world() as home:
        answer = await home.ask("slow")
        forged = answer.flight_descriptor.SerializeToString()
        with pytest.raises(BailiwickError):
            await home.ask(forged[:-3] + b"abc")


async def test_what_nobody_asks_about_is_ended() -> None:
    async with world(PollLimits(answer_s=0.01, abandoned_s=0.05)) as home:
        await home.ask("slow")
        await asyncio.wait_for(home.queries.runs[0].ended.wait(), 5)
        assert home.queries.runs[0].cancelled
        assert len(home.polls) == 0


async def test_what_is_asked_about_goes_on() -> None:
    async with world(PollLimits(answer_s=0.02, abandoned_s=0.2)) as home:
        answer = await home.ask("slow")
        for _ in range(15):
            answer = await home.on(answer)
        assert not home.queries.runs[0].ended.is_set()


async def test_what_nobody_fetches_is_ended() -> None:
    async with world(PollLimits(answer_s=0.01, keep_s=0.05)) as home:
        answer = await home.ask("numbers")
        await asyncio.wait_for(home.queries.runs[0].ended.wait(), 5)
        with pytest.raises(BailiwickError):
            await home.rows(answer.info)
        assert len(home.polls) == 0


async def test_there_are_only_so_many_of_one_principal_and_in_all() -> None:
    async with world() as home:
        await home.ask("slow")
        await home.ask("slow")
        with pytest.raises(BailiwickError) as refused:
            await home.ask("slow")
        assert refused.value.code is Code.RESOURCE_EXHAUSTED
        await home.ask("slow", BOB)
        with pytest.raises(BailiwickError):
            await home.ask("slow", BOB)
        assert len(home.queries.runs) == 3


async def test_failures_take_no_room() -> None:
    async with world() as home:
        for _ in range(10):
            with pytest.raises(BailiwickError) as refused:
                await home.ask("fails")
            assert refused.value.code is Code.DIVISION_BY_ZERO


async def test_a_polled_query_is_cancelled_by_its_info() -> None:
    async with world() as home:
        answer = await home.ask("slow")
        assert await home.cancel(answer.info) == flight.CANCEL_STATUS_CANCELLED
        await home.queries.runs[0].ended.wait()
        with pytest.raises(BailiwickError):
            await home.on(answer)
        ready = await home.ask("numbers")
        assert await home.cancel(ready.info) == flight.CANCEL_STATUS_CANCELLED


async def test_a_change_that_has_happened_cannot_be_cancelled() -> None:
    async with world() as home:
        answer = await home.ask("insert")
        assert await home.cancel(answer.info) == flight.CANCEL_STATUS_NOT_CANCELLABLE


async def test_closing_ends_everything() -> None:
    async with world() as home:
        await home.ask("slow")
        await home.ask("numbers")
    assert all(run.ended.is_set() for run in home.queries.runs)


def info_of(home: World, errand: Read | Outcome, who: Principal = ANN) -> flight.FlightInfo:
    ticket = pack(sql.TicketStatementQuery(statement_handle=home.tickets.issue(who, errand)))
    return flight.FlightInfo(endpoint=[flight.FlightEndpoint(ticket=flight.Ticket(ticket=ticket))])


async def test_a_running_read_is_cancelled_by_its_info_in_both_ways() -> None:
    async with world() as home:
        for way in ("new", "old"):
            query_id = new_query_id()
            info = info_of(home, Read("slow", None, query_id))
            running = asyncio.create_task(run(home, query_id))
            await eventually(partial(is_living, home, query_id))
            if way == "new":
                assert await home.cancel(info) == flight.CANCEL_STATUS_CANCELLED
            else:
                body = pack(sql.ActionCancelQueryRequest(info=info.SerializeToString()))
                packed = await home.cancelling.cancel_query(ANN, body)
                assert packed == pack(sql.ActionCancelQueryResult(result="CANCEL_RESULT_CANCELLED"))
            with pytest.raises(BailiwickError) as ended:
                await running
            assert ended.value.code is Code.QUERY_CANCELLED
            assert await home.cancel(info) == flight.CANCEL_STATUS_NOT_CANCELLABLE


def is_living(home: World, query_id: QueryId) -> bool:
    return home.queries.progress(query_id) is not None


async def run(home: World, query_id: QueryId) -> None:
    async with home.queries.run(Statement("slow", ANN, "flight_sql"), query_id=query_id):
        pass


async def test_an_info_of_another_cancels_nothing() -> None:
    async with world() as home:
        info = info_of(home, Read("slow", None, new_query_id()))
        with pytest.raises(BailiwickError) as refused:
            await home.cancel(info, BOB)
        assert refused.value.code is Code.INVALID_ARGUMENTS


async def renewed(home: World, info: flight.FlightInfo) -> flight.FlightEndpoint:
    request = flight.RenewFlightEndpointRequest(endpoint=info.endpoint[0]).SerializeToString()
    return flight.FlightEndpoint.FromString(await home.cancelling.renew(ANN, request))


async def test_a_renewed_ticket_is_good_for_longer() -> None:
    async with world() as home:
        read = Read("numbers", None, new_query_id())
        info = info_of(home, read)
        home.clock[0] += TICKET_S - 1
        endpoint = await renewed(home, info)
        assert endpoint.expiration_time.seconds == int(home.clock[0] + TICKET_S)
        home.clock[0] += TICKET_S - 1
        assert home.tickets.redeem(ANN, read_ticket(endpoint.ticket.SerializeToString())) == read
        with pytest.raises(BailiwickError):
            await renewed(home, info)


async def test_the_outcome_of_a_change_is_kept_as_long_as_its_renewed_ticket() -> None:
    async with world() as home:
        query_id = new_query_id()
        home.outcomes.keep(query_id, "ann", (b"x",))
        info = info_of(home, Outcome(query_id))
        home.clock[0] += TICKET_S - 1
        await renewed(home, info)
        home.clock[0] += TICKET_S - 1
        assert home.outcomes.fetch(query_id) == (b"x",)
        with pytest.raises(BailiwickError):
            await renewed(home, info_of(home, Outcome(new_query_id())))


async def test_a_polled_result_is_not_promised_for_longer_than_it_is_kept() -> None:
    async with world() as home:
        answer = await home.ask("numbers")
        until = answer.info.endpoint[0].expiration_time.seconds
        home.clock[0] += 100
        assert (await renewed(home, answer.info)).expiration_time.seconds == until

"""The Flight SQL door: a client's bytes become commands, and answers become a client's bytes.

It knows who calls and in which session, because the service around it has asked first; it knows nothing of
gRPC. It only decides who answers: `statements.py` runs statements, `lookups.py` knows the catalog, and so on.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, assert_never

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.clock import Clock, wall
from bailiwick.doors.flight_sql import reading
from bailiwick.doors.flight_sql.beginnings import BeginningLimits, Beginnings
from bailiwick.doors.flight_sql.binding import BindingLimits, BoundStatements, read_rows
from bailiwick.doors.flight_sql.caller import Caller
from bailiwick.doors.flight_sql.cancelling import Cancelling
from bailiwick.doors.flight_sql.commands import (
    ActionName,
    Ingest,
    PreparedBind,
    PreparedQuery,
    PreparedUpdate,
    StatementQuery,
    StatementUpdate,
)
from bailiwick.doors.flight_sql.infos import about, timestamp
from bailiwick.doors.flight_sql.ingest import IngestDoor, Ingests
from bailiwick.doors.flight_sql.lookups import Lookups
from bailiwick.doors.flight_sql.outcomes import CARRIED_BYTES_MAX, OutcomeLimits, Outcomes
from bailiwick.doors.flight_sql.parameters import parameter_schema
from bailiwick.doors.flight_sql.polling import Described, PollLimits, Polls, at_once
from bailiwick.doors.flight_sql.prepared import Handles
from bailiwick.doors.flight_sql.session_options import SessionOptions
from bailiwick.doors.flight_sql.statements import READS, Queries, Statements, Telling, Write
from bailiwick.doors.flight_sql.tickets import LookedUp, Outcome, Read, Tickets, refusal
from bailiwick.doors.flight_sql.whereabouts import Whereabouts
from bailiwick.doors.flight_sql.wire import flight_data, pack, parse, schema_header
from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.ids import QueryId
from bailiwick.queries.statement import UNKNOWN_ROWS, Prepared, RanOn, Statement
from bailiwick.results.batches import frames_of_table, read_schema, schema_message


class AllQueries(Queries, Protocol):
    """The query service, as far as this door needs it."""

    def is_trifle(self, statement: Statement) -> bool: ...

    async def cancel(self, query_id: QueryId, by: Principal) -> None: ...

    def progress(self, query_id: QueryId) -> tuple[int, int] | None: ...

    def position(self, query_id: QueryId) -> int | None: ...


@dataclass(frozen=True, slots=True)
class FlightSqlLimits:
    ticket_s: float = 300.0
    message_bytes_max: int = 16 << 20
    """The largest single message sent to a client."""
    outcomes: OutcomeLimits = field(default_factory=OutcomeLimits)
    bindings: BindingLimits = field(default_factory=BindingLimits)
    polls: PollLimits = field(default_factory=PollLimits)
    beginnings: BeginningLimits = field(default_factory=BeginningLimits)


class FlightSqlDoor:
    """Belongs to one event loop. Close it before the query service."""

    def __init__(
        self,
        queries: AllQueries,
        seal: Seal,
        limits: FlightSqlLimits,
        *,
        lookups: Lookups,
        options: SessionOptions,
        ingests: Ingests,
        whereabouts: Whereabouts | None = None,
        now: Clock = wall,
    ) -> None:
        self._now = now
        self._whereabouts = whereabouts = whereabouts or Whereabouts()
        self._ticket_s = limits.ticket_s
        self._bindings = limits.bindings
        self._tickets = Tickets(seal, ticket_s=limits.ticket_s, now=now)
        self._handles = Handles(seal, now=now)
        self._bound = BoundStatements(self._handles, limits.bindings, now=now)
        self._outcomes = Outcomes(limits.outcomes, keep_s=limits.ticket_s, now=now)
        self._beginnings = Beginnings(queries, limits.beginnings)
        self._statements = Statements(
            queries,
            self._bound,
            self._outcomes,
            options,
            self._beginnings,
            message_bytes_max=limits.message_bytes_max,
            whereabouts=whereabouts,
        )
        self._polls = Polls(queries, seal, self._tickets, limits.polls, whereabouts=whereabouts, now=now)
        self._cancelling = Cancelling(
            queries,
            self._tickets,
            self._polls,
            extend=self._outcomes.extend,
            ticket_s=limits.ticket_s,
            whereabouts=whereabouts,
            now=now,
        )
        self._lookups = lookups
        self._options = options
        self._ingest = IngestDoor(ingests)

    async def close(self) -> None:
        await self._polls.close()
        await self._beginnings.close()

    async def flight_info(self, caller: Caller, descriptor: bytes, telling: Telling) -> bytes:
        """GetFlightInfo: a ticket for the answer. A change runs here, and only here."""
        query = reading.read_query(descriptor)
        if not isinstance(query, StatementQuery | PreparedQuery):
            errand = LookedUp(reading.command_of(descriptor), caller.settings.time_zone)
            schema = schema_message(self._lookups.schema(query))
            return self._info(caller, descriptor, schema, errand)
        statement = await self._statements.described(caller, query)
        if statement.kind in READS:
            read = self._statements.promise(caller, statement)
            return self._info(caller, descriptor, statement.schema, read, query_id=read.query_id)
        changed = await self._statements.change(caller, statement, telling)
        return self._info(
            caller,
            descriptor,
            changed.schema,
            self._outcome(changed.query_id),
            query_id=changed.query_id,
            total_records=changed.affected_rows,
            ran_on=changed.ran_on,
        )

    async def poll(self, caller: Caller, descriptor: bytes, telling: Telling) -> bytes:
        """PollFlightInfo: the same, for those who would rather ask again than wait."""
        is_new = self._polls.asked(caller.principal, parse(flight.FlightDescriptor, descriptor)) is None
        if is_new and not isinstance(reading.read_query(descriptor), StatementQuery | PreparedQuery):
            return at_once(await self.flight_info(caller, descriptor, telling))
        return await self._polls.poll(caller.principal, descriptor, partial(self._to_poll, caller))

    async def schema(self, caller: Caller, descriptor: bytes) -> bytes:
        """GetSchema: what the answer would look like. Nothing runs."""
        query = reading.read_query(descriptor)
        if isinstance(query, StatementQuery | PreparedQuery):
            schema = (await self._statements.described(caller, query)).schema
        else:
            schema = schema_message(self._lookups.schema(query))
        return flight.SchemaResult(schema=schema or b"").SerializeToString()

    async def fetch(self, caller: Caller, ticket: bytes, write: Write, telling: Telling) -> None:
        """DoGet: write the answer, message by message."""
        errand = self._tickets.redeem(caller.principal, reading.read_ticket(ticket))
        match errand:
            case Read():
                await self._statements.read(caller, errand, write, telling)
            case Outcome(query_id) if self._polls.holds(query_id):
                await telling.announce(query_id)
                async with self._polls.fetch(caller.principal, query_id) as result:
                    if result.ran_on is not None:
                        telling.ran_on(result.ran_on)
                    await self._statements.write(result, write)
            case Outcome(query_id):
                messages = errand.messages or self._outcomes.fetch(query_id)
                if messages is None:
                    await self._whereabouts.check_result(errand.gateway, query_id)
                    raise refusal()
                await telling.announce(query_id)
                for message in messages:
                    await write(message)
            case LookedUp():
                await self._look_up(caller, errand, write)
            case _:
                assert_never(errand)

    async def put(
        self, caller: Caller, first_message: bytes, rest: AsyncIterator[bytes], telling: Telling
    ) -> bytes:
        """DoPut: an update's or an ingest's count of rows, or the handle that parameters were bound to."""
        command = reading.read_put(first_message)
        principal, pinned_to = caller.principal, self._whereabouts.pinned_to(caller.session.id)
        match command:
            case StatementUpdate(text):
                await read_rows(first_message, rest, 0, self._bindings)
                return _count(caller, await self._statements.update(caller, text, ((),), telling))
            case PreparedUpdate(handle):
                statement, rows = await self._bound.rows(principal, handle, first_message, rest, pinned_to)
                return _count(caller, await self._statements.update(caller, statement.sql, rows, telling))
            case PreparedBind(handle):
                bound = await self._bound.bind(principal, handle, first_message, rest, pinned_to)
                return _put_result(sql.DoPutPreparedStatementResult(prepared_statement_handle=bound))
            case Ingest():
                settings = caller.wishes.over(caller.settings)
                if caller.wishes.key is not None:
                    raise BailiwickError(
                        Code.NOT_SUPPORTED, "An ingest takes no idempotency key: its rows are not compared."
                    )
                rows_brought = await self._ingest.put(
                    principal, settings, command, first_message, rest, telling.announce
                )
                return _count(caller, rows_brought)
            case _:
                assert_never(command)

    async def act(self, caller: Caller, action: bytes) -> bytes | None:
        """DoAction: the one result, or None for an action that answers with nothing."""
        name, body = reading.read_action(action)
        match name:
            case ActionName.CREATE_PREPARED_STATEMENT:
                return _result(pack(await self._prepare(caller, reading.read_create_prepared(body))))
            case ActionName.CLOSE_PREPARED_STATEMENT:
                pinned_to = self._whereabouts.pinned_to(caller.session.id)
                self._bound.close(caller.principal, reading.read_close_prepared(body), pinned_to)
                return None
            case ActionName.SET_SESSION_OPTIONS:
                return _result(await self._options.set(caller, body))
            case ActionName.GET_SESSION_OPTIONS:
                return _result(self._options.get(caller, body))
            case ActionName.CLOSE_SESSION:
                return _result(self._options.close(caller, body))
            case ActionName.CANCEL_FLIGHT_INFO:
                return _result(await self._cancelling.cancel_info(caller.principal, body))
            case ActionName.CANCEL_QUERY:
                return _result(await self._cancelling.cancel_query(caller.principal, body))
            case ActionName.RENEW_FLIGHT_ENDPOINT:
                return _result(await self._cancelling.renew(caller.principal, body))
            case _:
                assert_never(name)

    async def _prepare(self, caller: Caller, text: str) -> sql.ActionCreatePreparedStatementResult:
        statement, prepared = await self._statements.prepare(caller, text)
        return sql.ActionCreatePreparedStatementResult(
            prepared_statement_handle=self._handles.issue(caller.principal, statement),
            dataset_schema=prepared.schema or b"",
            parameter_schema=parameter_schema(
                prepared.parameters, timestamp_unit=caller.driver.timestamp_unit
            ),
            is_update=_is_update(prepared),
        )

    async def _look_up(self, caller: Caller, asked: LookedUp, write: Write) -> None:
        lookup = reading.read_lookup(asked.command)
        table = await self._lookups.answer(caller.principal, lookup, time_zone=asked.time_zone)
        schema, frames = frames_of_table(table)
        await write(flight_data(schema_header(schema)))
        for frame in frames:
            await write(flight_data(frame.header, frame.body))

    async def _to_poll(self, caller: Caller, descriptor: bytes) -> Described:
        query = reading.read_query(descriptor)
        if not isinstance(query, StatementQuery | PreparedQuery):
            raise BailiwickError(Code.INVALID_ARGUMENTS, "Only statements can be polled.")
        statement = await self._statements.described(caller, query)
        statement.check_complete()
        meant = caller.statement(statement.sql, statement.parameters)
        return Described(meant, statement.kind, statement.schema if statement.kind in READS else None)

    def _outcome(self, query_id: QueryId) -> Outcome:
        """Where there are several gateways, a small one goes with its ticket, so that each can give it."""
        gateway = self._whereabouts.name()
        messages = () if gateway is None else self._outcomes.fetch(query_id) or ()
        is_small = sum(map(len, messages)) <= CARRIED_BYTES_MAX
        return Outcome(query_id, gateway, messages if is_small else ())

    def _info(
        self,
        caller: Caller,
        descriptor: bytes,
        schema: bytes | None,
        errand: Read | Outcome | LookedUp,
        *,
        query_id: QueryId | None = None,
        total_records: int = UNKNOWN_ROWS,
        ran_on: RanOn | None = None,
    ) -> bytes:
        ticket = pack(
            sql.TicketStatementQuery(statement_handle=self._tickets.issue(caller.principal, errand))
        )
        endpoint = flight.FlightEndpoint(
            ticket=flight.Ticket(ticket=ticket), expiration_time=timestamp(self._now() + self._ticket_s)
        )
        if isinstance(errand, Outcome) and not errand.messages:
            endpoint.location.extend(flight.Location(uri=uri) for uri in self._whereabouts.locations)
        return flight.FlightInfo(
            schema=schema or b"",
            flight_descriptor=parse(flight.FlightDescriptor, descriptor),
            endpoint=[endpoint],
            total_records=total_records,
            total_bytes=-1,
            app_metadata=about(query_id, ran_on=ran_on) if query_id else b"",
        ).SerializeToString()


def _is_update(prepared: Prepared) -> bool | None:
    """Whether drivers should run it as an update, which drops its rows; None leaves the choice to them."""
    if prepared.kind in (Kind.READ, Kind.SHOWS):
        return False
    return None if prepared.schema is None else len(read_schema(prepared.schema)) == 0


def _count(caller: Caller, rows: int) -> bytes:
    if rows == UNKNOWN_ROWS:
        rows = caller.driver.unknown_rows
    return _put_result(sql.DoPutUpdateResult(record_count=rows))


def _put_result(result: sql.DoPutUpdateResult | sql.DoPutPreparedStatementResult) -> bytes:
    return flight.PutResult(app_metadata=result.SerializeToString()).SerializeToString()


def _result(body: bytes) -> bytes:
    return flight.Result(body=body).SerializeToString()

"""The Flight SQL door: a client's bytes become statements, and results become a client's bytes.

It knows who asks, because the service around it has asked first; it knows nothing of gRPC. Changes run at
GetFlightInfo, because drivers may never call DoGet for them; reads start at DoGet.
"""

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.clock import Clock, wall
from bailiwick.doors.flight_sql import reading, sql_info
from bailiwick.doors.flight_sql.commands import (
    ActionName,
    PreparedQuery,
    PreparedUpdate,
    SqlInfoQuery,
    StatementQuery,
    StatementUpdate,
)
from bailiwick.doors.flight_sql.outcomes import AnnouncedIds, OutcomeLimits, Outcomes
from bailiwick.doors.flight_sql.parameters import parameter_schema
from bailiwick.doors.flight_sql.prepared import Handles, PreparedStatement
from bailiwick.doors.flight_sql.tickets import Outcome, Read, ServerFacts, Tickets, refusal
from bailiwick.doors.flight_sql.wire import flight_data, pack, parse, schema_header
from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.ids import QueryId, new_query_id
from bailiwick.queries.statement import Prepared, Result, Statement
from bailiwick.results.batches import Frame, read_schema

DOOR = "flight_sql"

Write = Callable[[bytes], Awaitable[None]]
Announce = Callable[[QueryId], Awaitable[None]]
"""Tells the client its query's id before the query has ended."""


class Queries(Protocol):
    """The query service, as far as this door needs it."""

    async def prepare(self, statement: Statement) -> Prepared: ...

    def run(
        self, statement: Statement, *, query_id: QueryId | None = None, expected_schema: bytes | None = None
    ) -> AbstractAsyncContextManager[Result]: ...


@dataclass(frozen=True, slots=True)
class FlightSqlLimits:
    ticket_s: float = 300.0
    message_bytes_max: int = 16 << 20
    """The largest single message sent to a client."""
    outcomes: OutcomeLimits = field(default_factory=OutcomeLimits)


class FlightSqlDoor:
    def __init__(self, queries: Queries, seal: Seal, limits: FlightSqlLimits, *, now: Clock = wall) -> None:
        self._queries = queries
        self._limits = limits
        self._tickets = Tickets(seal, ticket_s=limits.ticket_s, now=now)
        self._handles = Handles(seal, now=now)
        self._outcomes = Outcomes(limits.outcomes, keep_s=limits.ticket_s, now=now)
        self._announced = AnnouncedIds()

    async def flight_info(self, principal: Principal, descriptor: bytes, announce: Announce) -> bytes:
        """GetFlightInfo: a ticket for the answer. A change runs here, and only here."""
        query = reading.read_query(descriptor)
        if isinstance(query, SqlInfoQuery):
            ticket = self._tickets.issue(principal, ServerFacts(query.codes))
            schema, _ = sql_info.answer(query.codes)
            return _flight_info(descriptor, schema, ticket)
        if not isinstance(query, StatementQuery | PreparedQuery):
            raise _not_supported(query)
        statement = await self._described(principal, query)
        _refuse_parameters(statement)
        if statement.kind in (Kind.READ, Kind.SHOWS):
            return self._promise(principal, statement, descriptor)
        return await self._change(principal, statement, descriptor, announce)

    async def schema(self, principal: Principal, descriptor: bytes) -> bytes:
        """GetSchema: what the answer would look like. Nothing runs."""
        query = reading.read_query(descriptor)
        if isinstance(query, SqlInfoQuery):
            schema: bytes | None = sql_info.answer(query.codes)[0]
        elif isinstance(query, StatementQuery | PreparedQuery):
            schema = (await self._described(principal, query)).schema
        else:
            raise _not_supported(query)
        return flight.SchemaResult(schema=schema or b"").SerializeToString()

    async def fetch(self, principal: Principal, ticket: bytes, write: Write, announce: Announce) -> None:
        """DoGet: write the answer, message by message."""
        errand = self._tickets.redeem(principal, reading.read_ticket(ticket))
        match errand:
            case Read():
                await self._read(principal, errand, write, announce)
            case Outcome(query_id):
                messages = self._outcomes.fetch(query_id)
                if messages is None:
                    raise refusal()
                for message in messages:
                    await write(message)
            case ServerFacts(codes):
                for message in sql_info.answer(codes)[1]:
                    await write(message)

    async def update(self, principal: Principal, first_message: bytes, announce: Announce) -> bytes:
        """DoPut of an update: run it, and say how many rows it touched."""
        update = reading.read_put(first_message)
        if isinstance(update, PreparedUpdate):
            prepared, _ = self._handles.open(principal, update.handle)
            _refuse_parameters(prepared)
            text = prepared.sql
        elif isinstance(update, StatementUpdate):
            text = update.sql
        else:
            raise _not_supported(update)
        query_id = new_query_id()
        await announce(query_id)
        async with self._queries.run(_statement(principal, text), query_id=query_id) as result:
            if result.kind in (Kind.READ, Kind.SHOWS):
                raise BailiwickError(Code.INVALID_ARGUMENTS, "This statement is a query, not an update.")
            async for _ in result.frames():
                pass
            outcome = sql.DoPutUpdateResult(record_count=result.affected_rows)
        return flight.PutResult(app_metadata=outcome.SerializeToString()).SerializeToString()

    async def act(self, principal: Principal, action: bytes) -> bytes | None:
        """DoAction: the one result, or None for an action that answers with nothing."""
        name, body = reading.read_action(action)
        match name:
            case ActionName.CREATE_PREPARED_STATEMENT:
                return _result(pack(await self._prepare(principal, reading.read_create_prepared(body))))
            case ActionName.CLOSE_PREPARED_STATEMENT:
                reading.check_close_prepared(body)
                return None
            case ActionName.CLOSE_SESSION:
                parse(flight.CloseSessionRequest, body)
                closed = flight.CloseSessionResult(status=flight.CloseSessionResult.CLOSED)
                return _result(closed.SerializeToString())
        raise BailiwickError(Code.NOT_SUPPORTED, f"The action {name.value} is not supported.")

    async def _prepare(self, principal: Principal, text: str) -> sql.ActionCreatePreparedStatementResult:
        prepared = await self._queries.prepare(_statement(principal, text))
        statement = PreparedStatement(text, prepared.kind, prepared.schema, len(prepared.parameters))
        return sql.ActionCreatePreparedStatementResult(
            prepared_statement_handle=self._handles.issue(principal, statement),
            dataset_schema=prepared.schema or b"",
            parameter_schema=parameter_schema(prepared.parameters),
            is_update=_is_update(prepared),
        )

    async def _described(
        self, principal: Principal, query: StatementQuery | PreparedQuery
    ) -> PreparedStatement:
        if isinstance(query, PreparedQuery):
            statement, fresh = self._handles.open(principal, query.handle)
            if fresh:
                return statement
            text = statement.sql
        else:
            text = query.sql
        prepared = await self._queries.prepare(_statement(principal, text))
        return PreparedStatement(text, prepared.kind, prepared.schema, len(prepared.parameters))

    def _promise(self, principal: Principal, statement: PreparedStatement, descriptor: bytes) -> bytes:
        query_id = self._announced.announce()
        ticket = self._tickets.issue(principal, Read(statement.sql, statement.schema, query_id))
        return _flight_info(descriptor, statement.schema, ticket, query_id=query_id)

    async def _change(
        self, principal: Principal, statement: PreparedStatement, descriptor: bytes, announce: Announce
    ) -> bytes:
        query_id = new_query_id()
        await announce(query_id)
        async with self._queries.run(_statement(principal, statement.sql), query_id=query_id) as result:
            messages = [flight_data(schema_header(result.schema))]
            size_bytes = 0
            async for frame in result.frames():
                size_bytes += frame.size_bytes
                self._outcomes.check_size(size_bytes)
                messages.append(self._message(frame))
            affected_rows = result.affected_rows
        self._outcomes.keep(query_id, principal.name, tuple(messages))
        ticket = self._tickets.issue(principal, Outcome(query_id))
        return _flight_info(descriptor, result.schema, ticket, query_id=query_id, total_records=affected_rows)

    async def _read(self, principal: Principal, read: Read, write: Write, announce: Announce) -> None:
        query_id = self._announced.take(read.query_id)
        await announce(query_id)
        statement = _statement(principal, read.sql)
        async with self._queries.run(statement, query_id=query_id, expected_schema=read.schema) as result:
            _check_announced(read.schema, result.schema)
            await write(flight_data(schema_header(result.schema)))
            async for frame in result.frames():
                await write(self._message(frame))

    def _message(self, frame: Frame) -> bytes:
        if frame.size_bytes > self._limits.message_bytes_max:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"A part of the result has {frame.size_bytes} bytes; one message may have at most "
                f"{self._limits.message_bytes_max}. Select fewer columns, or shorter values.",
                retryable=False,
            )
        return flight_data(frame.header, frame.body)


def _statement(principal: Principal, text: str) -> Statement:
    return Statement(sql=text, principal=principal, door=DOOR)


def _not_supported(command: object) -> BailiwickError:
    return BailiwickError(Code.NOT_SUPPORTED, f"{type(command).__name__} is not supported.")


def _is_update(prepared: Prepared) -> bool | None:
    """Whether drivers should run it as an update, which drops its rows; None leaves the choice to them."""
    if prepared.kind in (Kind.READ, Kind.SHOWS):
        return False
    return None if prepared.schema is None else len(read_schema(prepared.schema)) == 0


def _refuse_parameters(statement: PreparedStatement) -> None:
    if statement.parameter_count:
        raise BailiwickError(Code.NOT_SUPPORTED, "Statements with parameters cannot be run.")


def _check_announced(announced: bytes | None, streamed: bytes) -> None:
    """Drivers rely on the announced schema; a table that changed since must not be read into it."""
    if announced is None or announced == streamed:
        return
    if not read_schema(announced).equals(read_schema(streamed)):
        raise BailiwickError(
            Code.SEMANTIC_ERROR,
            "The result's columns have changed since they were announced. Run the query again.",
        )


def _flight_info(
    descriptor: bytes,
    schema: bytes | None,
    ticket: bytes,
    *,
    query_id: QueryId | None = None,
    total_records: int = -1,
) -> bytes:
    packed = pack(sql.TicketStatementQuery(statement_handle=ticket))
    return flight.FlightInfo(
        schema=schema or b"",
        flight_descriptor=parse(flight.FlightDescriptor, descriptor),
        endpoint=[flight.FlightEndpoint(ticket=flight.Ticket(ticket=packed))],
        total_records=total_records,
        total_bytes=-1,
        app_metadata=json.dumps({"query_id": query_id}).encode() if query_id else b"",
    ).SerializeToString()


def _result(body: bytes) -> bytes:
    return flight.Result(body=body).SerializeToString()

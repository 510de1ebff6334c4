"""Statements of this door: described, promised, run. What a client's bytes meant is decided before.

Changes run when they are asked for, because drivers may never fetch; reads start when they are fetched.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from bailiwick.doors.flight_sql.beginnings import Beginnings
from bailiwick.doors.flight_sql.binding import BoundStatements, run_rows
from bailiwick.doors.flight_sql.caller import Caller
from bailiwick.doors.flight_sql.commands import PreparedQuery, StatementQuery
from bailiwick.doors.flight_sql.infos import about
from bailiwick.doors.flight_sql.outcomes import AnnouncedIds, Outcomes
from bailiwick.doors.flight_sql.prepared import PreparedStatement
from bailiwick.doors.flight_sql.session_options import SessionOptions
from bailiwick.doors.flight_sql.tickets import Read
from bailiwick.doors.flight_sql.whereabouts import Whereabouts
from bailiwick.doors.flight_sql.wire import flight_data, schema_header
from bailiwick.engines.description import Kind
from bailiwick.engines.parameters import Row
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import QueryId, new_query_id
from bailiwick.queries import session_statements
from bailiwick.queries.statement import UNKNOWN_ROWS, Prepared, RanOn, Result, Statement
from bailiwick.queries.submissions import part_of
from bailiwick.results.batches import NO_COLUMNS, Frame, read_schema
from bailiwick.telemetry.traces import current_trace

Write = Callable[[bytes], Awaitable[None]]


class Telling(Protocol):
    """What a client is told beside the answer."""

    async def announce(self, query_id: QueryId) -> None:
        """Its query's id, ahead of the answer. Only the first call counts."""

    def ran_on(self, where: RanOn) -> None:
        """Where it ran, at the end of the answer."""


READS = (Kind.READ, Kind.SHOWS)
_SESSION_CHANGED = Prepared(Kind.CHANGE, NO_COLUMNS)


class Queries(Protocol):
    """The query service, as far as statements need it."""

    async def prepare(self, statement: Statement) -> Prepared: ...

    def run(
        self, statement: Statement, *, query_id: QueryId | None = None, expected_schema: bytes | None = None
    ) -> AbstractAsyncContextManager[Result]: ...


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that has happened. Its answer waits under the query's id."""

    query_id: QueryId
    schema: bytes
    affected_rows: int
    ran_on: RanOn | None = None


class Statements:
    def __init__(
        self,
        queries: Queries,
        bound: BoundStatements,
        outcomes: Outcomes,
        options: SessionOptions,
        beginnings: Beginnings,
        *,
        message_bytes_max: int,
        whereabouts: Whereabouts,
    ) -> None:
        self._queries = queries
        self._beginnings = beginnings
        self._bound = bound
        self._outcomes = outcomes
        self._options = options
        self._message_bytes_max = message_bytes_max
        self._whereabouts = whereabouts
        self._announced = AnnouncedIds(whereabouts.name)

    async def prepare(self, caller: Caller, text: str) -> tuple[PreparedStatement, Prepared]:
        """What the statement is, for this caller, with nothing bound to it."""
        prepared = await self._ask(caller, text)
        statement = PreparedStatement(
            text,
            prepared.kind,
            prepared.schema,
            len(prepared.parameters),
            settings=caller.settings,
        )
        if caller.driver.runs_what_it_prepares and prepared.kind in READS and not prepared.parameters:
            query_id = self._announced.announce()
            self._begin(query_id, caller.statement(text), prepared.schema, is_promised=False)
        return statement, prepared

    async def described(self, caller: Caller, query: StatementQuery | PreparedQuery) -> PreparedStatement:
        """The statement with what is bound to it, as it would be answered now."""
        if isinstance(query, StatementQuery):
            return (await self.prepare(caller, query.sql))[0]
        statement, is_fresh = self._bound.open(
            caller.principal, query.handle, self._whereabouts.pinned_to(caller.session.id)
        )
        if is_fresh and statement.settings == caller.settings:
            return statement
        prepared = await self._ask(caller, statement.sql, statement.parameters)
        return replace(statement.described_as(prepared), settings=caller.settings)

    def promise(self, caller: Caller, statement: PreparedStatement) -> Read:
        """A read for later, and the id under which its first fetch will run. A short one is begun already."""
        statement.check_complete()
        settings = caller.wishes.over(statement.settings)
        meant = replace(
            caller.meant(statement.sql, statement.parameters, settings), submission=caller.wishes.key
        )
        query_id = self._beginnings.find(meant)
        if query_id is None:
            query_id = self._announced.announce()
            self._begin(query_id, meant, statement.schema)
        return Read(
            statement.sql, statement.schema, query_id, statement.parameters, settings, caller.wishes.key
        )

    async def read(self, caller: Caller, read: Read, write: Write, telling: Telling) -> None:
        """Run it and write its answer, message by message."""
        query_id = self._announced.take(read.query_id)
        await telling.announce(query_id)
        statement = caller.meant(read.sql, read.parameters, read.settings)
        statement = replace(statement, submission=read.submission or statement.submission)
        async with self._beginnings.take(query_id, statement) as begun:
            if begun is not None:
                await self._send(begun, read, write, telling)
                return
        async with self._queries.run(statement, query_id=query_id, expected_schema=read.schema) as result:
            await self._send(result, read, write, telling)

    def _begin(
        self, query_id: QueryId, meant: Statement, schema: bytes | None, *, is_promised: bool = True
    ) -> None:
        """Nothing begins early where another gateway may be asked for it, nor in a trace: there a query
        stands below the call that fetches it."""
        if self._whereabouts.name() is None and current_trace() is None:
            self._beginnings.begin(query_id, meant, schema, is_promised=is_promised)

    async def _send(self, result: Result, read: Read, write: Write, telling: Telling) -> None:
        _tell_where(result, telling)
        await self.write(result, write, announced=read.schema)

    async def change(self, caller: Caller, statement: PreparedStatement, telling: Telling) -> Changed:
        """Run it now and keep its answer. One that came before under the same key is not run again."""
        statement.check_complete()
        query_id = new_query_id()
        if caller.wishes.key is None:
            await telling.announce(query_id)
        if await self._changed_session(caller, statement.sql):
            messages = (flight_data(schema_header(NO_COLUMNS)),)
            self._outcomes.keep(query_id, caller.principal.name, messages)
            return Changed(query_id, NO_COLUMNS, UNKNOWN_ROWS)
        async with self._queries.run(
            caller.statement(statement.sql, statement.parameters), query_id=query_id
        ) as result:
            await telling.announce(result.query_id)
            _tell_where(result, telling)
            if self._outcomes.fetch(result.query_id) is None:
                kept = await self._kept(result)
                self._outcomes.keep(result.query_id, caller.principal.name, kept)
            return Changed(result.query_id, result.schema, result.affected_rows, result.ran_on)

    async def update(self, caller: Caller, text: str, rows: tuple[Row, ...], telling: Telling) -> int:
        """Run an update, once for each row of parameters: how many rows it touched, -1 if nobody knows."""
        if await self._changed_session(caller, text):
            return UNKNOWN_ROWS
        query_id = new_query_id()
        if caller.wishes.key is None:
            await telling.announce(query_id)
        ids = chain((query_id,), iter(new_query_id, None))
        asked = iter(_asked(caller, text, rows))

        async def run(_row: Row) -> int:
            async with self._queries.run(next(asked), query_id=next(ids)) as result:
                if result.kind in READS:
                    raise BailiwickError(Code.INVALID_ARGUMENTS, "This statement is a query, not an update.")
                await telling.announce(result.query_id)
                _tell_where(result, telling)
                async for _ in result.frames():
                    pass
                return result.affected_rows

        return await run_rows(rows, run)

    async def _kept(self, result: Result) -> tuple[bytes, ...]:
        kept = [_first_message(result)]
        size_bytes = 0
        async for frame in result.frames():
            size_bytes += frame.size_bytes
            self._outcomes.check_size(size_bytes)
            kept.append(self._message(frame))
        return tuple(kept)

    async def write(self, result: Result, write: Write, *, announced: bytes | None = None) -> None:
        """The answer of a query that runs or has run: its schema, then each batch as it comes."""
        _check_announced(announced, result.schema)
        await write(_first_message(result))
        async for frame in result.frames():
            await write(self._message(frame))

    async def _ask(self, caller: Caller, text: str, parameters: Row = ()) -> Prepared:
        if session_statements.parse(text) is not None:
            return _SESSION_CHANGED
        return await self._queries.prepare(caller.statement(text, parameters))

    async def _changed_session(self, caller: Caller, text: str) -> bool:
        """Whether this was a statement about the session itself. It has had its effect then."""
        statement = session_statements.parse(text)
        if statement is None:
            return False
        await self._options.perform(caller, statement)
        return True

    def _message(self, frame: Frame) -> bytes:
        content_bytes = frame.content_bytes
        if content_bytes > self._message_bytes_max:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"A part of the result has {content_bytes} bytes; one message may have at most "
                f"{self._message_bytes_max}. Select fewer columns, or shorter values.",
                retryable=False,
            )
        return flight_data(frame.header, frame.body)


def _asked(caller: Caller, text: str, rows: Sequence[Row]) -> Iterator[Statement]:
    """The statement for each of the rows. Where there are several, each has its part of the call's key."""
    key = caller.wishes.key
    for number, row in enumerate(rows, start=1):
        statement = caller.statement(text, row)
        if key is not None and len(rows) > 1:
            statement = replace(statement, submission=part_of(key, number, rows))
        yield statement


def _first_message(result: Result) -> bytes:
    """The schema; and where it ran, if that is not where it was meant to."""
    where = result.ran_on
    is_fallback = where is not None and where.is_fallback
    note = about(result.query_id, ran_on=where) if is_fallback else b""
    return flight_data(schema_header(result.schema), app_metadata=note)


def _tell_where(result: Result, telling: Telling) -> None:
    where = result.ran_on
    if where is not None:
        telling.ran_on(where)


def _check_announced(announced: bytes | None, streamed: bytes) -> None:
    """Drivers rely on the announced schema; a table that changed since must not be read into it."""
    if announced is None or announced == streamed:
        return
    if not read_schema(announced).equals(read_schema(streamed)):
        raise BailiwickError(
            Code.SEMANTIC_ERROR,
            "The result's columns have changed since they were announced. Run the query again.",
        )

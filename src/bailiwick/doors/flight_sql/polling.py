"""PollFlightInfo: a statement that runs while its client asks from time to time how far it is.

The query runs in the background under its own id. Its result waits, in the same window and spool as any
other, until somebody fetches it with the ticket of the last answer, once. A client that stops asking, or
never fetches, loses its query: what is kept is bounded per principal, in all, and in time.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick._generated import Sealed_pb2 as sealed
from bailiwick.clock import Clock, wall
from bailiwick.doors.flight_sql.infos import about, timestamp
from bailiwick.doors.flight_sql.tickets import (
    Outcome,
    Tickets,
    bearer_of,
    opened_outcome,
    refusal,
    sealed_outcome,
)
from bailiwick.doors.flight_sql.whereabouts import Whereabouts
from bailiwick.doors.flight_sql.wire import pack, parse, unpack
from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.ids import QueryId, new_query_id
from bailiwick.queries import failures
from bailiwick.queries.statement import RanOn, Result, Statement
from bailiwick.queries.submissions import digest_of
from bailiwick.results.batches import Frame
from bailiwick.telemetry.logs import logger

PURPOSE = "poll"
HANDLE_S = 86_400.0
PROGRESS_MAX = 0.99

_log = logger(__name__)


class Queries(Protocol):
    """The query service, as far as polling needs it."""

    def run(
        self, statement: Statement, *, query_id: QueryId | None = None, expected_schema: bytes | None = None
    ) -> AbstractAsyncContextManager[Result]: ...

    def progress(self, query_id: QueryId) -> tuple[int, int] | None:
        """Tasks done and tasks in all, of a query that lives."""

    def position(self, query_id: QueryId) -> int | None:
        """The place in the queue, of a query that waits."""


@dataclass(frozen=True, slots=True)
class PollLimits:
    per_principal_max: int = 8
    total_max: int = 64
    answer_s: float = 1.0
    """An answer waits this long for the result, so that a client which asks at once again does no harm."""
    abandoned_s: float = 60.0
    """A query that nobody asks about for this long is ended."""
    keep_s: float = 300.0
    """A result that nobody fetches is kept this long."""
    change_bytes_max: int = 8 << 20
    """What a change may answer with."""
    descriptor_bytes_max: int = 2 << 20
    """What a client asks with: it is kept, to be given back with the last answer."""


@dataclass(frozen=True, slots=True)
class Described:
    """A statement to run, and what was found out about it."""

    statement: Statement
    kind: Kind
    schema: bytes | None


Describe = Callable[[bytes], Awaitable[Described]]
"""What a descriptor with a command asks for."""


@dataclass(slots=True, eq=False)
class _Poll:
    query_id: QueryId
    owner: sealed.Bearer
    descriptor: bytes
    described: Described
    expires_at: float = 0.0
    result: Result | None = None
    error: BailiwickError | None = None
    is_taken: bool = False
    is_told: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is a result or an error."""
    is_released: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None


class Polls:
    """Belongs to one event loop. Close it before the query service."""

    def __init__(
        self,
        queries: Queries,
        seal: Seal,
        tickets: Tickets,
        limits: PollLimits | None = None,
        *,
        whereabouts: Whereabouts | None = None,
        now: Clock = wall,
    ) -> None:
        self._queries = queries
        self._seal = seal
        self._tickets = tickets
        self._limits = limits or PollLimits()
        self._whereabouts = whereabouts or Whereabouts()
        self._now = now
        self._polls: dict[QueryId, _Poll] = {}

    def __len__(self) -> int:
        return len(self._polls)

    async def close(self) -> None:
        """End every query that is polled."""
        polls = list(self._polls.values())
        for poll in polls:
            self._drop(poll)
        await asyncio.gather(*(poll.task for poll in polls if poll.task is not None), return_exceptions=True)

    async def poll(self, principal: Principal, descriptor: bytes, describe: Describe) -> bytes:
        """A PollInfo. A descriptor of ours asks on; any other is described and its statement started."""
        asked = self.asked(principal, parse(flight.FlightDescriptor, descriptor))
        if asked is None:
            described = await describe(descriptor)
            poll = self._of_key(principal, described.statement)
            poll = poll or self._start(principal, descriptor, described)
        else:
            await self._whereabouts.check_result(asked.gateway, asked.query_id)
            poll = self._owned(principal, asked.query_id)
        self._keep(poll, self._limits.abandoned_s if poll.result is None else None)
        try:
            async with asyncio.timeout(self._limits.answer_s):
                await poll.is_told.wait()
        except TimeoutError:
            return self._unfinished(poll)
        if poll.error is not None:
            raise poll.error
        return self._finished(principal, poll)

    def asked(self, principal: Principal, descriptor: flight.FlightDescriptor) -> Outcome | None:
        """What a descriptor of ours stands for, here or at another gateway; None if it is none of ours."""
        if descriptor.type != flight.FlightDescriptor.CMD:
            return None
        name, value = unpack(descriptor.cmd)
        if name != "TicketStatementQuery":
            return None
        handle = parse(sql.TicketStatementQuery, value).statement_handle
        try:
            payload = self._seal.open(PURPOSE, handle, self._now())
        except BailiwickError as error:
            raise refusal() from error
        message = parse(sealed.Ticket, payload)
        if message.bearer != bearer_of(principal):
            raise refusal()
        return opened_outcome(message.outcome)

    def holds(self, query_id: QueryId) -> bool:
        return query_id in self._polls

    @asynccontextmanager
    async def fetch(self, principal: Principal, query_id: QueryId) -> AsyncIterator[Result]:
        """The result, for whoever has its ticket: a read's once, a change's as often as one likes."""
        poll = self._owned(principal, query_id)
        if poll.result is None or poll.is_taken:
            raise refusal()
        if poll.described.kind is Kind.CHANGE:
            yield poll.result
            return
        poll.is_taken = True
        if poll.timer is not None:
            poll.timer.cancel()
        try:
            yield poll.result
        finally:
            self._drop(poll)

    def cancel(self, principal: Principal, query_id: QueryId) -> bool:
        """End it and forget its result. False if there is nothing to end: a change has happened by then."""
        poll = self._owned(principal, query_id)
        is_over = poll.error is not None or (poll.result is not None and poll.described.kind is Kind.CHANGE)
        if not is_over:
            self._drop(poll)
        return not is_over

    def expires_at(self, query_id: QueryId) -> float | None:
        """Until when the result can be fetched."""
        poll = self._polls.get(query_id)
        return None if poll is None else poll.expires_at

    def _start(self, principal: Principal, descriptor: bytes, described: Described) -> _Poll:
        if len(descriptor) > self._limits.descriptor_bytes_max:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"The command has {len(descriptor)} bytes, too many to be polled. Use GetFlightInfo.",
                retryable=False,
            )
        self._make_room(principal)
        poll = _Poll(new_query_id(), bearer_of(principal), descriptor, described)
        self._polls[poll.query_id] = poll
        poll.task = asyncio.get_running_loop().create_task(self._live(poll), name=f"poll-{poll.query_id}")
        return poll

    def _of_key(self, principal: Principal, statement: Statement) -> _Poll | None:
        """The poll of the same statement that came under the same key, and can still be asked about."""
        if statement.submission is None:
            return None
        for poll in self._polls.values():
            known = poll.described.statement
            is_same = poll.owner == bearer_of(principal) and known.submission == statement.submission
            if is_same and poll.error is None and not poll.is_taken:
                if digest_of(known) != digest_of(statement):
                    raise failures.key_reused()
                return poll
        return None

    def _make_room(self, principal: Principal) -> None:
        own = [poll for poll in self._polls.values() if poll.owner == bearer_of(principal)]
        for poll in own:
            if poll.error is not None:
                self._drop(poll)
        is_own_full = sum(poll.error is None for poll in own) >= self._limits.per_principal_max
        if is_own_full or len(self._polls) >= self._limits.total_max:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                "Too many statements are polled or wait to be fetched. Fetch or cancel one first.",
                retry_after_s=5.0,
            )

    async def _live(self, poll: _Poll) -> None:
        described = poll.described
        try:
            async with self._queries.run(
                described.statement, query_id=poll.query_id, expected_schema=described.schema
            ) as result:
                if described.kind is not Kind.CHANGE:
                    self._tell(poll, result)
                    await poll.is_released.wait()
                    return
                kept = await self._whole(result)
            self._tell(poll, kept)
        except BailiwickError as error:
            poll.error = error
        except asyncio.CancelledError:
            poll.error = refusal()
            raise
        except Exception:
            _log.exception("poll_broke", query_id=poll.query_id)
            poll.error = BailiwickError(Code.INTERNAL_ERROR, "The query broke.", query_id=poll.query_id)
        finally:
            poll.is_told.set()

    async def _whole(self, result: Result) -> Result:
        frames, size_bytes = [], 0
        async for frame in result.frames():
            size_bytes += frame.size_bytes
            if size_bytes > self._limits.change_bytes_max:
                raise BailiwickError(
                    Code.RESOURCE_EXHAUSTED,
                    f"The statement ran; its answer has over {self._limits.change_bytes_max} bytes and was "
                    "not kept.",
                    retryable=False,
                )
            frames.append(frame)
        return _Whole(result, frames)

    def _tell(self, poll: _Poll, result: Result) -> None:
        poll.result = result
        self._keep(poll, self._limits.keep_s)
        poll.is_told.set()

    def _keep(self, poll: _Poll, seconds: float | None) -> None:
        """Keep it for so long from now; None leaves it as it is."""
        if seconds is None:
            return
        if poll.timer is not None:
            poll.timer.cancel()
        poll.expires_at = self._now() + seconds
        poll.timer = asyncio.get_running_loop().call_later(seconds, self._drop, poll)

    def _drop(self, poll: _Poll) -> None:
        self._polls.pop(poll.query_id, None)
        if poll.timer is not None:
            poll.timer.cancel()
        poll.is_released.set()
        if poll.result is None and poll.task is not None:
            poll.task.cancel()

    def _owned(self, principal: Principal, query_id: QueryId) -> _Poll:
        poll = self._polls.get(query_id)
        if poll is None or poll.owner != bearer_of(principal):
            raise refusal()
        return poll

    def _unfinished(self, poll: _Poll) -> bytes:
        done, total = self._queries.progress(poll.query_id) or (0, 0)
        # Spark learns of later stages as it goes, so this may go back; but it is not done before it is done.
        progress = min(PROGRESS_MAX, done / total) if total > 0 else 0.0
        outcome = sealed_outcome(Outcome(poll.query_id, self._whereabouts.name()))
        message = sealed.Ticket(bearer=poll.owner, outcome=outcome)
        expires_at = self._now() + HANDLE_S
        handle = self._seal.seal(PURPOSE, message.SerializeToString(), expires_at=expires_at)
        again = flight.FlightDescriptor(
            type=flight.FlightDescriptor.CMD, cmd=pack(sql.TicketStatementQuery(statement_handle=handle))
        )
        info = _info(poll, again, self._queries.position(poll.query_id))
        return flight.PollInfo(
            info=info,
            flight_descriptor=again,
            progress=progress,
            expiration_time=timestamp(poll.expires_at),
        ).SerializeToString()

    def _finished(self, principal: Principal, poll: _Poll) -> bytes:
        info = _info(poll, parse(flight.FlightDescriptor, poll.descriptor))
        ticket = self._tickets.issue(principal, Outcome(poll.query_id, self._whereabouts.name()))
        info.endpoint.add(
            ticket=flight.Ticket(ticket=pack(sql.TicketStatementQuery(statement_handle=ticket))),
            location=[flight.Location(uri=uri) for uri in self._whereabouts.locations],
            expiration_time=timestamp(poll.expires_at),
        )
        return flight.PollInfo(
            info=info, progress=1.0, expiration_time=timestamp(poll.expires_at)
        ).SerializeToString()


class _Whole(Result):
    """The outcome of a change, in memory."""

    def __init__(self, result: Result, frames: list[Frame]) -> None:
        self.query_id = result.query_id
        self.schema = result.schema
        self.kind = result.kind
        self._affected_rows = result.affected_rows
        self._ran_on = result.ran_on
        self._frames = frames

    @property
    def affected_rows(self) -> int:
        return self._affected_rows

    @property
    def ran_on(self) -> RanOn | None:
        return self._ran_on

    async def frames(self) -> AsyncIterator[Frame]:
        for frame in self._frames:
            yield frame


def at_once(info: bytes) -> bytes:
    """A PollInfo for what needs no polling: its FlightInfo is there already."""
    return flight.PollInfo(info=parse(flight.FlightInfo, info), progress=1.0).SerializeToString()


def _info(
    poll: _Poll, descriptor: flight.FlightDescriptor, queue_position: int | None = None
) -> flight.FlightInfo:
    result = poll.result
    is_change = poll.described.kind is Kind.CHANGE
    schema = poll.result.schema if poll.result is not None else poll.described.schema
    rows = poll.result.affected_rows if poll.result is not None and is_change else -1
    return flight.FlightInfo(
        schema=schema or b"",
        flight_descriptor=descriptor,
        total_records=rows,
        total_bytes=-1,
        app_metadata=about(
            poll.query_id if result is None else result.query_id,
            ran_on=None if result is None else result.ran_on,
            queue_position=queue_position,
        ),
    )

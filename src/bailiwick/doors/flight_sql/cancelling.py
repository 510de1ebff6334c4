"""CancelFlightInfo, CancelQuery, RenewFlightEndpoint: what a client can still do about an answer it awaits.

Whom a ticket belongs to is checked before anything else; another's ticket is refused in the same words as a
forged one. What another gateway runs is ended by that one, a moment later: the client is told so.
"""

from collections.abc import Callable
from typing import Protocol

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.clock import Clock, wall
from bailiwick.doors.flight_sql.infos import timestamp
from bailiwick.doors.flight_sql.polling import Polls
from bailiwick.doors.flight_sql.reading import read_ticket
from bailiwick.doors.flight_sql.tickets import Outcome, Read, Tickets, refusal
from bailiwick.doors.flight_sql.whereabouts import Whereabouts
from bailiwick.doors.flight_sql.wire import pack, parse, unpack
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId

ENDPOINTS_MAX = 100

_STATUSES = {
    flight.CANCEL_STATUS_CANCELLED: sql.ActionCancelQueryResult.CANCEL_RESULT_CANCELLED,
    flight.CANCEL_STATUS_CANCELLING: sql.ActionCancelQueryResult.CANCEL_RESULT_CANCELLING,
    flight.CANCEL_STATUS_NOT_CANCELLABLE: sql.ActionCancelQueryResult.CANCEL_RESULT_NOT_CANCELLABLE,
}

Extend = Callable[[QueryId], float | None]
"""Keep a change's outcome for longer, and say until when; None if it is not kept any more."""


class Queries(Protocol):
    """The query service, as far as cancelling needs it."""

    async def cancel(self, query_id: QueryId, by: Principal) -> None: ...

    def progress(self, query_id: QueryId) -> tuple[int, int] | None:
        """None for a query that does not live."""


class Cancelling:
    def __init__(
        self,
        queries: Queries,
        tickets: Tickets,
        polls: Polls,
        *,
        extend: Extend,
        ticket_s: float,
        whereabouts: Whereabouts | None = None,
        now: Clock = wall,
    ) -> None:
        self._queries = queries
        self._tickets = tickets
        self._polls = polls
        self._extend = extend
        self._ticket_s = ticket_s
        self._whereabouts = whereabouts or Whereabouts()
        self._now = now

    async def cancel_info(self, principal: Principal, body: bytes) -> bytes:
        """CancelFlightInfo: a CancelFlightInfoResult."""
        request = parse(flight.CancelFlightInfoRequest, body)
        status = await self._cancel(principal, request.info)
        return flight.CancelFlightInfoResult(status=status).SerializeToString()

    async def cancel_query(self, principal: Principal, body: bytes) -> bytes:
        """CancelQuery, the older way: an ActionCancelQueryResult, packed."""
        name, value = unpack(body)
        if name != "ActionCancelQueryRequest":
            raise BailiwickError(Code.PARSE_ERROR, "The action's body is not an ActionCancelQueryRequest.")
        info = parse(flight.FlightInfo, parse(sql.ActionCancelQueryRequest, value).info)
        status = await self._cancel(principal, info)
        return pack(sql.ActionCancelQueryResult(result=_STATUSES[status]))

    async def renew(self, principal: Principal, body: bytes) -> bytes:
        """RenewFlightEndpoint: the endpoint with a new ticket, which is good until its expiration time."""
        endpoint = parse(flight.RenewFlightEndpointRequest, body).endpoint
        errand = self._tickets.redeem(principal, read_ticket(endpoint.ticket.SerializeToString()))
        expires_at = self._now() + self._ticket_s
        if isinstance(errand, Outcome) and not errand.messages:
            await self._whereabouts.check_result(errand.gateway, errand.query_id)
            kept_until = self._kept_until(errand.query_id)
            if kept_until is None:
                raise refusal()
            expires_at = min(expires_at, kept_until)
        ticket = pack(sql.TicketStatementQuery(statement_handle=self._tickets.issue(principal, errand)))
        return flight.FlightEndpoint(
            ticket=flight.Ticket(ticket=ticket),
            location=endpoint.location,
            expiration_time=timestamp(expires_at),
            app_metadata=endpoint.app_metadata,
        ).SerializeToString()

    def _kept_until(self, query_id: QueryId) -> float | None:
        if self._polls.holds(query_id):
            return self._polls.expires_at(query_id)
        return self._extend(query_id)

    async def _cancel(self, principal: Principal, info: flight.FlightInfo) -> flight.CancelStatus:
        """Whether something was going on and is ended. What has ended, or not begun, is not cancelled."""
        running = [await self._ids_of(errand) for errand in self._errands(principal, info)]
        query_ids = [query_id for ids in running for query_id in ids]
        if any([await self._cancel_here(principal, query_id) for query_id in query_ids]):
            return flight.CANCEL_STATUS_CANCELLED
        if query_ids and await self._whereabouts.end(query_ids, principal):
            return flight.CANCEL_STATUS_CANCELLING
        return flight.CANCEL_STATUS_NOT_CANCELLABLE

    async def _ids_of(self, errand: Read | Outcome) -> list[QueryId]:
        """A read runs where it was fetched first."""
        if isinstance(errand, Read):
            return await self._whereabouts.ids_of(errand.query_id)
        return [errand.query_id]

    def _errands(self, principal: Principal, info: flight.FlightInfo) -> list[Read | Outcome]:
        if len(info.endpoint) > ENDPOINTS_MAX:
            raise BailiwickError(
                Code.INVALID_ARGUMENTS, f"A FlightInfo of this server has at most {ENDPOINTS_MAX} endpoints."
            )
        errands: list[Read | Outcome] = []
        for endpoint in info.endpoint:
            errand = self._tickets.redeem(principal, read_ticket(endpoint.ticket.SerializeToString()))
            if isinstance(errand, Read | Outcome):
                errands.append(errand)
        if info.HasField("flight_descriptor") and info.flight_descriptor.cmd and not info.endpoint:
            polled = self._polls.asked(principal, info.flight_descriptor)
            if polled is not None:
                errands.append(polled)
        return errands

    async def _cancel_here(self, principal: Principal, query_id: QueryId) -> bool:
        is_living = self._queries.progress(query_id) is not None
        if is_living:
            # First, so that it is known who ended it.
            await self._queries.cancel(query_id, principal)
        if self._polls.holds(query_id):
            return self._polls.cancel(principal, query_id) or is_living
        return is_living

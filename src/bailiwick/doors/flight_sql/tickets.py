"""Tickets: what a client shows at DoGet for the answer it was promised at GetFlightInfo.

A ticket is self-contained and sealed, made out to one principal, and lives for a while. One that is forged,
expired or somebody else's is refused in the same words, so that trying teaches nothing.
"""

from dataclasses import dataclass

from bailiwick._generated import Sealed_pb2 as sealed
from bailiwick.clock import Clock
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.ids import QueryId

PURPOSE = "ticket"


@dataclass(frozen=True, slots=True)
class Read:
    """A read that starts at DoGet. `query_id` was announced and is used by the first fetch only."""

    sql: str
    schema: bytes | None
    query_id: QueryId


@dataclass(frozen=True, slots=True)
class Outcome:
    """The kept outcome of a change that has run."""

    query_id: QueryId


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Answers to CommandGetSqlInfo."""

    codes: tuple[int, ...]


Errand = Read | Outcome | ServerFacts


class Tickets:
    """Makes tickets, and knows its own again."""

    def __init__(self, seal: Seal, *, ticket_s: float, now: Clock) -> None:
        self._seal = seal
        self._ticket_s = ticket_s
        self._now = now

    def issue(self, principal: Principal, errand: Errand) -> bytes:
        ticket = sealed.Ticket(bearer=bearer_of(principal))
        match errand:
            case Read(sql, schema, query_id):
                ticket.read.CopyFrom(sealed.Read(sql=sql, schema=schema, query_id=query_id))
            case Outcome(query_id):
                ticket.outcome.CopyFrom(sealed.Outcome(query_id=query_id))
            case ServerFacts(codes):
                ticket.sql_info.CopyFrom(sealed.SqlInfo(codes=codes))
        return self._seal.seal(PURPOSE, ticket.SerializeToString(), expires_at=self._now() + self._ticket_s)

    def redeem(self, principal: Principal, ticket: bytes) -> Errand:
        """What the ticket is good for. INVALID_ARGUMENTS if it is another's, or no longer valid."""
        try:
            payload = self._seal.open(PURPOSE, ticket, self._now())
        except BailiwickError as error:
            raise refusal() from error
        message = parse(sealed.Ticket, payload)
        if message.bearer != bearer_of(principal):
            raise refusal()
        match message.WhichOneof("what"):
            case "read":
                schema = message.read.schema if message.read.HasField("schema") else None
                return Read(message.read.sql, schema, QueryId(message.read.query_id))
            case "outcome":
                return Outcome(QueryId(message.outcome.query_id))
            case "sql_info":
                return ServerFacts(tuple(message.sql_info.codes))
        raise refusal()


def refusal() -> BailiwickError:
    return BailiwickError(
        Code.INVALID_ARGUMENTS, "This ticket is not known here, or it has expired. Run the statement again."
    )


def bearer_of(principal: Principal) -> sealed.Bearer:
    return sealed.Bearer(name=principal.name, tenant=principal.tenant)

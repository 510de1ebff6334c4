"""Tickets: what a client shows at DoGet for the answer it was promised at GetFlightInfo.

A ticket is self-contained and sealed, made out to one principal, and to whoever acts for them, and lives for
a while. One that is forged, expired or somebody else's is refused in the same words, so that trying teaches
nothing.
"""

from dataclasses import dataclass, field

from bailiwick._generated import Sealed_pb2 as sealed
from bailiwick.clock import Clock
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.engines.parameters import Row, dump, load
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.placement import Placement
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.ids import GatewayId, QueryId
from bailiwick.queries.client_sessions import SessionSettings
from bailiwick.queries.statement import SubmissionKey

PURPOSE = "ticket"


@dataclass(frozen=True, slots=True)
class Read:
    """A read that starts at DoGet. `query_id` was announced and is used by the first fetch only."""

    sql: str
    schema: bytes | None
    query_id: QueryId
    parameters: Row = ()
    settings: SessionSettings = field(default_factory=SessionSettings)
    submission: SubmissionKey | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The kept outcome of a change that has run, or of a query that was polled."""

    query_id: QueryId
    gateway: GatewayId | None = None
    """Who keeps it; None where there is one gateway only."""
    messages: tuple[bytes, ...] = ()
    """A small one itself, as FlightData messages: then it need not be kept."""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A question that is answered without a query. `command` is as the client packed it."""

    command: bytes
    time_zone: str


Errand = Read | Outcome | LookedUp


class Tickets:
    """Makes tickets, and knows its own again."""

    def __init__(self, seal: Seal, *, ticket_s: float, now: Clock) -> None:
        self._seal = seal
        self._ticket_s = ticket_s
        self._now = now

    def issue(self, principal: Principal, errand: Errand) -> bytes:
        ticket = sealed.Ticket(bearer=bearer_of(principal))
        match errand:
            case Read():
                ticket.read.CopyFrom(_sealed_read(errand))
            case Outcome():
                ticket.outcome.CopyFrom(sealed_outcome(errand))
            case LookedUp(command, time_zone):
                ticket.lookup.CopyFrom(sealed.Lookup(command=command, time_zone=time_zone))
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
                return _opened_read(message.read)
            case "outcome":
                return opened_outcome(message.outcome)
            case "lookup":
                return LookedUp(message.lookup.command, message.lookup.time_zone)
        raise refusal()


def sealed_outcome(outcome: Outcome) -> sealed.Outcome:
    return sealed.Outcome(query_id=outcome.query_id, gateway=outcome.gateway, messages=outcome.messages)


def opened_outcome(message: sealed.Outcome) -> Outcome:
    gateway = GatewayId(message.gateway) if message.HasField("gateway") else None
    return Outcome(QueryId(message.query_id), gateway, tuple(message.messages))


def sealed_settings(settings: SessionSettings) -> sealed.Settings:
    return sealed.Settings(
        catalog=settings.catalog,
        namespace=settings.namespace,
        time_zone=settings.time_zone,
        double_quoted_identifiers=settings.double_quoted_identifiers,
        timeout_s=settings.timeout_s,
        placement=settings.placement,
    )


def opened_settings(message: sealed.Settings) -> SessionSettings:
    return SessionSettings(
        message.catalog,
        tuple(message.namespace),
        message.time_zone,
        message.double_quoted_identifiers,
        message.timeout_s if message.HasField("timeout_s") else None,
        Placement(message.placement) if message.HasField("placement") else None,
    )


def _sealed_read(read: Read) -> sealed.Read:
    return sealed.Read(
        sql=read.sql,
        schema=read.schema,
        query_id=read.query_id,
        parameters=dump(read.parameters),
        settings=sealed_settings(read.settings),
        submission_key=None if read.submission is None else read.submission.text,
    )


def _opened_read(message: sealed.Read) -> Read:
    return Read(
        message.sql,
        message.schema if message.HasField("schema") else None,
        QueryId(message.query_id),
        load(message.parameters),
        opened_settings(message.settings),
        SubmissionKey(message.submission_key) if message.HasField("submission_key") else None,
    )


def refusal() -> BailiwickError:
    return BailiwickError(
        Code.INVALID_ARGUMENTS, "This ticket is not known here, or it has expired. Run the statement again."
    )


def bearer_of(principal: Principal) -> sealed.Bearer:
    """Whom a sealed thing is for. One made on behalf of somebody is neither theirs nor the actor's own."""
    return sealed.Bearer(name=principal.name, tenant=principal.tenant, actor=principal.actor)

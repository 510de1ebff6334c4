"""Prepared statements' handles: self-contained, sealed, good for many runs.

The gateway need keep nothing for a handle, so closing one always succeeds and none can be hoarded. Binding
parameters makes a new handle, which carries them; `binding.py` remembers them for drivers that go on to use
the old one. What was said of the statement when it was prepared is believed for a few seconds, which is how
long a driver takes to go on to run it; after that a table may have changed, and after parameters are bound
the answer may be another one: then the statement is described anew.
"""

from dataclasses import dataclass, field, replace

from bailiwick._generated import Sealed_pb2 as sealed
from bailiwick.clock import Clock
from bailiwick.doors.flight_sql.tickets import bearer_of, opened_settings, sealed_settings
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.engines.description import Kind
from bailiwick.engines.parameters import Row, dump, load
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.queries.client_sessions import SessionSettings
from bailiwick.queries.statement import Prepared

PURPOSE = "prepared statement"
HANDLE_S = 30 * 86_400.0
DESCRIPTION_BELIEVED_S = 5.0


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    sql: str
    kind: Kind
    schema: bytes | None
    """What it gives with its parameters; None where that cannot be told, or not before they are bound."""
    parameter_count: int = 0
    parameters: Row = ()
    """What is bound: one value for each parameter, or nothing yet."""
    settings: SessionSettings = field(default_factory=SessionSettings)
    """Under which it was described. It runs under those of whoever runs it."""

    def described_as(self, prepared: Prepared) -> "PreparedStatement":
        """The same statement with the same parameters, as the query service describes it now."""
        return replace(self, kind=prepared.kind, schema=prepared.schema)

    @property
    def is_complete(self) -> bool:
        """Whether it can run as it is."""
        return len(self.parameters) == self.parameter_count

    def check_complete(self) -> None:
        if not self.is_complete:
            raise BailiwickError(
                Code.INVALID_ARGUMENTS,
                f"The statement has {counted(self.parameter_count, 'parameter')}, and none is bound. "
                "Bind a value to each.",
            )


class Handles:
    """Makes handles, and knows its own again."""

    def __init__(self, seal: Seal, *, now: Clock) -> None:
        self._seal = seal
        self._now = now

    def issue(self, principal: Principal, statement: PreparedStatement) -> bytes:
        """A handle of a statement that has just been described."""
        return self._issue(principal, statement, described_at=self._now())

    def bind(self, principal: Principal, statement: PreparedStatement, row: Row) -> bytes:
        """A handle of the same statement with these parameters. It has yet to be described with them."""
        return self._issue(principal, replace(statement, parameters=row), described_at=0.0)

    def _issue(self, principal: Principal, statement: PreparedStatement, described_at: float) -> bytes:
        message = sealed.Prepared(
            bearer=bearer_of(principal),
            sql=statement.sql,
            kind=statement.kind.value,
            schema=statement.schema,
            described_at=described_at,
            parameter_count=statement.parameter_count,
            parameters=dump(statement.parameters),
            settings=sealed_settings(statement.settings),
        )
        return self._seal.seal(PURPOSE, message.SerializeToString(), expires_at=self._now() + HANDLE_S)

    def open(self, principal: Principal, handle: bytes) -> tuple[PreparedStatement, bool]:
        """The statement, and whether what it says of itself is still fresh."""
        try:
            payload = self._seal.open(PURPOSE, handle, self._now())
        except BailiwickError as error:
            raise _refusal() from error
        message = parse(sealed.Prepared, payload)
        if message.bearer != bearer_of(principal):
            raise _refusal()
        schema = message.schema if message.HasField("schema") else None
        parameters = load(message.parameters)
        statement = PreparedStatement(
            message.sql,
            Kind(message.kind),
            schema,
            message.parameter_count,
            parameters,
            opened_settings(message.settings),
        )
        age_s = self._now() - message.described_at
        return statement, 0 <= age_s < DESCRIPTION_BELIEVED_S


def counted(number: int, noun: str) -> str:
    """
    >>> counted(2, "parameter")
    '2 parameters'
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _refusal() -> BailiwickError:
    return BailiwickError(
        Code.INVALID_ARGUMENTS, "This prepared statement is not known here. Prepare it again."
    )

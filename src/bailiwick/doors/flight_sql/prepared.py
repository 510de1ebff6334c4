"""Prepared statements' handles: self-contained, sealed, good for many runs.

The gateway keeps nothing for a handle, so closing one always succeeds and none can be hoarded. What was said
of the statement when it was prepared is believed for a few seconds, which is how long a driver takes to go on
to run it; after that a table may have changed, and the statement is described anew.
"""

from dataclasses import dataclass

from bailiwick._generated import Sealed_pb2 as sealed
from bailiwick.clock import Clock
from bailiwick.doors.flight_sql.tickets import bearer_of
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal

PURPOSE = "prepared statement"
HANDLE_S = 30 * 86_400.0
DESCRIPTION_BELIEVED_S = 5.0


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    sql: str
    kind: Kind
    schema: bytes | None
    parameter_count: int = 0


class Handles:
    """Makes handles, and knows its own again."""

    def __init__(self, seal: Seal, *, now: Clock) -> None:
        self._seal = seal
        self._now = now

    def issue(self, principal: Principal, statement: PreparedStatement) -> bytes:
        message = sealed.Prepared(
            bearer=bearer_of(principal),
            sql=statement.sql,
            kind=statement.kind.value,
            schema=statement.schema,
            described_at=self._now(),
            parameter_count=statement.parameter_count,
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
        statement = PreparedStatement(message.sql, Kind(message.kind), schema, message.parameter_count)
        age_s = self._now() - message.described_at
        return statement, 0 <= age_s < DESCRIPTION_BELIEVED_S


def _refusal() -> BailiwickError:
    return BailiwickError(
        Code.INVALID_ARGUMENTS, "This prepared statement is not known here. Prepare it again."
    )

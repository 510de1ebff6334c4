"""What a client may ask for, as values of ours.

Every reader here is an allow-list: a command or action that is not named is NOT_SUPPORTED, one that is
malformed is a PARSE_ERROR. Nothing here acts.
"""

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.wire import parse, unpack
from bailiwick.errors import BailiwickError, Code


@dataclass(frozen=True, slots=True)
class StatementQuery:
    sql: str


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    handle: bytes


@dataclass(frozen=True, slots=True)
class SqlInfoQuery:
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StatementUpdate:
    sql: str


@dataclass(frozen=True, slots=True)
class PreparedUpdate:
    handle: bytes


Query = StatementQuery | PreparedQuery | SqlInfoQuery
"""What GetFlightInfo and GetSchema take."""

Update = StatementUpdate | PreparedUpdate
"""What DoPut takes."""


class ActionName(StrEnum):
    CREATE_PREPARED_STATEMENT = "CreatePreparedStatement"
    CLOSE_PREPARED_STATEMENT = "ClosePreparedStatement"
    CLOSE_SESSION = "CloseSession"


ACTION_DESCRIPTIONS: dict[ActionName, str] = {
    ActionName.CREATE_PREPARED_STATEMENT: "Analyse a statement; its handle runs it, once or often.",
    ActionName.CLOSE_PREPARED_STATEMENT: "Give a prepared statement's handle back.",
    ActionName.CLOSE_SESSION: "Say goodbye. The token stays valid until it expires.",
}


_ACTIONS = {name.value: name for name in ActionName}


def read_query(descriptor: bytes) -> Query:
    """The command of a FlightDescriptor."""
    name, value = unpack(_command(parse(flight.FlightDescriptor, descriptor)))
    match name:
        case "CommandStatementQuery":
            query = parse(sql.CommandStatementQuery, value)
            _refuse_transaction(query.transaction_id)
            return StatementQuery(query.query)
        case "CommandPreparedStatementQuery":
            return PreparedQuery(parse(sql.CommandPreparedStatementQuery, value).prepared_statement_handle)
        case "CommandGetSqlInfo":
            return SqlInfoQuery(tuple(parse(sql.CommandGetSqlInfo, value).info))
    raise BailiwickError(Code.NOT_SUPPORTED, f"{_shown(name)} is not supported as a query.")


def read_update(first_message: bytes) -> Update:
    """The command on the first message of a DoPut, which may carry a schema, but one without columns."""
    data = parse(flight.FlightData, first_message)
    if not data.HasField("flight_descriptor"):
        raise BailiwickError(Code.PARSE_ERROR, "The first message of a DoPut must say what it is for.")
    if data.data_header and _column_count(data.data_header):
        raise BailiwickError(Code.NOT_SUPPORTED, "Binding parameters is not supported.")
    name, value = unpack(_command(data.flight_descriptor))
    match name:
        case "CommandStatementUpdate":
            update = parse(sql.CommandStatementUpdate, value)
            _refuse_transaction(update.transaction_id)
            return StatementUpdate(update.query)
        case "CommandPreparedStatementUpdate":
            return PreparedUpdate(parse(sql.CommandPreparedStatementUpdate, value).prepared_statement_handle)
        case "CommandPreparedStatementQuery":
            raise BailiwickError(Code.NOT_SUPPORTED, "Binding parameters is not supported.")
    raise BailiwickError(Code.NOT_SUPPORTED, f"{_shown(name)} is not supported as an update.")


def read_ticket(ticket: bytes) -> bytes:
    """The sealed handle inside a Flight ticket."""
    name, value = unpack(parse(flight.Ticket, ticket).ticket)
    if name != "TicketStatementQuery":
        raise BailiwickError(Code.NOT_SUPPORTED, f"{_shown(name)} is not a ticket of this server.")
    return parse(sql.TicketStatementQuery, value).statement_handle


def read_action(action: bytes) -> tuple[ActionName, bytes]:
    """An action's name and its body, still packed."""
    message = parse(flight.Action, action)
    if name := _ACTIONS.get(message.type):
        return name, message.body
    if message.type in ("BeginTransaction", "EndTransaction", "BeginSavepoint", "EndSavepoint"):
        raise BailiwickError(
            Code.NOT_SUPPORTED,
            "There are no transactions: every statement commits by itself. Use autocommit.",
        )
    raise BailiwickError(Code.NOT_SUPPORTED, f"The action {_shown(message.type)} is not supported.")


def read_create_prepared(body: bytes) -> str:
    """The SQL to prepare."""
    name, value = unpack(body)
    if name != "ActionCreatePreparedStatementRequest":
        raise BailiwickError(
            Code.PARSE_ERROR, "The action's body is not an ActionCreatePreparedStatementRequest."
        )
    request = parse(sql.ActionCreatePreparedStatementRequest, value)
    _refuse_transaction(request.transaction_id)
    return request.query


def check_close_prepared(body: bytes) -> None:
    """Closing always succeeds, whatever the handle; only a body that is no such request is refused."""
    name, value = unpack(body)
    if name != "ActionClosePreparedStatementRequest":
        raise BailiwickError(
            Code.PARSE_ERROR, "The action's body is not an ActionClosePreparedStatementRequest."
        )
    parse(sql.ActionClosePreparedStatementRequest, value)


def _command(descriptor: flight.FlightDescriptor) -> bytes:
    if descriptor.type != flight.FlightDescriptor.CMD:
        raise BailiwickError(Code.NOT_SUPPORTED, "Only descriptors with a command are supported, not paths.")
    return descriptor.cmd


def _column_count(header: bytes) -> int:
    """How many columns the schema in a FlightData header has."""
    prefix = b"\xff\xff\xff\xff" + len(header).to_bytes(4, "little")
    try:
        return len(pa.ipc.read_schema(pa.py_buffer(prefix + header)))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BailiwickError(Code.PARSE_ERROR, "The data header is not an Arrow schema.") from error


def _refuse_transaction(transaction_id: bytes) -> None:
    if transaction_id:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS, "There is no such transaction: statements commit by themselves."
        )


def _shown(name: str) -> str:
    """A client's own word, short and printable enough to say back."""
    return repr(name[:80])

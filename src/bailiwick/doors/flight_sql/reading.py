"""Bytes of a client become commands and actions.

Every reader here is an allow-list: a command or action that is not named is NOT_SUPPORTED, one that is
malformed is a PARSE_ERROR. Nothing here acts.
"""

from google.protobuf.message import Message

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.commands import (
    ActionName,
    CatalogsQuery,
    IfExists,
    IfMissing,
    Ingest,
    Keys,
    KeysQuery,
    Lookup,
    PreparedBind,
    PreparedQuery,
    PreparedUpdate,
    Put,
    Query,
    SchemasQuery,
    SqlInfoQuery,
    StatementQuery,
    StatementUpdate,
    TablesQuery,
    TableTypesQuery,
    TypeInfoQuery,
)
from bailiwick.doors.flight_sql.wire import parse, unpack
from bailiwick.errors import BailiwickError, Code

LOOKUP_BYTES_MAX = 1 << 20
"""Some tools send a whole statement as a pattern. The command comes back in the answer, and in its ticket."""

_ACTIONS = {name.value: name for name in ActionName}
_Definition = sql.CommandStatementIngest.TableDefinitionOptions
_IF_MISSING = {
    _Definition.TABLE_NOT_EXIST_OPTION_CREATE: IfMissing.CREATE,
    _Definition.TABLE_NOT_EXIST_OPTION_FAIL: IfMissing.FAIL,
}
_IF_EXISTS = {
    _Definition.TABLE_EXISTS_OPTION_FAIL: IfExists.FAIL,
    _Definition.TABLE_EXISTS_OPTION_APPEND: IfExists.APPEND,
    _Definition.TABLE_EXISTS_OPTION_REPLACE: IfExists.REPLACE,
}


def read_query(descriptor: bytes) -> Query:
    """The command of a FlightDescriptor."""
    command = _command(parse(flight.FlightDescriptor, descriptor))
    name, value = unpack(command)
    match name:
        case "CommandStatementQuery":
            query = parse(sql.CommandStatementQuery, value)
            _refuse_transaction(query.transaction_id)
            return StatementQuery(query.query)
        case "CommandPreparedStatementQuery":
            return PreparedQuery(parse(sql.CommandPreparedStatementQuery, value).prepared_statement_handle)
    if len(command) > LOOKUP_BYTES_MAX:
        raise BailiwickError(
            Code.RESOURCE_EXHAUSTED,
            f"The command has {len(command)} bytes; other than statements may have {LOOKUP_BYTES_MAX}.",
            retryable=False,
        )
    if (lookup := _read_lookup(name, value)) is not None:
        return lookup
    raise BailiwickError(Code.NOT_SUPPORTED, f"{_shown(name)} is not supported as a query.")


def read_lookup(command: bytes) -> Lookup:
    """A packed command that is a lookup; of no other kind are those in our tickets."""
    lookup = _read_lookup(*unpack(command))
    if lookup is None:
        raise BailiwickError(Code.INTERNAL_ERROR, "A ticket holds a command that is not answered here.")
    return lookup


def command_of(descriptor: bytes) -> bytes:
    """The packed command of a FlightDescriptor."""
    return _command(parse(flight.FlightDescriptor, descriptor))


def _read_lookup(name: str, value: bytes) -> Lookup | None:
    match name:
        case "CommandGetSqlInfo":
            return SqlInfoQuery(tuple(parse(sql.CommandGetSqlInfo, value).info))
        case "CommandGetCatalogs":
            parse(sql.CommandGetCatalogs, value)
            return CatalogsQuery()
        case "CommandGetDbSchemas":
            schemas = parse(sql.CommandGetDbSchemas, value)
            return SchemasQuery(_given(schemas, "catalog"), _given(schemas, "db_schema_filter_pattern"))
        case "CommandGetTables":
            tables = parse(sql.CommandGetTables, value)
            return TablesQuery(
                _given(tables, "catalog"),
                _given(tables, "db_schema_filter_pattern"),
                _given(tables, "table_name_filter_pattern"),
                tuple(tables.table_types),
                tables.include_schema,
            )
        case "CommandGetTableTypes":
            parse(sql.CommandGetTableTypes, value)
            return TableTypesQuery()
        case "CommandGetXdbcTypeInfo":
            types = parse(sql.CommandGetXdbcTypeInfo, value)
            return TypeInfoQuery(types.data_type if types.HasField("data_type") else None)
        case "CommandGetPrimaryKeys" | "CommandGetExportedKeys" | "CommandGetImportedKeys":
            parse(getattr(sql, name), value)
            return KeysQuery(Keys(name))
        case "CommandGetCrossReference":
            parse(sql.CommandGetCrossReference, value)
            return KeysQuery(Keys.CROSS_REFERENCE)
    return None


def read_put(first_message: bytes) -> Put:
    """The command on the first message of a DoPut."""
    data = parse(flight.FlightData, first_message)
    if not data.HasField("flight_descriptor"):
        raise BailiwickError(Code.PARSE_ERROR, "The first message of a DoPut must say what it is for.")
    name, value = unpack(_command(data.flight_descriptor))
    match name:
        case "CommandStatementUpdate":
            update = parse(sql.CommandStatementUpdate, value)
            _refuse_transaction(update.transaction_id)
            return StatementUpdate(update.query)
        case "CommandPreparedStatementUpdate":
            return PreparedUpdate(parse(sql.CommandPreparedStatementUpdate, value).prepared_statement_handle)
        case "CommandPreparedStatementQuery":
            return PreparedBind(parse(sql.CommandPreparedStatementQuery, value).prepared_statement_handle)
        case "CommandStatementIngest":
            return _ingest(parse(sql.CommandStatementIngest, value))
    raise BailiwickError(Code.NOT_SUPPORTED, f"{_shown(name)} is not supported as an update.")


def _ingest(command: sql.CommandStatementIngest) -> Ingest:
    _refuse_transaction(command.transaction_id)
    if command.options:
        names = ", ".join(sorted(_shown(name) for name in command.options)[:5])
        raise BailiwickError(Code.NOT_SUPPORTED, f"Options of an ingest are not supported: {names}.")
    wanted = command.table_definition_options
    if_missing = _IF_MISSING.get(wanted.if_not_exist)
    if_exists = _IF_EXISTS.get(wanted.if_exists)
    if if_missing is None or if_exists is None:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            "An ingest must say what to do if the table does not exist (create, fail) "
            "and if it does (fail, append, replace).",
        )
    return Ingest(
        command.table,
        _given(command, "schema"),
        _given(command, "catalog"),
        if_missing,
        if_exists,
        command.temporary,
    )


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


def read_close_prepared(body: bytes) -> bytes:
    """The handle to give back. Closing always succeeds; only a body that is no such request is refused."""
    name, value = unpack(body)
    if name != "ActionClosePreparedStatementRequest":
        raise BailiwickError(
            Code.PARSE_ERROR, "The action's body is not an ActionClosePreparedStatementRequest."
        )
    return parse(sql.ActionClosePreparedStatementRequest, value).prepared_statement_handle


def _command(descriptor: flight.FlightDescriptor) -> bytes:
    if descriptor.type != flight.FlightDescriptor.CMD:
        raise BailiwickError(Code.NOT_SUPPORTED, "Only descriptors with a command are supported, not paths.")
    return descriptor.cmd


def _given(message: Message, field: str) -> str | None:
    """An optional text; None where it was not sent, which is not the same as empty."""
    return getattr(message, field) if message.HasField(field) else None


def _refuse_transaction(transaction_id: bytes) -> None:
    if transaction_id:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS, "There is no such transaction: statements commit by themselves."
        )


def _shown(name: str) -> str:
    """A client's own word, short and printable enough to say back."""
    return repr(name[:80])

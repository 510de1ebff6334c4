"""What a client may ask for, as values of ours. How they are read from the wire is in `reading.py`."""

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class StatementQuery:
    sql: str


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    handle: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SqlInfoQuery:
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CatalogsQuery:
    pass


@dataclass(frozen=True, slots=True)
class SchemasQuery:
    catalog: str | None
    schema_pattern: str | None


@dataclass(frozen=True, slots=True)
class TablesQuery:
    catalog: str | None
    schema_pattern: str | None
    table_pattern: str | None
    types: tuple[str, ...]
    include_schema: bool


@dataclass(frozen=True, slots=True)
class TableTypesQuery:
    pass


@dataclass(frozen=True, slots=True)
class TypeInfoQuery:
    data_type: int | None


class Keys(StrEnum):
    PRIMARY = "CommandGetPrimaryKeys"
    EXPORTED = "CommandGetExportedKeys"
    IMPORTED = "CommandGetImportedKeys"
    CROSS_REFERENCE = "CommandGetCrossReference"


@dataclass(frozen=True, slots=True)
class KeysQuery:
    """Which table is asked about does not matter: none has keys."""

    keys: Keys


Lookup = (
    SqlInfoQuery | CatalogsQuery | SchemasQuery | TablesQuery | TableTypesQuery | TypeInfoQuery | KeysQuery
)
"""What is answered from what the gateway knows, without a query."""


@dataclass(frozen=True, slots=True)
class StatementUpdate:
    sql: str


@dataclass(frozen=True, slots=True)
class PreparedUpdate:
    handle: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class PreparedBind:
    """Parameters for a prepared query that is run afterwards."""

    handle: bytes = field(repr=False)


class IfMissing(StrEnum):
    CREATE = "create"
    FAIL = "fail"


class IfExists(StrEnum):
    FAIL = "fail"
    APPEND = "append"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Ingest:
    """Rows that follow become a table's. Names that were not given are the session's."""

    table: str
    schema: str | None
    catalog: str | None
    if_missing: IfMissing
    if_exists: IfExists
    temporary: bool = False


Query = StatementQuery | PreparedQuery | Lookup
"""What GetFlightInfo and GetSchema take."""

Put = StatementUpdate | PreparedUpdate | PreparedBind | Ingest
"""What DoPut takes."""


class ActionName(StrEnum):
    CREATE_PREPARED_STATEMENT = "CreatePreparedStatement"
    CLOSE_PREPARED_STATEMENT = "ClosePreparedStatement"
    SET_SESSION_OPTIONS = "SetSessionOptions"
    GET_SESSION_OPTIONS = "GetSessionOptions"
    CLOSE_SESSION = "CloseSession"
    CANCEL_FLIGHT_INFO = "CancelFlightInfo"
    CANCEL_QUERY = "CancelQuery"
    RENEW_FLIGHT_ENDPOINT = "RenewFlightEndpoint"


ACTION_DESCRIPTIONS: dict[ActionName, str] = {
    ActionName.CREATE_PREPARED_STATEMENT: "Analyse a statement; its handle runs it, once or often.",
    ActionName.CLOSE_PREPARED_STATEMENT: "Give a prepared statement's handle back.",
    ActionName.SET_SESSION_OPTIONS: "Change the session: catalog, schema, time zone and others.",
    ActionName.GET_SESSION_OPTIONS: "The session's options as they are now.",
    ActionName.CLOSE_SESSION: "End the session.",
    ActionName.CANCEL_FLIGHT_INFO: "End the query behind a FlightInfo.",
    ActionName.CANCEL_QUERY: "The same under its older name.",
    ActionName.RENEW_FLIGHT_ENDPOINT: "A ticket for the same answer that lives longer.",
}

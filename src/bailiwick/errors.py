"""What can go wrong, as one list of codes that every wire shares.

A code is a promise: it never changes its meaning, and `retryable` says whether the same call may succeed
later without anyone changing anything. Each wire has one table from these codes to its own; the columns of
those tables are `MEANINGS` below, so that no door invents a number.

    BailiwickError
    ├── the statement is wrong ─ its author sees everything
    │   ├── SYNTAX_ERROR  PARSE_ERROR  SEMANTIC_ERROR  TYPE_MISMATCH
    │   ├── TABLE_NOT_FOUND  VIEW_NOT_FOUND  COLUMN_NOT_FOUND  FUNCTION_NOT_FOUND
    │   ├── SCHEMA_NOT_FOUND  CATALOG_NOT_FOUND
    │   ├── DUPLICATE_TABLE  DUPLICATE_COLUMN
    │   ├── INVALID_ARGUMENTS  INVALID_CAST  DIVISION_BY_ZERO
    │   └── NOT_SUPPORTED
    ├── the caller may not
    │   └── AUTHENTICATION_FAILED  SESSION_EXPIRED  ACCESS_DENIED
    ├── it ended otherwise
    │   ├── QUERY_CANCELLED
    │   ├── QUERY_TIMEOUT ─────────── retryable
    │   ├── RESOURCE_EXHAUSTED ────── retryable, with retry_after_s; not for a limit on one statement
    │   ├── COMMIT_CONFLICT ───────── retryable, unless details say outcome=unknown
    │   └── EXECUTION_FAILED ──────── scrubbed
    └── the house is on fire ─ a generic sentence, the cause only in the log
        ├── CATALOG_ERROR
        ├── CATALOG_UNAVAILABLE ───── retryable
        ├── STORAGE_ERROR ─────────── retryable, unless the disk is full
        ├── CIRCUIT_BREAKER_OPEN ──── retryable, unless no engine is configured
        └── INTERNAL_ERROR

This module knows no wire and no engine: `engines/spark_errors.py` makes these from Spark's failures,
`doors/` render them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self


class Code(StrEnum):
    SYNTAX_ERROR = "SYNTAX_ERROR"
    PARSE_ERROR = "PARSE_ERROR"
    SEMANTIC_ERROR = "SEMANTIC_ERROR"
    TYPE_MISMATCH = "TYPE_MISMATCH"
    TABLE_NOT_FOUND = "TABLE_NOT_FOUND"
    COLUMN_NOT_FOUND = "COLUMN_NOT_FOUND"
    SCHEMA_NOT_FOUND = "SCHEMA_NOT_FOUND"
    CATALOG_NOT_FOUND = "CATALOG_NOT_FOUND"
    VIEW_NOT_FOUND = "VIEW_NOT_FOUND"
    FUNCTION_NOT_FOUND = "FUNCTION_NOT_FOUND"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    DUPLICATE_TABLE = "DUPLICATE_TABLE"
    DUPLICATE_COLUMN = "DUPLICATE_COLUMN"
    DIVISION_BY_ZERO = "DIVISION_BY_ZERO"
    INVALID_CAST = "INVALID_CAST"
    AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"
    ACCESS_DENIED = "ACCESS_DENIED"
    SESSION_EXPIRED = "SESSION_EXPIRED"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    QUERY_TIMEOUT = "QUERY_TIMEOUT"
    QUERY_CANCELLED = "QUERY_CANCELLED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    CATALOG_ERROR = "CATALOG_ERROR"
    CATALOG_UNAVAILABLE = "CATALOG_UNAVAILABLE"
    STORAGE_ERROR = "STORAGE_ERROR"
    COMMIT_CONFLICT = "COMMIT_CONFLICT"
    CIRCUIT_BREAKER_OPEN = "CIRCUIT_BREAKER_OPEN"
    NOT_SUPPORTED = "NOT_SUPPORTED"
    INTERNAL_ERROR = "INTERNAL_ERROR"


class Audience(StrEnum):
    """How much of a failure's cause the client is shown."""

    FULL = "full"
    """The user's own mistake: everything the engine said about it."""
    SCRUBBED = "scrubbed"
    """What the engine said, without hosts, paths, keys and stack traces."""
    GENERIC = "generic"
    """One sentence of ours; the cause is in the log under the query id."""


class TrinoType(StrEnum):
    USER_ERROR = "USER_ERROR"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    INSUFFICIENT_RESOURCES = "INSUFFICIENT_RESOURCES"
    EXTERNAL = "EXTERNAL"


@dataclass(frozen=True, slots=True)
class Trino:
    """Trino's own name and number for a failure; its clients and dbt act on them."""

    name: str
    number: int
    type: TrinoType = TrinoType.USER_ERROR


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code promises, and what each wire calls it."""

    sqlstate: str
    grpc: str
    """The name of a `grpc.StatusCode`."""
    trino: Trino
    http: int
    retryable: bool
    audience: Audience
    sentence: str
    """For the documentation, and for the client where the audience is GENERIC."""


_FULL, _SCRUBBED, _GENERIC = Audience.FULL, Audience.SCRUBBED, Audience.GENERIC
_INTERNAL, _EXTERNAL = TrinoType.INTERNAL_ERROR, TrinoType.EXTERNAL
_RESOURCES = TrinoType.INSUFFICIENT_RESOURCES

# One row a code, in the order of the enumeration: SQLSTATE, gRPC, Trino, HTTP, retryable, audience, sentence.
# fmt: off
MEANINGS: Final[Mapping[Code, Meaning]] = MappingProxyType({
    Code.SYNTAX_ERROR: Meaning(
        "42601", "INVALID_ARGUMENT", Trino("SYNTAX_ERROR", 1), 400, False, _FULL,
        "The statement does not parse."),
    Code.PARSE_ERROR: Meaning(
        "42000", "INVALID_ARGUMENT", Trino("SYNTAX_ERROR", 1), 400, False, _FULL,
        "What was sent is not SQL at all, or is a plan or message that cannot be read."),
    Code.SEMANTIC_ERROR: Meaning(
        "42000", "INVALID_ARGUMENT", Trino("GENERIC_USER_ERROR", 0), 400, False, _FULL,
        "The statement parses but does not make sense."),
    Code.TYPE_MISMATCH: Meaning(
        "42804", "INVALID_ARGUMENT", Trino("TYPE_MISMATCH", 58), 400, False, _FULL,
        "A value has a type that does not fit where it stands."),
    Code.TABLE_NOT_FOUND: Meaning(
        "42P01", "NOT_FOUND", Trino("TABLE_NOT_FOUND", 46), 404, False, _FULL,
        "There is no such table, or none that the caller may know of."),
    Code.COLUMN_NOT_FOUND: Meaning(
        "42703", "INVALID_ARGUMENT", Trino("COLUMN_NOT_FOUND", 47), 400, False, _FULL,
        "There is no such column or field."),
    Code.SCHEMA_NOT_FOUND: Meaning(
        "3F000", "NOT_FOUND", Trino("SCHEMA_NOT_FOUND", 45), 404, False, _FULL,
        "There is no such schema."),
    Code.CATALOG_NOT_FOUND: Meaning(
        "3D000", "NOT_FOUND", Trino("CATALOG_NOT_FOUND", 44), 404, False, _FULL,
        "There is no such catalog."),
    Code.VIEW_NOT_FOUND: Meaning(
        "42P01", "NOT_FOUND", Trino("TABLE_NOT_FOUND", 46), 404, False, _FULL,
        "There is no such view, or none that the caller may know of."),
    Code.FUNCTION_NOT_FOUND: Meaning(
        "42883", "NOT_FOUND", Trino("FUNCTION_NOT_FOUND", 6), 400, False, _FULL,
        "There is no such function, or none that the caller may use."),
    Code.INVALID_ARGUMENTS: Meaning(
        "22023", "INVALID_ARGUMENT", Trino("INVALID_FUNCTION_ARGUMENT", 7), 400, False, _FULL,
        "A value, option or ticket is not one that can be accepted here."),
    Code.DUPLICATE_TABLE: Meaning(
        "42P07", "ALREADY_EXISTS", Trino("TABLE_ALREADY_EXISTS", 50), 409, False, _FULL,
        "A table, view or schema of this name exists already."),
    Code.DUPLICATE_COLUMN: Meaning(
        "42701", "INVALID_ARGUMENT", Trino("COLUMN_ALREADY_EXISTS", 51), 400, False, _FULL,
        "A column of this name exists already, or is named twice."),
    Code.DIVISION_BY_ZERO: Meaning(
        "22012", "INVALID_ARGUMENT", Trino("DIVISION_BY_ZERO", 8), 400, False, _FULL,
        "A row divides by zero."),
    Code.INVALID_CAST: Meaning(
        "22018", "INVALID_ARGUMENT", Trino("INVALID_CAST_ARGUMENT", 9), 400, False, _FULL,
        "A value cannot be turned into the type asked for, or does not fit into it."),
    Code.AUTHENTICATION_FAILED: Meaning(
        "28000", "UNAUTHENTICATED", Trino("PERMISSION_DENIED", 4), 401, False, _FULL,
        "The name, password or token is missing or wrong."),
    Code.ACCESS_DENIED: Meaning(
        "42501", "PERMISSION_DENIED", Trino("PERMISSION_DENIED", 4), 403, False, _FULL,
        "The caller is known but may not do this."),
    Code.SESSION_EXPIRED: Meaning(
        "08003", "UNAUTHENTICATED", Trino("PERMISSION_DENIED", 4), 401, False, _FULL,
        "The session or token is over; sign in again."),
    Code.EXECUTION_FAILED: Meaning(
        "38000", "INTERNAL", Trino("REMOTE_TASK_ERROR", 65542, _INTERNAL), 500, False, _SCRUBBED,
        "The statement was accepted but broke while it ran."),
    Code.QUERY_TIMEOUT: Meaning(
        "57014", "DEADLINE_EXCEEDED", Trino("EXCEEDED_TIME_LIMIT", 131075, _RESOURCES), 504, True, _FULL,
        "The statement took longer than its deadline."),
    Code.QUERY_CANCELLED: Meaning(
        "HY008", "CANCELLED", Trino("USER_CANCELED", 3), 499, False, _FULL,
        "Someone cancelled the statement, or its client went away."),
    Code.RESOURCE_EXHAUSTED: Meaning(
        "53000", "RESOURCE_EXHAUSTED", Trino("QUERY_QUEUE_FULL", 131074, _RESOURCES), 429, True, _FULL,
        "A queue is full, memory ran out, or a limit was passed."),
    Code.CATALOG_ERROR: Meaning(
        "58000", "INTERNAL", Trino("GENERIC_INTERNAL_ERROR", 65536, _EXTERNAL), 502, False, _GENERIC,
        "The catalog could not do what it was asked to."),
    Code.CATALOG_UNAVAILABLE: Meaning(
        "58030", "UNAVAILABLE", Trino("GENERIC_INTERNAL_ERROR", 65536, _EXTERNAL), 503, True, _GENERIC,
        "The catalog does not answer."),
    Code.STORAGE_ERROR: Meaning(
        "58030", "UNAVAILABLE", Trino("GENERIC_INTERNAL_ERROR", 65536, _EXTERNAL), 503, True, _GENERIC,
        "The storage that holds the data failed."),
    Code.COMMIT_CONFLICT: Meaning(
        "40001", "ABORTED", Trino("TRANSACTION_CONFLICT", 17), 409, True, _FULL,
        "Someone else changed the table at the same time."),
    Code.CIRCUIT_BREAKER_OPEN: Meaning(
        "57P03", "UNAVAILABLE", Trino("NO_NODES_AVAILABLE", 65541, _INTERNAL), 503, True, _GENERIC,
        "No healthy engine can take the statement now."),
    Code.NOT_SUPPORTED: Meaning(
        "0A000", "UNIMPLEMENTED", Trino("NOT_SUPPORTED", 13), 400, False, _FULL,
        "This is not supported here."),
    Code.INTERNAL_ERROR: Meaning(
        "XX000", "INTERNAL", Trino("GENERIC_INTERNAL_ERROR", 65536, _INTERNAL), 500, False, _GENERIC,
        "Something went wrong inside; the log has it under the query id."),
})
# fmt: on

OUT_OF_MEMORY: Final = "memory"
"""The `reason` of a RESOURCE_EXHAUSTED that is about memory and not about a queue."""

USER_CODE: Final = "user_code"
"""The `reason` of what is about code of the asker's: it may not run, or failed."""

MAY_HAVE_HAPPENED: Final = (
    "It may have been carried out all the same: look at the table before you run it again."
)

_TRINO_OUT_OF_MEMORY: Final = Trino("EXCEEDED_LOCAL_MEMORY_LIMIT", 131079, _RESOURCES)


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the statement, counted from 1."""

    line: int
    column: int


class BailiwickError(Exception):
    """A failure with a code. `message` is fit for the client; `cause_text` is for the log only."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        sqlstate: str | None = None,
        retryable: bool | None = None,
        position: Position | None = None,
        details: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
        query_id: str | None = None,
        cause_text: str | None = None,
    ) -> None:
        super().__init__(message)
        meaning = MEANINGS[code]
        self.code = code
        self.message = message
        self.sqlstate: str = sqlstate or meaning.sqlstate
        self.retryable: bool = meaning.retryable if retryable is None else retryable
        self.position = position
        self.details = dict(details or {})
        self.retry_after_s = retry_after_s
        self.query_id = query_id
        self.cause_text = cause_text

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def meaning(self) -> Meaning:
        return MEANINGS[self.code]

    @property
    def trino(self) -> Trino:
        """What Trino calls this failure. What no waiting helps is not a full queue."""
        is_no_queue = self.code is Code.RESOURCE_EXHAUSTED and (self._is_out_of_memory or not self.retryable)
        return _TRINO_OUT_OF_MEMORY if is_no_queue else self.meaning.trino

    @property
    def http(self) -> int:
        """429 asks the caller to slow down; memory that ran out is not the caller's pace, so 503."""
        return 503 if self._is_out_of_memory else self.meaning.http

    @property
    def _is_out_of_memory(self) -> bool:
        return self.code is Code.RESOURCE_EXHAUSTED and self.details.get("reason") == OUT_OF_MEMORY

    def outcome_unknown(self, idempotency_key: str | None = None) -> Self:
        """Say that the statement may have written. Running it again could write twice, so: not retryable."""
        if MAY_HAVE_HAPPENED not in self.message:
            self.message = f"{self.message} {MAY_HAVE_HAPPENED}"
        self.retryable = False
        self.retry_after_s = None
        self.details["outcome"] = "unknown"
        if idempotency_key is not None:
            self.details["idempotency_key"] = idempotency_key
        return self


class CannotStartError(Exception):
    """Something must be mended by people before a gateway can start. The message says what, and how."""

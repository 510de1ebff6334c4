"""What can go wrong, as one list of codes that every wire shares."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Position:
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
        self.code = code
        self.message = message
        self.sqlstate = sqlstate
        self.retryable = retryable
        self.position = position
        self.details = dict(details or {})
        self.retry_after_s = retry_after_s
        self.query_id = query_id
        self.cause_text = cause_text

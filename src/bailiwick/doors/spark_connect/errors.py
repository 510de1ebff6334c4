"""Our errors, and Spark's, as a stock Spark Connect client understands them. Pure.

A client finds in a status what Spark's own server would put there: an ErrorInfo with the error's condition,
its SQLSTATE, its parameters and the Java classes by which it chooses an exception; and behind an `errorId`
the whole story, which it fetches in a second call. What is Spark's keeps Spark's condition; what is ours has
one that begins with `BAILIWICK_`. Neither tells paths, hosts, stack traces or plans.

Clients try again by themselves what is UNAVAILABLE or comes with a RetryInfo, and nothing else. So both are
only sent where trying again is right.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from pyspark.sql.connect import proto

from bailiwick.doors.grpc_errors import METADATA_BYTES_MAX, wire_bytes
from bailiwick.engines.spark_refusal import SparkAnswer, SparkRefusal
from bailiwick.errors import USER_CODE, Audience, BailiwickError, Code
from bailiwick.telemetry.scrub import bounded, scrub

CONDITION: Final = "condition"
"""The detail of an error of ours that names a condition of Spark's."""
STATUS_MESSAGE_CHARS_MAX: Final = 2_000
PARAMETERS_BYTES_MAX: Final = 1_000
_CONTEXTS_MAX: Final = 8
_FRAGMENT_CHARS_MAX: Final = 2_000
_DETAILS_KEY: Final = "grpc-status-details-bin"
_DOMAIN: Final = "org.apache.spark"
_SESSION_CHANGED: Final = "INVALID_HANDLE.SESSION_CHANGED"
_CANCELED: Final = "OPERATION_CANCELED"

_RUNTIME: Final = (
    "java.lang.RuntimeException",
    "java.lang.Exception",
    "java.lang.Throwable",
    "java.lang.Object",
)
_ANALYSIS: Final = ("org.apache.spark.sql.AnalysisException", "java.lang.Exception", "java.lang.Throwable")
_PARSE: Final = ("org.apache.spark.sql.catalyst.parser.ParseException", *_ANALYSIS)
_SPARK: Final = ("org.apache.spark.SparkException", "java.lang.Exception", "java.lang.Throwable")
_SQL: Final = (
    "org.apache.spark.SparkSQLException",
    "java.sql.SQLException",
    "java.lang.Exception",
    "java.lang.Throwable",
)
_ARGUMENT: Final = (
    "org.apache.spark.SparkIllegalArgumentException",
    "java.lang.IllegalArgumentException",
    *_RUNTIME,
)
_ARITHMETIC: Final = (
    "org.apache.spark.SparkArithmeticException",
    "java.lang.ArithmeticException",
    *_RUNTIME,
)
_UNSUPPORTED: Final = (
    "org.apache.spark.SparkUnsupportedOperationException",
    "java.lang.UnsupportedOperationException",
    *_RUNTIME,
)

_CLASSES: Final[Mapping[Code, tuple[str, ...]]] = {
    Code.SYNTAX_ERROR: _PARSE,
    Code.PARSE_ERROR: ("org.apache.spark.sql.connect.common.InvalidPlanInput", *_RUNTIME),
    Code.SEMANTIC_ERROR: _ANALYSIS,
    Code.TYPE_MISMATCH: _ANALYSIS,
    Code.TABLE_NOT_FOUND: _ANALYSIS,
    Code.COLUMN_NOT_FOUND: _ANALYSIS,
    Code.SCHEMA_NOT_FOUND: _ANALYSIS,
    Code.CATALOG_NOT_FOUND: _ANALYSIS,
    Code.VIEW_NOT_FOUND: _ANALYSIS,
    Code.FUNCTION_NOT_FOUND: _ANALYSIS,
    Code.DUPLICATE_TABLE: _ANALYSIS,
    Code.DUPLICATE_COLUMN: _ANALYSIS,
    Code.ACCESS_DENIED: _ANALYSIS,
    Code.INVALID_ARGUMENTS: _ARGUMENT,
    Code.INVALID_CAST: _ARGUMENT,
    Code.DIVISION_BY_ZERO: _ARITHMETIC,
    Code.NOT_SUPPORTED: _UNSUPPORTED,
    Code.QUERY_CANCELLED: _SQL,
}
"""By which classes a client chooses its exception, where Spark has not said any. Else: SparkException."""

_CLONING: Final = "INVALID_CLONE_SESSION_REQUEST"

_PYTHON: Final = ("org.apache.spark.api.python.PythonException", *_RUNTIME)

_CLASSES_OF_CONDITIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "INVALID_HANDLE": _SQL,
    "INVALID_CURSOR": _SQL,
    _CLONING: _SQL,
    "SQL_CONF_NOT_FOUND": (
        "org.apache.spark.SparkNoSuchElementException",
        "java.util.NoSuchElementException",
        *_RUNTIME,
    ),
    "CANNOT_MODIFY_CONFIG": _ANALYSIS,
}
"""The same for conditions of Spark's under which we refuse; with their parts, if there are any."""

_STATUSES: Final[Mapping[Code, grpc.StatusCode]] = {
    Code.AUTHENTICATION_FAILED: grpc.StatusCode.UNAUTHENTICATED,
    Code.ACCESS_DENIED: grpc.StatusCode.PERMISSION_DENIED,
    Code.NOT_SUPPORTED: grpc.StatusCode.UNIMPLEMENTED,
    Code.RESOURCE_EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
"""Spark's own server says INTERNAL to nearly everything, and so is all the rest here."""

_PLACE_NAME: Final = re.compile(r"(?i)path|location|file|dir|root|uri|url")

TrailingMetadata = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What a client is told of an error."""

    condition: str
    sqlstate: str
    message: str
    """Whole, as `str(exception)` shows it."""
    classes: tuple[str, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    contexts: tuple[Any, ...] = ()
    """`FetchErrorDetailsResponse.QueryContext` each."""
    status: grpc.StatusCode = grpc.StatusCode.INTERNAL
    retry_after_s: float | None = None
    query_id: str | None = None

    @property
    def has_details(self) -> bool:
        """Whether a client may ask for more. PySpark asks nothing any more in a session that has changed."""
        return self.condition != _SESSION_CHANGED


def told(error: BailiwickError, *, may_retry: bool = True) -> Told:
    """What to tell of `error`. Without `may_retry` nothing in it makes a client try again."""
    spark = error.spark if isinstance(error, SparkRefusal) else None
    condition = _condition(error)
    source = _source(spark, condition)
    is_full = error.meaning.audience is Audience.FULL
    retry_after_s = error.retry_after_s if may_retry and error.retryable else None
    return Told(
        condition=condition,
        sqlstate=error.sqlstate,
        message=_message(error, condition),
        classes=source.classes or _classes(error, condition),
        parameters=_parameters(source, is_full) if source.classes else _own_parameters(error),
        contexts=source.contexts if is_full else (),
        status=_status(error.code, retry_after_s),
        retry_after_s=retry_after_s,
        query_id=error.query_id,
    )


def abort_arguments(what: Told, error_id: str | None) -> tuple[grpc.StatusCode, str, TrailingMetadata]:
    """Status code, details and trailing metadata, as `ServicerContext.abort` takes them.

    The message gives way where all of it would be more than clients accept; its whole is in the details.
    """
    length = STATUS_MESSAGE_CHARS_MAX
    while True:
        message = bounded(what.message, length)
        metadata = _metadata(what, error_id, message)
        if wire_bytes(message, metadata) <= METADATA_BYTES_MAX or length < 16:
            return what.status, message, metadata
        length = length * 3 // 4


def _metadata(what: Told, error_id: str | None, message: str) -> TrailingMetadata:
    metadata = {
        "errorClass": what.condition,
        "sqlState": what.sqlstate,
        "classes": json.dumps(what.classes),
    }
    parameters = json.dumps(dict(what.parameters))
    if len(parameters.encode()) <= PARAMETERS_BYTES_MAX:
        metadata["messageParameters"] = parameters
    if error_id is not None:
        metadata["errorId"] = error_id
    status = Status(code=what.status.value[0], message=message)
    status.details.append(_packed(ErrorInfo(reason=what.classes[0], domain=_DOMAIN, metadata=metadata)))
    if what.retry_after_s is not None:
        delay = Duration()
        delay.FromMilliseconds(math.ceil(what.retry_after_s * 1000))
        status.details.append(_packed(RetryInfo(retry_delay=delay)))
    query = (("bailiwick-query-id", what.query_id),) if what.query_id else ()
    return (*query, (_DETAILS_KEY, status.SerializeToString()))


def details_of(what: Told) -> Any:
    """The `FetchErrorDetailsResponse` of it, without the session's names. No stack traces."""
    response = proto.FetchErrorDetailsResponse(root_error_idx=0)
    error = response.errors.add(error_type_hierarchy=what.classes, message=what.message)
    throwable = error.spark_throwable
    throwable.error_class, throwable.sql_state = what.condition, what.sqlstate
    throwable.message_parameters.update(what.parameters)
    throwable.query_contexts.extend(what.contexts)
    return response


def of_condition(condition: str, message: str, *, sqlstate: str = "HY000", **details: str) -> BailiwickError:
    """An error of the wire itself, under a condition that clients of Spark know, such as INVALID_HANDLE."""
    details = {CONDITION: condition, **details}
    return BailiwickError(Code.INVALID_ARGUMENTS, message, sqlstate=sqlstate, details=details)


def operation_not_found(operation_id: str) -> BailiwickError:
    return _handle("OPERATION_NOT_FOUND", operation_id, "There is no such operation.")


def operation_abandoned(operation_id: str) -> BailiwickError:
    return _handle("OPERATION_ABANDONED", operation_id, "The operation ended, and what it gave was released.")


def operation_exists(operation_id: str) -> BailiwickError:
    return _handle("OPERATION_ALREADY_EXISTS", operation_id, "There is an operation of this id already.")


def session_closed(session_id: str) -> BailiwickError:
    return _handle("SESSION_CLOSED", session_id, "The session was closed. Make a new one.")


def session_changed(session_id: str, because: str) -> BailiwickError:
    return _handle("SESSION_CHANGED", session_id, f"{because} Make a new session.")


def not_cloned(kind: str, session_id: str, because: str) -> BailiwickError:
    message = f"The session cannot be cloned as {session_id}: {because}"
    return of_condition(f"{_CLONING}.{kind}", message, sqlstate="42K04", targetSessionId=session_id)


def cursor(kind: str, message: str) -> BailiwickError:
    return of_condition(f"INVALID_CURSOR.{kind}", message)


def _handle(kind: str, handle: str, message: str) -> BailiwickError:
    return of_condition(f"INVALID_HANDLE.{kind}", message, handle=handle)


@dataclass(frozen=True, slots=True)
class _Source:
    """The member of Spark's chain of errors that has the condition which the client is told."""

    classes: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    contexts: tuple[Any, ...] = ()


def _condition(error: BailiwickError) -> str:
    if error.code is Code.QUERY_CANCELLED:
        return _CANCELED
    known = error.details.get(CONDITION)
    return known if known and error.meaning.audience is not Audience.GENERIC else f"BAILIWICK_{error.code}"


def _classes(error: BailiwickError, condition: str) -> tuple[str, ...]:
    if _is_of_code(error):
        return _PYTHON
    known = _CLASSES_OF_CONDITIONS.get(condition.partition(".")[0])
    return known or _CLASSES.get(error.code, _SPARK)


def _is_of_code(error: BailiwickError) -> bool:
    """Whether it was raised by code of the asker's."""
    return error.code is Code.EXECUTION_FAILED and error.details.get("reason") == USER_CODE


def _source(spark: SparkAnswer | None, condition: str) -> _Source:
    if spark is None:
        return _Source()
    for member in spark.errors:
        throwable = member.spark_throwable
        if throwable.error_class == condition:
            return _Source(
                tuple(member.error_type_hierarchy),
                dict(throwable.message_parameters),
                tuple(
                    _context(each)
                    for each in throwable.query_contexts[:_CONTEXTS_MAX]
                    if not each.object_type
                ),
            )
    if spark.metadata.get("errorClass") == condition:
        classes = _json(spark.metadata.get("classes"), list)
        parameters = _json(spark.metadata.get("messageParameters"), dict)
        return _Source(tuple(map(str, classes)), {str(key): str(value) for key, value in parameters.items()})
    return _Source()


def _context(given: Any) -> Any:
    """Views' texts were left out before. A call site is the client's own line, or a stack of the engine's."""
    kind = given.context_type
    is_clients = kind == proto.FetchErrorDetailsResponse.QueryContext.DATAFRAME and "(" not in given.call_site
    return proto.FetchErrorDetailsResponse.QueryContext(
        context_type=kind,
        start_index=given.start_index,
        stop_index=given.stop_index,
        fragment=bounded(given.fragment, _FRAGMENT_CHARS_MAX),
        call_site=bounded(given.call_site, _FRAGMENT_CHARS_MAX) if is_clients else "",
        summary=bounded(given.summary, _FRAGMENT_CHARS_MAX) if given.fragment else "",
    )


def _message(error: BailiwickError, condition: str) -> str:
    # What code of the asker's raised was scrubbed where its frames were still known from its words.
    is_full = error.meaning.audience is Audience.FULL or _is_of_code(error)
    text = error.message if is_full else scrub(error.message)
    first, newline, rest = text.partition("\n")
    whole = f"[{condition}] {first} SQLSTATE: {error.sqlstate}{newline}{rest}"
    return whole.encode("utf-8", "replace").decode()


def _parameters(source: _Source, is_full: bool) -> dict[str, str]:
    return {
        name: value if is_full and not _PLACE_NAME.search(name) else scrub(value)
        for name, value in source.parameters.items()
    }


def _own_parameters(error: BailiwickError) -> dict[str, str]:
    told_of = {name: bounded(value, 200) for name, value in error.details.items() if name != CONDITION}
    return {**told_of, **({"queryId": error.query_id} if error.query_id else {})}


def _status(code: Code, retry_after_s: float | None) -> grpc.StatusCode:
    if code is Code.CIRCUIT_BREAKER_OPEN and retry_after_s is not None:
        return grpc.StatusCode.UNAVAILABLE
    return _STATUSES.get(code, grpc.StatusCode.INTERNAL)


def _json(text: str | None, kind: type) -> Any:
    try:
        value = json.loads(text) if text else None
    except ValueError:
        value = None
    return value if isinstance(value, kind) else kind()


def _packed(message: ErrorInfo | RetryInfo) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed

"""Our errors as gRPC statuses, for every door that speaks gRPC.

A client gets the status code, one line `CODE: message (query id)`, the facts as plain trailing metadata for
people with a terminal, and the same as `google.rpc.Status` for programs. Everything together stays below the
8 KB of metadata that clients accept: the message gives way first. The whole cause goes to the log, never out.
"""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol
from urllib.parse import quote

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from bailiwick.errors import MEANINGS, Audience, BailiwickError, Code
from bailiwick.telemetry.logs import logger
from bailiwick.telemetry.scrub import bounded, scrub

DOMAIN: Final = "bailiwick"
METADATA_BYTES_MAX: Final = 7_000
"""Of the 8,192 that gRPC clients take, headers of the transport included."""

_DETAILS_KEY: Final = "grpc-status-details-bin"
_MESSAGE_LENGTH_MAX: Final = 2_400
_DETAIL_LENGTH_MAX: Final = 200
_DETAILS_BYTES_MAX: Final = 1_500
_ENTRY_OVERHEAD_BYTES: Final = 32

TrailingMetadata = tuple[tuple[str, str | bytes], ...]
_log = logger(__name__)


class Abortable(Protocol):
    """The part of `grpc.aio.ServicerContext` that ending a call with an error needs."""

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: TrailingMetadata = ()
    ) -> None:
        """End the call with this status. Always raises."""


@asynccontextmanager
async def answering(context: Abortable, *, query_id: str | None = None) -> AsyncIterator[None]:
    """Whatever fails inside this block ends the call with our rendering of it, and is logged in full.

    A call that was cancelled from outside is left alone: there is nobody to answer.
    """
    try:
        yield
    except grpc.aio.AbortError:
        raise
    except Exception as failure:
        error = as_our_error(failure, query_id=query_id)
        _write_down(error, failure)
        await context.abort(*render(error))


def render(error: BailiwickError) -> tuple[grpc.StatusCode, str, TrailingMetadata]:
    """Status code, details and trailing metadata, as `ServicerContext.abort` takes them."""
    status = grpc.StatusCode[error.meaning.grpc]
    length = _MESSAGE_LENGTH_MAX
    while True:
        text = _text(error, length)
        metadata = _metadata(error, status, text)
        if wire_bytes(text, metadata) <= METADATA_BYTES_MAX or length < 16:
            return status, text, metadata
        length = length * 3 // 4


def as_our_error(failure: BaseException, *, query_id: str | None = None) -> BailiwickError:
    """`failure` itself if it is ours, else an INTERNAL_ERROR that tells the client nothing about it."""
    error = _ours(failure)
    if error is None:
        cause = f"{type(failure).__name__}: {failure}"
        error = BailiwickError(Code.INTERNAL_ERROR, MEANINGS[Code.INTERNAL_ERROR].sentence, cause_text=cause)
    error.query_id = error.query_id or query_id
    return error


def _ours(failure: BaseException) -> BailiwickError | None:
    """Task groups wrap what their tasks raise."""
    if isinstance(failure, BailiwickError):
        return failure
    if isinstance(failure, BaseExceptionGroup):
        return next((error for error in map(_ours, failure.exceptions) if error is not None), None)
    return None


def _text(error: BailiwickError, length_max: int) -> str:
    message = error.message
    if error.meaning.audience is not Audience.FULL:
        # Whoever made the error should have seen to it; this is the last door before the street.
        message = scrub(message)
    suffix = f" (query {error.query_id})" if error.query_id else ""
    return _valid(f"{error.code}: {bounded(message, length_max)}{suffix}")


def _metadata(error: BailiwickError, status: grpc.StatusCode, text: str) -> TrailingMetadata:
    plain = {
        "bailiwick-error-code": error.code.value,
        "bailiwick-sqlstate": error.sqlstate,
        "bailiwick-retryable": "true" if error.retryable else "false",
    }
    if error.query_id:
        plain["bailiwick-query-id"] = error.query_id
    if error.retryable and error.retry_after_s is not None:
        plain["retry-after"] = str(math.ceil(error.retry_after_s))
    details = _status(error, status, text).SerializeToString()
    return (*((key, _ascii(value)) for key, value in plain.items()), (_DETAILS_KEY, details))


def _status(error: BailiwickError, status: grpc.StatusCode, text: str) -> Status:
    answer = Status(code=status.value[0], message=text)
    info = ErrorInfo(reason=error.code.value, domain=DOMAIN, metadata=_facts(error))
    answer.details.append(_packed(info))
    if error.retryable and error.retry_after_s is not None:
        delay = Duration()
        delay.FromMilliseconds(math.ceil(error.retry_after_s * 1000))
        answer.details.append(_packed(RetryInfo(retry_delay=delay)))
    return answer


def _facts(error: BailiwickError) -> dict[str, str]:
    facts = {"sqlstate": error.sqlstate, "retryable": "true" if error.retryable else "false"}
    if error.query_id:
        facts["query_id"] = _valid(bounded(error.query_id, _DETAIL_LENGTH_MAX))
    if error.position is not None:
        facts["line"], facts["column"] = str(error.position.line), str(error.position.column)
    room_bytes = _DETAILS_BYTES_MAX
    for name, value in error.details.items():
        name, value = _valid(name), _valid(bounded(value, _DETAIL_LENGTH_MAX))
        room_bytes -= len(name.encode()) + len(value.encode())
        if room_bytes < 0:
            break
        facts.setdefault(name, value)
    return facts


def _packed(message: ErrorInfo | RetryInfo) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed


def _valid(text: str) -> str:
    """Half a character, which a statement may well contain, cannot be sent."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _ascii(value: str) -> str:
    """Metadata that is not binary must be printable ASCII, or the call fails instead of its answer."""
    return "".join(character if " " <= character <= "~" else "?" for character in value[:_DETAIL_LENGTH_MAX])


def wire_bytes(text: str, metadata: TrailingMetadata) -> int:
    """As it is counted on the wire: the message percent-encoded, binary values in base64."""
    size = len(quote(text, safe=" !\"#$&'()*+,/:;<=>?@[]^`{|}~\\")) + _ENTRY_OVERHEAD_BYTES
    for key, value in metadata:
        length = len(value) * 4 // 3 + 4 if isinstance(value, bytes) else len(value)
        size += len(key) + length + _ENTRY_OVERHEAD_BYTES
    return size


def _write_down(error: BailiwickError, failure: BaseException) -> None:
    facts = {
        "code": error.code.value,
        "message": error.message,
        "cause": error.cause_text,
        "query_id": error.query_id,
    }
    said = {name: value for name, value in facts.items() if value is not None}
    if error is not failure and not isinstance(failure, BaseExceptionGroup):
        _log.error("call_failed", exc_info=failure, **said)
    elif error.code is Code.INTERNAL_ERROR:
        _log.error("call_failed", **said)
    else:
        _log.info("call_failed", **said)

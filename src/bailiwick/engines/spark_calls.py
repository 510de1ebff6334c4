"""The calls of one Spark session: each with its ids, its token and a deadline, and its failure made ours.

It knows how to ask and how to read a refusal; what to ask is known by `spark_operation.py` and
`spark_connect.py`, what a refusal means by `spark_errors.py`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from pyspark.sql.connect import proto

from bailiwick.engines.engine import EngineLost
from bailiwick.engines.spark_errors import SparkFailure, classify
from bailiwick.engines.spark_refusal import SparkAnswer, SparkRefusal
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import SessionId
from bailiwick.telemetry.traces import current_trace

CLIENT_TYPE: Final = "bailiwick"
ERROR_DETAILS_TIMEOUT_S: Final = 2.0
CAUSES_MAX: Final = 10

_LOST: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }
)
"""What a broken way looks like. Spark uses some of these too, but never without an ErrorInfo."""

_STRANGERS: Final = ("INVALID_HANDLE", "INVALID_CURSOR")
"""Spark knows the session or the operation no more, or not how to go on with its stream: another life of the
engine, or a break that cannot be mended. It says nothing about what the operation does or did."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed. `is_verdict` says that Spark itself answered: what was asked is over, not lost."""

    error: BailiwickError | EngineLost
    is_verdict: bool


class SparkCalls:
    """Signs the requests of one session and sends them."""

    def __init__(self, stub: Any, token: str, session_id: SessionId, user_id: str) -> None:
        self._stub = stub
        self._metadata: tuple[tuple[str, str], ...] = (("authorization", f"Bearer {token}"),)
        self._session_id = session_id
        self._user_id = user_id
        self._server_session_id = ""

    async def unary(self, method: str, request: Any, *, timeout_s: float) -> Any:
        """Ask and wait. Raises BailiwickError if Spark refuses, EngineLost without an answer in time."""
        call = getattr(self._stub, method)
        try:
            response = await call(self._signed(request), metadata=self._headers(), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise (await self.failure(error)).error from error
        except grpc.aio.UsageError as error:
            raise EngineLost(str(error)) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled us: gRPC says so to calls whose channel is closed under them.
            raise EngineLost("the channel was closed") from None
        self._server_session_id = self._server_session_id or response.server_side_session_id
        return response

    def stream(self, method: str, request: Any) -> Any:
        """Start a stream. It has no deadline of its own: whoever reads it races one."""
        try:
            return getattr(self._stub, method)(self._signed(request), metadata=self._headers())
        except grpc.aio.UsageError as error:
            # The channel was closed, as it is when the engine ended.
            raise EngineLost(str(error)) from error

    async def failure(self, error: grpc.aio.AioRpcError, sql: str = "") -> Failure:
        """What `error` means, with all that Spark can tell about it, its place in `sql` too."""
        info = error_info(error)
        if info is None:
            return Failure(_unexplained(error), is_verdict=False)
        outermost = SparkFailure.from_error_info(error.details() or "", dict(info.metadata))
        if (outermost.error_class or "").startswith(_STRANGERS):
            return Failure(EngineLost(outermost.message), is_verdict=False)
        chain = await self._error_chain(info.metadata.get("errorId"))
        answer = SparkAnswer(error.code(), error.details() or "", dict(info.metadata), tuple(chain))
        return Failure(SparkRefusal(classify(_explained(outermost, chain, sql)), answer), is_verdict=True)

    async def _error_chain(self, error_id: str | None) -> Sequence[Any]:
        """The error and what caused it, outermost first. Spark forgets them after they were fetched once."""
        if not error_id:
            return ()
        request = self._signed(proto.FetchErrorDetailsRequest(error_id=error_id))
        try:
            details = await self._stub.FetchErrorDetails(
                request, metadata=self._metadata, timeout=ERROR_DETAILS_TIMEOUT_S
            )
        except (grpc.aio.AioRpcError, grpc.aio.UsageError):
            # What failed is known already; only its place in the text and its causes stay unknown.
            return ()
        chain: list[Any] = []
        index = details.root_error_idx if details.HasField("root_error_idx") else None
        while index is not None and 0 <= index < len(details.errors) and len(chain) < CAUSES_MAX:
            chain.append(details.errors[index])
            index = chain[-1].cause_idx if chain[-1].HasField("cause_idx") else None
        return chain

    def _headers(self) -> tuple[tuple[str, str], ...]:
        """With the trace that the call belongs to: an engine with an OpenTelemetry agent joins it."""
        trace = current_trace()
        return self._metadata if trace is None else (*self._metadata, *trace.headers())

    def _signed(self, request: Any) -> Any:
        request.session_id = self._session_id
        request.user_context.user_id = self._user_id
        request.client_type = CLIENT_TYPE
        if self._server_session_id and hasattr(request, "client_observed_server_side_session_id"):
            # A server that was started anew must refuse rather than answer from a new, empty session.
            request.client_observed_server_side_session_id = self._server_session_id
        return request


def error_info(error: grpc.aio.AioRpcError) -> ErrorInfo | None:
    """What Spark says about the failure; None if it was not Spark that answered."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in Status.FromString(value).details:
                info = ErrorInfo()
                if detail.Unpack(info):
                    return info
    return None


def is_broken(error: grpc.aio.AioRpcError) -> bool:
    """Whether the way to the engine failed, rather than the engine saying no."""
    return error.code() in _LOST and error_info(error) is None


def _unexplained(error: grpc.aio.AioRpcError) -> BailiwickError | EngineLost:
    code, text = error.code(), f"{error.code().name}: {error.details()}"
    if code in _LOST:
        return EngineLost(text)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return BailiwickError(
            Code.RESOURCE_EXHAUSTED,
            "One row of the result is too large to be sent.",
            retryable=False,
            details={"reason": "message_size"},
            cause_text=text,
        )
    return BailiwickError(Code.INTERNAL_ERROR, "The engine refused a call of the gateway.", cause_text=text)


def _explained(outermost: SparkFailure, chain: Sequence[Any], sql: str) -> SparkFailure:
    line, column = _position(chain[0], sql) if chain else (None, None)
    outermost = replace(outermost, message=_whole(outermost.message, chain))
    cause: SparkFailure | None = None
    for error in reversed(chain[1:]):
        throwable = error.spark_throwable
        cause = SparkFailure(
            message=error.message,
            error_class=throwable.error_class or None,
            sqlstate=throwable.sql_state or None,
            classes=tuple(error.error_type_hierarchy),
            parameters=dict(throwable.message_parameters),
            cause=cause,
        )
    return replace(outermost, line=line, column=column, cause=cause)


def _whole(message: str, chain: Sequence[Any]) -> str:
    """Spark cuts what it says at first; what it is asked for afterwards is whole."""
    beginning = message.removesuffix("...")
    return next((str(error.message) for error in chain if error.message.startswith(beginning)), message)


def _position(error: Any, sql: str) -> tuple[int | None, int | None]:
    for context in error.spark_throwable.query_contexts:
        # A context inside a view points into a text that the caller never wrote.
        if context.fragment and not context.object_type and context.start_index >= 0:
            return _line_and_column(sql, context.start_index)
    return None, None


def _line_and_column(sql: str, start_index: int) -> tuple[int, int]:
    """Both counted from 1. Spark's parser counts characters as Python does, not UTF-16 units as Java does."""
    before = sql[:start_index]
    return before.count("\n") + 1, len(before) - before.rfind("\n")

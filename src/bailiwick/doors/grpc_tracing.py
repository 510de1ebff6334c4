"""gRPC calls as spans: each call that comes joins the trace of its `traceparent`, or begins one.

It wraps handlers of any door, which need not know. Health is left alone: it is asked all day.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc

from bailiwick.telemetry.trace_context import TRACEPARENT, TRACESTATE, TraceContext, read
from bailiwick.telemetry.traces import OpenSpan, Traces

_STATUS: Final = "rpc.grpc.status_code"

Behaviour = Callable[[Any, Any], Awaitable[Any]]


class TracedHandler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The calls of `handler`, whose behaviours are coroutines that write what they stream."""

    def __init__(self, handler: grpc.GenericRpcHandler, traces: Traces) -> None:
        self._handler = handler
        self._traces = traces

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        found = self._handler.service(handler_call_details)
        if found is None:
            return None
        caller = caller_of(handler_call_details.invocation_metadata or ())
        return _rebuilt(found, lambda inner: self._traced(inner, handler_call_details.method, caller))

    def _traced(self, inner: Behaviour, method: str, caller: TraceContext | None) -> Behaviour:
        service, _, name = method.removeprefix("/").rpartition("/")
        facts = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}

        async def handle(request: Any, context: Any) -> Any:
            with self._traces.call(f"{service}/{name}", caller, facts) as span:
                try:
                    return await inner(request, context)
                except asyncio.CancelledError:
                    _note_status(span, grpc.StatusCode.CANCELLED)
                    raise
                finally:
                    _note_status(span, context.code())

        return handle


def caller_of(metadata: Any) -> TraceContext | None:
    """The caller's span, of the metadata of a call."""
    texts = [(key, value) for key, value in metadata if isinstance(value, str)]
    return read(
        [value for key, value in texts if key == TRACEPARENT],
        [value for key, value in texts if key == TRACESTATE],
    )


def _note_status(span: OpenSpan | None, code: Any) -> None:
    """The first one counts. gRPC knows OK as no code at all until the call is answered."""
    if span is None or _STATUS in span.attributes:
        return
    status = code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.OK
    span.attributes[_STATUS] = status.value[0]
    if status is not grpc.StatusCode.OK:
        span.failure = status.name


def _rebuilt(handler: Any, wrap: Callable[[Behaviour], Behaviour]) -> grpc.RpcMethodHandler:
    """The same handler around another behaviour."""
    codec = (handler.request_deserializer, handler.response_serializer)
    if handler.request_streaming and handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(wrap(handler.stream_stream), *codec)
    if handler.request_streaming:
        return grpc.stream_unary_rpc_method_handler(wrap(handler.stream_unary), *codec)
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(wrap(handler.unary_stream), *codec)
    return grpc.unary_unary_rpc_method_handler(wrap(handler.unary_unary), *codec)

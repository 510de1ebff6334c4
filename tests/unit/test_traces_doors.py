"""Calls over the real wires join their caller's trace, and say how they ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bailiwick.doors.grpc_errors import answering
from bailiwick.doors.grpc_server import GrpcLimits, GrpcServer
from bailiwick.doors.http.server import HttpServer
from bailiwick.errors import BailiwickError, Code
from bailiwick.telemetry.spans import Span, SpanKind
from bailiwick.telemetry.traces import Traces, current_trace

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = ("traceparent", f"00-{TRACE}-{SPAN}-01")
LOOPBACK = ["127.0.0.1"]


class Echo(grpc.GenericRpcHandler):  # type: ignore[misc]
    """One method of each shape. They answer with the trace that they run in."""

    def __init__(self) -> None:
        self.is_waiting = asyncio.Event()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return {
            "/echo/UnaryUnary": grpc.unary_unary_rpc_method_handler(self._answer),
            "/echo/UnaryStream": grpc.unary_stream_rpc_method_handler(self._write),
            "/echo/StreamUnary": grpc.stream_unary_rpc_method_handler(self._answer),
            "/echo/StreamStream": grpc.stream_stream_rpc_method_handler(self._write),
        }.get(handler_call_details.method)

    async def _answer(self, request: Any, context: Any) -> bytes:
        async with answering(context):
            if request == b"wait":
                self.is_waiting.set()
                await asyncio.Event().wait()
            if request == b"fail":
                raise BailiwickError(Code.TABLE_NOT_FOUND, "There is no such table.")
            trace = current_trace()
            return b"" if trace is None else trace.trace_id.encode()

    async def _write(self, request: Any, context: Any) -> None:
        await context.write(await self._answer(request, context))


@asynccontextmanager
async def channel_to(traces: Traces, echo: Echo | None = None) -> AsyncIterator[grpc.aio.Channel]:
    server = GrpcServer(LOOPBACK, 0, [echo or Echo()], GrpcLimits(), traces=traces)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            yield channel
    finally:
        await server.stop(0)


async def ask(channel: grpc.aio.Channel, shape: str, *metadata: tuple[str, str]) -> bytes:
    path = f"/echo/{shape}"
    match shape:
        case "UnaryUnary":
            return bytes(await channel.unary_unary(path)(b"", metadata=metadata))
        case "UnaryStream":
            return b"".join([part async for part in channel.unary_stream(path)(b"", metadata=metadata)])
        case "StreamUnary":
            return bytes(await channel.stream_unary(path)(iter([b""]), metadata=metadata))
        case _:
            return b"".join(
                [part async for part in channel.stream_stream(path)(iter([b""]), metadata=metadata)]
            )


@pytest.mark.parametrize("shape", ["UnaryUnary", "UnaryStream", "StreamUnary", "StreamStream"])
async def test_a_grpc_call_of_any_shape_joins_its_callers_trace(shape: str) -> None:
    told: list[Span] = []
    async with channel_to(Traces(told.append)) as channel:
        assert await ask(channel, shape, PARENT, ("tracestate", "a=1")) == TRACE.encode()
    [span] = told
    assert (span.name, span.kind, span.parent_id, span.context.state) == (
        f"echo/{shape}",
        SpanKind.SERVER,
        SPAN,
        "a=1",
    )
    assert span.attributes == {
        "rpc.system": "grpc",
        "rpc.service": "echo",
        "rpc.method": shape,
        "rpc.grpc.status_code": 0,
    }
    assert span.failure is None


@pytest.mark.parametrize(
    "metadata", [[], [("traceparent", "nonsense")], [("traceparent", PARENT[1].upper())]]
)
async def test_a_grpc_call_without_a_readable_parent_begins_a_trace(metadata: list[tuple[str, str]]) -> None:
    told: list[Span] = []
    async with channel_to(Traces(told.append)) as channel:
        assert await ask(channel, "UnaryUnary", *metadata) not in (b"", TRACE.encode())
    assert told[0].parent_id is None


async def test_a_grpc_call_that_failed_says_how() -> None:
    told: list[Span] = []
    async with channel_to(Traces(told.append)) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary("/echo/UnaryUnary")(b"fail")
    assert (told[0].failure, told[0].attributes["rpc.grpc.status_code"]) == ("NOT_FOUND", 5)


async def test_a_grpc_call_whose_caller_left_says_so() -> None:
    told: list[Span] = []
    echo = Echo()
    async with channel_to(Traces(told.append), echo) as channel:
        call = channel.unary_unary("/echo/UnaryUnary")(b"wait")
        asking = asyncio.ensure_future(call)
        await echo.is_waiting.wait()
        asking.cancel()
        async with asyncio.timeout(5):
            while not told:  # noqa: ASYNC110  (nothing here tells us)
                await asyncio.sleep(0)
    assert (told[0].failure, told[0].attributes["rpc.grpc.status_code"]) == ("CANCELLED", 1)


async def test_health_and_what_does_not_exist_are_not_traced() -> None:
    told: list[Span] = []
    async with channel_to(Traces(told.append)) as channel:
        assert await channel.unary_unary("/grpc.health.v1.Health/Check")(b"")
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary("/echo/None")(b"")
    assert told == []


async def test_without_a_collector_calls_are_as_they_were() -> None:
    async with channel_to(Traces()) as channel:
        assert await ask(channel, "UnaryUnary", PARENT) == b""


async def _page(request: Request) -> Response:
    trace = current_trace()
    status = int(request.query_params.get("status", "200"))
    return PlainTextResponse("" if trace is None else trace.trace_id, status_code=status)


@asynccontextmanager
async def http_to(traces: Traces) -> AsyncIterator[httpx.AsyncClient]:
    paths = ("/v1/statement", "/healthz", "/internal/v1/engines/heartbeat")
    app = Starlette(routes=[Route(path, _page) for path in paths])
    server = HttpServer(LOOPBACK, 0, app, traces=traces)
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client:
            yield client
    finally:
        await server.stop(0)


async def test_an_http_request_joins_its_callers_trace_and_keeps_its_path_to_itself() -> None:
    told: list[Span] = []
    async with http_to(Traces(told.append)) as client:
        answer = await client.get(
            "/v1/statement", headers=[PARENT, ("tracestate", "a=1"), ("tracestate", "b=2")]
        )
    assert answer.text == TRACE
    [span] = told
    assert (span.name, span.parent_id, span.context.state) == ("HTTP GET", SPAN, "a=1,b=2")
    assert span.attributes == {"http.request.method": "GET", "http.response.status_code": 200}


@pytest.mark.parametrize(("status", "failure"), [(404, None), (503, "503")])
async def test_an_http_request_that_failed_says_so(status: int, failure: str | None) -> None:
    told: list[Span] = []
    async with http_to(Traces(told.append)) as client:
        await client.get("/v1/statement", params={"status": status})
    assert (told[0].failure, told[0].attributes["http.response.status_code"]) == (failure, status)


@pytest.mark.parametrize("path", ["/healthz", "/internal/v1/engines/heartbeat"])
async def test_what_is_asked_all_day_is_not_traced(path: str) -> None:
    told: list[Span] = []
    async with http_to(Traces(told.append)) as client:
        assert (await client.get(path, headers=[PARENT])).text == ""
    assert told == []

"""Flight's calls on grpc.aio, found by name, as raw bytes both ways.

Every call is authenticated before its message is read. Streams are written from inside the handler (not
yielded), so that a call which ends early leaves its query's `async with` at once, and Spark is told to stop.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql.caller import Caller, Callers, Greeting
from bailiwick.doors.flight_sql.commands import ACTION_DESCRIPTIONS
from bailiwick.doors.flight_sql.door import FlightSqlDoor
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.doors.grpc_credentials import Context
from bailiwick.doors.grpc_errors import answering
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import QueryId
from bailiwick.queries.statement import RanOn

SERVICE = "arrow.flight.protocol.FlightService"
QUERY_ID_HEADER = "bailiwick-query-id"
RAN_ON_HEADER = "bailiwick-ran-on"
FALLBACK_HEADER = "bailiwick-fallback"
"""There, and true, where the embedded engine took what was meant for others."""

Requests = AsyncIterator[bytes]
Handler = Callable[[Any, Context], Awaitable[bytes | None]]


class FlightSqlService(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, door: FlightSqlDoor, callers: Callers) -> None:
        self._door = door
        self._callers = callers
        self._handlers = {
            f"/{SERVICE}/{name}": make(_answered(behaviour), None, None)
            for name, make, behaviour in (
                ("Handshake", grpc.stream_stream_rpc_method_handler, self._callers.handshake),
                ("GetFlightInfo", grpc.unary_unary_rpc_method_handler, self._get_flight_info),
                ("PollFlightInfo", grpc.unary_unary_rpc_method_handler, self._poll_flight_info),
                ("GetSchema", grpc.unary_unary_rpc_method_handler, self._get_schema),
                ("DoGet", grpc.unary_stream_rpc_method_handler, self._do_get),
                ("DoPut", grpc.stream_stream_rpc_method_handler, self._do_put),
                ("DoAction", grpc.unary_stream_rpc_method_handler, self._do_action),
                ("ListActions", grpc.unary_stream_rpc_method_handler, self._list_actions),
                ("ListFlights", grpc.unary_stream_rpc_method_handler, self._unsupported),
                ("DoExchange", grpc.stream_stream_rpc_method_handler, self._unsupported),
            )
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._handlers.get(handler_call_details.method)

    async def _get_flight_info(self, request: bytes, context: Context) -> bytes:
        caller, greeting = await self._meet(context)
        info = await self._door.flight_info(caller, request, greeting)
        await greeting.send()
        return info

    async def _poll_flight_info(self, request: bytes, context: Context) -> bytes:
        caller, greeting = await self._meet(context)
        info = await self._door.poll(caller, request, greeting)
        await greeting.send()
        return info

    async def _get_schema(self, request: bytes, context: Context) -> bytes:
        caller, greeting = await self._meet(context)
        await greeting.send()
        return await self._door.schema(caller, request)

    async def _do_get(self, request: bytes, context: Context) -> None:
        caller, greeting = await self._meet(context)

        async def write(message: bytes) -> None:
            await greeting.send()
            await context.write(message)

        await self._door.fetch(caller, request, write, greeting)

    async def _do_put(self, requests: Requests, context: Context) -> None:
        caller, greeting = await self._meet(context)
        # What one message can answer is answered at once: some drivers read before they end their stream.
        messages = aiter(requests)
        first = await anext(messages, None)
        if first is None:
            raise BailiwickError(Code.PARSE_ERROR, "The stream ended before it said what it is for.")
        result = await self._door.put(caller, first, messages, greeting)
        await greeting.send()
        await context.write(result)

    async def _do_action(self, request: bytes, context: Context) -> None:
        caller, greeting = await self._meet(context)
        result = await self._door.act(caller, request)
        await greeting.send()
        if result is not None:
            await context.write(result)

    async def _list_actions(self, request: bytes, context: Context) -> None:
        _, greeting = await self._meet(context)
        await greeting.send()
        parse(flight.Empty, request)
        for name, description in ACTION_DESCRIPTIONS.items():
            await context.write(flight.ActionType(type=name, description=description).SerializeToString())

    async def _unsupported(self, _request: bytes | Requests, context: Context) -> None:
        await self._meet(context)
        raise BailiwickError(
            Code.NOT_SUPPORTED, "This Flight call is not supported; use GetFlightInfo and DoGet."
        )

    async def _meet(self, context: Context) -> "tuple[Caller, _Answering]":
        caller = await self._callers.caller(context)
        return caller, _Answering(context, caller.greeting)


class _Answering(Greeting):
    """The first and the last headers of one answer, which also tell a query's id and where it ran."""

    async def announce(self, query_id: QueryId) -> None:
        await self.send((QUERY_ID_HEADER, query_id))

    def ran_on(self, where: RanOn) -> None:
        fallback = ((FALLBACK_HEADER, "true"),) if where.is_fallback else ()
        self._context.set_trailing_metadata(((RAN_ON_HEADER, where.node_id), *fallback))


def _answered(behaviour: Handler) -> Handler:
    """The same, with our errors as gRPC statuses."""

    async def handle(request: Any, context: Context) -> bytes | None:
        async with answering(context):
            return await behaviour(request, context)

    return handle

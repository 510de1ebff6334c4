"""Flight's calls on grpc.aio, found by name, as raw bytes both ways.

Every call is authenticated before its message is read. Streams are written from inside the handler (not
yielded), so that a call which ends early leaves its query's `async with` at once, and Spark is told to stop.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql.authentication import Authentication, Context
from bailiwick.doors.flight_sql.commands import ACTION_DESCRIPTIONS
from bailiwick.doors.flight_sql.door import Announce, FlightSqlDoor
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.doors.grpc_errors import answering
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId

SERVICE = "arrow.flight.protocol.FlightService"
QUERY_ID_HEADER = "bailiwick-query-id"

Requests = AsyncIterator[bytes]
Handler = Callable[[Any, Context], Awaitable[bytes | None]]


class FlightSqlService(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, door: FlightSqlDoor, authentication: Authentication) -> None:
        self._door = door
        self._authentication = authentication
        self._handlers = {
            f"/{SERVICE}/{name}": make(_answered(behaviour), None, None)
            for name, make, behaviour in (
                ("Handshake", grpc.stream_stream_rpc_method_handler, self._handshake),
                ("GetFlightInfo", grpc.unary_unary_rpc_method_handler, self._get_flight_info),
                ("GetSchema", grpc.unary_unary_rpc_method_handler, self._get_schema),
                ("DoGet", grpc.unary_stream_rpc_method_handler, self._do_get),
                ("DoPut", grpc.stream_stream_rpc_method_handler, self._do_put),
                ("DoAction", grpc.unary_stream_rpc_method_handler, self._do_action),
                ("ListActions", grpc.unary_stream_rpc_method_handler, self._list_actions),
                ("ListFlights", grpc.unary_stream_rpc_method_handler, self._unsupported),
                ("PollFlightInfo", grpc.unary_unary_rpc_method_handler, self._unsupported),
                ("DoExchange", grpc.stream_stream_rpc_method_handler, self._unsupported),
            )
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._handlers.get(handler_call_details.method)

    async def _handshake(self, requests: Requests, context: Context) -> None:
        await self._authentication.handshake(requests, context)

    async def _get_flight_info(self, request: bytes, context: Context) -> bytes:
        principal = await self._principal(context)
        return await self._door.flight_info(principal, request, _announcing(context))

    async def _get_schema(self, request: bytes, context: Context) -> bytes:
        return await self._door.schema(await self._principal(context), request)

    async def _do_get(self, request: bytes, context: Context) -> None:
        principal = await self._principal(context)
        await self._door.fetch(principal, request, context.write, _announcing(context))

    async def _do_put(self, requests: Requests, context: Context) -> None:
        principal = await self._principal(context)
        # Answered on the first message: some drivers read the result before they end their stream.
        first = await anext(aiter(requests), None)
        if first is None:
            raise BailiwickError(Code.PARSE_ERROR, "The stream ended before it said what it is for.")
        await context.write(await self._door.update(principal, first, _announcing(context)))

    async def _do_action(self, request: bytes, context: Context) -> None:
        result = await self._door.act(await self._principal(context), request)
        if result is not None:
            await context.write(result)

    async def _list_actions(self, request: bytes, context: Context) -> None:
        await self._principal(context)
        parse(flight.Empty, request)
        for name, description in ACTION_DESCRIPTIONS.items():
            await context.write(flight.ActionType(type=name, description=description).SerializeToString())

    async def _unsupported(self, _request: bytes | Requests, context: Context) -> None:
        await self._principal(context)
        raise BailiwickError(
            Code.NOT_SUPPORTED, "This Flight call is not supported; use GetFlightInfo and DoGet."
        )

    async def _principal(self, context: Context) -> Principal:
        return await self._authentication.principal(context)


def _answered(behaviour: Handler) -> Handler:
    """The same, with our errors as gRPC statuses."""

    async def handle(request: Any, context: Context) -> bytes | None:
        async with answering(context):
            return await behaviour(request, context)

    return handle


def _announcing(context: Context) -> Announce:
    async def announce(query_id: QueryId) -> None:
        await context.send_initial_metadata(((QUERY_ID_HEADER, query_id),))

    return announce

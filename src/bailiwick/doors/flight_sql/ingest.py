"""CommandStatementIngest by DoPut: FlightData becomes Arrow messages, and the number of rows the answer.

To gRPC, a client that was cut off looks like one that has sent everything: its stream just ends, and only a
moment later the call is cancelled. Rows must not be committed on that. So when the stream ends, the client is
told its query's id, which fails if nobody is there.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql import commands
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.placement import Placement
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId, new_query_id
from bailiwick.queries import failures
from bailiwick.queries.ingest import IfExists, IfMissing, IngestRequest
from bailiwick.queries.ingest_stream import encapsulated

DOOR = "flight_sql"

Announce = Callable[[QueryId], Awaitable[None]]
"""Sends a query's id to the client. Raises if the client is gone. Not called before."""


class Settings(Protocol):
    """What a client's session says of names, time and place."""

    @property
    def catalog(self) -> str: ...

    @property
    def namespace(self) -> tuple[str, ...]: ...

    @property
    def timeout_s(self) -> float | None: ...

    @property
    def placement(self) -> Placement | None: ...


class Ingests(Protocol):
    """The ingest service, as far as this door needs it."""

    async def ingest(
        self, request: IngestRequest, messages: AsyncIterator[bytes], *, query_id: QueryId | None = None
    ) -> int: ...


class IngestDoor:
    def __init__(self, ingests: Ingests) -> None:
        self._ingests = ingests

    async def put(
        self,
        principal: Principal,
        settings: Settings,
        command: commands.Ingest,
        first_message: bytes,
        rest: AsyncIterator[bytes],
        announce: Announce,
    ) -> int:
        """Take all rows of the call, of which `first_message` has been read. Gives their number."""
        if command.temporary:
            raise BailiwickError(
                Code.NOT_SUPPORTED, "There are no temporary tables here: sessions of the engine are shared."
            )
        request = IngestRequest(
            principal,
            DOOR,
            command.table,
            command.catalog or settings.catalog,
            (command.schema,) if command.schema else settings.namespace,
            IfMissing(command.if_missing.value),
            IfExists(command.if_exists.value),
            timeout_s=settings.timeout_s,
            placement=settings.placement,
        )
        query_id = new_query_id()

        async def check_end() -> None:
            try:
                await announce(query_id)
            except Exception as error:
                raise failures.client_left() from error

        messages = _messages(first_message, rest, check_end)
        return await self._ingests.ingest(request, messages, query_id=query_id)


async def _messages(
    first: bytes, rest: AsyncIterator[bytes], check_end: Callable[[], Awaitable[None]]
) -> AsyncIterator[bytes]:
    """The Arrow messages inside the FlightData of one call. Those that bring none are passed over.

    Ends only if `check_end` returns: otherwise the last message was not the last that was meant to come.
    """
    message = await asyncio.to_thread(arrow_message, first)
    if message is not None:
        yield message
    async for data in rest:
        message = await asyncio.to_thread(arrow_message, data)
        if message is not None:
            yield message
    await check_end()


def arrow_message(data: bytes) -> bytes | None:
    """The encapsulated Arrow IPC message of one FlightData; None if it has none. CPU work, for a thread."""
    parsed = parse(flight.FlightData, data)
    if not parsed.data_header:
        if parsed.data_body:
            raise BailiwickError(Code.PARSE_ERROR, "A message brings rows without saying what they are.")
        return None
    return encapsulated(parsed.data_header, parsed.data_body)

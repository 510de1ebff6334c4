"""CommandStatementIngest by DoPut: FlightData becomes Arrow messages, and the number of rows the answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql import commands
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId
from bailiwick.queries.ingest import IfExists, IfMissing, IngestRequest
from bailiwick.queries.ingest_stream import encapsulated

DOOR = "flight_sql"


class Settings(Protocol):
    """What a client's session says of names and time."""

    @property
    def catalog(self) -> str: ...

    @property
    def namespace(self) -> tuple[str, ...]: ...

    @property
    def timeout_s(self) -> float | None: ...


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
        *,
        query_id: QueryId | None = None,
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
        )
        return await self._ingests.ingest(request, _messages(first_message, rest), query_id=query_id)


async def _messages(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The Arrow messages inside the FlightData of one call. Those that bring none are passed over."""
    message = await asyncio.to_thread(arrow_message, first)
    if message is not None:
        yield message
    async for data in rest:
        message = await asyncio.to_thread(arrow_message, data)
        if message is not None:
            yield message


def arrow_message(data: bytes) -> bytes | None:
    """The encapsulated Arrow IPC message of one FlightData; None if it has none. CPU work, for a thread."""
    parsed = parse(flight.FlightData, data)
    if not parsed.data_header:
        if parsed.data_body:
            raise BailiwickError(Code.PARSE_ERROR, "A message brings rows without saying what they are.")
        return None
    return encapsulated(parsed.data_header, parsed.data_body)

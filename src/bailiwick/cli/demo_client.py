"""How the demo asks: by ADBC, a client that we did not write, as whoever it is told to be."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa

from bailiwick.client.errors import QueryFailed
from bailiwick.errors import Code

_CODE_DETAIL = "bailiwick-error-code"


class Client:
    """The driver blocks, and the gateway lives on this loop: so each call gets a thread."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._asking: asyncio.Future[pa.Table] | None = None

    @classmethod
    @asynccontextmanager
    async def connected(cls, address: str, user: str, password: str) -> AsyncIterator["Client"]:
        from adbc_driver_flightsql import dbapi

        credentials = {"username": user, "password": password}
        connection = await asyncio.to_thread(dbapi.connect, f"grpc://{address}", credentials, autocommit=True)
        client = cls(connection)
        try:
            yield client
        finally:
            # The driver breaks if it is closed under a thread that still reads from it.
            if client._asking is not None:
                await asyncio.wait({client._asking})
            await asyncio.to_thread(connection.close)

    async def ask(self, sql: str) -> pa.Table:
        """The whole answer. Whoever is cancelled meanwhile leaves the question to its thread."""
        self._asking = asyncio.ensure_future(asyncio.to_thread(self._ask, sql))
        return await asyncio.shield(self._asking)

    def _ask(self, sql: str) -> pa.Table:
        from adbc_driver_flightsql import dbapi

        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetch_arrow_table()
        except dbapi.Error as error:
            raise _failed(str(error), dict(error.details or ())) from error


def _failed(text: str, details: dict[Any, bytes]) -> QueryFailed:
    """What the gateway said, without what the driver puts around it.

    >>> text = "X: [FlightSQL] ACCESS_DENIED: No. (query q1) (Y; Z). Vendor code: 7"
    >>> _failed(text, {_CODE_DETAIL: b"ACCESS_DENIED"})
    QueryFailed('ACCESS_DENIED: No.')
    """
    code = next((value.decode() for name, value in details.items() if _text(name) == _CODE_DETAIL), None)
    if code is None:
        return QueryFailed(Code.EXECUTION_FAILED, text)
    said = re.search(rf"{code}: (.*?)(?: \(query (\w+)\))?(?: \(\w+; \w+\)|$)", text, re.DOTALL)
    return QueryFailed(code, text) if said is None else QueryFailed(code, said[1], query_id=said[2])


def _text(name: str | bytes) -> str:
    """The driver gives names of details as text or as bytes, by their kind."""
    return name if isinstance(name, str) else name.decode()

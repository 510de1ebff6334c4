"""Changes to what is held in memory and kept in a database that other gateways may change, too.

A change is worked out from memory and committed only if memory is what the database holds; if another gateway
was quicker, memory is read again and the change is worked out anew. One change at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sqlalchemy import Connection, Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from bailiwick.database import revisions
from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code

ATTEMPTS_MAX: Final = 20

Outcome = TypeVar("Outcome")


class Unovertaken:
    """`read` brings memory to what a connection sees."""

    def __init__(
        self, database: Database, topic: str, read: Callable[[AsyncConnection], Awaitable[None]]
    ) -> None:
        self._database = database
        self._topic = topic
        self._read = read
        self._turn = asyncio.Lock()
        self.revision = revisions.UNKNOWN
        """Up to which change in the database memory is known to be complete."""

    async def load(self) -> None:
        """Read everything, for the first time or again."""
        async with self._turn:
            self.revision = revisions.UNKNOWN
            await self._take_in()

    async def catch_up(self) -> None:
        """Bring memory up to date, if it is not."""
        async with self._turn:
            await self._take_in()

    async def run(self, change: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """What `change` gives, which looks at memory, calls `commit` once and then changes memory."""
        async with self._turn:
            for _ in range(ATTEMPTS_MAX):
                if self._database.is_shared:
                    await self._take_in()
                try:
                    return await change()
                except revisions.OvertakenError:
                    await self._take_in()
        raise BailiwickError(
            Code.COMMIT_CONFLICT,
            f"Other gateways change the {self._topic} all the time. Try again.",
            details={"reason": "version", "kind": self._topic},
        )

    async def commit(self, statement: Executable, *, besides: str | None = None) -> None:
        """Execute and keep it. Raises OvertakenError, and changes nothing, if memory is not the latest.

        A topic `besides` is changed by it, too.
        """
        known, self.revision = self.revision, revisions.UNKNOWN

        def advance(connection: Connection) -> int:
            if besides is not None:
                revisions.advance(connection, besides)
            return revisions.advance(connection, self._topic, expected=known)

        async with self._database.asynchronous.begin() as connection:
            revision = await connection.run_sync(advance)
            await connection.execute(statement)
        self.revision = revision

    async def _take_in(self) -> None:
        async with self._database.asynchronous_reads.begin() as connection:
            revision = await connection.run_sync(revisions.current, self._topic)
            if revision != self.revision:
                await self._read(connection)
                self.revision = revision

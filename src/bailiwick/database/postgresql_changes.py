"""Others' changes, as PostgreSQL tells them: LISTEN on a connection of its own, and a look at the revisions.

A notification comes within a moment of the commit. It may also be lost with the connection, or the connection
may hang without anybody noticing. So the revisions are read again and again on the same connection: each
answer proves that up to then nothing was missed. If the last proof is too old, `ensure_fresh` reads them by
another connection; if that gives no answer either, there is no decision.
"""

import asyncio
import contextlib
from typing import Final

import psycopg
import structlog

from bailiwick.clock import Clock, monotonic
from bailiwick.database import revisions
from bailiwick.database.changes import ChangeFeed, Follower, Followers, Heard
from bailiwick.database.database import Database
from bailiwick.database.errors import unavailable
from bailiwick.database.postgresql import BoundedAsyncConnection, connect_parameters
from bailiwick.errors import BailiwickError

LOOK_EVERY_S: Final = 1.0
LOOK_EVERY_MIN_S: Final = 0.2
ANSWER_S: Final = 5.0
RETRY_S: Final = 0.5
_READ: Final = "SELECT topic, revision FROM revisions"
_log = structlog.get_logger(__name__)


class PostgresChangeFeed(ChangeFeed):
    def __init__(self, database: Database, *, clock: Clock = monotonic) -> None:
        self._database = database
        self._stale_max_s = database.config.stale_max_s
        # A proof must still be good when the next one comes.
        self._look_every_s = max(LOOK_EVERY_MIN_S, min(LOOK_EVERY_S, self._stale_max_s / 3))
        self._clock = clock
        self._heard = Heard()
        self._followers = Followers(self._heard)
        self._listening: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._following: set[asyncio.Task[None]] = set()
        self.is_listening = False

    def follow(self, topic: str, follower: Follower) -> None:
        self._followers.add(topic, follower)

    async def start(self) -> None:
        self._listening = asyncio.create_task(self._listen_for_ever(), name="database-changes")

    async def close(self) -> None:
        tasks = [task for task in (self._listening, self._reading, *self._following) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening = self._reading = None

    async def ensure_fresh(self) -> None:
        began_at = self._clock()
        while not self._heard.is_complete(began_at, stale_max_s=self._stale_max_s):
            await self._ask()
        for topic in self._followers.behind:
            await self._followers.catch_up(topic)

    async def _ask(self) -> None:
        """Read the revisions by a connection of the pool: one reads for all who want to know."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="database-revisions")
            # Those who wait for it are told; if all of them have gone, its failure is nobody's.
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        reading = self._reading
        # Not cancelled when it takes too long: a driver whose server hangs does not let go at once.
        await asyncio.wait({reading}, timeout=ANSWER_S)
        if not reading.done():
            raise unavailable(f"no answer within {ANSWER_S:g} s")
        reading.result()

    async def _read(self) -> None:
        asked_at = self._clock()
        async with self._database.asynchronous_reads.connect() as connection:
            found = await connection.run_sync(revisions.all_current)
        self._heard.asked(found, asked_at=asked_at)

    async def _listen_for_ever(self) -> None:
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._lost(error)
            await asyncio.sleep(RETRY_S)

    async def _listen(self) -> None:
        parameters = connect_parameters(self._database.config.parameters(), writes=False)
        connection = await BoundedAsyncConnection.connect(autocommit=True, **parameters)
        try:
            async with asyncio.timeout(ANSWER_S):
                await connection.execute(f"LISTEN {revisions.CHANNEL}")
            while True:
                await self._look(connection)
                async for notification in connection.notifies(timeout=self._look_every_s):
                    self._told(notification.payload)
        finally:
            # Also one that hangs is let go at once.
            with contextlib.suppress(psycopg.Error, OSError):
                connection.pgconn.finish()

    async def _look(self, connection: BoundedAsyncConnection) -> None:
        asked_at = self._clock()
        async with asyncio.timeout(ANSWER_S):
            cursor = await connection.execute(_READ)
            rows = await cursor.fetchall()
        if not self.is_listening:
            self.is_listening = True
            _log.info("database_changes_heard")
        self._heard.asked({str(topic): int(revision) for topic, revision in rows}, asked_at=asked_at)
        self._follow_up()

    def _told(self, payload: str) -> None:
        if (parsed := revisions.parse(payload)) is not None:
            self._heard.told(*parsed)
            self._follow_up()

    def _follow_up(self) -> None:
        """Bring memory up to date before somebody asks."""
        under_way = {task.get_name() for task in self._following}
        for topic in self._followers.behind:
            if topic not in under_way:
                task = asyncio.create_task(self._catch_up(topic), name=topic)
                self._following.add(task)
                task.add_done_callback(self._following.discard)

    async def _catch_up(self, topic: str) -> None:
        try:
            while topic in self._followers.behind:
                await self._followers.catch_up(topic)
        except BailiwickError as error:
            # The next look tries again; until then `ensure_fresh` refuses.
            _log.warning("database_changes_not_followed", topic=topic, cause=error.cause_text)

    def _lost(self, error: Exception) -> None:
        if self.is_listening:
            self.is_listening = False
            _log.warning("database_changes_not_heard", cause=f"{type(error).__name__}: {error}")

"""Noticing that another gateway has changed what this one holds in memory.

Every store that answers from memory follows its topic. `ensure_fresh` is asked before anything is decided for
a new query or caller: it returns when memory is as the database was at most `stale_max_s` ago, and refuses
(CATALOG_UNAVAILABLE) if that cannot be known. What was decided before stays decided: a query keeps the
policies it began with.

With SQLite there is nobody else, and nothing to do (`Alone`). PostgreSQL tells changes as they are committed
(`postgresql_changes.py`); what is told is never trusted for longer than the connection is known to live.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bailiwick.database.database import Database
from bailiwick.database.errors import unavailable
from bailiwick.errors import BailiwickError

CATCH_UP_S = 10.0


class Follower(Protocol):
    """What a gateway holds in memory of one topic."""

    @property
    def revision(self) -> int:
        """Up to which change it is known to be complete. Goes up only."""

    async def catch_up(self) -> None:
        """Read what is new. Afterwards `revision` is at least what the database said when this began."""


class ChangeFeed(ABC):
    """Between `start` and `close`, on one event loop."""

    @abstractmethod
    def follow(self, topic: str, follower: Follower) -> None:
        """Keep `follower` up to date from now on."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def close(self) -> None:
        """Fine if it was never started."""

    @abstractmethod
    async def ensure_fresh(self) -> None:
        """Return when memory holds what the database held a moment ago. CATALOG_UNAVAILABLE if it cannot."""


class Alone(ChangeFeed):
    """Where no other gateway can change anything."""

    def follow(self, topic: str, follower: Follower) -> None:
        del topic, follower

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def ensure_fresh(self) -> None: ...


@dataclass(slots=True)
class Heard:
    """What is known of the topics, and since when it is known to be all. Reads no clock."""

    latest: dict[str, int] = field(default_factory=dict)
    complete_at: float = float("-inf")
    """All that was committed before this moment is in `latest`."""

    def told(self, topic: str, revision: int) -> None:
        self.latest[topic] = max(revision, self.latest.get(topic, 0))

    def asked(self, found: Mapping[str, int], *, asked_at: float) -> None:
        for topic, revision in found.items():
            self.told(topic, revision)
        self.complete_at = max(self.complete_at, asked_at)

    def is_complete(self, at: float, *, stale_max_s: float) -> bool:
        return at - self.complete_at <= stale_max_s


class Followers:
    """Who follows which topic, and bringing them up to what was heard. One at a time for each topic."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._by_topic: dict[str, Follower] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    def add(self, topic: str, follower: Follower) -> None:
        self._by_topic[topic] = follower
        self._turns[topic] = asyncio.Lock()

    @property
    def behind(self) -> list[str]:
        """The topics of which memory lacks something that was heard of."""
        return [topic for topic in self._by_topic if self._is_behind(topic)]

    async def catch_up(self, topic: str) -> None:
        """Return when the topic's follower is not behind. CATALOG_UNAVAILABLE if it cannot be had in time."""
        try:
            async with asyncio.timeout(CATCH_UP_S), self._turns[topic]:
                if self._is_behind(topic):
                    await self._by_topic[topic].catch_up()
        except BailiwickError:
            raise
        except Exception as error:
            raise unavailable(f"{topic} could not be read: {type(error).__name__}: {error}") from error
        if self._is_behind(topic):
            raise unavailable(f"{topic} is still older than what others made of it")

    def _is_behind(self, topic: str) -> bool:
        return self._by_topic[topic].revision < self._heard.latest.get(topic, 0)


def change_feed(database: Database) -> ChangeFeed:
    """What tells of others' changes to this database."""
    if not database.is_shared:
        return Alone()
    # Whoever keeps to SQLite need not wait for this to be imported.
    from bailiwick.database.postgresql_changes import PostgresChangeFeed

    return PostgresChangeFeed(database)

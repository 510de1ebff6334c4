"""The audit log: everything that happened, in order, kept for ever.

Reads are noted: `note` never waits, and what it was given is on disk a moment later. Changes are written:
`write` returns when the entry survives a crash, and a change whose entry cannot be written does not happen
(STORAGE_ERROR). A change of the database itself takes its entry into its own transaction with `append_in`.

While the database fails, what was noted waits, the gateway's log says so loudly, and `admit` holds new work
back before the queue is full. The log never has a hole that it does not tell of (kind `gap`).

It does not know who may read it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final, Self, TypeVar

from sqlalchemy import Connection

from bailiwick.audit.anchor_file import NAME, AnchorFile
from bailiwick.audit.chain import Anchor, Link, Verification, kept
from bailiwick.audit.entry import AuditEntry
from bailiwick.audit.store import EVERYTHING, TAIL_MAX, AuditStore, Search, verified
from bailiwick.audit.writer import Writer, not_kept
from bailiwick.clock import Clock, monotonic, wall
from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code

QUEUE_LENGTH_MAX: Final = 20_000
ADMIT_S: Final = 5.0
"""How long new work waits for room before it is refused."""
_ADMIT_EVERY_S: Final = 0.05

Answer = TypeVar("Answer")


class AuditLog:
    """Between `start` and `close`. `note`, `write_from_thread` and `append_in` are for any thread."""

    def __init__(
        self,
        store: AuditStore,
        anchor_file: AnchorFile,
        *,
        queue_length_max: int = QUEUE_LENGTH_MAX,
        admit_s: float = ADMIT_S,
        now: Clock = wall,
    ) -> None:
        self._store = store
        self._anchor_file = anchor_file
        self._admit_s = admit_s
        self._room = queue_length_max // 2
        self._writer = Writer(store, anchor_file, queue_length_max=queue_length_max, wall=now)

    @classmethod
    async def open(cls, database: Database, data_dir: Path) -> Self:
        """The log of a data directory, started. To be closed before the database."""
        log = cls(AuditStore(database), AnchorFile(data_dir / NAME))
        await log.start()
        return log

    async def start(self) -> None:
        await asyncio.to_thread(self._writer.start)

    async def close(self) -> None:
        """Write what is left, as far as that can be done, and end. Twice is fine."""
        await asyncio.to_thread(self._writer.close)

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to write failed."""
        return self._writer.is_failing

    def note(self, entry: AuditEntry) -> None:
        """Keep `entry` soon. Never waits, never raises."""
        self._writer.put(entry)

    async def write(self, entry: AuditEntry) -> Anchor:
        """Keep `entry` before returning. STORAGE_ERROR if that cannot be done: then nothing is kept of it."""
        return await asyncio.wrap_future(self._writer.hand_over(entry))

    def write_from_thread(self, entry: AuditEntry) -> Anchor:
        """The same for a thread, which waits. Not for one inside a transaction: see `append_in`."""
        return self._writer.hand_over(entry).result()

    def append_in(self, connection: Connection, entry: AuditEntry) -> None:
        """Keep `entry` in the caller's own transaction: what that changes and the entry are kept, or neither.

        The transaction is one that writes: of `Database.synchronous`, or of `asynchronous` by `run_sync`.
        """
        self._store.append_in(connection, [kept(entry)])
        self._writer.touch()

    async def flush(self) -> None:
        """Return when all that was noted before is on disk. STORAGE_ERROR if that cannot be done now."""
        await asyncio.wrap_future(self._writer.hand_over(None))

    async def admit(self) -> None:
        """Return when there is room for what will be noted of new work. STORAGE_ERROR if not in time."""
        deadline = monotonic() + self._admit_s
        while self._writer.length >= self._room:
            if monotonic() >= deadline:
                raise not_kept(f"{self._writer.length} entries wait to be written")
            await asyncio.sleep(_ADMIT_EVERY_S)

    async def tail(self, limit: int, *, after: int | None = None, search: Search = EVERYTHING) -> list[Link]:
        """The newest entries, or with `after` the first ones that follow it; the oldest first.

        At most `TAIL_MAX` of them.
        """
        limit = min(limit, TAIL_MAX)
        if after is None:
            return await self._ask(lambda: self._store.newest(limit, search))
        return await self._ask(lambda: self._store.after(after, limit, search))

    async def read(self, first: int = 1, last: int | None = None) -> AsyncIterator[Link]:
        """Every entry from `first` to `last`, or to the end as it is now."""
        if last is None:
            last = (await self._ask(self._store.end)).sequence
        at = first - 1
        while at < last:
            page = await self.tail(last - at, after=at)
            if not page:
                return
            for link in page:
                yield link
            at = page[-1].sequence

    async def verify(self, anchors: Sequence[Anchor] = ()) -> Verification:
        """Look at every entry, and whether the anchor file and `anchors` are met."""
        return await self._ask(lambda: verified(self._store.verify, self._anchor_file, anchors))

    async def _ask(self, question: Callable[[], Answer]) -> Answer:
        try:
            return await asyncio.to_thread(question)
        except Exception as error:
            raise BailiwickError(
                Code.STORAGE_ERROR,
                "The audit log could not be read.",
                cause_text=f"{type(error).__name__}: {error}",
            ) from error

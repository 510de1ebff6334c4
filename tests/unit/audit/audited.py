"""Entries to write, and an audit log whose disk can be made to fail."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bailiwick.audit.anchor_file import NAME, AnchorFile
from bailiwick.audit.chain import Anchor
from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.audit.log import QUEUE_LENGTH_MAX, AuditLog
from bailiwick.audit.store import AuditStore
from bailiwick.testing.databases import opened_database


def entry(
    what: str = "SELECT 1", *, who: str = "ann", at: float = 1_000.5, kind: Kind = Kind.QUERY
) -> AuditEntry:
    return AuditEntry(at, kind, who, what, Outcome.FINISHED, query_id=f"q-{what}")


class FailingStore(AuditStore):
    """A store on a disk that can be full."""

    is_full = False

    def append(self, texts: Sequence[str]) -> Anchor:
        if self.is_full:
            raise OSError("No space left on device")
        return super().append(texts)


class Audited:
    def __init__(self, directory: Path, queue_length_max: int = QUEUE_LENGTH_MAX) -> None:
        self.directory = directory
        self.database = opened_database(directory / "bailiwick.db")
        self.store = FailingStore(self.database)
        self.anchor_file = AnchorFile(directory / NAME)
        self.log = AuditLog(
            self.store, self.anchor_file, queue_length_max=queue_length_max, admit_s=1.0, now=lambda: 5.0
        )

    async def texts(self) -> list[str]:
        """What the entries on disk say, in order."""
        return [link.entry.what async for link in self.log.read()]


@asynccontextmanager
async def audited(directory: Path, queue_length_max: int = QUEUE_LENGTH_MAX) -> AsyncIterator[Audited]:
    world = Audited(directory, queue_length_max)
    await world.log.start()
    try:
        yield world
    finally:
        await world.log.close()
        await world.database.close()

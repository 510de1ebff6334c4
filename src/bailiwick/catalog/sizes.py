"""How much there is to read in a table, as its last commit has it: an estimate of what a query costs.

From memory alone: a table whose metadata is not at hand counts as empty, and nobody waits for a guess. It can
be megabytes, so a thread reads it; until that is done, the table counts as large as it was before.
"""

import asyncio
import json
from collections import OrderedDict
from typing import Any, Final

from bailiwick.catalog.refusals import NoSuchTableError
from bailiwick.catalog.service import CatalogService
from bailiwick.names import TableName

_REMEMBERED_MAX: Final = 10_000


class TableSizes:
    """Remembers sizes by the metadata they come from, which never changes. For one event loop."""

    def __init__(self, catalog: CatalogService) -> None:
        self._catalog = catalog
        self._known: OrderedDict[TableName, tuple[str, int]] = OrderedDict()
        self._reading: dict[str, asyncio.Task[None]] = {}

    def size_bytes(self, name: TableName) -> int:
        """Bytes of the table's data files now; 0 if nobody knows yet."""
        try:
            loaded = self._catalog.load_nowait(name)
        except NoSuchTableError:
            return 0
        if loaded is None:
            return 0
        location = loaded.entry.metadata_location
        read_from, size = self._known.get(name, ("", 0))
        if location != read_from and location not in self._reading:
            reading = asyncio.create_task(self._read(name, location, loaded.data), name="table-size")
            self._reading[location] = reading
            reading.add_done_callback(lambda _done: self._reading.pop(location))
        return size

    async def wait_read(self) -> None:
        """Return when everything that was asked for so far is known."""
        await asyncio.gather(*self._reading.values())

    async def _read(self, name: TableName, location: str, metadata: bytes) -> None:
        self._known[name] = location, await asyncio.to_thread(_total_bytes, metadata)
        self._known.move_to_end(name)
        if len(self._known) > _REMEMBERED_MAX:
            self._known.popitem(last=False)


def _total_bytes(data: bytes) -> int:
    metadata: dict[str, Any] = json.loads(data)
    current = metadata.get("current-snapshot-id")
    for snapshot in metadata.get("snapshots", ()):
        if snapshot.get("snapshot-id") == current:
            text = str(snapshot.get("summary", {}).get("total-files-size", "0"))
            return int(text) if text.isdecimal() and len(text) < 20 else 0
    return 0

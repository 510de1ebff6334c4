"""How much there is to read in a table, as its last commit has it: an estimate of what a query costs.

From memory alone: a table whose metadata is not at hand counts as empty, and nobody waits for a guess.
"""

import json
from collections import OrderedDict
from typing import Any, Final

from bailiwick.catalog.refusals import NoSuchTableError
from bailiwick.catalog.service import CatalogService
from bailiwick.names import TableName

_REMEMBERED_MAX: Final = 10_000


class TableSizes:
    """Remembers sizes by the metadata they come from, which never changes."""

    def __init__(self, catalog: CatalogService) -> None:
        self._catalog = catalog
        self._known: OrderedDict[str, int] = OrderedDict()

    def size_bytes(self, name: TableName) -> int:
        """Bytes of the table's data files now; 0 if nobody knows."""
        try:
            loaded = self._catalog.load_nowait(name)
        except NoSuchTableError:
            return 0
        if loaded is None:
            return 0
        location = loaded.entry.metadata_location
        if location not in self._known:
            self._known[location] = _total_bytes(json.loads(loaded.data))
            if len(self._known) > _REMEMBERED_MAX:
                self._known.popitem(last=False)
        return self._known[location]


def _total_bytes(metadata: dict[str, Any]) -> int:
    current = metadata.get("current-snapshot-id")
    for snapshot in metadata.get("snapshots", ()):
        if snapshot.get("snapshot-id") == current:
            text = str(snapshot.get("summary", {}).get("total-files-size", "0"))
            return int(text) if text.isdecimal() and len(text) < 20 else 0
    return 0

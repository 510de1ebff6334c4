"""How many rows a change touched, as far as its commits tell.

Spark does not say. The catalog sees each commit, under the lease of the query that made it, with the counts
that its writer put there. They are exact for rows added and for whole files deleted. A commit that replaces
files counts the rows it only copied, too, so nobody knows then; better no number than a wrong one.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping

from bailiwick.ids import LeaseId
from bailiwick.queries.statement import UNKNOWN_ROWS

LEASES_MAX = 1000
"""Counts that nobody asked for, of queries that ended otherwise, are forgotten beyond this number."""

_COUNTS = {"append": "added-records", "delete": "deleted-records"}


class AffectedRows:
    """Told of commits by the catalog's thread, asked by the query service: safe to call from any thread."""

    def __init__(self, leases_max: int = LEASES_MAX) -> None:
        self._leases_max = leases_max
        self._lock = threading.Lock()
        self._rows: OrderedDict[LeaseId, int] = OrderedDict()

    def note(self, lease: LeaseId, summary: Mapping[str, str]) -> None:
        """A commit happened under `lease`; `summary` is its snapshot's."""
        rows = rows_of(summary)
        with self._lock:
            before = self._rows.pop(lease, 0)
            is_known = rows != UNKNOWN_ROWS and before != UNKNOWN_ROWS
            self._rows[lease] = before + rows if is_known else UNKNOWN_ROWS
            while len(self._rows) > self._leases_max:
                self._rows.popitem(last=False)

    def take(self, lease: LeaseId) -> int:
        """The rows that all commits of `lease` touched, once; -1 if nobody knows exactly."""
        with self._lock:
            return self._rows.pop(lease, UNKNOWN_ROWS)


def rows_of(summary: Mapping[str, str]) -> int:
    """The rows that one commit touched, or -1."""
    count = summary.get(_COUNTS.get(summary.get("operation", ""), ""), "")
    return int(count) if count.isascii() and count.isdigit() else UNKNOWN_ROWS

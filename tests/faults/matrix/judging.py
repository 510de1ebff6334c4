"""What became of a query that was hit: whether anything is wrong, or lost. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bailiwick.testing.told import Told

KEPT_COUNT = 1_000
"""Rows that a change writes: the numbers below it."""

_TERMINAL = ("finished", "failed", "cancelled")

Known = Sequence[Mapping[str, Any]]
"""What the history says of a query, a row for each time that it was asked."""


@dataclass(frozen=True, slots=True)
class End:
    """What the client has in the end: a result, or what it was told."""

    table: pa.Table | None
    told: Told | None
    at_s: float = 0.0
    """When it had it, by the monotonic clock."""


def what(end: End, known: Known = ()) -> str:
    """The outcome in a word."""
    if end.told is not None:
        return end.told.code
    attempts = max((int(row.get("attempts") or 1) for row in known), default=1)
    return "retried" if attempts > 1 else "finished"


def wrong_read(end: End, right: pa.Table) -> str:
    """How a result differs from that of a single run, if there is one and it does. Both are about `n`."""
    if end.table is None or end.table.sort_by("n").equals(right):
        return ""
    return f"{end.table.num_rows} rows, not those of a single run ({right.num_rows})"


def wrong_change(count: int, total: int, end: End) -> tuple[str, str]:
    """What is wrong with the table that was to be filled, and what is missing in it."""
    if (count, total) == (KEPT_COUNT, sum(range(KEPT_COUNT))):
        if end.told is not None and end.told.may_retry:
            return "the change is made, and the client was told to send it again", ""
        return "", ""
    if count:
        return f"{count} rows instead of {KEPT_COUNT} or none", ""
    return "", "the client was told of a change that is not there" if end.told is None else ""


def unrecorded(known: Known, end: End, *, has_survived: bool) -> str:
    """What the history lacks: nothing stays running, and what the client has seen end well is there.

    Reads of the last moments of a gateway that was killed may be missing, as `has_survived` says.
    """
    states = [str(row["state"]) for row in known]
    if open_states := [state for state in states if state not in _TERMINAL]:
        return f"still {open_states[0]} in the history"
    if end.told is None and has_survived and "finished" not in states:
        return f"the client has its answer, and the history says {states or 'nothing'}"
    return ""

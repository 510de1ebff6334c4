"""The matrix as a table for people: fault × phase → outcome. The last two columns must be zero."""

from collections.abc import Iterator, Sequence

from bailiwick.errors import Code
from bailiwick.testing.told import CONNECTION_LOST
from faults.matrix.plan import STRIKES, Cell
from faults.matrix.record import Record
from faults.matrix.victims import Phase

NOT_RUN = "not run"
WORDS = {
    Code.EXECUTION_FAILED: "failed",
    Code.CIRCUIT_BREAKER_OPEN: "no engine",
    Code.QUERY_TIMEOUT: "timeout",
    Code.STORAGE_ERROR: "storage",
    Code.CATALOG_UNAVAILABLE: "catalog",
    CONNECTION_LOST: "cut off",
}
"""Short for the codes that clients are told."""
HEADING = ("fault", *Phase, "seconds", "wrong answer", "lost")

Row = tuple[str, ...]


def rows(record: Record) -> Iterator[Row]:
    """One for each fault, those included of which nothing was run."""
    for strike in STRIKES:
        found = [record.outcomes.get(Cell(strike, phase)) for phase in Phase]
        seconds = record.seconds.get(strike)
        yield (
            strike.name,
            *(NOT_RUN if each is None else WORDS.get(each.what, each.what) for each in found),
            "" if seconds is None else f"{seconds:.0f}",
            _count([each.wrong for each in found if each is not None]),
            _count([each.lost for each in found if each is not None]),
        )


def _count(findings: Sequence[str]) -> str:
    """How many say something; nothing at all if nothing was looked at."""
    return str(sum(map(bool, findings))) if findings else ""


def total(record: Record) -> Row:
    outcomes = record.outcomes.values()
    left = len(STRIKES) * len(Phase) - len(outcomes)
    return (
        f"{len(outcomes)} cells run, {left} not run",
        *("" for _ in Phase),
        f"{sum(record.seconds.values()):.0f}",
        str(sum(bool(each.wrong) for each in outcomes)),
        str(sum(bool(each.lost) for each in outcomes)),
    )


def legend(record: Record) -> str:
    used = {each.what for each in record.outcomes.values()}
    return "; ".join(f"{word}: {code}" for code, word in WORDS.items() if code in used)


def lines(record: Record) -> Iterator[str]:
    body, end = [*rows(record)], total(record)
    widths = [max(len(row[column]) for row in (HEADING, *body, end)) for column in range(len(HEADING))]
    rule = "─" * (sum(widths) + 2 * len(widths))
    yield _line(HEADING, widths)
    yield rule
    for row in body:
        yield _line(row, widths)
    yield rule
    yield _line(end, widths)
    yield legend(record)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

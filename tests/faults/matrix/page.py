"""Writes `docs/reference/faults.md`: what the runs on this machine found, cell by cell.

make faults-page
"""

from pathlib import Path

from faults.matrix.record import FILE, Record
from faults.matrix.table import HEADING, WORDS, rows, total

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "faults.md"
_SECONDS = HEADING.index("seconds")
_TEXT = """\
# What becomes of a query when something breaks

Written by `make faults-page` from what `make faults` found;
[what the words mean](../guides/load.md#things-that-break). Each row is one blow on real processes, which hits
seven queries at once, one in each phase of its life. A cell says what became of that query: `finished` with
the right answer, `retried` on another engine and finished, or the error that its client was told.

{table}

{legend}

{total}. `wrong answer` counts results that were not those of an undisturbed run, changes
made in part or twice, and wrong advice to send again; `lost` counts answers, changes and records that are
missing, and houses that did not come back.
"""


def page(record: Record) -> str:
    shown = [HEADING, tuple("---" for _ in HEADING), *rows(record)]
    table = "\n".join(f"| {' | '.join(_without_seconds(row))} |" for row in shown)
    legend = "\n".join(["| | |", "|---|---|", *(f"| {word} | `{code}` |" for code, word in WORDS.items())])
    return _TEXT.format(table=table, legend=legend, total=total(record)[0].capitalize())


def _without_seconds(row: tuple[str, ...]) -> tuple[str, ...]:
    """How long it took says more about the machine."""
    return row[:_SECONDS] + row[_SECONDS + 1 :]


if __name__ == "__main__":
    known = Record(FILE)
    known.load()
    PAGE.write_text(page(known))

"""What became of each cell that was run. What was not run is not in it.

One run may have a part of the cells; what it found is kept in a file beside what other runs found of the
others, so that a page can be written of all of them.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from faults.matrix.cells import Outcome
from faults.matrix.plan import CELLS, Cell, Strike

FILE = Path(__file__).parents[3] / "build" / "faults.json"


class Record:
    """`outcomes` are those of this run."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.outcomes: dict[Cell, Outcome] = {}
        self.seconds: dict[Strike, float] = {}
        """What all cells of a strike took together, until the house was well again."""

    def note(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """Also in the file, at once: whatever comes, it was run. Of cells in it, the last time counts."""
        for outcome in outcomes:
            self.outcomes[outcome.cell] = outcome
            self.seconds[outcome.cell.strike] = seconds
        found = self._kept() | {outcome.cell.name: _written(outcome) for outcome in outcomes}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(found, indent=1, ensure_ascii=False))

    def load(self) -> None:
        """Take what earlier runs found for what this run found."""
        self.outcomes = {outcome.cell: outcome for outcome in self._read()}

    def _kept(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._file.read_text())
        except FileNotFoundError:
            return {}
        return found

    def _read(self) -> Iterator[Outcome]:
        kept = self._kept()
        for cell in CELLS:
            if cell.name in kept:
                yield Outcome(cell, **kept[cell.name])


def _written(outcome: Outcome) -> dict[str, Any]:
    return {
        "what": outcome.what,
        "elapsed_s": round(outcome.elapsed_s, 1),
        "wrong": outcome.wrong,
        "lost": outcome.lost,
    }

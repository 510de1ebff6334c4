"""The matrix as a table for people: fault × phase → outcome. The last two columns must be zero."""

from collections.abc import Iterator

from faults.matrix.cells import Outcome


class Matrix:
    """Outcomes in the order in which they came."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def lines(self) -> Iterator[str]:
        heading = ("fault", "phase", "outcome", "seconds", "wrong answer", "lost")
        body = [self._row(outcome) for outcome in self.outcomes]
        wrong = sum(bool(outcome.wrong) for outcome in self.outcomes)
        lost = sum(bool(outcome.lost) for outcome in self.outcomes)
        total = ("all", f"{len(body)} cells", "", "", str(wrong), str(lost))
        widths = [max(len(row[column]) for row in (heading, *body, total)) for column in range(len(heading))]
        rule = "─" * (sum(widths) + 2 * len(widths))
        yield _line(heading, widths)
        yield rule
        for row in body:
            yield _line(row, widths)
        yield rule
        yield _line(total, widths)

    def _row(self, outcome: Outcome) -> tuple[str, ...]:
        return (
            outcome.cell.fault_name,
            outcome.cell.phase,
            outcome.what,
            f"{outcome.elapsed_s:.1f}",
            str(int(bool(outcome.wrong))),
            str(int(bool(outcome.lost))),
        )


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

"""Whatever breaks, whenever: a query ends with the right answer or with an error that says what happened.

Each cell is a fault at a point of a query's life, on real processes. A few are in every run; `make faults`
has all.
"""

import pytest

from faults.matrix.plan import CELLS, IN_EVERY_RUN, Cell, may_end
from faults.matrix.street import Street

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(400)]


def parameters() -> list[object]:
    return [
        pytest.param(cell, id=cell.name, marks=[] if cell.strike in IN_EVERY_RUN else [pytest.mark.full])
        for cell in CELLS
    ]


@pytest.mark.parametrize("cell", parameters())
def test_a_query_that_is_hit_ends_rightly_or_says_why_not(street: Street, cell: Cell) -> None:
    outcome = street.outcome(cell)
    assert outcome.wrong == ""
    assert outcome.lost == ""
    assert outcome.what in may_end(cell)

"""Whatever breaks, whenever: a query ends with the right answer or with an error that says what happened.

Each cell is a fault at a point of a query's life, on real processes. A few are in every run; `make faults`
has all.
"""

from collections.abc import Iterator

import pytest

from bailiwick.errors import Code
from bailiwick.testing.faults import Blow, Fault, Part
from bailiwick.testing.postgres import why_not
from bailiwick.testing.told import CONNECTION_LOST
from faults.matrix.cells import Cell, run
from faults.matrix.houses import Kind
from faults.matrix.street import Street
from faults.matrix.table import Matrix
from faults.matrix.victims import Phase

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(400)]

ENGINE_KILLED = Fault(Part.ENGINE, Blow.KILLED)
ENGINE_STOPPED = Fault(Part.ENGINE, Blow.STOPPED, lasts_s=20.0)
GATEWAY_KILLED = Fault(Part.GATEWAY, Blow.KILLED)
GATEWAY_STOPPED = Fault(Part.GATEWAY, Blow.STOPPED, lasts_s=3.0)
NETWORK_RESET = Fault(Part.NETWORK, Blow.RESET)
NETWORK_CUT = Fault(Part.NETWORK, Blow.CUT, lasts_s=3.0)
NETWORK_HUNG = Fault(Part.NETWORK, Blow.HUNG, lasts_s=20.0)
NETWORK_SLOW = Fault(Part.NETWORK, Blow.SLOW, lasts_s=60.0)
EXECUTOR_KILLED = Fault(Part.EXECUTOR, Blow.KILLED)
EXECUTOR_STOPPED = Fault(Part.EXECUTOR, Blow.STOPPED, lasts_s=4.0)
WORKER_KILLED = Fault(Part.WORKER, Blow.KILLED, lasts_s=2.0)
WORKER_STOPPED = Fault(Part.WORKER, Blow.STOPPED, lasts_s=4.0)
MASTER_KILLED = Fault(Part.MASTER, Blow.KILLED, lasts_s=2.0)
MASTER_STOPPED = Fault(Part.MASTER, Blow.STOPPED, lasts_s=4.0)
KEEPER_KILLED = Fault(Part.KEEPER, Blow.KILLED)
KEEPER_STOPPED = Fault(Part.KEEPER, Blow.STOPPED, lasts_s=20.0)
ALL_ENGINES_KILLED = Fault(Part.ENGINE, Blow.KILLED, is_everywhere=True)
ALL_NETWORKS_CUT = Fault(Part.NETWORK, Blow.CUT, lasts_s=3.0, is_everywhere=True)
DATABASE_KILLED = Fault(Part.DATABASE, Blow.KILLED, lasts_s=3.0)
DATABASE_STOPPED = Fault(Part.DATABASE, Blow.STOPPED, lasts_s=5.0)

FAULTS = {
    Kind.SINGLE: (
        ENGINE_KILLED,
        ENGINE_STOPPED,
        GATEWAY_KILLED,
        GATEWAY_STOPPED,
        NETWORK_RESET,
        NETWORK_CUT,
        NETWORK_HUNG,
        NETWORK_SLOW,
    ),
    Kind.CLUSTER: (
        EXECUTOR_KILLED,
        EXECUTOR_STOPPED,
        WORKER_KILLED,
        WORKER_STOPPED,
        MASTER_KILLED,
        MASTER_STOPPED,
    ),
    Kind.POSTGRES: (DATABASE_KILLED, DATABASE_STOPPED),
    Kind.FLEET: (
        ENGINE_KILLED,
        ENGINE_STOPPED,
        KEEPER_KILLED,
        KEEPER_STOPPED,
        NETWORK_RESET,
        NETWORK_CUT,
        NETWORK_HUNG,
        NETWORK_SLOW,
        GATEWAY_KILLED,
        ALL_ENGINES_KILLED,
        ALL_NETWORKS_CUT,
    ),
}
"""What can break in which house."""

IN_EVERY_RUN = {
    Cell(Kind.FLEET, ENGINE_KILLED, Phase.PLANNING),
    Cell(Kind.FLEET, ENGINE_KILLED, Phase.MIDDLE),
    Cell(Kind.FLEET, ENGINE_STOPPED, Phase.PLANNING),
    Cell(Kind.FLEET, KEEPER_KILLED, Phase.COMMITTED),
    Cell(Kind.FLEET, NETWORK_RESET, Phase.COMMITTING),
    Cell(Kind.FLEET, NETWORK_CUT, Phase.FIRST_ROW),
    Cell(Kind.FLEET, GATEWAY_KILLED, Phase.COMMITTING),
}
"""All of them in one house, whose other engine answers while the one that was hit comes back."""


def cells() -> Iterator[object]:
    for house, faults in FAULTS.items():
        for fault in faults:
            for phase in Phase:
                cell = Cell(house, fault, phase)
                marks = [] if cell in IN_EVERY_RUN else [pytest.mark.full]
                yield pytest.param(cell, id=cell.name, marks=marks)


@pytest.mark.parametrize("cell", [*cells()])
def test_a_query_that_is_hit_ends_rightly_or_says_why_not(street: Street, matrix: Matrix, cell: Cell) -> None:
    if cell.house is Kind.POSTGRES and (problem := why_not()) is not None:
        pytest.skip(problem)
    house = street.house(cell.house)
    try:
        outcome = run(house, cell)
    except BaseException:
        street.close()
        raise
    matrix.outcomes.append(outcome)
    assert outcome.wrong == ""
    if outcome.lost:
        street.close()
    assert outcome.lost == ""
    assert outcome.what in may_end(cell)


def may_end(cell: Cell) -> set[str]:
    """An error is one of ours; only who loses the gateway itself is told so by the driver."""
    finished = {"finished", "retried and finished"}
    broken = {Code.EXECUTION_FAILED, Code.CIRCUIT_BREAKER_OPEN, Code.QUERY_TIMEOUT}
    match cell.fault.part, cell.fault.blow:
        case Part.GATEWAY, Blow.KILLED:
            return finished | {CONNECTION_LOST}
        case ((Part.EXECUTOR | Part.WORKER | Part.MASTER), _):
            # Spark mends this by itself: nobody is to notice.
            return finished
        case Part.DATABASE, _:
            return finished | {Code.STORAGE_ERROR, Code.CATALOG_UNAVAILABLE, Code.EXECUTION_FAILED}
        case (Part.GATEWAY, Blow.STOPPED) | (_, Blow.SLOW):
            return finished
        case _:
            return finished | broken

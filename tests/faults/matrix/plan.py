"""What can break in which house, which cells that makes, and how a query that was hit may end."""

import re
import zlib
from dataclasses import dataclass

from bailiwick.errors import Code
from bailiwick.testing.faults import Blow, Fault, Part
from bailiwick.testing.told import CONNECTION_LOST
from faults.matrix.houses import Kind
from faults.matrix.victims import Phase

ENGINE_KILLED = Fault(Part.ENGINE, Blow.KILLED)
ENGINE_STOPPED = Fault(Part.ENGINE, Blow.STOPPED, lasts_s=20.0)
GATEWAY_KILLED = Fault(Part.GATEWAY, Blow.KILLED)
GATEWAY_STOPPED = Fault(Part.GATEWAY, Blow.STOPPED, lasts_s=3.0)
NETWORK_RESET = Fault(Part.NETWORK, Blow.RESET)
NETWORK_CUT = Fault(Part.NETWORK, Blow.CUT, lasts_s=3.0)
NETWORK_HUNG = Fault(Part.NETWORK, Blow.HUNG, lasts_s=20.0)
NETWORK_SLOW = Fault(Part.NETWORK, Blow.SLOW, lasts_s=60.0)
NETWORK_FLAPPING = Fault(Part.NETWORK, Blow.FLAPPING, lasts_s=5.0)
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
    Kind.FLEET: (
        ENGINE_KILLED,
        ENGINE_STOPPED,
        KEEPER_KILLED,
        KEEPER_STOPPED,
        NETWORK_RESET,
        NETWORK_CUT,
        NETWORK_HUNG,
        NETWORK_SLOW,
        NETWORK_FLAPPING,
        GATEWAY_KILLED,
        ALL_ENGINES_KILLED,
        ALL_NETWORKS_CUT,
    ),
    Kind.POSTGRES: (DATABASE_KILLED, DATABASE_STOPPED),
    Kind.CLUSTER: (
        EXECUTOR_KILLED,
        EXECUTOR_STOPPED,
        WORKER_KILLED,
        WORKER_STOPPED,
        MASTER_KILLED,
        MASTER_STOPPED,
    ),
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
}


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault in a house. It hits one query in each phase of its life, all at once."""

    house: Kind
    fault: Fault

    @property
    def name(self) -> str:
        """With the house, where the same may happen in another one."""
        is_one_of_two = self.house is Kind.FLEET and not self.fault.is_everywhere
        return f"{self.fault.name}, one of two" if is_one_of_two else self.fault.name

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())


@dataclass(frozen=True, slots=True)
class Cell:
    strike: Strike
    phase: Phase

    @property
    def name(self) -> str:
        return f"{self.strike.name}, {self.phase}"

    @property
    def marker(self) -> str:
        return f"cell-{re.sub('[^a-z]+', '-', self.name)}"


STRIKES = tuple(Strike(house, fault) for house, faults in FAULTS.items() for fault in faults)
CELLS = tuple(Cell(strike, phase) for strike in STRIKES for phase in Phase)

IN_EVERY_RUN = frozenset({Strike(Kind.FLEET, ENGINE_KILLED)})
"""In a house whose other engine answers while the one that was hit comes back."""


def may_end(cell: Cell) -> set[str]:
    """An error is one of ours; only who loses the gateway itself is told so by the driver."""
    finished = {"finished", "retried"}
    broken = {Code.EXECUTION_FAILED, Code.CIRCUIT_BREAKER_OPEN, Code.QUERY_TIMEOUT}
    match cell.strike.fault.part, cell.strike.fault.blow:
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

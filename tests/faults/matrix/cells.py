"""One cell of the matrix: a fault hits a query in a phase of its life, and what became of it is judged."""

import re
import zlib
from concurrent.futures import wait
from dataclasses import dataclass
from random import Random

from bailiwick.testing.asking import rows
from bailiwick.testing.faults import Fault, Struck
from faults.matrix.houses import READ, WIDE, GatewayHouse, Kind
from faults.matrix.judging import End, unrecorded, what, wrong_change, wrong_read
from faults.matrix.victims import Phase, Victim, history, kept_table, living

ANSWER_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Cell:
    house: Kind
    fault: Fault
    phase: Phase

    @property
    def fault_name(self) -> str:
        """With the house, where the same may happen in another one."""
        is_one_of_two = self.house is Kind.FLEET and not self.fault.is_everywhere
        return f"{self.fault.name}, one of two" if is_one_of_two else self.fault.name

    @property
    def name(self) -> str:
        return f"{self.fault_name}, {self.phase}"

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())

    @property
    def marker(self) -> str:
        return f"cell-{re.sub('[^a-z]+', '-', self.name)}"


@dataclass(frozen=True, slots=True)
class Outcome:
    cell: Cell
    what: str
    """`finished`, `retried and finished`, or the code of the error."""
    elapsed_s: float
    wrong: str = ""
    """How the answer differs from the right one, if it does."""
    lost: str = ""
    """What was promised and is not there: an answer, a change, a record, a working house."""


def run(house: GatewayHouse, cell: Cell) -> Outcome:
    """Hit the query, put right what was hit, and judge."""
    if cell.phase.writes:
        rows(house.gateway, f"CREATE TABLE {kept_table(cell.marker)} (n BIGINT) USING iceberg")
    random = Random(cell.seed)
    gateway_before = house.gateway.pid
    victim = Victim.of(house, cell.phase, cell.marker)
    with living(victim) as future:
        victim.wait_reached(random)
        struck = Struck(house, cell.fault, random, victim.node_id())
        try:
            victim.let_go()
            wait([future], timeout=cell.fault.lasts_s)
        finally:
            struck.put_right()
        wait([future], timeout=ANSWER_WITHIN_S)
        if not future.done():
            house.give_up()
            return Outcome(cell, "no answer", ANSWER_WITHIN_S, lost="neither an answer nor an error")
    end = future.result()
    try:
        house.wait_well()
    except AssertionError as error:
        return Outcome(cell, what(end), end.elapsed_s, lost=str(error))
    return _judged(house, cell, end, has_survived=house.gateway.pid == gateway_before)


def _judged(house: GatewayHouse, cell: Cell, end: End, *, has_survived: bool) -> Outcome:
    known = history(house, cell.marker)
    lost = unrecorded(known, end, has_survived=has_survived)
    wrong = ""
    if cell.phase.writes:
        ((count, total),) = rows(
            house.gateway, f"SELECT count(*), coalesce(sum(n), 0) FROM {kept_table(cell.marker)}"
        )
        wrong, missing = wrong_change(count, total, end)
        lost = missing or lost
    else:
        wrong = wrong_read(end, house.answer(WIDE if cell.phase is Phase.FINISHING else READ))
    return Outcome(cell, what(end, known), end.elapsed_s, wrong, lost)

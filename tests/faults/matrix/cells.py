"""A fault hits a query in each phase of its life, all at once, and what became of each is judged.

All of them are held at their points, so one blow is enough for all phases; that they are hit together makes
it harder for the house, not easier.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from bailiwick.testing.asking import rows
from bailiwick.testing.faults import Struck
from faults.matrix.houses import READ, WIDE, GatewayHouse
from faults.matrix.judging import End, Known, unrecorded, what, wrong_change, wrong_read
from faults.matrix.plan import Cell
from faults.matrix.victims import MissedError, Phase, histories, kept_table
from faults.matrix.volley import held

ANSWER_WITHIN_S = 120.0
TURNS = 10
"""How often the queries are brought into position at most: one may be too quick to be held there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    cell: Cell
    what: str
    """`finished`, `retried` if it finished at another try, or the code of the error."""
    elapsed_s: float
    """From the blow to the end of the query."""
    wrong: str = ""
    """How the answer differs from the right one, if it does."""
    lost: str = ""
    """What was promised and is not there: an answer, a change, a record, a working house."""


def run(house: GatewayHouse, cells: Sequence[Cell]) -> list[Outcome]:
    """Hit the queries of these cells, which are of one strike; put right what was hit; judge each."""
    for turn in range(1, TURNS + 1):
        try:
            return _hit(house, cells, {cell: f"{cell.marker}-{turn}" for cell in cells})
        except MissedError:
            if turn == TURNS:
                raise
    raise AssertionError("there is no turn")


def _hit(house: GatewayHouse, cells: Sequence[Cell], markers: Mapping[Cell, str]) -> list[Outcome]:
    """By their markers the history tells these queries from those of other turns."""
    strike = cells[0].strike
    random = Random(strike.seed)
    for cell in cells:
        if cell.phase.writes:
            rows(house.gateway, f"CREATE TABLE {kept_table(markers[cell])} (n BIGINT) USING iceberg")
    gateway_before = house.gateway.pid
    with held(house, {cell.phase: markers[cell] for cell in cells}, random) as volley:
        struck_at_s = time.monotonic()
        struck = Struck(house, strike.fault, random, volley.node_id)
        try:
            volley.let_go()
            volley.wait_ended(strike.fault.lasts_s)
        finally:
            struck.put_right()
        if not volley.wait_ended(ANSWER_WITHIN_S):
            house.give_up()
            return [_without_answer(cell, volley.end(cell.phase), struck_at_s) for cell in cells]
    ends = {cell: volley.victims[cell.phase].future.result() for cell in cells}
    lost = _not_well(house)
    if lost:
        return [Outcome(cell, what(end), end.at_s - struck_at_s, lost=lost) for cell, end in ends.items()]
    has_survived = house.gateway.pid == gateway_before
    known = histories(house)
    judged = partial(_judged, house, struck_at_s=struck_at_s, has_survived=has_survived)
    return [
        judged(cell, end, known.get(markers[cell], ()), table=kept_table(markers[cell]))
        for cell, end in ends.items()
    ]


def _without_answer(cell: Cell, end: End | None, struck_at_s: float) -> Outcome:
    if end is None:
        return Outcome(cell, "no answer", ANSWER_WITHIN_S, lost="neither an answer nor an error")
    lost = "the house was given up, as others had no answer"
    return Outcome(cell, what(end), end.at_s - struck_at_s, lost=lost)


def _not_well(house: GatewayHouse) -> str:
    try:
        house.wait_well()
    except AssertionError as error:
        return str(error)
    return ""


def _judged(
    house: GatewayHouse,
    cell: Cell,
    end: End,
    known: Known,
    *,
    table: str,
    struck_at_s: float,
    has_survived: bool,
) -> Outcome:
    lost = unrecorded(known, end, has_survived=has_survived)
    if cell.phase.writes:
        ((count, total),) = rows(house.gateway, f"SELECT count(*), coalesce(sum(n), 0) FROM {table}")
        wrong, missing = wrong_change(count, total, end)
        lost = missing or lost
    else:
        wrong = wrong_read(end, house.answer(WIDE if cell.phase is Phase.FINISHING else READ))
    return Outcome(cell, what(end, known), end.at_s - struck_at_s, wrong, lost)

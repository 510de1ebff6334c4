"""One house at a time: another one is built when it is asked for, and the one before is torn down."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import assert_never

import pytest

from bailiwick.testing.cluster import standalone_cluster
from bailiwick.testing.postgres import running_postgres, why_not
from faults.matrix.cells import Outcome, run
from faults.matrix.fleet_house import FleetHouse
from faults.matrix.houses import READ, WIDE, GatewayHouse, Kind
from faults.matrix.plan import Cell, Strike
from faults.matrix.postgres_house import PostgresHouse
from faults.matrix.record import Record


class NotRunError(Exception):
    """The queries of a strike could not be brought into position, or something of the test broke."""


class Street:
    """`wanted` are the cells that will be asked for: those of one strike are run together."""

    def __init__(self, new_directory: Callable[[], Path], wanted: Sequence[Cell], record: Record) -> None:
        self._new_directory = new_directory
        self._wanted = wanted
        self._record = record
        self._stack = ExitStack()
        self._house: tuple[Kind, GatewayHouse] | None = None
        self._not_run: dict[Strike, str] = {}

    def outcome(self, cell: Cell) -> Outcome:
        """What became of it. Skips where this machine cannot build its house."""
        if cell.strike.house is Kind.POSTGRES and (problem := why_not()) is not None:
            pytest.skip(problem)
        if cell.strike in self._not_run:
            raise NotRunError(self._not_run[cell.strike])
        if cell not in self._record.outcomes:
            self._run(cell.strike)
        return self._record.outcomes[cell]

    def _run(self, strike: Strike) -> None:
        cells = [cell for cell in self._wanted if cell.strike == strike]
        try:
            house = self._built(strike.house)
            started = time.monotonic()
            outcomes = run(house, cells)
        except BaseException as error:
            self._not_run[strike] = f"{strike.name}: {error}"
            self.close()
            raise
        self._record.note(outcomes, time.monotonic() - started)
        if any(outcome.lost for outcome in outcomes):
            self.close()

    def _built(self, kind: Kind) -> GatewayHouse:
        """One of this kind, furnished and well."""
        if self._house is None or self._house[0] is not kind:
            self.close()
            house = _built(kind, self._new_directory(), self._stack)
            self._house = (kind, house)
            house.furnish()
            for sql in (READ, WIDE):
                house.answer(sql)
        return self._house[1]

    def close(self) -> None:
        """Also for a house that is beyond repair: the next one is new."""
        self._house = None
        stack, self._stack = self._stack, ExitStack()
        stack.close()


def _built(kind: Kind, directory: Path, stack: ExitStack) -> GatewayHouse:
    match kind:
        case Kind.SINGLE:
            return GatewayHouse(directory, stack)
        case Kind.CLUSTER:
            cluster = stack.enter_context(standalone_cluster(directory / "cluster", workers=2))
            return GatewayHouse(directory, stack, cluster)
        case Kind.POSTGRES:
            return PostgresHouse(directory, stack, stack.enter_context(running_postgres()))
        case Kind.FLEET:
            return FleetHouse(directory, stack)
        case _:
            assert_never(kind)

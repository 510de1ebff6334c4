"""An engine that fails again and again is left alone for a while, and nobody has to wait for it."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from bailiwick.testing.asking import value, wait_until
from faults.matrix.fleet_house import NAMES, FleetHouse

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.full, pytest.mark.timeout(300)]

CONDITIONS = ("demoted", "demoted", "held_down")
"""Of an engine that fails, each time soon after it was well again."""


def test_an_engine_whose_way_flaps_is_held_down_while_the_other_answers(tmp_path: Path) -> None:
    flapping, steady = NAMES
    with ExitStack() as stack:
        house = FleetHouse(tmp_path, stack, forgives=False)
        (line,) = house.lines(flapping)
        for condition in CONDITIONS:
            wait_until("healthy", partial(is_in, house, flapping, "healthy"))
            line.cut()
            wait_until(condition, partial(is_in, house, flapping, condition))
            assert value(house.gateway, "SELECT sum(id) FROM range(100)") == 4950
            line.mend()
        # Its way is whole, and it is not used all the same, until it has been left alone for long enough.
        for number in range(8):
            assert value(house.gateway, f"SELECT max(id) + {number} FROM range(10)") == 9 + number
        nodes = "SELECT DISTINCT node_id FROM system.runtime.queries WHERE sql LIKE 'SELECT max(id) +%'"
        assert value(house.gateway, nodes) == steady
        house.wait_all_healthy()


def is_in(house: FleetHouse, node_id: str, condition: str) -> bool:
    return house.health()[node_id] == condition

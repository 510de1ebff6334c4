"""One house at a time: another one is built when it is asked for, and the one before is torn down."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import assert_never

from bailiwick.testing.cluster import standalone_cluster
from bailiwick.testing.postgres import running_postgres
from faults.matrix.fleet_house import FleetHouse
from faults.matrix.houses import READ, WIDE, GatewayHouse, Kind
from faults.matrix.postgres_house import PostgresHouse


class Street:
    def __init__(self, new_directory: Callable[[], Path]) -> None:
        self._new_directory = new_directory
        self._stack = ExitStack()
        self._house: tuple[Kind, GatewayHouse] | None = None

    def house(self, kind: Kind) -> GatewayHouse:
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

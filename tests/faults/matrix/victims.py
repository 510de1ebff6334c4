"""A client with one query, to be held at a point of that query's life while something breaks."""

import threading
import time
from concurrent.futures import Executor, Future
from enum import StrEnum
from typing import Any

import pyarrow as pa
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.inside import GATED_NAMESPACE, Point
from bailiwick.testing.told import Told
from faults.matrix.houses import NUMBERS, PLANNED, READ, WIDE, GatewayHouse, close_in_peace
from faults.matrix.judging import KEPT_COUNT, End, Known


class Phase(StrEnum):
    """Where in its life the query is when something breaks."""

    QUEUED = "queued"
    PLANNING = "planning"
    FIRST_ROW = "first row"
    """Its client has some rows, and the engine is at work for more."""
    MIDDLE = "middle"
    FINISHING = "finishing"
    """The engine is done; the client is not."""
    COMMITTING = "committing"
    COMMITTED = "committed"
    """The change is made, and nobody has been told."""

    @property
    def writes(self) -> bool:
        return self in (Phase.COMMITTING, Phase.COMMITTED)

    @property
    def has_place(self) -> bool:
        """Whether it takes one of the places that the engine has for queries."""
        return self not in (Phase.QUEUED, Phase.FINISHING)

    @property
    def state(self) -> str:
        """What the history says of a query in this phase."""
        return {Phase.QUEUED: "queued", Phase.FINISHING: "finishing"}.get(self, "running")


_GATES = {
    Phase.PLANNING: Point.PLANNING,
    Phase.COMMITTING: Point.COMMITTING,
    Phase.COMMITTED: Point.COMMITTED,
}


class MissedError(AssertionError):
    """A query was too quick: it had ended before all the others were where they should be hit."""


class Victim:
    def __init__(self, house: GatewayHouse, phase: Phase, marker: str) -> None:
        """The history tells its query from all others by `marker`."""
        self.phase = phase
        self.marker = marker
        self.future: Future[End] = Future()
        self._inside = house.inside
        self._connection = house.gateway.connect()
        self._sql = f"{_statement(phase, marker)} /* {marker} */"
        self._gate = _GATES.get(phase)
        self._table = PLANNED if phase is Phase.PLANNING else kept_table(marker)
        self._has_row = threading.Event()
        self._may_read_on = threading.Event()

    def prepare(self) -> None:
        """Let the gateway know what the statement is: that takes a turn of its own, before that life."""
        with self._connection.cursor() as cursor:
            cursor.adbc_prepare(self._sql)

    def start(self, threads: Executor) -> None:
        """Its life begins, and is held at its gate if it has one."""
        if self._gate is not None:
            self._inside.close(self._gate, _name(self._table))
        self.future = threads.submit(self._live)

    def read_on(self) -> None:
        self._may_read_on.set()

    def close(self) -> None:
        close_in_peace(self._connection)

    def has_begun(self, known: Known) -> bool:
        """Whether its query is in the state of its phase, by what the history says of it."""
        if self.future.done():
            raise MissedError(f"{self.marker} ended before it was hit: {self.future.result().told}")
        return any(row["state"] == self.phase.state for row in known)

    def is_there(self, known: Known, rows_least: int = 0) -> bool:
        """Whether it is where it should be hit; in the middle, with so many rows."""
        if not self.has_begun(known):
            return False
        match self.phase:
            case Phase.FIRST_ROW:
                return self._has_row.is_set()
            case Phase.MIDDLE:
                return any(row["rows"] >= rows_least for row in known)
            case _:
                return self._gate is None or self._inside.is_reached(self._gate, _name(self._table))

    def _live(self) -> End:
        table, told = None, None
        try:
            table = self._read()
        except (AdbcError, pa.ArrowException, OSError) as error:
            told = Told.by(error)
        return End(table, told, time.monotonic())

    def _read(self) -> pa.Table:
        cursor = self._connection.cursor()
        try:
            cursor.execute(self._sql)
            reader = cursor.fetch_record_batch()
            batches = []
            for batch in reader:
                batches.append(batch)
                self._has_row.set()
                if self.phase is Phase.FINISHING:
                    self._may_read_on.wait()
            return pa.Table.from_batches(batches, reader.schema)
        finally:
            close_in_peace(cursor)


def kept_table(marker: str) -> str:
    """What a change of this marker fills."""
    return f"lake.{GATED_NAMESPACE}.{marker.replace('-', '_')}"


def _statement(phase: Phase, marker: str) -> str:
    if phase.writes:
        return f"INSERT INTO {kept_table(marker)} SELECT n FROM {NUMBERS} WHERE n < {KEPT_COUNT}"
    if phase is Phase.PLANNING:
        return READ.replace(NUMBERS, PLANNED)
    return WIDE if phase is Phase.FINISHING else READ


def _name(table: str) -> str:
    return table.rpartition(".")[2]


def histories(house: GatewayHouse) -> dict[str, list[dict[str, Any]]]:
    """What the gateway knows of victims' queries, by marker. The question itself is none of them."""
    sql = "SELECT * FROM system.runtime.queries WHERE sql LIKE '%/* ' || 'cell-%'"
    with house.gateway.kept_connection().cursor() as cursor:
        cursor.execute(sql)
        found: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
    known: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        marker = row["sql"].rpartition("/* ")[2].removesuffix(" */")
        known.setdefault(marker, []).append(row)
    return known

"""A client with one query, to be held at a point of that query's life while something breaks."""

import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

import pyarrow as pa
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.asking import ENDLESS, running_queries, start_client, wait_until
from bailiwick.testing.inside import GATED_NAMESPACE, Point
from bailiwick.testing.told import Told
from faults.matrix.houses import NUMBERS, NUMBERS_COUNT, READ, WIDE, GatewayHouse, close_in_peace
from faults.matrix.judging import KEPT_COUNT, End

REACHED_WITHIN_S = 60.0


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


_GATES = {
    Phase.PLANNING: Point.PLANNING,
    Phase.COMMITTING: Point.COMMITTING,
    Phase.COMMITTED: Point.COMMITTED,
}


@dataclass(slots=True)
class Victim:
    house: GatewayHouse
    phase: Phase
    marker: str
    """By which the history tells its query from all others."""
    sql: str
    has_row: threading.Event = field(default_factory=threading.Event)
    may_read_on: threading.Event = field(default_factory=threading.Event)
    blockers: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    """Others' endless queries, which have all places."""

    @classmethod
    def of(cls, house: GatewayHouse, phase: Phase, marker: str) -> "Victim":
        statement = WIDE if phase is Phase.FINISHING else READ
        if phase.writes:
            statement = f"INSERT INTO {kept_table(marker)} SELECT n FROM {NUMBERS} WHERE n < {KEPT_COUNT}"
        return cls(house, phase, marker, f"{statement} /* {marker} */")

    def live(self, connection: Any) -> End:
        started = time.monotonic()
        table, told = None, None
        try:
            table = self._read(connection)
        except (AdbcError, pa.ArrowException, OSError) as error:
            told = Told.by(error)
        finally:
            close_in_peace(connection)
        return End(table, told, time.monotonic() - started)

    def _read(self, connection: Any) -> pa.Table:
        cursor = connection.cursor()
        try:
            cursor.execute(self.sql)
            reader = cursor.fetch_record_batch()
            batches = []
            for batch in reader:
                batches.append(batch)
                self.has_row.set()
                if self.phase is Phase.FINISHING:
                    self.may_read_on.wait()
            return pa.Table.from_batches(batches, reader.schema)
        finally:
            close_in_peace(cursor)

    def let_go(self) -> None:
        """What was held goes on; what stood before it leaves. May be called twice."""
        self.house.inside.open_all()
        self.may_read_on.set()
        for blocker in self.blockers:
            blocker.kill()
            blocker.wait()
        self.blockers.clear()

    def node_id(self) -> str | None:
        """The engine that the query depends on now, if it has one."""
        return next((row["node_id"] for row in history(self.house, self.marker)), None)

    def wait_reached(self, random: Random) -> None:
        """Return when the query is where it should be hit."""
        if gate := _GATES.get(self.phase):
            wait_until(self.phase, lambda: self.house.inside.is_reached(gate), REACHED_WITHIN_S)
        if self.phase is Phase.FIRST_ROW:
            assert self.has_row.wait(REACHED_WITHIN_S)
        least = int(random.uniform(0.3, 0.6) * NUMBERS_COUNT) if self.phase is Phase.MIDDLE else 0
        wait_until(self.phase, lambda: self._is_there(least), REACHED_WITHIN_S)

    def _is_there(self, rows_least: int) -> bool:
        states = {Phase.QUEUED: "queued", Phase.FINISHING: "finishing"}
        wanted = states.get(self.phase, "running")
        found = history(self.house, self.marker)
        return any(row["state"] == wanted and row["rows"] >= rows_least for row in found)


def kept_table(marker: str) -> str:
    return f"lake.{GATED_NAMESPACE}.{marker.replace('-', '_')}"


def history(house: GatewayHouse, marker: str) -> list[dict[str, Any]]:
    """What the gateway knows of this query. The question itself does not hold the marker in one piece."""
    head, tail = marker[:4], marker[4:]
    sql = f"SELECT * FROM system.runtime.queries WHERE sql LIKE '%{head}' || '{tail} */%'"
    with house.gateway.kept_connection().cursor() as cursor:
        cursor.execute(sql)
        found: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
    return found


@contextmanager
def living(victim: Victim) -> Iterator["Future[End]"]:
    """The query runs in a thread of its own, held at its gate if it has one, behind another if it queues."""
    house = victim.house
    with ThreadPoolExecutor(1) as pool:
        try:
            _prepare(victim)
            if gate := _GATES.get(victim.phase):
                house.inside.close(gate)
            if victim.phase is Phase.QUEUED:
                victim.blockers += [start_client(house.gateway, ENDLESS) for _ in range(house.places)]
                wait_until("blocked", lambda: _are_all_busy(house), REACHED_WITHIN_S)
            yield pool.submit(victim.live, house.gateway.connect())
        finally:
            victim.let_go()


def _prepare(victim: Victim) -> None:
    """Let the gateway know what the statement is: preparing takes a turn of its own, before that life."""
    if not victim.phase.writes:
        with victim.house.gateway.connect() as connection, connection.cursor() as cursor:
            cursor.adbc_prepare(victim.sql)


def _are_all_busy(house: GatewayHouse) -> bool:
    return len(running_queries(house.gateway, "CROSS JOIN")) >= house.places

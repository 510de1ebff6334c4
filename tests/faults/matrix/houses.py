"""Houses to be broken: a gateway, its engine behind a line, and a cluster below where there is one."""

from collections.abc import Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.asking import rows, value, wait_until
from bailiwick.testing.cluster import Cluster
from bailiwick.testing.faults import House, Part
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.inside import GATED_NAMESPACE, Inside
from bailiwick.testing.line import Line, laid

NUMBERS = f"lake.{GATED_NAMESPACE}.numbers"
NUMBERS_COUNT = 9_600
FILES = 24
PLANNED = f"lake.{GATED_NAMESPACE}.planned"
"""The same numbers, for whoever is to be held while it is planned."""
WELL_WITHIN_S = 120.0
PLACES = 5
"""Queries that an engine runs at once: one more queues."""

SETTINGS = {
    "BAILIWICK__ENGINE__MEMORY": "1g",
    # As many as are held in the middle of their lives; one more queues.
    "BAILIWICK__POOL__SESSIONS": str(PLACES),
    "BAILIWICK__POOL__LONG_RUNNING_MAX": "0",
    # A hanging engine is noticed soon, and no query outlives a cell.
    "BAILIWICK__LIMITS__STREAM_IDLE_S": "3",
    "BAILIWICK__LIMITS__TIMEOUT_S": "90",
}

# Each file is read by a task of its own.
_APART = "'read.split.open-file-cost' = '134217728', 'read.split.adaptive-size.enabled' = 'false'"
# Some seconds of work in two dozen tasks, of which each gives rows as soon as it is done.
READ = f"SELECT n, sha2(repeat(cast(n AS STRING), 12000), 512) AS digest FROM {NUMBERS}"
# More than all buffers between engine and client hold, so that a slow client keeps it from being finished.
WIDE = f"SELECT n, repeat(sha2(cast(n AS STRING), 512), 64) AS digest FROM {NUMBERS}"


class Kind(StrEnum):
    SINGLE = "one engine"
    CLUSTER = "one engine on a cluster"
    POSTGRES = "one engine, everything kept in PostgreSQL"
    FLEET = "two engines with keepers"


class GatewayHouse(House):
    """One gateway with an engine of its own. It can be started again on its data; the line stays."""

    def __init__(self, directory: Path, stack: ExitStack, cluster: Cluster | None = None) -> None:
        self._directory = directory
        self._cluster = cluster
        self.inside = self._inside(directory / "inside")
        self._line = stack.enter_context(laid(self.inside.engine))
        self._life = ExitStack()
        self.gateway = self._start()
        stack.callback(self._end)
        self._answers: dict[str, pa.Table] = {}

    def pids(self, part: Part, node_id: str | None) -> Sequence[int]:
        del node_id  # There is one engine.
        match part:
            case Part.ENGINE:
                return [self.gateway.engine_pid]
            case Part.GATEWAY:
                return [self.gateway.pid]
            case Part.EXECUTOR if self._cluster is not None:
                return self._cluster.executor_pids
            case Part.WORKER if self._cluster is not None:
                return [worker.pid for worker in self._cluster.workers]
            case Part.MASTER if self._cluster is not None and self._cluster.master is not None:
                return [self._cluster.master.pid]
            case _:
                raise LookupError(f"this house has no {part}")

    def lines(self, node_id: str | None) -> Sequence[Line]:
        del node_id  # There is one engine.
        return [self._line]

    def gather(self, random: Random) -> str | None:
        """Have all queries run on one engine, until `inside.open_all`. Which one, if there are several."""
        del random  # There is one engine.
        return None

    def mend(self) -> None:
        if self._cluster is not None:
            self._cluster.mend()
        if self.gateway.process.poll() is not None:
            self._end()
            self.gateway = self._start()

    def give_up(self) -> None:
        """End the gateway, and with it whatever waits for it. Then nothing can be expected of this house."""
        self.gateway.process.kill()
        self.gateway.process.wait()

    def wait_well(self) -> None:
        """Return when it answers rightly. Nobody helps it."""
        count = f"SELECT count(*) FROM {NUMBERS}"
        wait_until("well again", lambda: value(self.gateway, count) == NUMBERS_COUNT, WELL_WITHIN_S)

    def _start(self) -> RunningGateway:
        settings = {**SETTINGS, **self.inside.settings, **self._settings()}
        return self._life.enter_context(
            running_gateway(self._directory / "data", settings=settings, arguments=self._arguments())
        )

    def _inside(self, directory: Path) -> Inside:
        return Inside(directory, lambda: self._line.address)

    def _settings(self) -> dict[str, str]:
        return {} if self._cluster is None else {"BAILIWICK__ENGINE__MASTER": self._cluster.url}

    def _arguments(self) -> Sequence[str]:
        return ()

    def _end(self) -> None:
        for connection in self.gateway.kept.values():
            close_in_peace(connection)
        self.gateway.kept.clear()
        life, self._life = self._life, ExitStack()
        life.close()

    def furnish(self) -> None:
        """Make the tables that everything is about."""
        rows(self.gateway, f"CREATE NAMESPACE lake.{GATED_NAMESPACE}")
        filled = f"SELECT id AS n FROM range(0, {NUMBERS_COUNT}, 1, {FILES})"
        for table in (NUMBERS, PLANNED):
            rows(self.gateway, f"CREATE TABLE {table} USING iceberg TBLPROPERTIES ({_APART}) AS {filled}")

    def answer(self, sql: str) -> pa.Table:
        """The answer of a single run that nothing disturbs, sorted. Asked for before anything breaks."""
        if sql not in self._answers:
            with self.gateway.connect() as connection, connection.cursor() as cursor:
                cursor.execute(sql)
                self._answers[sql] = cursor.fetch_arrow_table().sort_by("n")
            assert self._answers[sql].num_rows == NUMBERS_COUNT
        return self._answers[sql]


def close_in_peace(resource: Any) -> None:
    """Close a connection or cursor whose gateway may be gone."""
    try:
        resource.close()
    except (AdbcError, ResourceWarning, RuntimeError):
        # The driver has let go of it all the same, and would complain again whenever Python collects it.
        resource._closed = True

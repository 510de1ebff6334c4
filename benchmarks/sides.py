"""The two that are compared: stock PySpark straight on the engine, and ADBC through the gateway."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from bailiwick.testing.stock_spark import EngineDoor

REST_MAX_S = 240.0
REST_WATCHED_S = 3.0
QUIET_CORES = 0.15


@dataclass(frozen=True, slots=True)
class Cpu:
    """Seconds of processor time that the gateway and its engine have used."""

    gateway_s: float
    engine_s: float

    def __sub__(self, other: "Cpu") -> "Cpu":
        return Cpu(self.gateway_s - other.gateway_s, self.engine_s - other.engine_s)


@dataclass(slots=True)
class Arena:
    """A running gateway, and the ways to it."""

    process: "subprocess.Popen[str]"
    data_dir: Path
    address: str
    password: str
    tell: Callable[[str], None]
    """How far a long measure is, for whoever waits."""

    def ask_desk(self, command: str) -> dict[str, str]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return _answer(self.process)

    @contextmanager
    def lease(self) -> Iterator["Stock"]:
        """Stock clients may come in while this lasts. The gateway has a session less meanwhile."""
        lent = self.ask_desk("lease")
        try:
            yield Stock(EngineDoor.of(self.data_dir), lent["handle"], lent["lease"])
        finally:
            self.ask_desk("release")

    def adbc(self, user: str = "admin", password: str | None = None) -> "Adbc":
        from adbc_driver_flightsql import dbapi

        credentials = {"username": user, "password": password or self.password}
        return Adbc(dbapi.connect(f"grpc://{self.address}", credentials, autocommit=True))

    def rest(self) -> None:
        """Until the engine has nothing to do any more, or it has taken too long.

        Many clients leave work behind for the JVM's compiler, which would count for whoever comes next.
        """
        deadline = time.monotonic() + REST_MAX_S
        while time.monotonic() < deadline:
            before = self.cpu()
            time.sleep(REST_WATCHED_S)
            if (self.cpu() - before).engine_s < QUIET_CORES * REST_WATCHED_S:
                return

    def cpu(self) -> Cpu:
        gateway = psutil.Process(self.process.pid)
        engines = [child for child in gateway.children(recursive=True) if child.name() == "java"]
        return Cpu(_cpu_s(gateway), sum(_cpu_s(engine) for engine in engines))


@dataclass(slots=True)
class Adbc:
    """The subject: one connection of the ADBC Flight SQL driver."""

    connection: Any

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            return list(cursor.fetchall())

    def table(self, sql: str) -> pa.Table:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table()

    def close(self) -> None:
        self.connection.close()


@dataclass(frozen=True, slots=True)
class Stock:
    """The baseline: makes stock PySpark sessions that use the same catalog as the gateway's own."""

    door: EngineDoor
    handle: str
    lease: str

    def session(self) -> "StockSession":
        return StockSession(self.door.connect(session_handle=self.handle, lease_id=self.lease), self.lease)


@dataclass(slots=True)
class StockSession:
    spark: Any
    lease: str = ""
    """None on a server that knows no leases."""

    @classmethod
    def straight(cls, port: int) -> "StockSession":
        """On a server that asks for nothing."""
        from pyspark.sql import SparkSession

        return cls(SparkSession.builder.remote(f"sc://localhost:{port}").create())

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        if self.lease:
            self.spark.addTag(self.lease)  # The client keeps tags by thread.
        return list(self.spark.sql(sql, args=list(parameters) or None).collect())

    def table(self, sql: str) -> pa.Table:
        """What `toArrow` does, without asking for the schema first: that call would carry no lease."""
        self.spark.addTag(self.lease)
        table, _ = self.spark.sql(sql)._to_table()
        return table

    def close(self) -> None:
        stop(self.spark)


_stopped: list[Any] = []


def stop(spark: Any) -> None:
    """Stop a session of the stock client, and keep what is left of it to the end.

    When it is collected as garbage, it closes a pool of threads that all sessions of the process share, and
    waits for them (PySpark 4.1.4). In the wrong moment that is a deadlock of all that run.
    """
    spark.stop()
    _stopped.append(spark)


@contextmanager
def arena(data_dir: Path, tell: Callable[[str], None]) -> Iterator[Arena]:
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    log = data_dir.with_suffix(".log")
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.host", str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        ready = _answer(process)
        yield Arena(process, data_dir, ready["grpc"], ready["password"], tell)
    finally:
        _end(process)


def seconds(work: Any, *arguments: Any) -> float:
    started = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - started


def _answer(process: "subprocess.Popen[str]") -> dict[str, str]:
    """The next line that is JSON; others are the gateway's own words."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            answer: dict[str, str] = json.loads(line)
            return answer
    raise RuntimeError(f"the gateway ended with {process.wait()}; its log is beside the data directory")


def _end(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)

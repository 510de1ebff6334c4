"""Executors are killed again and again while TPC-H runs on a cluster: every answer is right.

A query counts only if an executor died while it ran; one that was too quick for that is asked again. DuckDB
is the judge, so what is compared was computed by nobody who was disturbed. One query is in every run;
`make faults` has all twenty-two.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import duckdb
import psutil
import pytest

from bailiwick.testing.asking import rows
from bailiwick.testing.cluster import Cluster, standalone_cluster
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.tpch import bring_all, difference, generate, judging

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(400)]

SCALE = "0.1"
SEED = 22
WORKERS = 2
PAUSES_S = (1.0, 5.0)
POLL_S = 0.2
ASKED_FOR_S = 200.0
"""On a busy machine executors take long to come up again, while a quick query is answered many times."""
IN_EVERY_RUN = {"q01"}


class Killer:
    """Ends an executor, whichever, and the next a few seconds after all are at work again.

    However long executors take to come up on a busy machine, so each has its time to get something done.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = Random(seed)
        self._is_over = threading.Event()
        self.kills = 0

    def work(self) -> None:
        while not self._is_over.wait(POLL_S):
            at_work = self._cluster.registered_executor_pids
            if len(at_work) < WORKERS or self._is_over.wait(self._random.uniform(*PAUSES_S)):
                continue
            with suppress(psutil.NoSuchProcess):
                psutil.Process(self._random.choice(at_work)).kill()
                self.kills += 1

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self.work)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()


class Tally:
    """What the run came to, for whoever reads the output."""

    def __init__(self) -> None:
        self.right = 0
        self.queries = 0


@pytest.fixture(scope="module")
def tally() -> Tally:
    return Tally()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return generate(tmp_path_factory.mktemp("tpch"), SCALE)


@pytest.fixture(scope="module")
def judge(files: dict[str, Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    with judging(files) as connection:
        yield connection


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), workers=WORKERS) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(
    cluster: Cluster, files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    """Its engine's executors are on the cluster, and the eight tables are in its lake."""
    settings = {
        "BAILIWICK__ENGINE__MASTER": cluster.url,
        "BAILIWICK__ENGINE__MEMORY": "1g",
        "BAILIWICK__SERVER__DRAIN_S": "1",
    }
    with running_gateway(tmp_path_factory.mktemp("gateway") / "data", settings=settings) as running:
        rows(running, "CREATE NAMESPACE tpch")
        bring_all(running, files)
        yield running


@pytest.fixture(scope="module")
def killer(cluster: Cluster, gateway: RunningGateway) -> Iterator[Killer]:
    """From the first query to the last."""
    assert len(cluster.registered_executor_pids) == WORKERS
    killer = Killer(cluster, SEED)
    with killer.at_work():
        yield killer


def queries() -> Iterator[object]:
    for path in sorted((Path(__file__).parents[1] / "e2e" / "tpch").glob("q*.sql")):
        marks = [] if path.stem in IN_EVERY_RUN else [pytest.mark.full]
        yield pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [*queries()])
def test_an_answer_is_right_although_executors_die_while_it_is_computed(
    path: Path,
    gateway: RunningGateway,
    judge: duckdb.DuckDBPyConnection,
    killer: Killer,
    tally: Tally,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sql = path.read_text()
    expected = judge.execute(sql).fetchall()
    engine = gateway.engine_pid
    before, started, asked = killer.kills, time.monotonic(), 0
    tally.queries += 1
    while killer.kills == before and time.monotonic() - started < ASKED_FOR_S:
        asked += 1
        assert difference(rows(gateway, sql), expected) == ""
    hits = killer.kills - before
    assert hits > 0
    assert gateway.engine_pid == engine
    tally.right += 1
    with capsys.disabled():
        print(  # noqa: T201
            f"\nTPC-H {path.stem} while executors die: right, {hits} killed, asked {asked}×, "
            f"{time.monotonic() - started:.0f} s; so far {tally.right} of {tally.queries} right, "
            f"{killer.kills} killed"
        )


def test_there_are_twenty_two() -> None:
    assert len([*queries()]) == 22

"""Two real engines and people who ask small things. Whatever becomes of an engine, these are answered."""

import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from bailiwick.testing.asking import failure, rows, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.keepers import KeptEngine, admitting, new_token_file

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(240)]

NAMES: Final = ("left", "right")
READERS: Final = 4
ROWS: Final = 20_000
KINDS: Final = 7
# One value must be held whole: 8 GB of strings in an engine of 1 GB.
HUNGRY: Final = (
    "SELECT size(collect_list(repeat(sha2(cast(id AS STRING), 512), 64))) FROM range(0, 1000000, 1, 1)"
)
AGE_MAX_S: Final = 20.0


class Fleet:
    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return rows(self.gateway, sql)

    def healthy(self) -> set[str]:
        return {
            name for (name,) in self.ask("SELECT node_id FROM system.runtime.nodes WHERE health = 'healthy'")
        }

    def lives(self, name: str) -> int:
        """By the log: `restarts` begins anew when a drained engine was away for a moment."""
        return len(re.findall(rf"engine_joined .*node_id={name}\b", self.gateway.log_text()))

    def wait_healthy(self) -> None:
        wait_until("both are healthy", lambda: self.healthy() == {*NAMES}, 120)


@contextmanager
def fleet_of_two(directory: Path, **settings: str) -> Iterator[Fleet]:
    """A gateway without an engine of its own, and two that keepers bring."""
    token_file = new_token_file(directory / "keeper-token")
    own = {
        **admitting(token_file),
        "BAILIWICK__FLEET__EMBEDDED": "false",
        "BAILIWICK__FLEET__HEARTBEAT_S": "0.5",
        "BAILIWICK__FLEET__HEARTBEATS_MISSED_MAX": "20",
        # For as long as it takes that both engines are started anew.
        "BAILIWICK__POOL__REACHABLE_WAIT_S": "60",
    }
    with ExitStack() as stack:
        http_port = _free_port()
        for name in NAMES:
            # They are there first and wait: a gateway without an engine is ready when one has joined.
            engine = KeptEngine(
                name,
                directory / name,
                f"http://127.0.0.1:{http_port}",
                token_file,
                arguments=("--memory", "1g", "--cores", "2"),
            )
            stack.callback(engine.end)
            engine.start()
        gateway = stack.enter_context(
            running_gateway(
                directory / "data",
                settings={**own, **settings},
                arguments=("--http-port", str(http_port)),
            )
        )
        fleet = Fleet(gateway)
        fleet.wait_healthy()
        fleet.ask("CREATE NAMESPACE home")
        fleet.ask(f"CREATE TABLE home.t AS SELECT id, id % {KINDS} AS kind FROM range({ROWS})")
        yield fleet


@contextmanager
def neighbours(fleet: Fleet) -> Iterator[list[int]]:
    """Clients that read in a loop until the block ends, which fails if one of them was told anything wrong.

    The block gets how often each has been answered so far.
    """
    answered, over = [0] * READERS, threading.Event()
    with ThreadPoolExecutor(READERS) as pool:
        reading: list[Future[None]] = []
        try:
            reading += [pool.submit(_read, fleet, number, answered, over) for number in range(READERS)]
            wait_until("all have begun", lambda: all(answered) or any(one.done() for one in reading))
            yield answered
        finally:
            over.set()
    for one in reading:
        one.result()


def _read(fleet: Fleet, number: int, answered: list[int], over: threading.Event) -> None:
    with fleet.gateway.connect() as connection, connection.cursor() as cursor:
        while not over.is_set():
            kind = (number + answered[number]) % KINDS
            ids = range(kind, ROWS, KINDS)
            cursor.execute(
                f"SELECT count(*), sum(id) FROM home.t WHERE kind = {kind} GROUP BY kind -- neighbour"
            )
            assert cursor.fetchall() == [(len(ids), sum(ids))]
            answered[number] += 1


def _of_neighbours(fleet: Fleet, condition: str) -> int:
    of_them = f"contains(sql, '-- neighbour') AND NOT contains(sql, 'system.') AND ({condition})"
    return int(fleet.ask(f"SELECT count(*) FROM system.runtime.queries WHERE {of_them}")[0][0])


def _wait_for_more(answered: list[int]) -> None:
    before = [*answered]
    wait_until(
        "each is answered again", lambda: all(a > b for a, b in zip(answered, before, strict=True)), 60
    )


@pytest.mark.full
def test_a_query_that_ends_its_engine_for_lack_of_memory_fails_alone(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with fleet_of_two(tmp_path_factory.mktemp("hungry")) as fleet:
        with neighbours(fleet) as answered:
            message = failure(fleet.gateway, HUNGRY)
            _wait_for_more(answered)
            fleet.wait_healthy()
            _wait_for_more(answered)
        assert "RESOURCE_EXHAUSTED" in message
        assert "out of memory" in message
        assert sum(fleet.lives(name) for name in NAMES) > len(NAMES)
        assert _of_neighbours(fleet, "state <> 'finished'") == 0
        # Those that were on an engine in the moment of its end were answered by the other one.
        assert _of_neighbours(fleet, "attempts > 1") > 0


@pytest.mark.full
def test_engines_that_are_old_are_started_anew_one_by_one_and_no_query_fails(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    settings = {"BAILIWICK__FLEET__RECYCLE_AFTER_S": str(AGE_MAX_S)}
    with fleet_of_two(tmp_path_factory.mktemp("old"), **settings) as fleet:
        with neighbours(fleet) as answered:
            wait_until("each was started anew", lambda: all(fleet.lives(name) > 1 for name in NAMES), 120)
            _wait_for_more(answered)
        assert _of_neighbours(fleet, "state <> 'finished'") == 0
        reasons = re.findall(r"engine_recycled .*node_id=(\w+) .*", fleet.gateway.log_text())
        assert {*reasons} == {*NAMES}
        failed = "SELECT sql, error_code FROM system.runtime.queries WHERE state = 'failed'"
        assert fleet.ask(failed) == []


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])

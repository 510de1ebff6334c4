"""The gateway ends under stock PySpark: killed and started again in the same place, then asked to end.

One data directory and one port have two lives here. The first is killed while some read and others write;
those who wait for long enough find the second, which is asked to end while some read and others write.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from bailiwick.testing.asking import rows, running_queries, value, wait_until
from bailiwick.testing.inside import Point
from faults.connect_door.clients import WIDE_COUNT
from faults.connect_door.house import NUMBERS_COUNT, Door, opened, opened_again
from faults.connect_door.stock import StockClients, stock_clients

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(300)]

READERS = ("impatient", "patient")
WRITERS = {"committed": (Point.COMMITTED, "kept"), "saving": (Point.COMMITTING, "saved")}
DRAINED = ("late", "unread", "endless", "filling")
GIVES_UP_WITHIN_S = 20.0
"""What an impatient client has set is three tries and less than a second."""
DRAIN_S = 12.0
SECOND_LIFE = {
    "BAILIWICK__SERVER__DRAIN_S": str(DRAIN_S),
    # What is read has to be taken up again while the gateway waits for its readers.
    "BAILIWICK__SPARK_CONNECT__STREAM_BYTES_MAX": str(1 << 20),
}


@dataclass(frozen=True, slots=True)
class Restarted:
    """How each client ended whose gateway was killed, and the door that was there again."""

    ends: dict[str, dict[str, Any]]
    gave_up_after_s: float
    left_over: list[psutil.Process]
    door: Door


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    with ExitStack() as stack:
        with opened(tmp_path_factory.mktemp("restarted")) as door:
            for point, table in WRITERS.values():
                door.inside.close(point, table)
            clients = stack.enter_context(stock_clients(door, (*READERS, *WRITERS)))
            bring_into_position(door, clients)
            processes = psutil.Process(door.gateway.pid).children(recursive=True)
            os.kill(door.gateway.pid, signal.SIGKILL)
            killed_at = time.monotonic()
            ends = {"impatient": clients.end_of("impatient")}
            gave_up_after_s = time.monotonic() - killed_at
            _, left_over = psutil.wait_procs(processes, timeout=15)
        door.inside.open_all()
        door = stack.enter_context(opened_again(door, SECOND_LIFE))
        ends |= {who: clients.end_of(who) for who in ("patient", *WRITERS)}
        yield Restarted(ends, gave_up_after_s, left_over, door)


def bring_into_position(door: Door, clients: StockClients) -> None:
    """Return when each is where it should be hit."""
    for who, (point, table) in WRITERS.items():
        wait_until(f"{who} is held", lambda at=(point, table): door.inside.is_reached(*at), 60)  # type: ignore[misc]
    for who in READERS:
        clients.wait_said(who, "has_row")


@dataclass(frozen=True, slots=True)
class Drained:
    """How each client ended whose gateway was asked to end, and how the gateway did."""

    ends: dict[str, dict[str, Any]]
    exit_code: int
    left_over: list[psutil.Process]


@pytest.fixture(scope="module")
def drained(restarted: Restarted) -> Drained:
    door = restarted.door
    door.inside.close(Point.PLANNING, "planned")
    with stock_clients(door, DRAINED) as clients:
        try:
            clients.wait_said("unread", "waits")
            clients.wait_said("endless", "has_row")
            wait_until("filling runs", lambda: running_queries(door.gateway, "INSERT"))
            wait_until("late is held", lambda: door.inside.is_reached(Point.PLANNING, "planned"), 60)
            processes = psutil.Process(door.gateway.pid).children(recursive=True)
            door.gateway.process.send_signal(signal.SIGTERM)
            wait_until("draining", lambda: "draining" in door.gateway.log_text())
        finally:
            door.inside.open_all()
        clients.let_go_on("unread")
        ends = {who: clients.end_of(who) for who in DRAINED}
        exit_code = door.gateway.process.wait(40)
        _, left_over = psutil.wait_procs(processes, timeout=5)
        return Drained(ends, exit_code, left_over)


def test_a_reader_whose_gateway_is_killed_gets_a_typed_error_once_its_own_patience_ends(
    restarted: Restarted,
) -> None:
    end = restarted.ends["impatient"]
    assert "SparkConnectGrpcException" in end["kinds"]
    assert 0 < end["rows"] == end["distinct"]
    assert restarted.gave_up_after_s < GIVES_UP_WITHIN_S


def test_a_reader_who_comes_back_to_a_new_gateway_is_told_so_and_a_new_session_works_at_once(
    restarted: Restarted,
) -> None:
    end = restarted.ends["patient"]
    assert end["condition"] == "INVALID_HANDLE.SESSION_CHANGED", end
    assert 0 < end["rows"] == end["distinct"]
    assert end["afterwards"] == 3


@pytest.mark.parametrize("who", WRITERS)
def test_a_writer_who_comes_back_to_a_new_gateway_is_told_so(restarted: Restarted, who: str) -> None:
    assert restarted.ends[who]["condition"] == "INVALID_HANDLE.SESSION_CHANGED", restarted.ends[who]


def test_what_was_written_under_a_killed_gateway_is_there_once_or_not_at_all(restarted: Restarted) -> None:
    gateway = restarted.door.gateway
    assert value(gateway, "SELECT count(*) FROM faults.kept") == NUMBERS_COUNT
    assert rows(gateway, "SHOW TABLES IN faults LIKE 'saved'") == []


def test_what_a_killed_gateway_ran_has_failed_once_and_no_process_of_it_is_left(restarted: Restarted) -> None:
    assert restarted.left_over == []
    history = rows(
        restarted.door.gateway,
        "SELECT kind, state, error_message LIKE '%restarted%', count(*) FROM system.runtime.queries "
        "WHERE door = 'spark_connect' GROUP BY ALL ORDER BY ALL",
    )
    # What finished is the patient one's new session.
    assert history == [
        ("change", "failed", True, len(WRITERS)),
        ("read", "failed", True, len(READERS)),
        ("read", "finished", None, 1),
    ]


def test_what_can_end_while_a_gateway_drains_ends_whole(drained: Drained) -> None:
    assert drained.ends["unread"] == {"given": None, "rows": WIDE_COUNT, "distinct": WIDE_COUNT}
    assert drained.ends["late"] == {"given": NUMBERS_COUNT}


def test_what_takes_longer_than_a_gateway_drains_ends_in_an_error_that_says_so(drained: Drained) -> None:
    end = drained.ends["endless"]
    assert end["condition"] == "BAILIWICK_CIRCUIT_BREAKER_OPEN", end
    assert "The gateway is shutting down." in end["message"]
    assert 0 < end["rows"] == end["distinct"]


def test_a_change_that_takes_longer_ends_in_an_error_that_says_that_it_may_have_happened(
    drained: Drained,
) -> None:
    end = drained.ends["filling"]
    assert end["condition"] == "BAILIWICK_CIRCUIT_BREAKER_OPEN", end
    assert end["parameters"]["outcome"] == "unknown"
    assert "may have been carried out" in end["message"]


def test_a_gateway_that_drained_ends_well_and_leaves_no_process(drained: Drained) -> None:
    assert drained.exit_code == 0
    assert not drained.left_over

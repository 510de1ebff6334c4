"""The engine is killed under stock PySpark: under reads before and after their first rows, writes, views."""

import os
import re
import signal
from dataclasses import dataclass
from typing import Any

import pytest

from bailiwick.testing.asking import rows, value, wait_until
from bailiwick.testing.inside import Point
from faults.connect_door.house import NUMBERS_COUNT, Door
from faults.connect_door.stock import StockClients, stock_clients

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(500)]

CLIENTS = ("frame", "text", "begun", "committed", "committing", "bereft")
GATES = {
    "frame": (Point.PLANNING, "planned"),
    "text": (Point.PLANNING, "described"),
    "committed": (Point.COMMITTED, "kept"),
    "committing": (Point.COMMITTING, "kept_too"),
}
SAME_SESSION = ["faults", "Europe/Berlin"]
"""The schema and the time zone that the clients have set."""


@dataclass(frozen=True, slots=True)
class Struck:
    """How each client ended whose engine was killed, and what the history says of all that ran."""

    ends: dict[str, dict[str, Any]]
    history: list[tuple[Any, ...]]

    def outcomes_of(self, containing: str) -> list[tuple[Any, ...]]:
        """State, code, and the engines tried before, of the queries with this word."""
        word = re.compile(rf"\b{containing}\b")
        return [tuple(facts) for sql, *facts in self.history if word.search(sql)]


@pytest.fixture(scope="module")
def struck(door: Door) -> Struck:
    for point, table in GATES.values():
        door.inside.close(point, table)
    with stock_clients(door, CLIENTS) as clients:
        try:
            bring_into_position(door, clients)
            os.kill(door.gateway.engine_pid, signal.SIGKILL)
        finally:
            door.inside.open_all()
        clients.let_go_on("bereft")
        ends = {who: clients.end_of(who) for who in CLIENTS}
    told = "SELECT sql, state, error_code, failed_attempts FROM system.runtime.queries"
    return Struck(ends, rows(door.gateway, f"{told} WHERE principal = 'ann'"))


def bring_into_position(door: Door, clients: StockClients) -> None:
    """Return when each is where it should be hit; the one that has rows already comes last."""
    for who, (point, table) in GATES.items():
        wait_until(f"{who} is held", lambda at=(point, table): door.inside.is_reached(*at), 120)  # type: ignore[misc]
    clients.wait_said("bereft", "waits")
    rows(door.gateway, "DROP TABLE faults.doomed")
    clients.let_go_on("begun")
    clients.wait_said("begun", "has_row")


def test_a_read_whose_engine_dies_before_its_first_row_is_answered_in_a_session_made_again(
    struck: Struck,
) -> None:
    assert struck.ends["frame"] == {"given": [[number, *SAME_SESSION] for number in range(0, 20, 2)]}
    ((state, _, attempts),) = struck.outcomes_of("planned")
    assert state == "finished"
    assert "embedded" in str(attempts)


def test_a_text_whose_engine_dies_while_it_is_looked_at_is_answered(struck: Struck) -> None:
    assert struck.ends["text"] == {"given": [sum(range(0, NUMBERS_COUNT, 2)), *SAME_SESSION]}


def test_a_read_whose_engine_dies_after_its_first_row_ends_in_an_error_that_pyspark_raises(
    struck: Struck,
) -> None:
    end = struck.ends["begun"]
    assert end["condition"] == "BAILIWICK_EXECUTION_FAILED", end
    assert "SparkException" in end["kinds"]
    assert "engine was lost" in end["message"]
    # Never the end of a result, and before the error rows of one attempt only.
    assert 0 < end["rows"] < 9_600
    assert end["distinct"] == end["rows"]
    assert struck.outcomes_of("sha2") == [("failed", "EXECUTION_FAILED", [])]


@pytest.mark.parametrize(
    ("who", "table", "counts"),
    [("committed", "kept", {NUMBERS_COUNT}), ("committing", "kept_too", {0, NUMBERS_COUNT})],
)
def test_a_write_whose_engine_dies_is_not_tried_again_and_its_error_says_that_it_may_have_happened(
    door: Door, struck: Struck, who: str, table: str, counts: set[int]
) -> None:
    end = struck.ends[who]
    assert end["condition"] == "BAILIWICK_EXECUTION_FAILED", end
    assert end["parameters"]["outcome"] == "unknown"
    assert "may have been carried out" in end["message"]
    assert struck.outcomes_of(table) == [("failed", "EXECUTION_FAILED", [])]
    assert value(door.gateway, f"SELECT count(*) FROM faults.{table}") in counts


def test_what_cannot_be_made_again_is_named_and_a_new_session_works(struck: Struck) -> None:
    end = struck.ends["bereft"]
    assert end["condition"] == "INVALID_HANDLE.SESSION_CHANGED", end
    assert "of_doomed could not be made again" in end["message"]
    assert end["afterwards"] == 3

"""Two engines that keepers bring, and the gateway's own: who runs what, and what a person sees of it."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.errors import Code
from bailiwick.testing.asking import ENDLESS, failure, in_background, rows, running_queries, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.keepers import KeptEngine, admitting, new_token_file
from bailiwick.testing.told import Told

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SLOW_TO_BEGIN = (
    "SELECT count(*) FROM range(0, 100000000, 1, 4) WHERE hash(id, 'x') % 1000 = 7 AND hash(id, 'y') % 7 < 3"
)
ROWS_TO_COME = 9_600
# Gives the rows of each of its tasks as soon as that is done, and takes some seconds for all.
SLOW_TO_END = (
    f"SELECT id, sha2(repeat(cast(id AS STRING), 20000), 512) AS digest FROM range(0, {ROWS_TO_COME}, 1, 24)"
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Fleet"]:
    directory = tmp_path_factory.mktemp("fleet")
    token_file = new_token_file(directory / "keeper-token")
    settings = {**admitting(token_file), "BAILIWICK__POOL__REACHABLE_WAIT_S": "0.2"}
    with running_gateway(directory / "data", settings=settings) as gateway:
        engines = [
            KeptEngine(
                name,
                directory / name,
                f"http://{gateway.http_address}",
                token_file,
                arguments=("--memory", "1g", "--cores", "1"),
            )
            for name in ("left", "right")
        ]
        try:
            yield Fleet(gateway, *engines)
        finally:
            for engine in engines:
                engine.end()


class Fleet:
    def __init__(self, gateway: RunningGateway, left: KeptEngine, right: KeptEngine) -> None:
        self.gateway, self.left, self.right = gateway, left, right

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return rows(self.gateway, sql)

    def placed(self, placement: str, sql: str) -> list[tuple[Any, ...]]:
        """The same by a connection that says where it wants to run."""
        header = {"adbc.flight.sql.rpc.call_header.bailiwick-placement": placement}
        with self.gateway.connect(options=header) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    def health(self) -> dict[str, str]:
        return dict(self.ask("SELECT node_id, health FROM system.runtime.nodes"))

    def wait_healthy(self, *names: str) -> None:
        wait_until(
            f"{names} are healthy", lambda: all(self.health().get(name) == "healthy" for name in names), 120
        )

    def last(self, sql: str) -> tuple[Any, ...]:
        """Where the newest query of this text ran, whether that was a fallback, and what was tried before."""
        return self.ask(
            "SELECT node_id, is_fallback, failed_attempts FROM system.runtime.queries "
            f"WHERE sql = '{sql}' ORDER BY created_at DESC LIMIT 1"
        )[0]


def test_with_no_engine_joined_a_query_is_a_configuration_error_that_says_what_to_do(fleet: Fleet) -> None:
    error = failure(fleet.gateway, "SELECT 11")
    assert "Configuration error: placement is `require`" in str(error)
    assert "bailiwick engine" in str(error)


def test_one_who_prefers_other_engines_gets_the_own_one_and_is_told(fleet: Fleet) -> None:
    assert fleet.placed("prefer", "SELECT 12") == [(12,)]
    assert fleet.last("SELECT 12")[:2] == ("embedded", True)


def test_engines_that_join_are_used_seconds_later_and_a_query_says_where_it_ran(fleet: Fleet) -> None:
    fleet.left.start()
    fleet.right.start()
    fleet.left.wait_joined()
    fleet.right.wait_joined()
    fleet.wait_healthy("left", "right")
    fleet.ask("CREATE NAMESPACE fleet")
    fleet.ask("CREATE TABLE fleet.t AS SELECT id, id % 7 AS k FROM range(10000)")
    assert fleet.ask("SELECT k, count(*) FROM fleet.t GROUP BY k ORDER BY k LIMIT 1") == [(0, 1429)]
    assert fleet.last("SELECT k, count(*) FROM fleet.t GROUP BY k ORDER BY k LIMIT 1")[0] in ("left", "right")
    nodes = fleet.ask("SELECT node_id, kind, class FROM system.runtime.nodes ORDER BY node_id")
    assert nodes == [
        ("embedded", "embedded", "general"),
        ("left", "joined", "general"),
        ("right", "joined", "general"),
    ]


def test_queries_at_the_same_time_are_spread_over_the_engines(fleet: Fleet) -> None:
    with in_background(lambda: fleet.ask("SELECT count(*) AS one " + SLOW_TO_BEGIN[16:])):
        fleet.ask("SELECT count(*) AS two " + SLOW_TO_BEGIN[16:])
    ran = {
        fleet.last(f"SELECT count(*) AS {which} " + _quoted(SLOW_TO_BEGIN[16:]))[0]
        for which in ("one", "two")
    }
    assert ran == {"left", "right"}


def test_placement_local_runs_on_the_own_engine(fleet: Fleet) -> None:
    assert fleet.placed("local", "SELECT sum(id) FROM fleet.t") == [(49995000,)]
    assert fleet.last("SELECT sum(id) FROM fleet.t")[:2] == ("embedded", False)


def test_a_read_whose_engine_dies_is_answered_by_the_other_one(fleet: Fleet) -> None:
    expected = fleet.placed("local", SLOW_TO_BEGIN)
    with in_background(lambda: fleet.ask(SLOW_TO_BEGIN)) as answer:
        node = wait_until("it runs", lambda: _running_on(fleet))
        victim = fleet.left if node == "left" else fleet.right
        os.kill(victim.engine_pid, signal.SIGKILL)
        assert answer.result(120) == expected
    ran_on, _, attempts = fleet.last(_quoted(SLOW_TO_BEGIN))
    assert ran_on != node
    assert node in str(attempts)
    fleet.wait_healthy("left", "right")


@pytest.mark.full
def test_a_read_whose_engine_dies_after_its_first_row_is_not_tried_again_and_its_client_is_told(
    fleet: Fleet,
) -> None:
    with fleet.gateway.connect() as connection, connection.cursor() as cursor:
        cursor.execute(SLOW_TO_END)
        reader = cursor.fetch_record_batch()
        seen = reader.read_next_batch().column("id").to_pylist()
        node = wait_until("it runs", lambda: _running_on(fleet))
        victim = fleet.left if node == "left" else fleet.right
        os.kill(victim.engine_pid, signal.SIGKILL)
        with pytest.raises((AdbcError, pa.ArrowException, OSError)) as broken:
            _read_to_the_end(reader, seen)
    # Never the end of a result: an error of ours, and before it rows of one attempt only.
    assert Told.by(broken.value).code == Code.EXECUTION_FAILED
    assert 0 < len(seen) < ROWS_TO_COME
    assert len(set(seen)) == len(seen)
    assert fleet.last(SLOW_TO_END)[::2] == (node, [])
    state = f"SELECT state, error_code FROM system.runtime.queries WHERE sql = '{SLOW_TO_END}'"
    assert fleet.ask(state) == [("failed", "EXECUTION_FAILED")]
    fleet.wait_healthy("left", "right")


def test_a_keeper_that_is_stopped_lets_its_query_end_and_work_goes_elsewhere(fleet: Fleet) -> None:
    with in_background(lambda: fleet.ask(SLOW_TO_BEGIN)) as answer:
        node = wait_until("it runs", lambda: _running_on(fleet))
        leaving = fleet.left if node == "left" else fleet.right
        os.kill(leaving.pid, signal.SIGTERM)
        for number in range(5):
            assert fleet.ask(f"SELECT {number}") == [(number,)]
        answer.result(120)
    assert fleet.last(_quoted(SLOW_TO_BEGIN))[::2] == (node, [])
    wait_until("it has left", lambda: fleet.health().get(node) != "healthy" and not leaving.is_alive)
    leaving.mend()
    fleet.wait_healthy("left", "right")


def test_cancelling_stops_the_work_on_an_engine_that_joined(fleet: Fleet) -> None:
    with in_background(lambda: failure(fleet.gateway, ENDLESS)) as answer:
        (query_id,) = wait_until("it runs", lambda: running_queries(fleet.gateway, "CROSS JOIN"))
        fleet.ask(f"CANCEL QUERY '{query_id}'")
        assert "cancelled" in str(answer.result(30))
    wait_until(
        "nothing is at work",
        lambda: fleet.ask("SELECT sum(running) FROM system.runtime.nodes") == [(0,)],
    )


def _read_to_the_end(reader: pa.RecordBatchReader, seen: list[int]) -> None:
    for batch in reader:
        seen += batch.column("id").to_pylist()


def _running_on(fleet: Fleet) -> str:
    found = fleet.ask("SELECT node_id FROM system.runtime.nodes WHERE running > 0 AND kind = 'joined'")
    return str(found[0][0]) if found else ""


def _quoted(sql: str) -> str:
    return sql.replace("'", "''")

"""What queries shuffle stands on the engine's disk for as long as they run, however they end."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.asking import failure, in_background, rows, running_queries, value, wait_until
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(240)]

GONE_WITHIN_S: Final = 10.0
GROUPED: Final = "SELECT id % 50000 AS k, count(*) AS n FROM range(0, 1000000, 1, 8) GROUP BY 1"
# The same exchange twice, which Spark does once.
REUSED: Final = f"WITH g AS ({GROUPED}) SELECT sum(a.n * b.n), count(*) FROM g a JOIN g b ON a.k = b.k"
AT_ONCE: Final = 4
ROUNDS: Final = 5
# Each task writes what it shuffles within a second, and there are far more of them than the test waits for.
ENDLESS_MAPS: Final = (
    "SELECT k, count(*) FROM "
    "(SELECT cast(hash(id) % 20000 AS STRING) AS k FROM range(0, 4000000000, 1, 8000)) GROUP BY 1"
)
# All is shuffled soon, and what follows takes for ever. Each row of `b` meets few others: a killed task looks
# up only once a batch of them is done, and until then all else, also what warms up, waits for its place.
ENDLESS_AFTERWARDS: Final = (
    "SELECT sum(g.k * b.id % 7) FROM (SELECT id % 500 AS k FROM range(0, 1000000, 1, 8) GROUP BY 1) g "
    "CROSS JOIN range(0, 4000000000, 1, 40) b"
)
FAILING_MAPS: Final = (
    "SELECT k, count(*) FROM (SELECT if(id = 999999, raise_error('bang'), id) AS k "
    "FROM range(0, 1000000, 1, 40)) GROUP BY 1"
)
FAILING_AFTERWARDS: Final = f"SELECT if(k = 7, raise_error('bang'), k) FROM ({GROUPED})"


def left(gateway: RunningGateway, prefix: str = "") -> list[str]:
    """What is there of blocks: those that were shuffled, spilled, broadcast, or are being written."""
    blocks = (gateway.data_dir / "spill").glob("blockmgr-*/*/*")
    return sorted(block.name for block in blocks if block.name.startswith(prefix))


def wait_gone(gateway: RunningGateway, prefix: str = "shuffle_") -> None:
    try:
        wait_until("gone", lambda: not left(gateway, prefix), GONE_WITHIN_S)
    except AssertionError as error:
        raise AssertionError(f"{error}: {left(gateway, prefix)}") from None


@pytest.fixture(autouse=True)
def _empty(gateway: RunningGateway) -> None:
    """Warming up shuffles too."""
    wait_until("nothing of warming up", lambda: not left(gateway, "shuffle_"))


def test_what_was_shuffled_goes_when_the_answer_is_there_and_the_answers_are_right(
    gateway: RunningGateway,
) -> None:
    def ask(_: int) -> list[list[tuple[object, ...]]]:
        with gateway.connect() as connection, connection.cursor() as cursor:
            answers = []
            for _round in range(ROUNDS):
                cursor.execute(REUSED)
                answers.append(cursor.fetchall())
            return answers

    with ThreadPoolExecutor(AT_ONCE) as pool:
        asking = [pool.submit(ask, number) for number in range(AT_ONCE)]
        wait_until("something is shuffled", lambda: left(gateway, "shuffle_"))
        assert [one.result() for one in asking] == [[[(50000 * 20 * 20, 50000)]] * ROUNDS] * AT_ONCE
    wait_gone(gateway)


def test_also_of_an_exchange_that_the_plan_does_not_show(gateway: RunningGateway) -> None:
    """Spark leaves these until Java collects garbage."""
    sql = "SELECT id FROM range(0, 1000000, 1, 8) ORDER BY hash(id), id LIMIT 10"
    assert len(rows(gateway, sql)) == 10
    inside = f"SELECT count(*) FROM ({GROUPED}) g JOIN ({sql}) t ON g.k = t.id % 50000"
    assert value(gateway, inside) == 10
    wait_gone(gateway)


def test_also_when_what_is_written_into_a_table_was_shuffled(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE NAMESPACE spilled")
    rows(gateway, f"CREATE TABLE spilled.t AS {GROUPED}")
    wait_gone(gateway)
    rows(gateway, "INSERT INTO spilled.t SELECT k, sum(n) FROM spilled.t GROUP BY k")
    rows(gateway, "DELETE FROM spilled.t WHERE k IN (SELECT k FROM spilled.t GROUP BY k HAVING k % 2 = 1)")
    assert value(gateway, "SELECT sum(n) FROM spilled.t") == 1_000_000
    wait_gone(gateway)


@pytest.mark.parametrize(
    "sql",
    [pytest.param(FAILING_MAPS, id="while shuffling"), pytest.param(FAILING_AFTERWARDS, id="afterwards")],
)
def test_also_when_the_query_fails(gateway: RunningGateway, sql: str) -> None:
    assert "bang" in failure(gateway, sql)
    wait_gone(gateway)


@pytest.mark.parametrize(
    ("sql", "maps"),
    [
        pytest.param(ENDLESS_MAPS, 4, id="while shuffling"),
        # All of them: a task that is done in the moment of the cancel may leave its file behind.
        pytest.param(ENDLESS_AFTERWARDS, 8, id="afterwards"),
    ],
)
def test_also_when_the_query_is_cancelled(gateway: RunningGateway, sql: str, maps: int) -> None:
    _cancel_when(
        gateway, sql, lambda: sum(name.endswith(".data") for name in left(gateway, "shuffle_")) >= maps
    )
    wait_gone(gateway)


def test_what_killed_tasks_were_writing_goes_when_others_have_worked_there_a_while_later(
    gateway: RunningGateway,
) -> None:
    # Of tests before this one some may still be there, and come.
    before = set(left(gateway, "temp_shuffle_"))
    _cancel_when(gateway, ENDLESS_MAPS, lambda: set(left(gateway, "temp_shuffle_")) - before)

    def is_gone() -> bool:
        assert value(gateway, REUSED) == 50000 * 20 * 20
        return not left(gateway, "temp_shuffle_")

    wait_until("gone", is_gone, 60)
    # Neither what was sorted nor what was broadcast is left: nothing is.
    wait_until("empty", lambda: not left(gateway), GONE_WITHIN_S)


def _cancel_when(gateway: RunningGateway, sql: str, condition: Callable[[], object]) -> None:
    with gateway.connect() as connection, connection.cursor() as cursor:

        def ask() -> str:
            try:
                cursor.execute(sql)
                cursor.fetchall()
            except AdbcError as error:
                return str(error)
            return "it ended"

        with in_background(ask) as answer:
            # What is on the disk before its first task is another's, and the driver forgets a cancel that
            # comes before the query.
            (query_id,) = wait_until("it runs", lambda: running_queries(gateway, sql), 60)
            tasks = f"SELECT count(*) FROM system.runtime.tasks WHERE query_id = '{query_id}'"
            wait_until("its tasks run", lambda: value(gateway, tasks), 60)
            wait_until("it has shuffled enough", condition, 60)
            cursor.adbc_cancel()
            assert "ancel" in answer.result(30)

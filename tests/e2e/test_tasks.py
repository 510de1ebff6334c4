"""`system.runtime.tasks` and `.nodes` on a real gateway: who sees what, while it happens and after."""

import subprocess
from typing import Any

import pytest

from bailiwick.testing.asking import ENDLESS, failure, in_background, rows, running_queries, wait_until
from bailiwick.testing.gateway import RunningGateway, clean_environment, command

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PASSWORD = "a long password"
ROWS = 1_000
COUNTED = "SELECT k, count(*) FROM lake.tasks.t GROUP BY k"


@pytest.fixture(scope="module", autouse=True)
def people(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS tasks")
    rows(gateway, f"CREATE TABLE tasks.t AS SELECT id, id % 7 AS k FROM range({ROWS})")
    for name, role in (("whole", "reader"), ("partial", "reader"), ("ops", "operator"), ("else", "reader")):
        rows(gateway, f"CREATE USER tasks_{name} PASSWORD '{PASSWORD}' ROLES ({role})")
    for name in ("whole", "partial"):
        rows(gateway, f"GRANT SELECT ON TABLE lake.tasks.t TO USER tasks_{name}")
    rows(
        gateway,
        "CREATE ROW FILTER tasks_few ON TABLE lake.tasks.t FOR USER tasks_partial USING (id < 10)",
    )


def ask(gateway: RunningGateway, sql: str, who: str) -> list[tuple[Any, ...]]:
    return rows(gateway, sql, f"tasks_{who}", PASSWORD)


def newest(gateway: RunningGateway, who: str) -> str:
    """The id of the newest query of the counted text by `who`."""
    found = rows(
        gateway,
        f"SELECT query_id FROM system.runtime.queries WHERE principal = 'tasks_{who}' AND sql = '{COUNTED}' "
        "ORDER BY created_at DESC LIMIT 1",
    )
    return str(found[0][0])


def tasks(gateway: RunningGateway, query_id: str, who: str | None = None) -> list[tuple[Any, ...]]:
    sql = (
        "SELECT state, node_id, elapsed_ms, input_rows, output_rows, bytes, spilled_bytes "
        f"FROM system.runtime.tasks WHERE query_id = '{query_id}'"
    )
    return rows(gateway, sql) if who is None else ask(gateway, sql, who)


def ended_tasks(gateway: RunningGateway, query_id: str, who: str | None = None) -> list[tuple[Any, ...]]:
    def look() -> list[tuple[Any, ...]]:
        found = tasks(gateway, query_id, who)
        return found if found and all(task[0] == "finished" for task in found) else []

    return wait_until(f"the tasks of {query_id} are known", look)


def test_one_who_sees_all_rows_sees_how_many_were_read(gateway: RunningGateway) -> None:
    ask(gateway, COUNTED, "whole")
    query_id = newest(gateway, "whole")
    found = ended_tasks(gateway, query_id, "whole")
    assert {task[1] for task in found} == {"embedded"}
    assert ROWS in [task[3] for task in found]
    assert found == ended_tasks(gateway, query_id)


def test_one_for_whom_rows_are_hidden_sees_tasks_without_counts(gateway: RunningGateway) -> None:
    """How many rows were read would tell how many were hidden."""
    assert sum(count for _, count in ask(gateway, COUNTED, "partial")) == 10
    query_id = newest(gateway, "partial")
    found = ended_tasks(gateway, query_id, "partial")
    assert {task[3:] for task in found} == {(None, None, None, None)}
    assert all(task[2] >= 0 for task in found)
    # By the filter files are skipped: less than the whole table was read, which must not be told.
    assert 10 <= max(task[3] for task in ended_tasks(gateway, query_id)) <= ROWS


def test_tasks_of_others_are_for_operators_without_counts_and_for_nobody_else(
    gateway: RunningGateway,
) -> None:
    ask(gateway, COUNTED, "whole")
    query_id = newest(gateway, "whole")
    assert {task[3:] for task in ended_tasks(gateway, query_id, "ops")} == {(None, None, None, None)}
    assert tasks(gateway, query_id, "else") == []
    assert tasks(gateway, query_id, "partial") == []


def test_a_query_at_work_has_tasks_at_work(gateway: RunningGateway) -> None:
    with in_background(lambda: failure(gateway, ENDLESS)) as ended:
        (query_id,) = wait_until("it runs", lambda: running_queries(gateway, ENDLESS))
        wait_until("a task is at work", lambda: "running" in {task[0] for task in tasks(gateway, query_id)})
        rows(gateway, f"CANCEL QUERY '{query_id}'")
        assert "QUERY_CANCELLED" in ended.result(60)


def test_nodes_say_how_well_they_are(gateway: RunningGateway) -> None:
    wanted = "SELECT node_id, class, state FROM system.runtime.nodes"
    assert rows(gateway, wanted) == [("embedded", "general", "ready")]
    assert ask(gateway, wanted, "else") == []


def test_a_picture_of_it_all_is_one_command_away(gateway: RunningGateway) -> None:
    done = subprocess.run(
        [command(), "top", "--once", "--user", "admin"],
        env=clean_environment({"BAILIWICK_URL": gateway.uri, "BAILIWICK_PASSWORD": gateway.admin_password}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "embedded" in done.stdout

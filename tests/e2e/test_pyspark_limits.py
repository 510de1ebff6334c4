"""Stock PySpark is held to what every door is held to: deadlines, places, turns, records."""

import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from stock_pyspark import ask, start, told

from bailiwick.testing.asking import ENDLESS, rows, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SETTINGS = {
    "BAILIWICK__POOL__SESSIONS": "2",
    "BAILIWICK__POOL__LONG_RUNNING_MAX": "0",
    "BAILIWICK__POOL__RUNNING_PER_TENANT_MAX": "1",
    "BAILIWICK__POOL__QUEUE_LENGTH_PER_TENANT_MAX": "1",
}
CONFIG = "[limits.roles.reader]\ntimeout_s = 4\n"
WATCHED = """
def seen(stages, inflight_tasks, operation_id, done):
    if not done:
        tell([[stage.stage_id, stage.num_tasks, stage.num_completed_tasks] for stage in stages])
spark.registerProgressHandler(seen)
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """One place for each tenant, and room for one more who waits. Readers have a short deadline."""
    place = tmp_path_factory.mktemp("limits")
    (config := place / "bailiwick.toml").write_text(CONFIG)
    with running_gateway(place / "data", settings=SETTINGS, arguments=["--config", str(config)]) as gateway:
        rows(gateway, "CREATE NAMESPACE limits")
        for name in ("numbers", "hidden"):
            rows(gateway, f"CREATE TABLE limits.{name} AS SELECT id FROM range(10)")
        for name, role, tenant in (
            ("rita", "reader", "acme"),
            ("ann", "writer", "globex"),
            ("abe", "writer", "globex"),
            ("ada", "writer", "globex"),
        ):
            rows(gateway, f"CREATE USER {name} PASSWORD 'a long password' ROLES ({role}) TENANT '{tenant}'")
        rows(gateway, "GRANT SELECT ON TABLE lake.limits.numbers TO USER rita")
        yield gateway


def queries(gateway: RunningGateway, who: str, where: str = "true") -> list[tuple[Any, ...]]:
    sql = "SELECT query_id, state, error_code FROM system.runtime.queries"
    return rows(gateway, f"{sql} WHERE door = 'spark_connect' AND principal = '{who}' AND {where}")


def is_idle(gateway: RunningGateway) -> bool:
    """Whether its engine computes nothing for anybody."""
    return float(psutil.Process(gateway.engine_pid).cpu_percent(interval=0.5)) < 60


def test_a_query_ends_with_its_deadline_and_spark_with_it(house: RunningGateway) -> None:
    (of_text, of_frame, after) = ask(
        house,
        f"""
        tell(raised(lambda: spark.sql({ENDLESS!r}).collect()))
        tell(raised(lambda: spark.range(1 << 40).selectExpr("max(id % 7)").collect()))
        tell(spark.range(3).count())
        """,
        "rita",
    )
    assert of_text == of_frame == ["SparkException", "BAILIWICK_QUERY_TIMEOUT", "57014"]
    assert after == 3
    assert len(queries(house, "rita", "error_code = 'QUERY_TIMEOUT'")) == 2
    wait_until("idle", lambda: is_idle(house), 10)


def test_an_interrupt_stops_spark_within_two_seconds(house: RunningGateway) -> None:
    client = start(
        house,
        f"""
        import threading
        def interrupt():
            sys.stdin.readline()
            tell(len(spark.interruptAll()))
        thread = threading.Thread(target=interrupt)
        thread.start()
        tell(raised(lambda: spark.sql({ENDLESS!r}).collect())[1])
        thread.join()
        """,
        "ann",
    )
    assert client.stdin is not None
    wait_until("running", lambda: queries(house, "ann", "state = 'running'"), 60)
    client.stdin.write("now\n")
    client.stdin.flush()
    asked_at = time.monotonic()
    wait_until("cancelled", lambda: not queries(house, "ann", "state = 'running'"), 10)
    assert time.monotonic() - asked_at < 3.0
    assert set(told(client)) == {1, "OPERATION_CANCELED"}
    wait_until("idle", lambda: is_idle(house), 10)


def test_who_waits_sees_progress_and_who_finds_no_room_comes_again(house: RunningGateway) -> None:
    busy = start(house, f"tell(raised(lambda: spark.sql({ENDLESS!r}).collect())[1])", "ann")
    wait_until("running", lambda: queries(house, "ann", "state = 'running'"), 60)
    waiting = start(house, WATCHED + "tell(spark.range(3).count())", "abe")
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "[[-1, 1, 0]]\n"
    assert [state for _, state, _ in queries(house, "abe")] == ["queued"]
    turned_away = start(house, "tell(spark.range(4).count())", "ada")
    wait_until("turned away", lambda: queries(house, "ada", "error_code = 'RESOURCE_EXHAUSTED'"), 60)
    ((query_id, *_),) = queries(house, "ann", "state = 'running'")
    rows(house, f"CANCEL QUERY '{query_id}'")
    assert told(busy) == ["OPERATION_CANCELED"]
    assert told(waiting)[-1] == 3
    assert told(turned_away) == [4]


def test_what_frames_did_is_in_the_audit_log(house: RunningGateway) -> None:
    ask(house, 'spark.table("lake.limits.numbers").filter("id > 7").collect()', "rita")
    ask(house, 'raised(lambda: spark.table("lake.limits.hidden").collect())', "rita")
    sql = (
        "SELECT outcome, code, tables_read, rows FROM system.runtime.audit WHERE principal = 'rita' "
        "AND door = 'spark_connect' AND kind = 'query' AND what LIKE '%lake.limits.%' ORDER BY sequence"
    )
    assert rows(house, sql) == [
        ("finished", None, ["lake.limits.numbers"], 2),
        ("failed", "TABLE_NOT_FOUND", [], None),
    ]

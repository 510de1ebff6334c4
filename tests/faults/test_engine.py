"""The engine is killed, stopped, filled up. People get a typed answer, and soon a working engine."""

import os
import signal
import time

import pytest

from bailiwick.testing.asking import ENDLESS, failure, in_background, running_queries, value, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(300)]

TYPED_WITHIN_S = 2.0
BACK_WITHIN_S = 60.0


def test_a_killed_engine_fails_its_query_within_two_seconds_and_the_next_one_works(
    gateway: RunningGateway,
) -> None:
    with in_background(lambda: failure(gateway, ENDLESS)) as doomed:
        wait_until("running", lambda: running_queries(gateway, "CROSS JOIN"))
        os.kill(gateway.engine_pid, signal.SIGKILL)
        killed_at = time.monotonic()
        message = doomed.result(timeout=30)
        assert (
            time.monotonic() - killed_at < TYPED_WITHIN_S + 1.0
        )  # the second beyond is the test's own slack
    assert "EXECUTION_FAILED" in message
    # No retry here by hand: the gateway lets the next query wait until the engine is back.
    assert value(gateway, "SELECT 40 + 2") == 42


def test_system_tables_answer_while_the_engine_is_away(gateway: RunningGateway) -> None:
    os.kill(gateway.engine_pid, signal.SIGKILL)
    assert value(gateway, "SELECT count(*) FROM system.runtime.nodes") >= 1
    # A query that meets the engine in the moment of its death is told so; later ones wait for the new one.
    wait_until("answering again", lambda: value(gateway, "SELECT 1") == 1, BACK_WITHIN_S)


def test_a_stopped_engine_meets_the_deadline(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    settings = {"BAILIWICK__ENGINE__MEMORY": "1g", "BAILIWICK__LIMITS__TIMEOUT_S": "5"}
    with running_gateway(tmp_path_factory.mktemp("stopped") / "data", settings=settings) as impatient:
        engine = impatient.engine_pid
        os.kill(engine, signal.SIGSTOP)
        try:
            started = time.monotonic()
            message = failure(impatient, "SELECT count(*) FROM range(1000000)")
            assert "QUERY_TIMEOUT" in message
            assert "timed out after 5s" in message
            assert time.monotonic() - started < 15
        finally:
            os.kill(engine, signal.SIGCONT)
        wait_until("answering again", lambda: value(impatient, "SELECT 1") == 1, BACK_WITHIN_S)


def test_a_partition_that_cannot_fit_is_a_typed_error_and_the_engine_is_back(gateway: RunningGateway) -> None:
    # One task must hold all of its result: 6 GB of strings in one partition of a 1 GB engine.
    huge = "SELECT id, repeat(sha2(cast(id AS STRING), 512), 16) AS text FROM range(0, 3000000, 1, 1)"
    message = failure(gateway, huge)
    assert "RESOURCE_EXHAUSTED" in message or "EXECUTION_FAILED" in message
    assert "memory" in message
    assert value(gateway, "SELECT 1") == 1
    assert gateway.process.poll() is None

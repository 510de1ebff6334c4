"""What Prometheus reads, and that nothing a client types becomes a label."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bailiwick.doors.flight_sql import caller as flight_sql
from bailiwick.doors.spark_connect import sessions as spark_connect
from bailiwick.errors import Code
from bailiwick.telemetry.metrics import QUERY_BUCKETS_S, Metrics


def values(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return values(metrics)[name, frozenset(labels.items())]


def test_a_query_that_ended_is_counted_once_with_its_code() -> None:
    metrics = Metrics()
    metrics.query_ended(
        door="flight_sql", kind="read", outcome="failed", code=Code.SYNTAX_ERROR, seconds=0.02, queued_s=0.5
    )
    labels = {"door": "flight_sql", "kind": "read", "outcome": "failed"}
    assert value(metrics, "bailiwick_queries_total", **labels, code="SYNTAX_ERROR") == 1
    assert value(metrics, "bailiwick_query_seconds_sum", **labels) == 0.02
    assert value(metrics, "bailiwick_query_seconds_bucket", **labels, le="0.02") == 1
    assert value(metrics, "bailiwick_query_seconds_bucket", **labels, le="0.015") == 0
    assert value(metrics, "bailiwick_queue_seconds_sum") == 0.5


@pytest.mark.parametrize("door", [flight_sql.DOOR, spark_connect.DOOR])
def test_every_door_is_counted_under_its_name(door: str) -> None:
    metrics = Metrics()
    metrics.query_ended(door=door, kind="read", outcome="finished", code=None, seconds=0.02)
    labels = {"door": door, "kind": "read", "outcome": "finished", "code": ""}
    assert value(metrics, "bailiwick_queries_total", **labels) == 1


def test_two_gateways_in_one_process_do_not_count_together() -> None:
    one, other = Metrics(), Metrics()
    one.login_failed("password")
    assert value(one, "bailiwick_login_failures_total", method="password") == 1
    assert ("bailiwick_login_failures_total", frozenset({("method", "password")})) not in values(other)


def test_every_name_is_ours() -> None:
    metrics = Metrics()
    metrics.facade_answered(route="/v1/config", status=200, seconds=0.001)
    assert all(name.startswith("bailiwick_") for name, _ in values(metrics))


def test_what_a_client_types_never_becomes_a_label() -> None:
    metrics = Metrics()
    metrics.query_ended(door="x" * 1000, kind="'; DROP", outcome="?", code=None, seconds=1)
    metrics.login_failed("ann")
    assert (
        value(metrics, "bailiwick_queries_total", door="other", kind="other", outcome="other", code="") == 1
    )
    assert value(metrics, "bailiwick_login_failures_total", method="other") == 1


def test_the_pool_the_engine_and_the_spool_have_their_gauges() -> None:
    metrics = Metrics()
    metrics.sessions(idle=2, leased=1)
    metrics.queries_running.set(1)
    metrics.queue_length.set(4)
    metrics.spool_bytes.set(1 << 20)
    metrics.engine_memory_bytes.set(1 << 30)
    metrics.engine_restarted("out_of_memory")
    assert value(metrics, "bailiwick_pool_sessions", state="idle") == 2
    assert value(metrics, "bailiwick_pool_sessions", state="warming") == 0
    assert value(metrics, "bailiwick_queue_length") == 4
    assert value(metrics, "bailiwick_spool_bytes") == 1 << 20
    assert value(metrics, "bailiwick_engine_restarts_total", reason="out_of_memory") == 1


def test_buckets_are_fine_where_warm_queries_are() -> None:
    around = [bucket for bucket in QUERY_BUCKETS_S if 0.01 <= bucket <= 0.1]
    assert len(around) >= 7
    assert list(QUERY_BUCKETS_S) == sorted(set(QUERY_BUCKETS_S))

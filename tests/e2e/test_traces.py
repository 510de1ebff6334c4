"""One trace a query, from the door to Spark's operation, in a collector that a stock client's trace joins."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from adbc_driver_manager import Error as AdbcError

from bailiwick.testing.asking import wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.trace_collector import SeenSpan, TraceCollector, running_collector

pytestmark = pytest.mark.spark

DOOR = "arrow.flight.protocol.FlightService"
TRACEPARENT = "adbc.flight.sql.rpc.call_header.traceparent"
TABLE = "lake.traced.customers_of_ours"


@dataclass(frozen=True, slots=True)
class Traced:
    gateway: RunningGateway
    collector: TraceCollector

    def ask(self, sql: str, trace_id: str | None = None) -> list[tuple[Any, ...]]:
        options = {} if trace_id is None else {TRACEPARENT: f"00-{trace_id}-00f067aa0ba902b7-01"}
        with self.gateway.connect(options=options) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def query_of(self, text: str) -> tuple[str, str]:
        """Id and node of the one query with this text, as the gateway tells them."""
        [row] = self.ask(f"SELECT query_id, node_id FROM system.runtime.queries WHERE sql = '{text}'")
        return row[0], row[1]

    def trace_of(self, text: str) -> tuple[SeenSpan, dict[str, list[SeenSpan]]]:
        """The span of that query, and all of its trace."""
        query_id, _ = self.query_of(text)
        wait_until("the query's span has come", lambda: self.collector.of_query(query_id) is not None)
        query = self.collector.of_query(query_id)
        assert query is not None
        wait_until("its call's, too", lambda: f"{DOOR}/DoGet" in self.collector.trace(query.trace_id))
        return query, self.collector.trace(query.trace_id)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with running_collector() as collector:
        settings = {
            "BAILIWICK__ENGINE__MEMORY": "1g",
            "BAILIWICK__LOGGING__FORMAT": "json",
            "BAILIWICK__TRACING__ENDPOINT": collector.url,
            "BAILIWICK__TRACING__HEADERS": "x-api-key=opensesame",
        }
        with running_gateway(tmp_path_factory.mktemp("traces") / "data", settings=settings) as gateway:
            house = Traced(gateway, collector)
            house.ask("CREATE SCHEMA lake.traced")
            house.ask(f"CREATE TABLE {TABLE} AS SELECT id FROM range(10)")
            yield house


def test_a_callers_trace_goes_from_the_door_to_sparks_operation(traced: Traced) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    sql = f"SELECT sum(id) AS joined FROM {TABLE}"
    assert traced.ask(sql, trace_id) == [(45,)]
    query, spans = traced.trace_of(sql)
    query_id, node = traced.query_of(sql)
    assert query.trace_id == trace_id
    # The driver asked for other things, too: the door's own facts, for instance.
    [door] = [call for call in spans[f"{DOOR}/DoGet"] if call.span_id == query.parent_id]
    assert door.parent_id == "00f067aa0ba902b7"
    [queue], [lease], [deliver] = spans["queue"], spans["lease"], spans["deliver"]
    assert {queue.parent_id, lease.parent_id, deliver.parent_id} == {query.span_id}
    [plan], [execute] = spans["plan"], spans["execute"]
    assert {plan.parent_id, execute.parent_id} == {lease.span_id}
    assert queue.ended_ns <= plan.began_ns <= plan.ended_ns <= execute.began_ns <= deliver.ended_ns
    facts = {"bailiwick.query_id": query_id, "bailiwick.state": "finished", "bailiwick.rows": 1}
    assert facts.items() <= query.attributes.items()
    assert lease.attributes["bailiwick.engine.node"] == node
    assert uuid.UUID(lease.attributes["bailiwick.spark.operation_id"])
    loads = [span for name, found in spans.items() if name.startswith("catalog ") for span in found]
    assert query.span_id in {load.parent_id for load in loads}
    assert {load.parent_id for load in loads} <= {query.span_id, *(span.span_id for span in spans["prepare"])}


def test_asking_and_fetching_are_one_trace_without_a_caller_too(traced: Traced) -> None:
    sql = f"SELECT max(id) AS alone FROM {TABLE}"
    assert traced.ask(sql) == [(9,)]
    query, spans = traced.trace_of(sql)
    [asked], [fetched] = spans[f"{DOOR}/GetFlightInfo"], spans[f"{DOOR}/DoGet"]
    assert asked.parent_id == ""
    assert (fetched.parent_id, query.parent_id) == (asked.span_id, fetched.span_id)
    assert spans["lease"][0].parent_id == query.span_id


def test_every_line_about_a_query_names_its_trace(traced: Traced) -> None:
    sql = f"SELECT min(id) AS logged FROM {TABLE}"
    traced.ask(sql)
    query, _ = traced.trace_of(sql)
    lines = [json.loads(line) for line in traced.gateway.log_text().splitlines() if line.startswith("{")]
    about = [line for line in lines if line.get("query_id") == query.attributes["bailiwick.query_id"]]
    assert [line["event"] for line in about].count("query_ended") == 1
    assert {line.get("trace_id") for line in about} == {query.trace_id}


def test_a_failure_is_seen_where_it_happened(traced: Traced) -> None:
    sql = f"SELECT 1 / (id - id) AS failed FROM {TABLE}"
    with pytest.raises(AdbcError):
        traced.ask(sql)
    query, spans = traced.trace_of(sql)
    failed = {name for name, found in spans.items() for span in found if span.is_failed}
    assert failed == {"query", "lease", "execute", f"{DOOR}/DoGet"}
    assert query.attributes["error.type"] == "DIVISION_BY_ZERO"


def test_a_collector_learns_neither_texts_nor_names_nor_secrets(traced: Traced) -> None:
    sql = f"SELECT count(*) AS counted FROM {TABLE}"
    traced.ask(sql)
    traced.trace_of(sql)
    sent = b"".join(traced.collector.bodies)
    assert traced.collector.requests[0]["x-api-key"] == "opensesame"
    assert b"bailiwick.query_id" in sent
    for hidden in (
        "SELECT",
        "customers_of_ours",
        "admin",
        traced.gateway.admin_password,
        "opensesame",
        "Bearer",
    ):
        assert hidden.encode() not in sent
    assert "opensesame" not in traced.gateway.log_text()


def test_a_collector_in_trouble_is_no_trouble_for_queries(traced: Traced) -> None:
    traced.collector.answers = [(503, {}), (500, {})]
    for number in range(3):
        assert traced.ask(f"SELECT {number} AS undisturbed FROM {TABLE} LIMIT 1") == [(number,)]
    wait_until("it was in trouble", lambda: not traced.collector.answers)

    def told() -> bool:
        numbers = httpx.get(f"http://{traced.gateway.http_address}/metrics", trust_env=False).text
        return (
            'bailiwick_spans_total{outcome="lost"} 0.0' not in numbers and "bailiwick_spans_total" in numbers
        )

    wait_until("what was lost is counted", told)
    assert traced.ask("SELECT 1") == [(1,)]

# ruff: noqa: E501 - one attempt a line
"""Beside the rows: plans, counts, progress, metrics, logs and histories tell nothing that rows would not."""

import urllib.request

import pytest

from attacks.attempt import Attacker, Attempt, gives, harmless
from bailiwick._generated import FlightSql_pb2 as sql_messages
from bailiwick.testing.leaks import ask
from bailiwick.testing.policy_house import PASSWORD, House
from bailiwick.testing.raw_flight import descriptor, raw_flight

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SIDE_BY_SIDE = True

MODES = ("", "EXTENDED ", "COST ", "FORMATTED ", "CODEGEN ")
EXPLAINED = {
    "a simple filter": "SELECT ssn, email, salary FROM people WHERE id < 5",
    "a filter with a subquery": "SELECT comment, amount FROM orders",
    "a filter on a data column": "SELECT payload FROM events WHERE kind = 'click'",
    "a count": "SELECT count(*) FROM counted",
    "a view": "SELECT * FROM over_view",
    "a join": "SELECT p.ssn, o.comment FROM people p JOIN orders o ON o.person_id = p.id",
    "an older version": "SELECT * FROM people VERSION AS OF {snapshot_people_0}",
    "a write": "INSERT INTO lake.desk.explained SELECT id FROM people",
}
TELLING = (
    *("vault", "entitled", "'EU'", "= EU", "sha2(", "right(ssn", "somewhere", "<= 3"),
    *(
        "rowCount",
        "sizeInBytes",
        "numOutputRows",
        "number of output rows",
        "file:",
        ".parquet",
        "/warehouse/",
    ),
)
"""Words that only a rule, statistics of hidden rows, or a path would bring into a plan."""

PLANS: tuple[Attempt, ...] = tuple(
    harmless(f"EXPLAIN {mode}of {what}", f"EXPLAIN {mode}{sql}")
    for mode in MODES
    for what, sql in EXPLAINED.items()
)
OTHERS: tuple[Attempt, ...] = (
    harmless("a plan of a hidden table", "EXPLAIN SELECT * FROM lake.vault.secrets"),
    harmless("a plan with codegen of a hidden table", "EXPLAIN CODEGEN SELECT * FROM lake.vault.secrets"),
    harmless("a plan of a plan", "EXPLAIN EXTENDED EXPLAIN SELECT * FROM people"),
    harmless("a plan of a description", "EXPLAIN DESCRIBE QUERY SELECT * FROM people"),
    harmless("own queries in the history", "SELECT * FROM system.runtime.queries"),
    gives("others' queries in the history", "SELECT count(*) FROM system.runtime.queries WHERE principal <> 'ana'", rows=[(0,)]),
    gives("others' sessions", "SELECT count(*) FROM system.runtime.sessions WHERE principal <> 'ana'", rows=[(0,)]),
    harmless("engines", "SELECT * FROM system.runtime.nodes"),
    harmless("decisions", "SELECT * FROM system.runtime.policy_decisions"),
    gives("others' decisions", "SELECT count(*) FROM system.runtime.policy_decisions WHERE principal <> 'ana'", rows=[(0,)]),
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def target(house: House) -> None:
    with house.connected("ana") as connection:
        assert ask(connection, "CREATE TABLE lake.desk.explained (id INT)").code is None


@pytest.mark.parametrize("attempt", PLANS, ids=lambda attempt: attempt.id)
def test_a_plan_shows_neither_rules_nor_statistics(attacker: Attacker, attempt: Attempt) -> None:
    """facts/security, leaks beside the rows: EXPLAIN COST told row counts, EXPLAIN printed filters and masks."""
    outcome = attacker.judge(attempt)
    assert [word for word in TELLING if word in outcome.text] == [], outcome.text


@pytest.mark.parametrize("attempt", OTHERS, ids=lambda attempt: attempt.id)
def test_histories_and_plans_are_ones_own(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


def test_the_plan_names_the_policies_that_apply(attacker: Attacker) -> None:
    outcome = attacker.judge(harmless("policies in a plan", "EXPLAIN SELECT ssn FROM people"))
    assert "<policy eu_only>" in outcome.text


def test_metrics_tell_nothing_of_rows_and_names(attacker: Attacker, house: House) -> None:
    with urllib.request.urlopen(f"http://{house.gateway.http_address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    attacker.search("/metrics", text)
    assert [word for word in ("vault", "people", "eu_only", "ana") if word in text] == []
    attacker.noted(is_refused=False)


@pytest.mark.parametrize(
    "path", ["/", "/health", "/ready", "/iceberg/v1/config", "/iceberg/v1/lake/namespaces", "/jobs/", "/SQL/"]
)
def test_the_http_port_tells_nothing(attacker: Attacker, house: House, path: str) -> None:
    try:
        with urllib.request.urlopen(f"http://{house.gateway.http_address}{path}", timeout=10) as answer:
            text = answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
    attacker.search(path, text)
    assert [word for word in ("vault", "people", "house") if word in text] == []
    attacker.noted(is_refused=True)


def test_progress_tells_nothing(attacker: Attacker, house: House) -> None:
    with raw_flight(house.gateway.grpc_address, basic=("ana", PASSWORD)) as client:
        command = sql_messages.CommandStatementQuery(query="SELECT count(*) FROM lake.house.counted")
        text = str(client.poll(descriptor(command)))
    attacker.search("progress", text)
    attacker.noted(is_refused=False)


def test_what_a_result_says_of_itself_counts_only_its_rows(attacker: Attacker, house: House) -> None:
    """facts/security, leaks beside the rows: `metrics` gave the scan's numOutputRows."""
    with raw_flight(house.gateway.grpc_address, basic=("ana", PASSWORD)) as client:
        info = client.info(sql_messages.CommandStatementQuery(query="SELECT * FROM lake.house.counted"))
        messages = client.call("DoGet", info.endpoint[0].ticket.SerializeToString())
    text = f"{info} {info.total_records} {[message.decode('latin-1') for message in messages]}"
    attacker.search("a result's own metadata", text)
    assert info.total_records in (-1, 7)
    attacker.noted(is_refused=False)


def test_the_gateways_log_keeps_no_hidden_value(attacker: Attacker, house: House) -> None:
    """Statements of attempts stand in no log, nor do values that errors told."""
    attacker.search("the log", house.gateway.log_text())
    attacker.noted(is_refused=False)

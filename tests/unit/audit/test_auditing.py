"""An ended query becomes an entry that says who, what, which tables, which rules, and how it ended."""

from dataclasses import replace

import pytest

from bailiwick.audit.chain import kept
from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.catalog.call import Decided
from bailiwick.catalog.facade import CallDecided
from bailiwick.catalog.routes import Route
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, QueryId
from bailiwick.policy.model import Privilege
from bailiwick.queries.auditing import Reach, begun, commit_of, entry_of
from bailiwick.queries.policy_decisions import PolicyDecision
from bailiwick.queries.query import Failure, Query, State

ANN = Principal("ann", frozenset({"analyst"}), tenant="acme", actor="svc")
SQL = "SELECT * FROM sales.orders"
QUERY = Query(
    QueryId("q1"),
    "ann",
    "acme",
    "flight_sql",
    SQL,
    created_at=1.0,
    started_at=2.0,
    finished_at=3.0,
    state=State.FINISHED,
    rows=7,
)


def decided(table: str, action: str, *rules: str) -> PolicyDecision:
    return PolicyDecision("q1", 1.0, "ann", "svc", "acme", table, action, True, rules, 5)


def failed(code: Code, state: State = State.FAILED) -> Query:
    return replace(QUERY, state=state, failure=Failure(code, "…"))


def test_a_finished_query_is_told_whole() -> None:
    reach = Reach(
        reads=("lake.sales.orders", "lake.sales.v"),
        decisions=(
            decided("lake.sales.orders", "select", "row_filter eu_only", "mask hide"),
            decided("lake.sales.hidden_by_view", "select"),
        ),
    )
    assert entry_of(QUERY, ANN, SQL, reach=reach) == AuditEntry(
        3.0,
        Kind.QUERY,
        "ann",
        SQL,
        Outcome.FINISHED,
        actor="svc",
        tenant="acme",
        door="flight_sql",
        query_id="q1",
        tables_read=("lake.sales.orders", "lake.sales.v", "lake.sales.hidden_by_view"),
        rules=("row_filter eu_only on lake.sales.orders", "mask hide on lake.sales.orders"),
        policy_version=5,
        rows=7,
    )


def test_tables_of_changes_are_told_apart_from_those_that_were_read() -> None:
    reach = Reach(
        reads=("lake.a.r",),
        writes=("lake.a.w",),
        decisions=(decided("lake.a.x", "insert"),),
        policy_version=9,
    )
    entry = entry_of(QUERY, ANN, SQL, reach=reach)
    assert (entry.tables_read, entry.tables_written) == (("lake.a.r",), ("lake.a.w", "lake.a.x"))
    assert entry.policy_version == 9


@pytest.mark.parametrize(
    ("query", "outcome"),
    [
        (QUERY, Outcome.FINISHED),
        (failed(Code.EXECUTION_FAILED), Outcome.FAILED),
        (failed(Code.QUERY_CANCELLED, State.CANCELLED), Outcome.CANCELLED),
        (failed(Code.ACCESS_DENIED), Outcome.REFUSED),
        (failed(Code.NOT_SUPPORTED), Outcome.REFUSED),
        (failed(Code.RESOURCE_EXHAUSTED), Outcome.FAILED),
        (replace(failed(Code.RESOURCE_EXHAUSTED), started_at=None), Outcome.REFUSED),
        (replace(failed(Code.CIRCUIT_BREAKER_OPEN, State.CANCELLED), started_at=None), Outcome.REFUSED),
    ],
)
def test_how_it_ended_is_one_word_and_a_code(query: Query, outcome: Outcome) -> None:
    entry = entry_of(query, ANN, SQL)
    assert entry.outcome is outcome
    assert entry.code == (None if query.failure is None else query.failure.code.value)
    assert entry.rows == (7 if outcome is Outcome.FINISHED else None)


def test_a_change_that_may_have_happened_is_told_as_such() -> None:
    lost = BailiwickError(Code.EXECUTION_FAILED, "lost").outcome_unknown()
    assert entry_of(failed(Code.EXECUTION_FAILED), ANN, SQL, error=lost).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        (None, Kind.QUERY),
        ("system", Kind.QUERY),
        ("policy", Kind.POLICY),
        ("administration", Kind.ADMINISTRATION),
    ],
)
def test_kinds_are_told_apart(category: str | None, kind: Kind) -> None:
    assert entry_of(QUERY, ANN, SQL, category=category).kind is kind


def test_a_change_is_told_before_it_starts() -> None:
    running = replace(QUERY, state=State.RUNNING, finished_at=None)
    entry = begun(running, ANN, "DELETE FROM t", 2.5, reach=Reach(writes=("lake.a.t",)))
    assert (entry.outcome, entry.at, entry.rows, entry.tables_written) == (
        Outcome.BEGUN,
        2.5,
        None,
        ("lake.a.t",),
    )


def test_no_password_is_kept_and_the_text_of_a_rule_is() -> None:
    secret = "correct horse battery"
    assert secret not in kept(entry_of(QUERY, ANN, f"CREATE USER bob PASSWORD '{secret}'"))
    assert secret not in kept(entry_of(QUERY, ANN, f"CREATE OR REPLACE USER bob PASSWORD '{secret}'"))
    rule = "CREATE ROW FILTER f ON TABLE lake.a.t FOR ROLE r USING (region = 'EU')"
    assert entry_of(QUERY, ANN, rule, category="policy").what == rule


def call(route: Route, status: int, **told: object) -> CallDecided:
    decided = (Decided("lake.a.t", (Privilege.INSERT,), status == 200, rules=("row_filter eu_only",)),)
    return CallDecided(LeaseId("L1"), ANN, route.value, status, decided, 5, **told)  # type: ignore[arg-type]


def test_what_changes_the_catalog_is_told_done_or_refused() -> None:
    done = commit_of(call(Route.COMMIT_TABLE, 200, idempotency_key="k1"), "q1", 4.0)
    assert done == AuditEntry(
        4.0,
        Kind.COMMIT,
        "ann",
        "commit table lake.a.t, key k1",
        Outcome.FINISHED,
        actor="svc",
        tenant="acme",
        door="catalog",
        query_id="q1",
        tables_written=("lake.a.t",),
        rules=("row_filter eu_only on lake.a.t",),
        policy_version=5,
    )
    refused = commit_of(call(Route.DROP_TABLE, 403), None, 4.0)
    assert refused is not None
    assert (refused.outcome, refused.code, refused.what) == (
        Outcome.REFUSED,
        "HTTP 403",
        "drop table lake.a.t",
    )
    conflict = commit_of(call(Route.COMMIT_TABLE, 409), None, 4.0)
    assert conflict is not None
    assert conflict.outcome is Outcome.FAILED


@pytest.mark.parametrize("route", [route for route in Route if route.reads])
def test_looking_at_the_catalog_is_no_commit(route: Route) -> None:
    assert commit_of(call(route, 200), "q1", 4.0) is None


def test_loading_a_table_to_write_to_it_is_no_reading_of_it() -> None:
    reach = Reach(
        writes=("lake.a.t",), decisions=(decided("lake.a.t", "select"), decided("lake.a.t", "insert"))
    )
    entry = entry_of(QUERY, ANN, SQL, reach=reach)
    assert (entry.tables_read, entry.tables_written) == ((), ("lake.a.t",))

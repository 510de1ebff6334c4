"""Which rule touched which table of which query, and why; everyone sees their own, and no hidden name."""

import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audited import Audited, audited, entry

from bailiwick.audit.entry import Outcome
from bailiwick.identity.principal import Principal
from bailiwick.queries.policy_decisions import (
    DECISIONS_PER_QUERY_MAX,
    POLICY_DECISIONS_SCHEMA,
    Decisions,
    PolicyDecision,
    policy_decisions_table,
)

ADMIN = Principal("root", frozenset({"admin"}))
AUDITOR = Principal("olga", frozenset({"auditor"}), tenant="elsewhere")
OPERATOR = Principal("otto", frozenset({"operator"}))
ANN = Principal("ann", frozenset({"analyst"}), actor="svc")
BOB = Principal("bob", frozenset({"analyst"}))
ORDERS = "lake.sales.orders"
SALARIES = "lake.hr.salaries"
RULES = ("row_filter eu_only", "mask hide_email")
BECAUSE = ("role analyst has select on lake.sales.", "eu_only applies to role analyst.")


def decided(
    query_id: str = "q-ann",
    who: Principal = ANN,
    table: str = ORDERS,
    action: str = "select",
    **told: Any,
) -> PolicyDecision:
    restricted = {"allowed": True, "rules": RULES, "policy_version": 3, "because": BECAUSE}
    return PolicyDecision(
        query_id, 7.5, who.name, who.actor, who.tenant, table, action, **{**restricted, **told}
    )


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Audited]:
    async with audited(tmp_path) as opened:
        yield opened


def noted(*principals: Principal) -> Decisions:
    decisions = Decisions()
    for who in principals or (ANN,):
        query_id = f"q-{who.name}"
        decisions.keep(decided(query_id, who))
        decisions.keep(decided(query_id, who, action="insert", allowed=False, rules=()))
        decisions.keep(decided(query_id, who, SALARIES, allowed=False, rules=(), is_visible=False))
    return decisions


async def rows(decisions: Decisions, world: Audited, principal: Principal) -> list[dict[str, Any]]:
    table = await policy_decisions_table(decisions, world.log).rows(principal)
    assert table.schema.equals(POLICY_DECISIONS_SCHEMA)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


async def test_a_row_tells_who_what_by_which_rules_and_why(world: Audited) -> None:
    first, second = await rows(noted(), world, replace(ANN, actor=None))
    assert {name: first[name] for name in first if name != "decided_at"} == {
        "query_id": "q-ann",
        "principal": "ann",
        "actor": "svc",
        "tenant": "default",
        "table_name": "lake.sales.orders",
        "action": "select",
        "allowed": True,
        "rules": ["row_filter eu_only", "mask hide_email"],
        "policy_version": 3,
        "because": "role analyst has select on lake.sales. eu_only applies to role analyst.",
    }
    assert (second["action"], second["allowed"], second["rules"]) == ("insert", False, [])


async def test_everyone_sees_their_own_and_admins_and_auditors_all(world: Audited) -> None:
    decisions = noted(ANN, BOB)

    async def seen(principal: Principal) -> set[str]:
        return {row["principal"] for row in await rows(decisions, world, principal)}

    assert await seen(BOB) == {"bob"}
    assert await seen(ADMIN) == await seen(AUDITOR) == {"ann", "bob"}
    assert await seen(OPERATOR) == set()
    assert await seen(replace(BOB, tenant="elsewhere")) == set()


async def test_a_table_that_one_may_not_know_of_has_no_row(world: Audited) -> None:
    decisions = noted()
    assert "salaries" not in str(await rows(decisions, world, ANN))
    assert "salaries" in str(await rows(decisions, world, AUDITOR))


def test_the_same_question_of_the_same_query_counts_once() -> None:
    decisions = noted()
    for _ in range(3):
        decisions.keep(decided(allowed=False))
    assert [each.action for each in decisions.of("q-ann")] == ["select", "insert", "select"]
    assert decisions.of("q-ann")[0].allowed
    assert decisions.of("unknown") == ()


def test_the_oldest_queries_are_forgotten_first() -> None:
    decisions = Decisions(decisions_max=4)
    for number in range(6):
        for action in ("select", "insert"):
            decisions.keep(decided(f"q{number}", action=action))
    assert [each.query_id for each in decisions.all()] == ["q4", "q4", "q5", "q5"]


def test_one_query_cannot_push_out_all_others() -> None:
    decisions = Decisions()
    for number in range(DECISIONS_PER_QUERY_MAX + 10):
        decisions.keep(decided("q", table=f"lake.s.t{number}"))
    assert len(decisions.of("q")) == DECISIONS_PER_QUERY_MAX


def test_threads_may_note_at_once() -> None:
    decisions = Decisions(decisions_max=100)

    def work(worker: int) -> None:
        for number in range(500):
            decisions.keep(decided(f"q{worker}.{number}"))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(decisions.all()) == 100


async def test_of_queries_that_memory_has_forgotten_the_audit_log_still_knows(world: Audited) -> None:
    old = replace(
        entry("INSERT INTO t SELECT …", who="zoe"),
        query_id="q-old",
        tables_read=("lake.sales.orders",),
        tables_written=("lake.sales.t",),
        rules=("row_filter eu_only on lake.sales.orders",),
        policy_version=4,
    )
    await world.log.write(replace(old, outcome=Outcome.BEGUN))
    await world.log.write(old)
    await world.log.write(replace(old, query_id="q-ann"))
    found = [row for row in await rows(noted(), world, AUDITOR) if row["query_id"] == "q-old"]
    assert [(row["table_name"], row["action"], row["rules"], row["policy_version"]) for row in found] == [
        ("lake.sales.orders", "select", ["row_filter eu_only"], 4),
        ("lake.sales.t", None, [], 4),
    ]
    assert len([row for row in await rows(noted(), world, AUDITOR) if row["query_id"] == "q-ann"]) == 3
    assert await rows(Decisions(), world, Principal("zoe", frozenset({"reader"}))) == []

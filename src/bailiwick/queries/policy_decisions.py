"""What policy decided for which query, and why: `system.runtime.policy_decisions`.

Decisions are noted by whoever asks for them, from any thread, and kept in memory, so many of them at most. Of
older queries the audit log still knows tables and rules, not the reasons.

Everyone sees what was decided about their own queries, except about tables whose existence is not for them: a
row would tell one from a table that is missing. Admins and auditors see all of it.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from bailiwick.audit.chain import Link
from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.audit.log import AuditLog
from bailiwick.audit.store import Search
from bailiwick.identity.principal import Principal
from bailiwick.policy.model import Privilege
from bailiwick.queries.narrowing import NOTHING_KNOWN, Narrowing
from bailiwick.queries.routing import SystemName
from bailiwick.queries.system_tables import SystemTable

DECISIONS_MAX: Final = 20_000
DECISIONS_PER_QUERY_MAX: Final = 500
AUDITED_MAX: Final = 1_000
"""So many entries of the audit log are looked at for queries that memory has forgotten."""

_TIME = pa.timestamp("us", tz="UTC")

POLICY_DECISIONS: SystemName = ("system", "runtime", "policy_decisions")
POLICY_DECISIONS_SCHEMA = pa.schema(
    [
        pa.field("query_id", pa.string()),
        pa.field("decided_at", _TIME),
        pa.field("principal", pa.string()),
        pa.field("actor", pa.string()),
        pa.field("tenant", pa.string()),
        pa.field("table_name", pa.string()),
        pa.field("action", pa.string()),
        pa.field("allowed", pa.bool_()),
        pa.field("rules", pa.list_(pa.string())),
        pa.field("policy_version", pa.int64()),
        pa.field("because", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """One decision about one table, as it is shown."""

    query_id: str
    at: float
    principal: str
    actor: str | None
    tenant: str | None
    table: str
    action: str | None
    """None where only the audit log knows that the table was changed, and not how."""
    allowed: bool
    rules: tuple[str, ...]
    """`row_filter eu_only`, `mask hide_email`."""
    policy_version: int | None
    because: tuple[str, ...] = ()
    is_visible: bool = True
    """Whether the principal may know that the table exists."""

    @property
    def rules_on_table(self) -> tuple[str, ...]:
        """As an audit entry has them: `row_filter eu_only on lake.sales.orders`."""
        return tuple(f"{rule} on {self.table}" for rule in self.rules)


class Decisions:
    """The newest decisions, by query. Any thread may note and ask."""

    def __init__(self, *, decisions_max: int = DECISIONS_MAX) -> None:
        self._decisions_max = decisions_max
        self._count = 0
        self._lock = threading.Lock()
        self._by_query: OrderedDict[str, dict[tuple[str, str, bool], PolicyDecision]] = OrderedDict()

    def keep(self, noted: PolicyDecision) -> None:
        """Remember it, if it is the first answer to its question: the same one of a query counts once."""
        with self._lock:
            self._keep(noted)

    def of(self, query_id: str) -> tuple[PolicyDecision, ...]:
        """What was decided for one query, in order."""
        with self._lock:
            return tuple(self._by_query.get(query_id, {}).values())

    def all(self) -> list[PolicyDecision]:
        with self._lock:
            return [decision for found in self._by_query.values() for decision in found.values()]

    def _keep(self, noted: PolicyDecision) -> None:
        found = self._by_query.setdefault(noted.query_id, {})
        key = (noted.table, noted.action or "", noted.is_visible)
        if key in found or len(found) >= DECISIONS_PER_QUERY_MAX:
            return
        found[key] = noted
        self._count += 1
        while self._count > self._decisions_max and len(self._by_query) > 1:
            _, forgotten = self._by_query.popitem(last=False)
            self._count -= len(forgotten)


def policy_decisions_table(decisions: Decisions, log: AuditLog) -> SystemTable:
    """`system.runtime.policy_decisions`."""

    async def rows_needed(principal: Principal, needed: Narrowing) -> pa.Table:
        noted = decisions.all()
        if principal.may_read_audit:
            search = Search(query_id=needed.equal.get("query_id"))
            links = await log.tail(AUDITED_MAX, search=search)
            return await asyncio.to_thread(lambda: _table([*_audited(links, noted), *noted]))
        own = [
            each
            for each in noted
            if (each.principal, each.tenant) == (principal.name, principal.tenant) and each.is_visible
        ]
        return _table(own)

    async def rows(principal: Principal) -> pa.Table:
        return await rows_needed(principal, NOTHING_KNOWN)

    return SystemTable(POLICY_DECISIONS, POLICY_DECISIONS_SCHEMA, rows, rows_needed)


def _audited(links: Iterable[Link], noted: Iterable[PolicyDecision]) -> list[PolicyDecision]:
    """What the audit log knows of queries that memory does not."""
    known = {each.query_id for each in noted}
    found: list[PolicyDecision] = []
    for link in links:
        entry = link.entry
        is_ended = entry.kind is Kind.QUERY and entry.outcome is not Outcome.BEGUN
        if is_ended and entry.query_id is not None and entry.query_id not in known:
            found += decisions_of(entry)
    return found


def decisions_of(entry: AuditEntry) -> list[PolicyDecision]:
    """An entry's tables again, each with its rules."""
    tables = [(table, Privilege.SELECT.value) for table in entry.tables_read]
    return [
        _decision(entry, table, action)
        for table, action in [*tables, *((table, None) for table in entry.tables_written)]
    ]


def _decision(entry: AuditEntry, table: str, action: str | None) -> PolicyDecision:
    end = f" on {table}"
    return PolicyDecision(
        entry.query_id or "",
        entry.at,
        entry.principal,
        entry.actor,
        entry.tenant,
        table,
        action,
        entry.outcome is not Outcome.REFUSED,
        tuple(rule.removesuffix(end) for rule in entry.rules if rule.endswith(end)),
        entry.policy_version,
    )


def _table(decisions: Iterable[PolicyDecision]) -> pa.Table:
    return pa.Table.from_pylist([_row(each) for each in decisions], schema=POLICY_DECISIONS_SCHEMA)


def _row(decision: PolicyDecision) -> dict[str, Any]:
    return {
        "query_id": decision.query_id,
        "decided_at": round(decision.at * 1_000_000),
        "principal": decision.principal,
        "actor": decision.actor,
        "tenant": decision.tenant,
        "table_name": decision.table,
        "action": decision.action,
        "allowed": decision.allowed,
        "rules": list(decision.rules),
        "policy_version": decision.policy_version,
        "because": " ".join(decision.because) or None,
    }

"""What the audit log is told of a query: once it has ended, and before it starts if it changes something.

Pure. The statement is kept as its author wrote it, without passwords; the text of a rule that it defines is
kept, too, since those who read the log are those who may read rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.catalog.facade import CallDecided
from bailiwick.catalog.routes import Route
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.statements import redacted
from bailiwick.policy.model import Privilege
from bailiwick.queries.policy_decisions import PolicyDecision
from bailiwick.queries.query import Query, State

_KINDS: Final = {"administration": Kind.ADMINISTRATION, "policy": Kind.POLICY}
_REFUSALS: Final = frozenset({Code.ACCESS_DENIED, Code.NOT_SUPPORTED})
_REFUSED_STATUSES: Final = frozenset({401, 403, 404})
_FIRST_FAILURE: Final = 300
COMMIT_TABLES_SHOWN_MAX: Final = 3
_OVERLOADED: Final = frozenset({Code.RESOURCE_EXHAUSTED, Code.CIRCUIT_BREAKER_OPEN})


@dataclass(frozen=True, slots=True)
class Reach:
    """What a query had to do with: as Describe told, and as policy was asked."""

    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    decisions: Sequence[PolicyDecision] = ()
    policy_version: int | None = None


NOTHING_REACHED: Final = Reach()


def entry_of(
    query: Query,
    principal: Principal,
    sql: str,
    *,
    reach: Reach = NOTHING_REACHED,
    error: BailiwickError | None = None,
    category: str | None = None,
) -> AuditEntry:
    """The entry of an ended query. `sql` is the statement as it came, `error` what its caller was told."""
    read, written, rules = _tables(reach)
    return AuditEntry(
        at=query.finished_at if query.finished_at is not None else query.created_at,
        kind=_KINDS.get(category or "", Kind.QUERY),
        principal=principal.name,
        what=redacted(sql),
        outcome=_outcome(query, error),
        actor=principal.actor,
        tenant=principal.tenant,
        door=query.door,
        query_id=query.id,
        tables_read=read,
        tables_written=written,
        rules=rules,
        policy_version=_version(reach),
        code=None if query.failure is None else query.failure.code.value,
        rows=query.rows if query.state is State.FINISHED else None,
    )


def begun(
    query: Query,
    principal: Principal,
    sql: str,
    at: float,
    *,
    reach: Reach = NOTHING_REACHED,
    category: str | None = None,
) -> AuditEntry:
    """The entry of a change that is about to start. It does not, unless this can be written."""
    entry = entry_of(query, principal, sql, reach=reach, category=category)
    return replace(entry, at=at, outcome=Outcome.BEGUN, code=None, rows=None)


def turned_away(principal: Principal, door: str, sql: str, at: float, error: BailiwickError) -> AuditEntry:
    """The entry of a statement that never became a query: it was looked at, and refused or not understood."""
    return AuditEntry(
        at,
        Kind.QUERY,
        principal.name,
        redacted(sql),
        Outcome.REFUSED if error.code in _REFUSALS else Outcome.FAILED,
        actor=principal.actor,
        tenant=principal.tenant,
        door=door,
        query_id=error.query_id,
        code=error.code.value,
    )


def commit_of(call: CallDecided, query_id: str | None, at: float) -> AuditEntry | None:
    """The entry of a call that changes the catalog, done or refused. None for one that only reads."""
    route = Route(call.route)
    if route.reads:
        return None
    written = tuple(dict.fromkeys(each.what for each in call.decided))
    act = f"{route.name.lower().replace('_', ' ')} {', '.join(written[:COMMIT_TABLES_SHOWN_MAX])}"
    outcome = Outcome.REFUSED if call.status in _REFUSED_STATUSES else Outcome.FAILED
    return AuditEntry(
        at,
        Kind.COMMIT,
        call.principal.name,
        act if call.idempotency_key is None else f"{act}, key {call.idempotency_key}",
        Outcome.FINISHED if call.status < _FIRST_FAILURE else outcome,
        actor=call.principal.actor,
        tenant=call.principal.tenant,
        door="catalog",
        query_id=query_id,
        tables_written=written,
        rules=tuple(dict.fromkeys(f"{rule} on {each.what}" for each in call.decided for rule in each.rules)),
        policy_version=call.policy_version,
        code=None if call.status < _FIRST_FAILURE else f"HTTP {call.status}",
    )


def _outcome(query: Query, error: BailiwickError | None) -> Outcome:
    if error is not None and error.details.get("outcome") == "unknown":
        return Outcome.UNKNOWN
    code = None if query.failure is None else query.failure.code
    if code in _REFUSALS or (code in _OVERLOADED and query.started_at is None):
        return Outcome.REFUSED
    match query.state:
        case State.FINISHED:
            return Outcome.FINISHED
        case State.CANCELLED:
            return Outcome.CANCELLED
    return Outcome.FAILED


def _tables(reach: Reach) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Tables read, tables written, rules: each once, in the order in which they came."""
    read, written = dict.fromkeys(reach.reads), dict.fromkeys(reach.writes)
    rules: dict[str, None] = {}
    for decision in reach.decisions:
        if decision.action == Privilege.SELECT.value:
            # Whoever writes to a table loads it, too, and has not read it by that.
            if decision.table not in reach.writes:
                read.setdefault(decision.table)
        else:
            written.setdefault(decision.table)
        rules.update(dict.fromkeys(decision.rules_on_table))
    return tuple(read), tuple(written), tuple(rules)


def _version(reach: Reach) -> int | None:
    if reach.policy_version is not None:
        return reach.policy_version
    return next((each.policy_version for each in reach.decisions if each.policy_version is not None), None)

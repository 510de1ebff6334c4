"""What a trace tells of a query: its story as phases, and the few facts that are fit for a collector.

    query ─┬─ queue
           ├─ lease ─┬─ plan
           │         └─ execute
           └─ deliver

Each attempt on another engine has a `queue` and a `lease` of its own. Pure: it is made of the query's own
story when that is over, so it costs nothing before and cannot disagree with the record. It tells no
principal, tenant or name of a table: the query's id leads whoever may know them to `system.runtime.queries`.
"""

from bailiwick.ids import NodeId
from bailiwick.queries.query import Query, State
from bailiwick.telemetry.spans import Value
from bailiwick.telemetry.traces import Phase, Traces

_NAMES = {
    State.QUEUED: "queue",
    State.PLANNING: "plan",
    State.RUNNING: "execute",
    State.FINISHING: "deliver",
}
_LEASED = (State.PLANNING, State.RUNNING)


def tell_ended(query: Query, traces: Traces) -> str | None:
    """The query is over. The id of its trace, if it has one."""
    if not traces.is_on:
        return None
    return traces.query_ended(
        query.id,
        query.finished_at or query.created_at,
        attributes(query, with_text=traces.tells_statements),
        _failure(query),
        phases(query),
    )


def attributes(query: Query, *, with_text: bool) -> dict[str, Value | None]:
    """The facts of a query that its span tells."""
    return {
        "bailiwick.query_id": query.id,
        "bailiwick.door": query.door,
        "bailiwick.state": query.state.value,
        "bailiwick.kind": None if query.kind is None else query.kind.value,
        "bailiwick.rows": query.rows,
        "bailiwick.bytes": query.bytes,
        "bailiwick.retries": len(query.attempts),
        "bailiwick.fallback": query.is_fallback,
        "db.query.text": query.sql if with_text else None,
        **_last_place(query),
    }


def phases(query: Query) -> tuple[Phase, ...]:
    """The phases of a query that has ended. What one of them failed with, it says."""
    found: list[Phase] = []
    leased: list[Phase] = []
    attempts = list(query.attempts)
    state, began_at = State.QUEUED, query.created_at
    for moment in query.story:
        failure = _failure(query) if moment.state.is_terminal else None
        place = _last_place(query)
        if moment.state is State.QUEUED and attempts:
            attempt = attempts.pop(0)
            failure, place = attempt.failure.code.value, _place(attempt.node_id)
        phase = Phase(_NAMES[state], began_at, moment.at, failure=failure)
        if state in _LEASED:
            leased.append(phase)
        else:
            found.append(phase)
        if leased and moment.state not in _LEASED:
            found.append(Phase("lease", leased[0].began_at, moment.at, place, failure, tuple(leased)))
            leased = []
        state, began_at = moment.state, moment.at
    return tuple(found)


def _failure(query: Query) -> str | None:
    return None if query.failure is None else query.failure.code.value


def _last_place(query: Query) -> dict[str, Value | None]:
    """Where it ran in the end, and what Spark calls it there."""
    return {**_place(query.node_id), "bailiwick.spark.operation_id": query.operation}


def _place(node_id: NodeId | None) -> dict[str, Value | None]:
    return {"bailiwick.engine.node": node_id}

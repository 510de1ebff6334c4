"""What operators see of a query that has ended: numbers, and a line in the log."""

from bailiwick.errors import Code
from bailiwick.queries.query import State
from bailiwick.queries.query_spans import tell_ended
from bailiwick.queries.running import Running
from bailiwick.telemetry.logs import logger
from bailiwick.telemetry.metrics import Metrics
from bailiwick.telemetry.traces import NO_TRACES, Traces

_REFUSALS = frozenset(
    {Code.ACCESS_DENIED, Code.NOT_SUPPORTED, Code.RESOURCE_EXHAUSTED, Code.CIRCUIT_BREAKER_OPEN}
)
_log = logger(__name__)


def report_end(running: Running, metrics: Metrics, traces: Traces = NO_TRACES) -> None:
    query, error = running.query, running.error
    is_refused = query.started_at is None and error is not None and error.code in _REFUSALS
    planned_at = next((moment.at for moment in query.story if moment.state is State.PLANNING), None)
    ended_at = query.finished_at or query.created_at
    # The clock of the machine may have been set back between.
    elapsed_s = max(0.0, ended_at - query.created_at)
    metrics.query_ended(
        door=query.door,
        kind=running.category or (query.kind.value if query.kind else None),
        outcome="refused" if is_refused else query.state.value,
        code=query.failure.code if query.failure else None,
        seconds=elapsed_s,
        queued_s=max(0.0, (planned_at or ended_at) - query.created_at),
    )
    metrics.query_placed(is_fallback=query.is_fallback, retries=len(query.attempts))
    if query.is_fallback:
        _log.warning("ran_on_the_gateway", query_id=query.id, why="no other engine could be reached")
    trace_id = tell_ended(query, traces)
    _log.info(
        "query_ended",
        **({} if trace_id is None else {"trace_id": trace_id}),
        query_id=query.id,
        principal=query.principal,
        state=query.state.value,
        kind=query.kind,
        rows=query.rows,
        bytes=query.bytes,
        elapsed_ms=round(elapsed_s * 1000, 1),
        code=query.failure.code if query.failure else None,
        cause=error.cause_text if error and query.failure else None,
    )

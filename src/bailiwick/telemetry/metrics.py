"""Numbers about the gateway, for Prometheus.

One `Metrics` is made by the application and handed down; there is no global registry, so that two gateways in
one test do not count together. Every label has a closed set of values: nothing a client types becomes one.
"""

from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from bailiwick.errors import Code

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Fine around a warm query (10 to 100 ms), so that p50, p95 and p99 mean something; up to the last deadline.
QUERY_BUCKETS_S: Final = (
    *(0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
    *(1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0),
)
QUEUE_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
FACADE_BUCKETS_S: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.125, 0.25, 0.5, 1.0, 5.0)

DOORS: Final = frozenset({"flight_sql", "spark_connect", "http", "internal"})
KINDS: Final = frozenset({"read", "change", "shows", "session", "administration", "system"})
OUTCOMES: Final = frozenset({"finished", "failed", "cancelled", "refused"})
SESSION_STATES: Final = ("idle", "leased", "warming")
LOGIN_METHODS: Final = frozenset({"password", "token", "handshake"})
OTHER: Final = "other"


class Metrics:
    """What is counted. Gauges are set by whoever knows the number, events are told by the methods."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="bailiwick", registry=self.registry)
        self._make_query_metrics()
        self._make_engine_metrics()
        self._login_failures = self._counter("login_failures", "Credentials that were refused.", "method")
        self._spans = self._counter("spans", "Spans of traces, by what became of them.", "outcome")
        self._facade_seconds = Histogram(
            "bailiwick_facade_seconds",
            "Time the catalog facade took to answer an engine.",
            ("route", "status"),
            buckets=FACADE_BUCKETS_S,
            registry=self.registry,
        )

    def memory_seen(self, node_id: str, ratio: float) -> None:
        self._memory_ratio.labels(node_id).set(ratio)

    def engine_gone(self, node_id: str) -> None:
        """Nothing is known of its memory any more."""
        with suppress(KeyError):
            self._memory_ratio.remove(node_id)

    def query_placed(self, *, is_fallback: bool, retries: int) -> None:
        """Where a query that has ended ran in the end, and how often it was tried before."""
        if is_fallback:
            self._fallbacks.inc()
        self._retries.inc(retries)

    def query_ended(
        self,
        *,
        door: str,
        kind: str | None,
        outcome: str,
        code: Code | None,
        seconds: float,
        queued_s: float = 0.0,
    ) -> None:
        """A query is over, well or not. `seconds` is its whole life, `queued_s` the part it waited."""
        labels = {"door": _one_of(door, DOORS), "kind": _one_of(kind, KINDS)}
        ending = _one_of(outcome, OUTCOMES)
        self._queries.labels(**labels, outcome=ending, code=code.value if code is not None else "").inc()
        self._query_seconds.labels(**labels, outcome=ending).observe(seconds)
        self._queue_seconds.observe(queued_s)

    def sessions(self, **count_by_state: int) -> None:
        """How many warm sessions are in each state; states not named have none."""
        for state in SESSION_STATES:
            self._pool_sessions.labels(state=state).set(count_by_state.get(state, 0))

    def engine_restarted(self, reason: str) -> None:
        self._engine_restarts.labels(
            reason=_one_of(reason, frozenset({"exited", "out_of_memory", "stopped"}))
        ).inc()

    def login_failed(self, method: str) -> None:
        self._login_failures.labels(method=_one_of(method, LOGIN_METHODS)).inc()

    def facade_answered(self, *, route: str, status: int, seconds: float) -> None:
        """`route` is the pattern of the path, never the path itself."""
        self._facade_seconds.labels(route=route, status=f"{status // 100}xx").observe(seconds)

    def spans_told(self, sent: int, lost: int) -> None:
        """The collector took so many spans, and so many were lost on the way. Any thread may say it."""
        self._spans.labels(outcome="sent").inc(sent)
        self._spans.labels(outcome="lost").inc(lost)

    def render(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)

    def _make_query_metrics(self) -> None:
        self._queries = self._counter("queries", "Queries that ended.", "door", "kind", "outcome", "code")
        self._query_seconds = Histogram(
            "bailiwick_query_seconds",
            "Whole life of a query, waiting included.",
            ("door", "kind", "outcome"),
            buckets=QUERY_BUCKETS_S,
            registry=self.registry,
        )
        self._queue_seconds = Histogram(
            "bailiwick_queue_seconds",
            "Time that a query waited for a session.",
            buckets=QUEUE_BUCKETS_S,
            registry=self.registry,
        )
        self.queries_running = self._gauge("queries_running", "Queries that hold a session now.")
        self.queue_length = self._gauge("queue_length", "Queries that wait for a session now.")
        self.spool_bytes = self._gauge("spool_bytes", "What results hold on disk now.")

    def _make_engine_metrics(self) -> None:
        self._pool_sessions = self._gauge("pool_sessions", "Warm sessions.", "state")
        self.engine_up = self._gauge("engine_up", "1 when an engine answers.")
        self.engine_memory_bytes = self._gauge(
            "engine_memory_bytes", "Resident memory of the embedded engine."
        )
        self._memory_ratio = self._gauge(
            "memory_utilization_ratio", "How full an engine is, of what it may use.", "node"
        )
        self._fallbacks = self._counter(
            "fallbacks", "Queries that ran on the gateway's own engine for want of another."
        )
        self._retries = self._counter("retries", "Attempts of queries that another engine took up.")
        self._engine_restarts = self._counter(
            "engine_restarts", "Engines started in place of a lost one.", "reason"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"bailiwick_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"bailiwick_{name}", text, labels, registry=self.registry)


def _one_of(value: str | None, known: frozenset[str]) -> str:
    return value if value in known and value is not None else OTHER

"""Traces: which span the work of this moment belongs to, and what becomes of a span that ends.

One `Traces` is made by the application and handed to who begins something: a door for a call, the query
service for a query. Whoever works below only asks for the current span, which follows tasks as context does.
Nothing here knows a wire, waits, or imports OpenTelemetry: ended spans go to a sink (`otlp.py`), by the way
of a queue. Without a sink there are no spans, and each of these calls costs a comparison.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

import structlog

from bailiwick.errors import BailiwickError
from bailiwick.ids import LeaseId, QueryId
from bailiwick.telemetry.spans import Span, SpanKind, Value
from bailiwick.telemetry.trace_context import TraceContext, new_trace

PROMISES_MAX: Final = 10_000
"""So many announced queries are remembered with the call that announced them; the oldest give way."""

Sink = Callable[[Span], None]
"""Takes a span that has ended, from any thread. Never waits."""
Attributes = Mapping[str, Value | None]


@dataclass(slots=True, eq=False)
class OpenSpan:
    """Work that goes on. What is known of it is added as it becomes known."""

    name: str
    context: TraceContext
    parent_id: str | None
    began_ns: int
    owner: "Traces" = field(repr=False)
    kind: SpanKind = SpanKind.INTERNAL
    attributes: dict[str, Value | None] = field(default_factory=dict)
    failure: str | None = None
    has_children: bool = False

    def end(self, ended_ns: int | None = None) -> None:
        """It is over, now or since then."""
        if self.context.is_sampled:
            ended_ns = max(self.began_ns, self.owner.now_ns() if ended_ns is None else ended_ns)
            self.owner.tell(
                Span(
                    self.name,
                    self.context,
                    self.parent_id,
                    self.began_ns,
                    ended_ns,
                    self.kind,
                    dict(self.attributes),
                    self.failure,
                )
            )


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a query's life that is over. Times are seconds since 1970."""

    name: str
    began_at: float
    ended_at: float
    attributes: Attributes = field(default_factory=dict)
    failure: str | None = None
    parts: tuple["Phase", ...] = ()


_current: ContextVar[OpenSpan | None] = ContextVar("current_span", default=None)


class Traces:
    """All but `catalog_call` belongs to the event loop's thread."""

    def __init__(
        self,
        sink: Sink | None = None,
        *,
        ratio: float = 1.0,
        joins_callers: bool = True,
        tells_statements: bool = False,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`ratio` of the traces that begin here are recorded; those of callers if the caller's are."""
        self._sink = sink
        self._ratio = ratio
        self._joins_callers = joins_callers
        self.now_ns = now_ns
        self._queries: dict[QueryId, OpenSpan] = {}
        self._promised: OrderedDict[QueryId, TraceContext] = OrderedDict()
        self._leases: dict[LeaseId, TraceContext] = {}
        self.tells_statements = tells_statements
        """Whether a query's text may be told."""

    @property
    def is_on(self) -> bool:
        return self._sink is not None

    def tell(self, span: Span) -> None:
        if self._sink is not None:
            self._sink(span)

    @contextmanager
    def call(
        self, name: str, caller: TraceContext | None = None, attributes: Attributes | None = None
    ) -> Iterator[OpenSpan | None]:
        """A call that came to a door. It joins its caller's trace if there is one, else it begins its own."""
        if self._sink is None:
            yield None
            return
        caller = caller if self._joins_callers else None
        context = caller.child() if caller is not None else new_trace(self._ratio)
        span = OpenSpan(
            name,
            context,
            None if caller is None else caller.span_id,
            self.now_ns(),
            self,
            SpanKind.SERVER,
            dict(attributes or {}),
        )
        with _made_current(span):
            try:
                yield span
            except BaseException as error:
                span.failure = span.failure or _word(error)
                raise
            finally:
                span.end()

    @contextmanager
    def query(self, query_id: QueryId) -> Iterator[None]:
        """A query begins; tasks started inside are its. It goes on until `query_ended`."""
        if self._sink is None:
            yield
            return
        self._keep_promise(query_id)
        span = self.opened("query")
        self._queries[query_id] = span
        with _made_current(span):
            yield

    def query_ended(
        self,
        query_id: QueryId,
        ended_at: float,
        attributes: Attributes,
        failure: str | None = None,
        phases: Sequence[Phase] = (),
    ) -> str | None:
        """The query is over, and these were its phases. The id of its trace, if it has one."""
        span = self._queries.pop(query_id, None)
        if span is None:
            return None
        span.attributes.update(attributes)
        span.failure = failure
        self._tell_phases(phases, span.context)
        span.end(_ns(ended_at))
        return span.context.trace_id

    def catalog_call(self, lease: LeaseId, *, route: str, status: int, seconds: float) -> None:
        """An engine's call to the catalog was answered just now. It belongs to whoever has the lease."""
        holder = self._leases.get(lease)
        if holder is None or not holder.is_sampled:
            return
        ended_ns = self.now_ns()
        self.tell(
            Span(
                f"catalog {route}",
                holder.child(),
                holder.span_id,
                ended_ns - int(seconds * 1e9),
                ended_ns,
                SpanKind.SERVER,
                {"http.response.status_code": status},
                f"{status}" if status >= 500 else None,
            )
        )

    def remember_promise(self, query_id: QueryId, context: TraceContext) -> None:
        self._promised[query_id] = context
        while len(self._promised) > PROMISES_MAX:
            self._promised.popitem(last=False)

    @contextmanager
    def lent(self, lease: LeaseId, context: TraceContext) -> Iterator[None]:
        self._leases[lease] = context
        try:
            yield
        finally:
            self._leases.pop(lease, None)

    def opened(self, name: str) -> OpenSpan:
        """A span under the current one, or of a new trace."""
        above = _current.get()
        if above is None:
            return OpenSpan(name, new_trace(self._ratio), None, self.now_ns(), self)
        above.has_children = True
        return OpenSpan(name, above.context.child(), above.context.span_id, self.now_ns(), self)

    def _keep_promise(self, query_id: QueryId) -> None:
        """A call that fetches what an earlier one announced goes on with that one's trace.

        Only if it came without a trace of its own, and nothing has been told under its own name yet.
        """
        promised, call = self._promised.pop(query_id, None), _current.get()
        if promised is None or call is None or call.parent_id is not None or call.has_children:
            return
        call.context = TraceContext(
            promised.trace_id, call.context.span_id, promised.is_sampled, promised.state
        )
        call.parent_id = promised.span_id
        structlog.contextvars.bind_contextvars(trace_id=promised.trace_id)

    def _tell_phases(self, phases: Sequence[Phase], above: TraceContext) -> None:
        if not above.is_sampled:
            return
        for phase in phases:
            context = above.child()
            began_ns, ended_ns = _ns(phase.began_at), _ns(phase.ended_at)
            self.tell(
                Span(
                    phase.name,
                    context,
                    above.span_id,
                    began_ns,
                    max(began_ns, ended_ns),
                    attributes=phase.attributes,
                    failure=phase.failure,
                )
            )
            self._tell_phases(phase.parts, context)


NO_TRACES: Final = Traces()


def current_trace() -> TraceContext | None:
    """Where the work of this moment stands, for whoever passes it on; None if nobody traces it."""
    span = _current.get()
    return None if span is None else span.context


@contextmanager
def span(name: str, **attributes: Value | None) -> Iterator[None]:
    """A piece of the current work; nothing if that is not traced."""
    above = _current.get()
    if above is None:
        yield
        return
    opened = above.owner.opened(name)
    opened.attributes.update(attributes)
    with _made_current(opened):
        try:
            yield
        except BaseException as error:
            opened.failure = _word(error)
            raise
        finally:
            opened.end()


@contextmanager
def under_lease(lease: LeaseId) -> Iterator[None]:
    """What the engine asks the catalog under this lease belongs to the current work."""
    above = _current.get()
    if above is None:
        yield
        return
    above.has_children = True
    with above.owner.lent(lease, above.context):
        yield


def promise(query_id: QueryId) -> None:
    """The current call announces this query to its client: the call that runs it goes on with this trace."""
    above = _current.get()
    if above is not None:
        above.owner.remember_promise(query_id, above.context)


@contextmanager
def _made_current(span: OpenSpan) -> Iterator[None]:
    token = _current.set(span)
    try:
        with structlog.contextvars.bound_contextvars(trace_id=span.context.trace_id):
            yield
    finally:
        _current.reset(token)


def _word(error: BaseException) -> str:
    return error.code.value if isinstance(error, BailiwickError) else type(error).__name__


def _ns(at: float) -> int:
    return int(at * 1_000_000_000)

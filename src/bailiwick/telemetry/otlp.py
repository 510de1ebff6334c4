"""Spans on their way to a collector: OTLP over HTTP, as protobuf, by a thread of its own.

Whoever ends a span puts it into a bounded queue and goes on; what does not fit is lost and counted, and so
is what a collector refuses or cannot be given after some attempts. A trace is for looking, never worth a
query's time. This is the one module that imports OpenTelemetry: the messages of its protocol, and no more.
"""

import http.client
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from bailiwick.clock import Clock, monotonic
from bailiwick.errors import CannotStartError
from bailiwick.telemetry.collector import Collector
from bailiwick.telemetry.logs import logger
from bailiwick.telemetry.spans import Span, Value, fit

BATCH_SPANS_MAX: Final = 512
SEND_EVERY_S: Final = 1.0
SEND_TIMEOUT_S: Final = 10.0
ATTEMPTS_MAX: Final = 5
PAUSE_S_MAX: Final = 30.0
COMPLAIN_EVERY_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 64 << 10

_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
_SAMPLED_FLAG: Final = 1

_log = logger(__name__)


class NotTakenError(Exception):
    """The collector did not take a batch. `is_passing`: it may take it later, not before `pause_s`."""

    def __init__(self, reason: str, *, is_passing: bool, pause_s: float = 0.0) -> None:
        super().__init__(reason)
        self.is_passing = is_passing
        self.pause_s = pause_s


class OtlpExporter:
    """Start it once, close it once. `on_told` hears how many spans the collector took, how many were lost.

    Raises CannotStartError if the collector's authority cannot be read.
    """

    def __init__(
        self,
        collector: Collector,
        resource: Mapping[str, Value],
        *,
        queue_length_max: int = 10_000,
        send_every_s: float = SEND_EVERY_S,
        pause_s_max: float = PAUSE_S_MAX,
        on_told: Callable[[int, int], None] = lambda _sent, _lost: None,
        clock: Clock = monotonic,
    ) -> None:
        self._collector = collector
        self._resource = resource
        self._queue_length_max = queue_length_max
        self._send_every_s = send_every_s
        self._pause_s_max = pause_s_max
        self._on_told = on_told
        self._clock = clock
        self._waiting: deque[Span] = deque()
        self._lost_count = 0
        self._complained_at = -COMPLAIN_EVERY_S
        self._tls = _tls(collector)
        self._connection: http.client.HTTPConnection | None = None
        self._is_wanted = threading.Event()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, span: Span) -> None:
        """Take a span. Never waits: beyond its bound the queue takes none."""
        if len(self._waiting) >= self._queue_length_max:
            self._lost_count += 1
            return
        self._waiting.append(span)
        if len(self._waiting) >= BATCH_SPANS_MAX:
            self._is_wanted.set()

    def close(self, timeout_s: float) -> None:
        """Send what waits, once, for at most `timeout_s`; the rest is lost. Blocks."""
        self._is_closing.set()
        self._is_wanted.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._is_closing.is_set():
            self._is_wanted.wait(self._send_every_s)
            self._is_wanted.clear()
            self._send_waiting()
        self._send_waiting()
        if self._connection is not None:
            self._connection.close()

    def _send_waiting(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_SPANS_MAX))]
            try:
                refused = self._deliver(encode(batch, self._resource))
            except Exception as error:
                self._note(sent=0, lost=len(batch), reason=f"{type(error).__name__}: {error}")
            else:
                self._note(sent=len(batch) - refused, lost=refused, reason="the collector refused some")
        if self._lost_count:
            self._note(sent=0, lost=0, reason="the queue was full")

    def _deliver(self, body: bytes) -> int:
        """Give it to the collector, if need be more than once. How many spans it refused."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                return self._post(body)
            except NotTakenError as error:
                if not error.is_passing or attempt + 1 == ATTEMPTS_MAX:
                    raise
                if self._is_closing.wait(min(self._pause_s_max, max(error.pause_s, 2.0**attempt))):
                    # Nobody waits for a collector at the end: one more try, whatever it says.
                    return self._post(body)
        raise AssertionError("unreachable")

    def _post(self, body: bytes) -> int:
        try:
            connection = self._connection or self._connected()
            connection.request("POST", self._collector.path, body, self._headers())
            answer = connection.getresponse()
            content = answer.read(ANSWER_BYTES_MAX)
            status, retry_after = answer.status, answer.getheader("Retry-After", "")
        except (OSError, http.client.HTTPException) as error:
            self._disconnect()
            raise NotTakenError(f"{type(error).__name__}: {error}", is_passing=True) from error
        if answer.will_close or not answer.isclosed():
            self._disconnect()
        if status == http.client.OK:
            return _refused_count(content)
        pause_s = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
        raise NotTakenError(f"it answered {status}", is_passing=status in _TRY_AGAIN, pause_s=pause_s)

    def _headers(self) -> dict[str, str]:
        return {"Content-Type": "application/x-protobuf", **self._collector.headers()}

    def _connected(self) -> http.client.HTTPConnection:
        at = self._collector
        if self._tls is not None:
            self._connection = http.client.HTTPSConnection(
                at.host, at.port, timeout=SEND_TIMEOUT_S, context=self._tls
            )
        else:
            self._connection = http.client.HTTPConnection(at.host, at.port, timeout=SEND_TIMEOUT_S)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _note(self, *, sent: int, lost: int, reason: str) -> None:
        """Count, and say now and then that spans are lost: a line a batch would be worth less than none."""
        overflow, self._lost_count = self._lost_count, 0
        lost += overflow
        self._on_told(sent, lost)
        if lost and self._clock() - self._complained_at >= COMPLAIN_EVERY_S:
            self._complained_at = self._clock()
            _log.warning("spans_lost", count=lost, reason=reason)


def _tls(collector: Collector) -> ssl.SSLContext | None:
    if not collector.is_encrypted:
        return None
    try:
        return ssl.create_default_context(cafile=collector.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise CannotStartError(f"tracing.ca_file cannot be used: {error.strerror or error}") from error


def encode(spans: Iterable[Span], resource: Mapping[str, Value]) -> bytes:
    """One export request. What the spans say is made fit for others here."""
    request = ExportTraceServiceRequest()
    of_us = request.resource_spans.add()
    of_us.resource.attributes.extend(_attributes(resource))
    scope = of_us.scope_spans.add()
    scope.scope.name = "bailiwick"
    scope.spans.extend(_message(span) for span in spans)
    return request.SerializeToString()


def _message(span: Span) -> SpanMessage:
    context = span.context
    message = SpanMessage(
        trace_id=bytes.fromhex(context.trace_id),
        span_id=bytes.fromhex(context.span_id),
        parent_span_id=bytes.fromhex(span.parent_id or ""),
        trace_state=context.state,
        flags=_SAMPLED_FLAG,
        name=span.name,
        kind=SpanMessage.SpanKind.ValueType(span.kind.value),
        start_time_unix_nano=span.began_ns,
        end_time_unix_nano=span.ended_ns,
        attributes=_attributes(fit({**span.attributes, "error.type": span.failure})),
    )
    if span.failure is not None:
        message.status.code = Status.STATUS_CODE_ERROR
    return message


def _attributes(attributes: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: Value) -> AnyValue:
    # A bool is an int to Python, so it comes first.
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(double_value=value) if isinstance(value, float) else AnyValue(string_value=value)


def _refused_count(content: bytes) -> int:
    try:
        return max(0, ExportTraceServiceResponse.FromString(content).partial_success.rejected_spans)
    except Exception:
        # It took them; what it says besides is its own affair.
        return 0

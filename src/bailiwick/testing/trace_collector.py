"""A collector of traces for tests: OTLP over real HTTP, kept in memory, and told how to answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PATH = "/v1/traces"


@dataclass(frozen=True, slots=True)
class SeenSpan:
    """One span, as it came over the wire."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    began_ns: int
    ended_ns: int
    is_failed: bool
    state: str
    attributes: dict[str, Any] = field(hash=False)


class TraceCollector:
    """`answers` are given one a request, `(status, headers)`; when they are used up, all is well."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.refuses_spans = 0
        """How many spans of each batch it says it refused."""
        self.requests: list[dict[str, str]] = []
        """The headers of each request, names in small letters."""
        self.bodies: list[bytes] = []
        self.resource: dict[str, Any] = {}
        self._spans: list[SeenSpan] = []

    @property
    def spans(self) -> list[SeenSpan]:
        return list(self._spans)

    def named(self, name: str) -> list[SeenSpan]:
        return [span for span in self.spans if span.name == name]

    def of_query(self, query_id: str) -> SeenSpan | None:
        """The query's own span, if it has come."""
        found = [span for span in self.named("query") if span.attributes["bailiwick.query_id"] == query_id]
        return found[0] if found else None

    def trace(self, trace_id: str) -> dict[str, list[SeenSpan]]:
        """All spans of one trace that have come, by name."""
        spans: dict[str, list[SeenSpan]] = {}
        for span in self.spans:
            if span.trace_id == trace_id:
                spans.setdefault(span.name, []).append(span)
        return spans

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """What becomes of one request."""
        self.requests.append(headers)
        self.bodies.append(body)
        if path != PATH or headers.get("content-type") != "application/x-protobuf":
            return 404, {}, b""
        status, more = self.answers.pop(0) if self.answers else (200, {})
        if status != 200:
            return status, more, b""
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource = _read(of_resource.resource.attributes)
            for scope in of_resource.scope_spans:
                self._spans += [_seen(span) for span in scope.spans]
        answer = ExportTraceServiceResponse()
        answer.partial_success.rejected_spans = self.refuses_spans
        return status, more, answer.SerializeToString()


@contextmanager
def running_collector() -> Iterator[TraceCollector]:
    """A collector on a free loopback port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, content = collector.take(self.path, headers, body)
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = TraceCollector(f"http://127.0.0.1:{server.server_address[1]}")
    serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    serving.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


def _seen(span: Any) -> SeenSpan:
    return SeenSpan(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == 2,
        span.trace_state,
        _read(span.attributes),
    )


def _read(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}

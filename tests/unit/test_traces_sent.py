"""Spans reach a collector over the real wire; when they do not, nobody waits for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from bailiwick.config import ConfigError, load
from bailiwick.errors import CannotStartError
from bailiwick.telemetry.collector import Collector
from bailiwick.telemetry.config import TracingConfig
from bailiwick.telemetry.metrics import Metrics
from bailiwick.telemetry.otlp import BATCH_SPANS_MAX, OtlpExporter
from bailiwick.telemetry.spans import Span, SpanKind, Value
from bailiwick.telemetry.trace_context import TraceContext, new_trace
from bailiwick.telemetry.tracing import open_traces
from bailiwick.testing.asking import wait_until
from bailiwick.testing.trace_collector import TraceCollector, running_collector


@pytest.fixture
def collector() -> Iterator[TraceCollector]:
    with running_collector() as running:
        yield running


def span(name: str = "work", **attributes: str | int | float | bool | None) -> Span:
    return Span(name, new_trace(1.0), None, 1, 2, attributes=attributes)


class Sending:
    """An exporter that counts what became of its spans."""

    def __init__(self, collector: TraceCollector, queue_length_max: int = 1_000) -> None:
        self.sent = self.lost = 0
        self.exporter = OtlpExporter(
            Collector.at(collector.url),
            {},
            queue_length_max=queue_length_max,
            send_every_s=0.02,
            pause_s_max=0.01,
            on_told=self._told,
        )

    def _told(self, sent: int, lost: int) -> None:
        self.sent += sent
        self.lost += lost


async def test_a_span_arrives_as_it_was_told(collector: TraceCollector) -> None:
    context = TraceContext(
        "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", is_sampled=True, state="a=1"
    )
    attributes: dict[str, Value | None] = {
        "text": "bearer abcdefgh12345678",
        "count": 3,
        "share": 0.5,
        "is": True,
        "none": None,
    }
    config = TracingConfig(endpoint=collector.url, service_name="gateway-1", headers=SecretStr("x-key=abc"))
    metrics = Metrics()
    async with open_traces(config, metrics) as traces:
        traces.tell(Span("work", context, "1" * 16, 5, 9, SpanKind.SERVER, attributes, "TABLE_NOT_FOUND"))
    [seen] = collector.spans
    assert (seen.name, seen.trace_id, seen.span_id, seen.parent_id, seen.state) == (
        "work",
        context.trace_id,
        context.span_id,
        "1" * 16,
        "a=1",
    )
    assert (seen.kind, seen.began_ns, seen.ended_ns, seen.is_failed) == (2, 5, 9, True)
    assert seen.attributes == {
        "text": "bearer <secret>",
        "count": 3,
        "share": 0.5,
        "is": True,
        "error.type": "TABLE_NOT_FOUND",
    }
    assert collector.resource["service.name"] == "gateway-1"
    assert collector.requests[0]["x-key"] == "abc"
    assert b'bailiwick_spans_total{outcome="sent"} 1.0' in metrics.render()


async def test_many_spans_go_in_few_requests(collector: TraceCollector) -> None:
    async with open_traces(TracingConfig(endpoint=collector.url), Metrics()) as traces:
        for _ in range(1_000):
            traces.tell(span())
    assert len(collector.spans) == 1_000
    assert len(collector.requests) <= 1_000 / BATCH_SPANS_MAX + 3


async def test_without_an_endpoint_there_are_no_traces() -> None:
    async with open_traces(TracingConfig(), Metrics()) as traces:
        assert not traces.is_on


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_collector_that_is_busy_is_asked_again(collector: TraceCollector, status: int) -> None:
    collector.answers = [(status, {"Retry-After": "3600"}), (status, {"Retry-After": "soon"})]
    sending = Sending(collector)
    sending.exporter.start()
    sending.exporter.put(span())
    wait_until("it was sent", lambda: sending.sent == 1)
    assert len(collector.requests) == 3
    sending.exporter.close(5.0)


@pytest.mark.parametrize("status", [400, 401, 404, 500, 301])
def test_a_collector_that_refuses_is_not_asked_again(collector: TraceCollector, status: int) -> None:
    collector.answers = [(status, {"Location": collector.url})]
    sending = Sending(collector)
    sending.exporter.start()
    sending.exporter.put(span())
    wait_until("it was lost", lambda: sending.lost == 1)
    sending.exporter.put(span("after"))
    wait_until("it was sent", lambda: sending.sent == 1)
    sending.exporter.close(5.0)
    assert [each.name for each in collector.spans] == ["after"]


def test_what_a_collector_says_it_refused_is_counted(collector: TraceCollector) -> None:
    collector.refuses_spans = 1
    sending = Sending(collector)
    sending.exporter.start()
    sending.exporter.put(span())
    sending.exporter.put(span())
    sending.exporter.close(5.0)
    assert (sending.sent, sending.lost) == (1, 1)


def test_a_full_queue_takes_no_more_and_counts_what_it_lost(collector: TraceCollector) -> None:
    sending = Sending(collector, queue_length_max=100)
    for _ in range(150):
        sending.exporter.put(span())
    sending.exporter.start()
    sending.exporter.close(5.0)
    assert (sending.sent, sending.lost) == (100, 50)


def test_a_collector_that_is_gone_holds_nobody_up_at_the_end() -> None:
    with running_collector() as gone:
        pass
    sending = Sending(gone)
    sending.exporter.put(span())
    sending.exporter.start()
    sending.exporter.close(5.0)
    assert (sending.sent, sending.lost) == (0, 1)


def test_an_authority_that_cannot_be_read_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(CannotStartError, match=r"tracing\.ca_file"):
        OtlpExporter(Collector.at("https://example.org", ca_file=tmp_path / "none.pem"), {})


@pytest.mark.parametrize(
    ("endpoint", "host", "port", "path"),
    [
        ("http://127.0.0.1:4318", "127.0.0.1", 4318, "/v1/traces"),
        ("https://tempo.example.org/", "tempo.example.org", 443, "/v1/traces"),
        ("https://tempo.example.org/otlp/v1/traces", "tempo.example.org", 443, "/otlp/v1/traces"),
        ("http://[::1]:4318", "::1", 4318, "/v1/traces"),
    ],
)
def test_an_endpoint_is_a_url(endpoint: str, host: str, port: int, path: str) -> None:
    collector = Collector.at(endpoint)
    assert (collector.host, collector.port, collector.path) == (host, port, path)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"endpoint": "127.0.0.1:4318"}, "is a URL such as"),
        ({"endpoint": "ftp://127.0.0.1"}, "is a URL such as"),
        ({"endpoint": "http://127.0.0.1:99999"}, "0-65535"),
        ({"endpoint": "http://me:secret@127.0.0.1"}, "no user"),
        ({"endpoint": "http://127.0.0.1/a\r\nHost: b"}, "plain characters"),
        ({"endpoint": "http://collector:4318"}, "without encryption"),
        ({"endpoint": "http://127.0.0.1", "ca_file": "ca.pem"}, "does nothing without https"),
        ({"endpoint": "https://a", "headers": "no header"}, "name=value"),
        ({"endpoint": "https://a", "headers": "a=b\r\nc: d"}, "name=value"),
        ({"ratio": 1.5}, "less than or equal to 1"),
    ],
)
def test_settings_that_lead_nowhere_are_refused(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        TracingConfig.model_validate(settings)


def test_plaintext_to_another_machine_must_be_said() -> None:
    assert TracingConfig(endpoint="http://collector:4318", plaintext="allowed").is_on


def test_the_collectors_key_is_no_matter_for_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bailiwick.toml"
    file.write_text('[tracing]\nendpoint = "https://a"\nheaders = "x-key=abc"\n')
    with pytest.raises(ConfigError, match="is a secret"):
        load(file, {})
    config = load(
        None, {"BAILIWICK__TRACING__ENDPOINT": "https://a", "BAILIWICK__TRACING__HEADERS": "x-key=abc"}
    )
    assert "abc" not in repr(config)

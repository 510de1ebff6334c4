"""Traces, put together as the settings say: where they go, and what they say of us."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bailiwick import __version__
from bailiwick.telemetry.config import TracingConfig
from bailiwick.telemetry.metrics import Metrics
from bailiwick.telemetry.traces import NO_TRACES, Traces

CLOSE_S: Final = 3.0
"""What is left at the end has this long to reach the collector."""


@asynccontextmanager
async def open_traces(config: TracingConfig, metrics: Metrics) -> AsyncIterator[Traces]:
    """Traces inside the block; after it, what was told is sent. Raises CannotStartError."""
    collector = config.collector()
    if collector is None:
        yield NO_TRACES
        return
    # OpenTelemetry's messages are behind this: who does not trace does not pay for them.
    from bailiwick.telemetry.otlp import OtlpExporter

    resource = {
        "service.name": config.service_name,
        "service.version": __version__,
        "service.instance.id": secrets.token_hex(8),
    }
    exporter = OtlpExporter(
        collector, resource, queue_length_max=config.queue_length_max, on_told=metrics.spans_told
    )
    exporter.start()
    try:
        yield Traces(
            exporter.put,
            ratio=config.ratio,
            joins_callers=config.join_callers,
            tells_statements=config.statement_text,
        )
    finally:
        await asyncio.to_thread(exporter.close, CLOSE_S)

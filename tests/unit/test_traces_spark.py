"""What Spark is asked carries the trace of whoever asked: as a tag of its jobs, and as W3C headers."""

from collections.abc import AsyncIterator
from typing import Any

from pyspark.sql.connect import proto

from bailiwick.engines.spark_calls import SparkCalls
from bailiwick.engines.spark_operation import Operation
from bailiwick.ids import LeaseId, OperationId, SessionId
from bailiwick.telemetry.trace_context import TraceContext
from bailiwick.telemetry.traces import Traces

CALLER = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", is_sampled=True, state="a=1")
Metadata = tuple[tuple[str, str], ...]


class Stub:
    """Remembers what Spark would have been asked, and answers with nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[proto.ExecutePlanRequest, Metadata]] = []

    def ExecutePlan(self, request: Any, *, metadata: Metadata) -> AsyncIterator[Any]:  # noqa: N802
        self.asked.append((request, metadata))
        return self._nothing()

    async def _nothing(self) -> AsyncIterator[Any]:
        nothing: tuple[Any, ...] = ()
        for each in nothing:
            yield each


async def asked(traces: Traces) -> tuple[proto.ExecutePlanRequest, Metadata]:
    stub = Stub()
    calls = SparkCalls(stub, "token", SessionId("s"), user_id="u")
    with traces.call("DoGet", CALLER):
        operation = Operation(
            calls, proto.Plan(), operation=OperationId("o"), lease=LeaseId("L1"), tags=["Pann"]
        )
    await operation.ended
    [found] = stub.asked
    return found


async def test_an_operation_carries_its_trace() -> None:
    request, metadata = await asked(Traces(lambda _span: None))
    assert list(request.tags) == ["L1", "Pann", f"T{CALLER.trace_id}"]
    headers = dict(metadata)
    assert headers["traceparent"].startswith(f"00-{CALLER.trace_id}-")
    assert headers["tracestate"] == "a=1"


async def test_without_traces_nothing_is_added() -> None:
    request, metadata = await asked(Traces())
    assert list(request.tags) == ["L1", "Pann"]
    assert metadata == (("authorization", "Bearer token"),)

"""The pool knows for whose trace a lease is, and keeps its own affairs out of it."""

from pool_house import ANN, pool_of, wait_until

from bailiwick.engines.engine import EngineSession
from bailiwick.telemetry.spans import Span
from bailiwick.telemetry.trace_context import TraceContext
from bailiwick.telemetry.traces import Traces, current_trace
from bailiwick.testing.engines import ScriptedEngine


class WatchedEngine(ScriptedEngine):
    """Remembers for whose trace each session was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened_for: list[TraceContext | None] = []

    async def open_session(self) -> EngineSession:
        self.opened_for.append(current_trace())
        return await super().open_session()


async def test_what_the_catalog_is_asked_under_a_lease_belongs_to_whoever_has_it() -> None:
    told: list[Span] = []
    traces = Traces(told.append)
    async with pool_of(WatchedEngine()) as pool:
        with traces.call("DoGet"):
            async with pool.lease(ANN) as lease:
                traces.catalog_call(lease.id, route="loadTable", status=200, seconds=0.1)
            traces.catalog_call(lease.id, route="late", status=200, seconds=0.1)
    assert [span.name for span in told] == ["catalog loadTable", "DoGet"]
    assert told[0].parent_id == told[1].context.span_id


async def test_a_session_that_is_opened_on_a_querys_occasion_is_not_part_of_its_trace() -> None:
    engine = WatchedEngine()
    async with pool_of(engine, slots=1, settings={"session_queries_max": 1}) as pool:
        with Traces(lambda _span: None).call("DoGet"):
            async with pool.lease(ANN):
                pass
            await wait_until(lambda: len(engine.opened_for) == 2)
    assert engine.opened_for == [None, None]

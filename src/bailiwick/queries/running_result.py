"""What a door holds of a query that runs."""

from collections.abc import AsyncIterator

from bailiwick.engines.description import Kind
from bailiwick.queries.running import Running
from bailiwick.queries.statement import RanOn, Result
from bailiwick.results.batches import Frame


class RunningResult(Result):
    def __init__(self, running: Running) -> None:
        self._running = running
        self.query_id = running.id
        self.schema = running.schema or b""
        self.kind = running.kind or Kind.READ

    @property
    def affected_rows(self) -> int:
        return self._running.affected_rows

    @property
    def ran_on(self) -> RanOn | None:
        query = self._running.query
        return None if query.node_id is None else RanOn(query.node_id, query.is_fallback)

    async def frames(self) -> AsyncIterator[Frame]:
        async for frame in self._running.delivery.frames():
            yield frame
        self._running.delivered()

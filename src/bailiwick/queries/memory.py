"""Queries remembered as long as the process lives. For tests, and for gateways that keep no history."""

from collections.abc import Sequence
from dataclasses import replace

from bailiwick.identity.abilities import EVERYONES, Whose
from bailiwick.ids import GatewayId, QueryId
from bailiwick.queries.query import Failure, Query, State
from bailiwick.queries.store import QueryStore


class MemoryQueryStore(QueryStore):
    def __init__(self) -> None:
        self._queries: dict[QueryId, Query] = {}

    async def save(self, queries: Sequence[Query]) -> None:
        for query in queries:
            known = self._queries.get(query.id)
            if known is None or not known.state.is_terminal or query.state.is_terminal:
                self._queries[query.id] = _as_kept(query)

    async def find(self, query_id: QueryId) -> Query | None:
        return self._queries.get(query_id)

    async def recent(self, whose: Whose = EVERYONES, *, limit: int) -> list[Query]:
        chosen = [query for query in self._queries.values() if whose.covers(query.principal, query.tenant)]
        return sorted(chosen, key=lambda query: (query.created_at, query.id), reverse=True)[:limit]

    async def fail_unfinished(self, failure: Failure, *, at: float) -> int:
        unfinished = [query for query in self._queries.values() if not query.state.is_terminal]
        for query in unfinished:
            self._queries[query.id] = replace(query, state=State.FAILED, failure=failure, finished_at=at)
        return len(unfinished)

    async def owner(self, query_id: QueryId) -> GatewayId | None:
        del query_id
        return None

    async def prune(self, *, created_before: float) -> int:
        old = [
            query.id
            for query in self._queries.values()
            if query.state.is_terminal and query.created_at < created_before
        ]
        for query_id in old:
            del self._queries[query_id]
        return len(old)


def _as_kept(query: Query) -> Query:
    return replace(query, operation=None, queue_position=None, tasks_done=0, tasks_total=0, story=())

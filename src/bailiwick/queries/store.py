"""Where queries are remembered.

A store keeps queries and gives them back. It does not know which of them still run, nor who may see them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from bailiwick.identity.abilities import EVERYONES, Whose
from bailiwick.ids import GatewayId, QueryId
from bailiwick.queries.query import Failure, Query


class QueryStore(ABC):
    @abstractmethod
    async def save(self, queries: Sequence[Query]) -> None:
        """Keep these, all or none of them; when it returns they survive a crash.

        One with the same id is replaced, except that an ended query never goes back to one that has not
        ended.
        """

    @abstractmethod
    async def find(self, query_id: QueryId) -> Query | None:
        """The query, as far as it is kept: its story, its place in the queue and its tasks are not."""

    @abstractmethod
    async def recent(self, whose: Whose = EVERYONES, *, limit: int) -> list[Query]:
        """Their queries, the newest first, up to `limit` of them."""

    @abstractmethod
    async def fail_unfinished(self, failure: Failure, *, at: float) -> int:
        """Mark every query that has not ended, and that no gateway owns, as failed. How many there were.

        What a gateway owns is failed when that is known to be gone: see `owners.py`.
        """

    @abstractmethod
    async def owner(self, query_id: QueryId) -> GatewayId | None:
        """The gateway that runs the query or ran it; None where nobody owns it or it is not known."""

    @abstractmethod
    async def prune(self, *, created_before: float) -> int:
        """Forget ended queries that are older than this. How many there were."""

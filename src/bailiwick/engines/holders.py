"""Which lease holds which session, for the catalog to ask from a thread of its own.

What a holder may is fixed when its lease begins: a query keeps the policies under which it was admitted.

Written on one thread only; read from any, without a lock: each change puts a new dictionary in the place of
the old one, and nobody changes a dictionary that can be seen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, QueryId
from bailiwick.policy.access import Access
from bailiwick.policy.model import EMPTY, Policies


@dataclass(frozen=True, slots=True)
class Holder:
    lease: LeaseId
    access: Access
    query_id: QueryId | None = None
    """For whose sake; None for work of the gateway's own."""


class Holders:
    """`policies` are asked for once a lease."""

    def __init__(self, policies: Callable[[], Policies] = lambda: EMPTY) -> None:
        self._policies = policies
        self._by_handle: Mapping[str, Holder] = {}
        self._by_lease: Mapping[LeaseId, Holder] = {}

    def enter(
        self, handle: str, lease: LeaseId, principal: Principal, query_id: QueryId | None = None
    ) -> Access:
        """From now on calls of this session under this lease are the principal's."""
        holder = Holder(lease, Access(principal, self._policies()), query_id)
        self._by_lease = {**self._by_lease, lease: holder}
        self._by_handle = {**self._by_handle, handle: holder}
        return holder.access

    def leave(self, handle: str) -> None:
        """From now on every call of this session is refused. Leaving twice is fine."""
        left = self._by_handle.get(handle)
        self._by_handle = {known: held for known, held in self._by_handle.items() if known != handle}
        self._by_lease = {known: held for known, held in self._by_lease.items() if held is not left}

    def holder(self, handle: str, lease: str) -> Access | None:
        """What the one who asks may, if this is the session's current lease."""
        held = self._by_handle.get(handle)
        return held.access if held is not None and held.lease == lease else None

    def of_lease(self, lease: LeaseId) -> Holder | None:
        return self._by_lease.get(lease)

"""Which lease holds which session, for the catalog to ask from a thread of its own.

What a holder may is fixed when its lease begins: a query keeps the policies under which it was admitted.

A session of the pool has one lease at a time, and whoever comes later puts an end to what was before. A
session that is one person's own may have several at once, each with an end of its own.

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
        self._by_handle: Mapping[str, Mapping[LeaseId, Holder]] = {}
        self._by_lease: Mapping[LeaseId, Holder] = {}

    @property
    def policy_version(self) -> int:
        """Of the policies that a lease would get which began now."""
        return self._policies().version

    def enter(
        self, handle: str, lease: LeaseId, principal: Principal, query_id: QueryId | None = None
    ) -> Access:
        """From now on calls of this session under this lease, and no other, are the principal's."""
        self.leave(handle)
        return self._enter({}, handle, lease, principal, query_id)

    def enter_beside(
        self, handle: str, lease: LeaseId, principal: Principal, query_id: QueryId | None = None
    ) -> Access:
        """The same, but leases that the session has already stay. ValueError if another principal has one."""
        known = self._by_handle.get(handle, {})
        for held in known.values():
            check_same(held.access.principal, principal)
        return self._enter(known, handle, lease, principal, query_id)

    def leave(self, handle: str, lease: LeaseId | None = None) -> None:
        """From now on calls of this session, or those under `lease` alone, are refused. Twice is fine."""
        known = self._by_handle.get(handle, {})
        left = known.keys() if lease is None else known.keys() & {lease}
        if not left:
            return
        staying = {each: held for each, held in known.items() if each not in left}
        others = {each: held for each, held in self._by_handle.items() if each != handle}
        self._by_handle = {**others, handle: staying} if staying else others
        self._by_lease = {each: held for each, held in self._by_lease.items() if each not in left}

    def holder(self, handle: str, lease: str) -> Access | None:
        """What the one who asks may, if this is a lease that the session has now."""
        held = self._by_handle.get(handle, {}).get(LeaseId(lease))
        return None if held is None else held.access

    def of_lease(self, lease: LeaseId) -> Holder | None:
        return self._by_lease.get(lease)

    def _enter(
        self,
        known: Mapping[LeaseId, Holder],
        handle: str,
        lease: LeaseId,
        principal: Principal,
        query_id: QueryId | None,
    ) -> Access:
        holder = Holder(lease, Access(principal, self._policies()), query_id)
        self._by_lease = {**self._by_lease, lease: holder}
        self._by_handle = {**self._by_handle, handle: {**known, lease: holder}}
        return holder.access


def check_same(owner: Principal, principal: Principal) -> None:
    """Raise ValueError unless both are the same one. Roles may come and go."""
    if (owner.tenant, owner.name, owner.actor) != (principal.tenant, principal.name, principal.actor):
        raise ValueError("a session is one principal's at a time")

"""Which lease holds which session, for the catalog to ask from a thread of its own.

Written on one thread only; read from any, without a lock: each change puts a new dictionary in the place of
the old one, and nobody changes a dictionary that can be seen.
"""

from collections.abc import Mapping

from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId


class Holders:
    def __init__(self) -> None:
        self._by_handle: Mapping[str, tuple[LeaseId, Principal]] = {}

    def enter(self, handle: str, lease: LeaseId, principal: Principal) -> None:
        """From now on calls of this session under this lease are the principal's."""
        self._by_handle = {**self._by_handle, handle: (lease, principal)}

    def leave(self, handle: str) -> None:
        """From now on every call of this session is refused. Leaving twice is fine."""
        self._by_handle = {known: held for known, held in self._by_handle.items() if known != handle}

    def holder(self, handle: str, lease: str) -> Principal | None:
        """Who asks, if this is the session's current lease."""
        current, principal = self._by_handle.get(handle, (None, None))
        return principal if current == lease else None

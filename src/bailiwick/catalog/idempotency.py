"""A change that is sent twice is made once: the `Idempotency-Key` of Iceberg's REST protocol.

A client gives each change a key of its own, and sends the key again if it does not learn what became of it.
That the change was made is written down in the transaction that makes it, so a crash between the two cannot
be. Only what was done is written down: a call that was refused changed nothing and may be tried again.
"""

import hashlib
import threading
import uuid as uuids
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bailiwick.catalog.backend import (
    CatalogBackend,
    Change,
    Create,
    Drop,
    Outcome,
    Place,
    Remember,
    Rename,
    Swap,
)
from bailiwick.catalog.call import Answer, Call
from bailiwick.catalog.refusals import BadRequestError, KeyReusedError, StillBusyError
from bailiwick.catalog.state import Witness
from bailiwick.clock import Clock, wall
from bailiwick.identity.principal import Principal

LIFETIME_S: Final = 24 * 3600.0
LIFETIME_TEXT: Final = "PT24H"
"""The same, as `/v1/config` tells it."""
GRACE_S: Final = 3600.0
"""How much longer than they were told clients may come back."""
WAIT_S: Final = 20.0

_CLOCK_SKEW_S: Final = 300.0
_ELSEWHERE_S: Final = 600.0
"""How long a call by another gateway may take, of which nothing is known here until it is done."""
_PLACES_MAX: Final = 100
_VERSION_WITH_TIME: Final = 7


class CommitState(StrEnum):
    COMMITTED = "committed"
    NOT_COMMITTED = "not committed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CommitShown:
    """What is known of a key."""

    state: CommitState
    because: str
    outcome: Outcome | None = None


class Idempotency:
    """Any thread may call; calls block."""

    def __init__(self, backend: CatalogBackend, *, now: Clock = wall) -> None:
        self._backend = backend
        self._now = now
        self._under_way: set[str] = set()
        self._changed = threading.Condition()

    def once(
        self, call: Call, do: Callable[[Call], Answer], again: Callable[[Call, Outcome], Answer]
    ) -> Answer:
        """What `do` answers, or what `again` makes of the outcome if the call was done before."""
        key = checked_key(call.idempotency_key)
        digest = _digest(call)
        with self._alone(key):
            outcome = self._backend.outcome(key)
            if outcome is None:
                return do(self._remembering(call, key, digest))
        principal = call.principal
        if (outcome.digest, outcome.principal, outcome.tenant) != (digest, principal.name, principal.tenant):
            raise KeyReusedError("this idempotency key was used for another request")
        return again(call, outcome)

    def shown(self, key: str, principal: Principal) -> CommitShown:
        """What became of the call with this key. Others' keys are unknown to whoever may not see all."""
        key = checked_key(key)
        with self._changed:
            is_under_way = key in self._under_way
        outcome = self._backend.outcome(key)
        if outcome is not None and not _may_see(principal, outcome):
            return CommitShown(CommitState.UNKNOWN, "nothing is known of this key")
        if outcome is not None:
            return CommitShown(CommitState.COMMITTED, "the change was made", outcome)
        if is_under_way:
            return CommitShown(CommitState.UNKNOWN, "the change is being made right now")
        made_at = _time_of(key)
        since = max(self._now() - LIFETIME_S, self._backend.known_since())
        if made_at is None or not since < made_at < self._now() + _CLOCK_SKEW_S:
            return CommitShown(CommitState.UNKNOWN, "nothing is known of this key, or not any more")
        if self._backend.is_shared and made_at > self._now() - _ELSEWHERE_S:
            return CommitShown(CommitState.UNKNOWN, "another gateway may be making the change right now")
        return CommitShown(CommitState.NOT_COMMITTED, "no change was made under this key")

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """Nobody else does anything under this key. Raises StillBusyError if somebody does for too long."""
        with self._changed:
            if not self._changed.wait_for(lambda: key not in self._under_way, WAIT_S):
                raise StillBusyError("the same request is being worked on: ask again")
            self._under_way.add(key)
        try:
            yield
        finally:
            with self._changed:
                self._under_way.discard(key)
                self._changed.notify_all()

    def _remembering(self, call: Call, key: str, digest: str) -> Call:
        principal, now = call.principal, self._now()

        def witness(changes: Sequence[Change]) -> Sequence[Change]:
            places = tuple(place for change in changes for place in _places(change))[:_PLACES_MAX]
            outcome = Outcome(
                key, principal.name, principal.tenant, call.target.route.value, digest, places, now
            )
            return [Remember(outcome, forget_before=now - LIFETIME_S - GRACE_S)]

        def fence() -> Witness:
            call.fence()
            return witness

        return replace(call, fence=fence)


def checked_key(key: str) -> str:
    """The key in small letters. Raises BadRequestError unless it is a UUID as the protocol writes it."""
    try:
        if len(key) != 36:
            raise ValueError("length")
        return str(uuids.UUID(key))
    except ValueError as error:
        raise BadRequestError("an idempotency key is a UUID of 36 characters") from error


def _digest(call: Call) -> str:
    target = call.target
    asked = "\x1e".join(
        [
            target.route.value,
            *target.namespace,
            target.name,
            *(f"{k}={v}" for k, v in sorted(call.fields.items())),
        ]
    )
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass") + b"\x1d" + call.body).hexdigest()


def _places(change: Change) -> Iterator[Place]:
    match change:
        case Create(name, entry) | Swap(name, _, entry) | Drop(name, entry) | Rename(_, name, entry):
            yield Place(name, entry)
        case _:
            return


def _may_see(principal: Principal, outcome: Outcome) -> bool:
    is_own = (principal.name, principal.tenant) == (outcome.principal, outcome.tenant)
    return is_own or principal.may_see_all_queries


def _time_of(key: str) -> float | None:
    """When the key was made, if it says so."""
    value = uuids.UUID(key)
    return (value.int >> 80) / 1000 if value.version == _VERSION_WITH_TIME else None

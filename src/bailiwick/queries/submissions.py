"""Statements that come with a key of their client's: sent twice, they run once. Values, a port, a decision.

A client that does not learn what became of its statement sends it again under the same key. Whoever comes
first claims the key; of two who come at once, the store says which is first. A change puts down that it
begins before it does, and how it ended when it has. So what is found under a key says whether it may run:

    claimed ──► begun ──► ended
       │          └─ nobody runs it any more: whether it happened is not known, and it never runs again
       └─ nobody runs it any more: nothing was changed, and it may run

What is kept is a digest of the statement and how it ended, neither its text nor its rows. Who waits for whom
is told in `submitting.py`.
"""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bailiwick.engines.description import Kind
from bailiwick.engines.parameters import Row, dump
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.statements import redacted
from bailiwick.ids import QueryId
from bailiwick.queries import failures
from bailiwick.queries.query import Query, State
from bailiwick.queries.statement import UNKNOWN_ROWS, Statement, SubmissionKey

KEY_CHARS_MAX: Final = 128
STRANGER_S: Final = 10.0
"""How long a claim whose query is not to be found yet is believed to be on its way."""
SETTLE_S: Final = 5.0
"""How long after a query's end its outcome may still come in."""

_CUT_OFF: Final = frozenset({Code.QUERY_TIMEOUT, Code.QUERY_CANCELLED, Code.CIRCUIT_BREAKER_OPEN})
"""With these a change was ended from outside: how far it had come by then, the error does not say."""
_KEY: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._~:+/=-]{{0,{KEY_CHARS_MAX - 1}}}")


@dataclass(frozen=True, slots=True)
class SubmissionId:
    """Whose key it is. One made on behalf of somebody is neither theirs nor the actor's own."""

    tenant: str
    principal: str
    actor: str
    """Empty where they act for themselves."""
    key: str
    part: int = 0

    @classmethod
    def of(cls, principal: Principal, key: SubmissionKey) -> "SubmissionId":
        return cls(principal.tenant, principal.name, principal.actor or "", key.text, key.part)


@dataclass(frozen=True, slots=True)
class Done:
    """It happened."""

    affected_rows: int
    schema: bytes = b""
    """Of its answer; empty where that is not known any more."""
    answer_rows: int = 0
    """How many rows its answer had, which nobody has kept."""


@dataclass(frozen=True, slots=True)
class Broke:
    """It did not happen, or nobody knows whether it did."""

    code: Code
    message: str
    sqlstate: str | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    is_unknown: bool = False


Outcome = Done | Broke


@dataclass(frozen=True, slots=True)
class Submission:
    """What is kept under a key."""

    id: SubmissionId
    digest: str
    query_id: QueryId
    """The query that holds the claim."""
    claimed_at: float
    expires_at: float
    begun_at: float | None = None
    """Since when it may have changed something."""
    outcome: Outcome | None = None


class SubmissionStore(ABC):
    """Submissions by their ids. Every step that could run a statement twice is a comparison in the store."""

    @abstractmethod
    async def claim(self, wanted: Submission, *, keys_max: int) -> Submission | None:
        """Keep `wanted` unless its id is taken, and say what is kept: `wanted` itself, or what was there.

        What expired before `wanted.claimed_at` is not there. None if the principal has `keys_max` already.
        """

    @abstractmethod
    async def take_over(self, found: Submission, wanted: Submission) -> bool:
        """Put `wanted` in the place of `found`, if it still holds the claim and has not begun."""

    @abstractmethod
    async def begin(self, held: Submission, *, at: float) -> bool:
        """Put down that it begins; twice is fine. False if it does not hold the claim any more."""

    @abstractmethod
    async def give_back(self, held: Submission) -> None:
        """It changed nothing after all: as if it had not begun. Not holding the claim any more is fine."""

    @abstractmethod
    async def end(self, held: Submission, outcome: Outcome) -> None:
        """Put down how it ended. Not holding the claim any more is fine."""

    @abstractmethod
    async def prune(self, *, expired_before: float) -> int:
        """Forget what expired before. How many there were."""


@dataclass(frozen=True, slots=True)
class Answer:
    """It has ended so."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Wait:
    """Somebody runs it. `kind` is None while that is not known."""

    state: State
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Nobody runs it, and nothing was changed."""


Verdict = Answer | Wait | TakeOver


def decide(found: Submission, query: Query | None, *, now: float) -> Verdict:
    """What is to be done about a statement whose key was claimed before. `query` is the one that did."""
    if found.outcome is not None:
        return Answer(found.outcome)
    if query is None:
        return _missing(found, now)
    if not query.state.is_terminal:
        return Wait(query.state, query.kind)
    if found.begun_at is None:
        return TakeOver()
    if query.finished_at is not None and now < query.finished_at + SETTLE_S:
        return Wait(query.state, query.kind)
    if query.state is State.FINISHED:
        return Answer(Done(UNKNOWN_ROWS, answer_rows=query.rows))
    failure = query.failure
    return Answer(_lost() if failure is None else Broke(failure.code, failure.message, is_unknown=True))


def _missing(found: Submission, now: float) -> Verdict:
    if now < found.claimed_at + STRANGER_S:
        return Wait(State.QUEUED)
    return TakeOver() if found.begun_at is None else Answer(_lost())


def _lost() -> Broke:
    lost = failures.restarted()
    return Broke(lost.code, lost.message, is_unknown=True)


def outcome_of(error: BailiwickError, *, has_started: bool) -> Broke | None:
    """How a change that began has ended; None if it changed nothing and may as well be tried again."""
    is_cut_off = has_started and error.code in _CUT_OFF
    is_unknown = is_cut_off or error.details.get("outcome") == "unknown"
    if not is_unknown and (error.retryable or not has_started):
        return None
    return Broke(error.code, error.message, error.sqlstate, error.details, is_unknown)


def checked_key(text: str) -> SubmissionKey:
    """INVALID_ARGUMENTS unless it can be a key.

    >>> checked_key("order-17").text
    'order-17'
    """
    if not _KEY.fullmatch(text):
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"An idempotency key has 1 to {KEY_CHARS_MAX} letters, digits and characters of `._~:+/=-`, and "
            "begins with a letter or digit.",
            details={"reason": "idempotency_key"},
        )
    return SubmissionKey(text)


def part_of(key: SubmissionKey, number: int, rows: Sequence[Row]) -> SubmissionKey:
    """The key of one run, where a statement runs once for each of several rows."""
    whole = hashlib.sha256()
    for row in rows:
        dumped = dump(row)
        whole.update(len(dumped).to_bytes(8, "big") + dumped)
    return SubmissionKey(key.text, number, whole.hexdigest())


def digest_of(statement: Statement) -> str:
    """The same for statements that ask the same, in the same place and with the same values."""
    if redacted(statement.sql) != statement.sql:
        # A digest of a password is worth guessing at.
        raise BailiwickError(
            Code.NOT_SUPPORTED, "A statement about a user's secrets takes no idempotency key."
        )
    meant = [
        statement.sql,
        statement.catalog,
        list(statement.namespace),
        statement.time_zone,
        statement.double_quoted_identifiers,
        statement.submission.whole if statement.submission is not None else "",
    ]
    text = json.dumps(meant).encode()
    return hashlib.sha256(len(text).to_bytes(8, "big") + text + dump(statement.parameters)).hexdigest()

"""Whoever sends a statement under a key either runs it, or learns what became of it.

A change that somebody else runs is waited for: its outcome is what the caller asked for. A read that somebody
else runs is not, since its rows go to one reader: the caller is told so. Both are found out anew again and
again, because whoever runs it may be another gateway.

The client of a change with a key may leave and come back: the change goes on without it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, assert_never

from bailiwick.clock import Clock
from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import QueryId
from bailiwick.queries import failures
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.query import Query, State
from bailiwick.queries.running import Running
from bailiwick.queries.statement import Result, Statement
from bailiwick.queries.submissions import (
    Answer,
    Broke,
    Done,
    Outcome,
    Submission,
    SubmissionId,
    SubmissionStore,
    TakeOver,
    Wait,
    decide,
    digest_of,
    outcome_of,
)
from bailiwick.results.batches import NO_COLUMNS, Frame
from bailiwick.telemetry.logs import logger

LOOK_EVERY_S: Final = 0.5
"""How often one looks whether what another gateway runs has ended."""
PRUNE_EVERY_S: Final = 600.0
SCHEMA_BYTES_MAX: Final = 64 << 10

_NO_FRAMES: Final[tuple[Frame, ...]] = ()

FindQuery = Callable[[QueryId], Awaitable[Query | None]]
"""A query that lives here, or as it is on record."""

_log = logger(__name__)


class Claim:
    """The right to run one statement under its key."""

    def __init__(
        self, submission: Submission, store: SubmissionStore, now: Clock, closed: Callable[[], None]
    ) -> None:
        self._submission = submission
        self._store = store
        self._now = now
        self._closed = closed
        self._has_begun = False

    @contextmanager
    def unless_begun(self) -> Iterator[None]:
        """If what would run under it cannot even start, the claim is open to others."""
        try:
            yield
        except BaseException:
            self._closed()
            raise

    async def begin(self) -> None:
        """Before anything is changed. RESOURCE_EXHAUSTED if somebody else has taken the claim over."""
        # First, as it may be cancelled while it is being put down.
        self._has_begun = True
        if not await self._store.begin(self._submission, at=self._now()):
            self._has_begun = False
            raise failures.still_running(self._submission.query_id, State.RUNNING)

    async def witness(self, running: Running) -> None:
        """Put down what becomes of `running`, whether or not its client is still there. Never raises."""
        try:
            error = None
            try:
                await running.wait_ready()
            except BailiwickError as failed:
                error = failed
            if self._has_begun:
                await self._put_down(running, error)
        except Exception:
            # What the query's own record says is found then, without the number of rows.
            _log.exception("outcome_not_recorded", query_id=running.id)
        finally:
            self._closed()

    def goes_on(self, running: Running) -> bool:
        """Whether it shall go on without its client, who can come back for the outcome."""
        return self._has_begun and running.state is State.RUNNING and running.kind is Kind.CHANGE

    async def _put_down(self, running: Running, error: BailiwickError | None) -> None:
        if error is None:
            schema = running.schema or b""
            schema = schema if len(schema) <= SCHEMA_BYTES_MAX else b""
            await self._store.end(self._submission, Done(running.affected_rows, schema, running.rows))
            return
        broke = outcome_of(error, has_started=running.query.started_at is not None)
        if broke is None:
            await self._store.give_back(self._submission)
            return
        if broke.is_unknown:
            error.outcome_unknown(self._submission.id.key)
        await self._store.end(self._submission, broke)


class Submissions:
    """Belongs to one event loop."""

    def __init__(self, store: SubmissionStore, find: FindQuery, limits: LimitsConfig, now: Clock) -> None:
        self._store = store
        self._find = find
        self._kept_s = limits.idempotency_s
        self._keys_max = limits.idempotency_keys_max
        self._now = now
        self._open: dict[SubmissionId, asyncio.Event] = {}
        """What is run here under a key. The event is set when its outcome is on record."""
        self._claims: dict[QueryId, Claim] = {}
        self._prune_at = 0.0

    async def claim(self, statement: Statement, query_id: QueryId, *, patience_s: float) -> Claim | Result:
        """The right to run it as `query_id`, or what it led to before. Waits for a change at most so long.

        Raises what it failed with before, INVALID_ARGUMENTS for a key of another statement, and
        RESOURCE_EXHAUSTED for one that runs and cannot be waited for.
        """
        digest = digest_of(statement)
        await self._prune()
        # Only the waiting is cut short: a step in the database that is broken off may have been done or not.
        deadline = asyncio.get_running_loop().time() + patience_s
        while True:
            wanted = self._wanted(statement, digest, query_id)
            found = await self._claimed(wanted)
            if found.query_id == query_id:
                return self._claim(found)
            verdict = await self._verdict(found)
            match verdict:
                case Answer(outcome):
                    return _recorded(found, outcome)
                case TakeOver():
                    if await self._store.take_over(found, wanted):
                        return self._claim(wanted)
                case Wait(state, kind):
                    left_s = deadline - asyncio.get_running_loop().time()
                    if left_s <= 0 or (kind is not None and kind is not Kind.CHANGE):
                        raise failures.still_running(found.query_id, state)
                    await self._wait(found.id, min(left_s, LOOK_EVERY_S))
                case _:
                    assert_never(verdict)

    async def begin(self, query_id: QueryId) -> None:
        """A change is about to start. RESOURCE_EXHAUSTED if somebody else has taken its key over."""
        claim = self._claims.get(query_id)
        if claim is not None:
            await claim.begin()

    def _wanted(self, statement: Statement, digest: str, query_id: QueryId) -> Submission:
        if statement.submission is None:
            raise BailiwickError(Code.INTERNAL_ERROR, "A statement without a key cannot be claimed.")
        now = self._now()
        identity = SubmissionId.of(statement.principal, statement.submission)
        return Submission(identity, digest, query_id, now, now + self._kept_s)

    async def _claimed(self, wanted: Submission) -> Submission:
        found = await self._store.claim(wanted, keys_max=self._keys_max)
        if found is None:
            raise failures.too_many_keys(self._keys_max)
        if found.digest != wanted.digest:
            raise failures.key_reused()
        return found

    async def _verdict(self, found: Submission) -> Answer | Wait | TakeOver:
        query = await self._find(found.query_id)
        if found.id in self._open and found.outcome is None:
            # It may have ended; that its outcome is put down is still to come.
            return Wait(State.QUEUED) if query is None else Wait(query.state, query.kind)
        return decide(found, query, now=self._now())

    def _claim(self, submission: Submission) -> Claim:
        ended = self._open[submission.id] = asyncio.Event()

        def close() -> None:
            if self._open.get(submission.id) is ended:
                del self._open[submission.id]
            self._claims.pop(submission.query_id, None)
            ended.set()

        claim = self._claims[submission.query_id] = Claim(submission, self._store, self._now, close)
        return claim

    async def _wait(self, identity: SubmissionId, at_most_s: float) -> None:
        ended = self._open.get(identity)
        if ended is None:
            await asyncio.sleep(at_most_s)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await ended.wait()

    async def _prune(self) -> None:
        if self._now() >= self._prune_at:
            self._prune_at = self._now() + PRUNE_EVERY_S
            await self._store.prune(expired_before=self._now())


class RecordedResult(Result):
    """What a change led to when it ran. Nothing runs for it."""

    def __init__(self, query_id: QueryId, done: Done) -> None:
        self.query_id = query_id
        self.schema = done.schema or NO_COLUMNS
        self.kind = Kind.CHANGE
        self._done = done

    @property
    def affected_rows(self) -> int:
        return self._done.affected_rows

    async def frames(self) -> AsyncIterator[Frame]:
        if self._done.answer_rows:
            raise failures.answer_not_kept(self.query_id, self._done.affected_rows)
        for frame in _NO_FRAMES:
            yield frame


def _recorded(found: Submission, outcome: Outcome) -> Result:
    _log.info("answered_from_record", query_id=found.query_id)
    match outcome:
        case Done():
            return RecordedResult(found.query_id, outcome)
        case Broke():
            raise _told_again(found, outcome)
        case _:
            assert_never(outcome)


def _told_again(found: Submission, broke: Broke) -> BailiwickError:
    again = "It was sent before with the same idempotency key, and was not run again: another key runs it."
    error = BailiwickError(
        broke.code,
        f"{broke.message} {again}",
        sqlstate=broke.sqlstate,
        retryable=False,
        details={**broke.details, "recorded": "true"},
        query_id=found.query_id,
    )
    return error.outcome_unknown(found.id.key) if broke.is_unknown else error

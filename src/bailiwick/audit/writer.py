"""The one thread that writes the audit log, and the bounded queue before it.

It writes in batches: at once if somebody waits for it, else within `WRITE_EVERY_S`. An entry that nobody
waits for stays in the queue until it is written, however long the database fails; one that somebody waits for
is given back as a failure, and nothing is kept of it. What finds no room is counted, and the count is the
next entry that is written.
"""

import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Final

from bailiwick.audit.anchor_file import AnchorFile
from bailiwick.audit.chain import Anchor, kept
from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.audit.store import AuditStore
from bailiwick.clock import Clock, monotonic
from bailiwick.errors import BailiwickError, Code
from bailiwick.telemetry.logs import logger

WRITE_EVERY_S: Final = 0.2
ANCHOR_EVERY_S: Final = 1.0
ANCHOR_TOLD_EVERY_S: Final = 3600.0
RETRY_EVERY_S: Final = 1.0
BATCH_MAX: Final = 500
LOSSES_TOLD_EVERY: Final = 1_000
GATEWAY: Final = "bailiwick"
"""In whose name the log speaks of itself."""

_log = logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    entry: AuditEntry | None
    """None where somebody only wants to know that all before it is written."""
    written: "Future[Anchor] | None" = None


class Writer:
    """Between `start` and `close`. `put`, `hand_over` and `touch` may be called from any thread."""

    def __init__(
        self, store: AuditStore, anchor_file: AnchorFile, *, queue_length_max: int, wall: Clock
    ) -> None:
        self._store = store
        self._anchor_file = anchor_file
        self._queue_length_max = queue_length_max
        self._wall = wall
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._urgent = 0
        self._lost = 0
        self._is_closing = False
        self._is_anchor_old = False
        self._anchored_at = monotonic()
        self._anchor_told_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self.is_failing = False

    @property
    def length(self) -> int:
        return len(self._queue)

    def start(self) -> None:
        """Compare the log's end with what the anchor file says, and begin. Blocks on the disk."""
        if (problem := self._check_end()) is not None:
            _log.error("audit_does_not_match_its_anchor", problem=problem)
            self._store.append([kept(self._gap(problem))])
        self._write_anchor()
        self._thread.start()

    def close(self) -> None:
        """Write what is left, as far as that can be done, and end. Blocks."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    def put(self, entry: AuditEntry) -> None:
        """Write `entry` soon. Never waits, never raises."""
        with self._changed:
            if len(self._queue) < self._queue_length_max and not self._is_closing:
                self._queue.append(_Waiting(entry))
                if len(self._queue) == 1:
                    self._changed.notify()
                return
            self._lost += 1
            lost = self._lost
        if lost % LOSSES_TOLD_EVERY == 1:
            _log.error("audit_entry_lost", kind=entry.kind.value, principal=entry.principal, lost=lost)

    def hand_over(self, entry: AuditEntry | None) -> "Future[Anchor]":
        """Write `entry` now, after all before it; the future tells when, or why not."""
        written: Future[Anchor] = Future()
        # From here on the writer answers; whoever stops waiting for it does not stop it.
        written.set_running_or_notify_cancel()
        with self._changed:
            if self._is_closing:
                raise not_kept("the log is closed")
            self._queue.append(_Waiting(entry, written))
            self._urgent += 1
            self._changed.notify()
        return written

    def touch(self) -> None:
        """Somebody else has appended, or is about to: the anchor will be behind."""
        with self._changed:
            self._is_anchor_old = True
            self._anchored_at = monotonic()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            batch, is_closing = self._next_batch()
            error = self._write(batch) if batch else None
            if error is not None:
                self._fail(batch, error)
                if is_closing:
                    _log.error("audit_entries_lost_at_the_end", count=len(self._queue) + self._lost)
                    return
                self._pause()
                continue
            is_done = is_closing and not self._queue
            if self._is_anchor_old and (is_done or self._anchor_due_s() <= 0):
                self._write_anchor(is_told=is_done)
            if is_done:
                return

    def _next_batch(self) -> tuple[list[_Waiting], bool]:
        with self._changed:
            if not (self._queue or self._is_closing):
                self._changed.wait(max(0.01, self._anchor_due_s()) if self._is_anchor_old else None)
            if self._queue and not (self._urgent or self._is_closing):
                self._changed.wait_for(self._is_hurried, WRITE_EVERY_S)
            return list(islice(self._queue, BATCH_MAX)), self._is_closing

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(self._is_hurried, RETRY_EVERY_S)

    def _is_hurried(self) -> bool:
        return bool(self._urgent) or self._is_closing

    def _write(self, batch: list[_Waiting]) -> Exception | None:
        lost = self._lost
        texts = [self._text(waiting.entry) for waiting in batch if waiting.entry is not None]
        if lost:
            texts.insert(0, kept(self._gap(f"{lost} entries could not be kept")))
        try:
            end = self._store.append(texts) if texts else self._store.end()
        except Exception as error:
            return error
        with self._changed:
            self._take(batch)
            self._lost -= lost
        self._is_anchor_old = self._is_anchor_old or bool(texts)
        if self.is_failing:
            _log.info("audit_written_again", waiting=len(self._queue), lost=lost)
        self.is_failing = False
        for waiting in batch:
            if waiting.written is not None:
                waiting.written.set_result(end)
        return None

    def _text(self, entry: AuditEntry) -> str:
        """One entry that cannot be written as it is must not keep the others out."""
        try:
            return kept(entry)
        except Exception:
            _log.exception("audit_entry_unwritable")
            return kept(self._gap("an entry could not be written as it was"))

    def _fail(self, batch: list[_Waiting], error: Exception) -> None:
        self.is_failing = True
        _log.error(
            "audit_not_written",
            error=f"{type(error).__name__}: {error}",
            waiting=len(self._queue),
            lost=self._lost,
        )
        with self._changed:
            self._take(batch)
            self._queue.extendleft(waiting for waiting in reversed(batch) if waiting.written is None)
        for waiting in batch:
            if waiting.written is not None:
                waiting.written.set_exception(not_kept(f"{type(error).__name__}: {error}"))

    def _take(self, batch: list[_Waiting]) -> None:
        for waiting in batch:
            self._queue.popleft()
            self._urgent -= waiting.written is not None

    def _check_end(self) -> str | None:
        """What is wrong with the end of the log, if anything is."""
        end = self._store.end()
        try:
            anchor = self._anchor_file.read()
        except (OSError, ValueError):
            return f"the anchor file cannot be read; the log ends with entry {end.sequence}"
        if anchor is None:
            # A gateway that joins others finds their entries, and has seen none of them before.
            if not end.sequence or self._store.is_shared:
                return None
            return f"there is no anchor file; the log ends with entry {end.sequence}"
        if anchor.sequence > end.sequence:
            return f"the log ended with {end}, but {anchor} was seen before: its end was cut off"
        found = self._store.find(anchor.sequence)
        if found is not None and found.hash != anchor.hash:
            return f"{anchor} was seen before, but the log has {found.anchor}: it was rewritten"
        return None

    def _write_anchor(self, *, is_told: bool = False) -> None:
        self._is_anchor_old = False
        self._anchored_at = monotonic()
        try:
            anchor = self._store.end()
            self._anchor_file.write(anchor)
        except Exception:
            self._is_anchor_old = True
            _log.exception("audit_anchor_not_written")
            return
        if is_told or self._anchored_at - self._anchor_told_at >= ANCHOR_TOLD_EVERY_S:
            self._anchor_told_at = self._anchored_at
            _log.info("audit_anchor", anchor=str(anchor))

    def _anchor_due_s(self) -> float:
        return self._anchored_at + ANCHOR_EVERY_S - monotonic()

    def _gap(self, what: str) -> AuditEntry:
        return AuditEntry(self._wall(), Kind.GAP, GATEWAY, what, Outcome.FAILED)


def not_kept(cause_text: str) -> BailiwickError:
    return BailiwickError(
        Code.STORAGE_ERROR,
        "The audit log could not be written, and nothing happens here without it. Try again later.",
        details={"reason": "audit"},
        cause_text=cause_text,
    )

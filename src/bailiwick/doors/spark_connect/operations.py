"""Operations of one session, from their call until their client has let go of them.

An operation goes on while its client's wire is broken, for a while, and its answers can be read again. What
it does is a task of its own (`execution.py`). Here is who may find it, who reads it, when it is forgotten.
An operation that was forgotten is remembered by name, so that nobody takes it for one that never came, and
runs it once more.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bailiwick.clock import Clock, monotonic
from bailiwick.doors.spark_connect.errors import operation_abandoned, operation_exists, operation_not_found
from bailiwick.doors.spark_connect.responses import ResponseLog
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import QueryId

FORGOTTEN_REMEMBERED_MAX = 1_000
TAKEN_UP_WITHIN_S = 1.0
"""A client whose stream was ended asks for the rest of it sooner than this."""


@dataclass(slots=True, eq=False)
class Operation:
    id: str
    """What its client calls it."""
    query_id: QueryId
    log: ResponseLog
    tags: frozenset[str]
    reattachable: bool
    fingerprint: bytes
    """Of what was asked: whoever sends the same again under the same name means this one."""
    task: asyncio.Task[None] | None = None
    ended_by: BailiwickError | None = None
    """Why it was ended from outside, where it was."""
    readers: int = 0
    left_at: float = 0.0
    now: Clock = field(default=monotonic, repr=False)

    @property
    def is_busy(self) -> bool:
        return self.readers > 0 or not self.log.is_ended

    @property
    def is_followed(self) -> bool:
        """Whether somebody reads it, or may be about to take it up again."""
        return self.readers > 0 or (self.reattachable and self.now() - self.left_at < TAKEN_UP_WITHIN_S)

    def begin(self, task: "asyncio.Task[None]") -> None:
        self.task = task
        self.left_at = self.now()
        task.add_done_callback(self._tell_end)

    def end(self, error: BailiwickError) -> None:
        """It shall not go on. One that has ended is fine."""
        if not self.log.is_ended:
            self.ended_by = self.ended_by or error
            if self.task is not None:
                self.task.cancel()

    def _tell_end(self, _task: "asyncio.Task[None]") -> None:
        """What was ended before its first step has not told it by itself."""
        if self.ended_by is not None:
            self.log.fail(self.ended_by)

    @contextmanager
    def read(self) -> Iterator[None]:
        """While somebody reads it. One that cannot be read again ends with its reader."""
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1
            self.left_at = self.now()
            if not self.reattachable:
                self.end(left())


class Operations:
    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, Operation] = {}
        self._forgotten: OrderedDict[str, None] = OrderedDict()

    def __iter__(self) -> Iterator[Operation]:
        return iter(list(self._known.values()))

    @property
    def is_busy(self) -> bool:
        return any(operation.is_busy for operation in self._known.values())

    def begin(self, operation_id: str, fingerprint: bytes, make: Callable[[], Operation]) -> Operation:
        """The operation that the client names so, begun by `make` unless it was sent before."""
        known = self._known.get(operation_id)
        if known is not None:
            if known.reattachable and known.fingerprint == fingerprint:
                return known
            raise operation_exists(operation_id)
        if operation_id in self._forgotten:
            raise operation_abandoned(operation_id)
        if len(self._known) >= self._most:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"The session has {self._most} operations that run or wait to be read, which is the limit.",
                retryable=False,
                details={"reason": "limit", "limit": "operations_max"},
            )
        operation = self._known[operation_id] = make()
        return operation

    def find(self, operation_id: str) -> Operation:
        operation = self._known.get(operation_id)
        if operation is None:
            gone = operation_id in self._forgotten
            raise operation_abandoned(operation_id) if gone else operation_not_found(operation_id)
        return operation

    def forget(self, operation_id: str, *, may_come_again: bool = False) -> None:
        """Let go of it, and end it if it still runs. With `may_come_again` the same may be sent anew."""
        operation = self._known.pop(operation_id, None)
        if operation is None:
            return
        operation.end(left())
        operation.log.close()
        if not may_come_again:
            self._forgotten[operation_id] = None
            if len(self._forgotten) > FORGOTTEN_REMEMBERED_MAX:
                self._forgotten.popitem(last=False)

    def sweep(self, detach_s: float) -> None:
        """Forget those whose clients stay away for too long."""
        for operation in self:
            if operation.readers == 0 and operation.now() - operation.left_at > detach_s:
                self.forget(operation.id)

    async def close(self) -> None:
        tasks = [operation.task for operation in self if operation.task is not None]
        for operation in self:
            self.forget(operation.id)
        await asyncio.gather(*tasks, return_exceptions=True)


def left() -> BailiwickError:
    return BailiwickError(
        Code.QUERY_CANCELLED, "The client left before the end.", details={"reason": "client_left"}
    )


def interrupted(by: str) -> BailiwickError:
    return BailiwickError(
        Code.QUERY_CANCELLED, f"The operation was interrupted by {by}.", details={"reason": "interrupted"}
    )

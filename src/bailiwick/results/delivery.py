"""The way of one result from the engine to its reader.

An engine does not slow down for a slow reader: what nobody takes piles up in its heap until it breaks. So
the producer here never waits for the reader. Frames go into a window in memory, beyond that to disk
(`backlog.py`), and come out in the same order, each as soon as it is there. When the reader has caught up,
it is all memory again.

One producer, one reader, one event loop. It knows nothing of queries: why one ended arrives as an error.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from bailiwick.errors import BailiwickError, Code
from bailiwick.results.backlog import Backlog, weight_bytes
from bailiwick.results.batches import Frame
from bailiwick.results.config import ResultsConfig
from bailiwick.results.spool import Spool

SEGMENT_BYTES_MAX = 4 << 20


class Delivery:
    """Frames in, at the engine's speed; frames out, at the reader's."""

    def __init__(
        self, spool: Spool, config: ResultsConfig, *, on_idle: Callable[[BailiwickError], None] | None = None
    ) -> None:
        segment_bytes = min(config.window_bytes // 8, SEGMENT_BYTES_MAX)
        # Two segments on their way to disk and one on its way back count as memory too.
        self._window_bytes_max = config.window_bytes - 3 * segment_bytes
        self._shrunk_bytes_max = segment_bytes
        self._is_memory_short = spool.is_memory_short
        self._backlog = Backlog(spool, bytes_max=config.spool_bytes_max, segment_bytes=segment_bytes)
        self._window: deque[Frame] = deque()
        self._window_bytes = 0
        self._is_finished = False
        self._is_begun = False
        self._is_closed = False
        self._is_read = False
        self._error: BailiwickError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._reader_idle_s = config.reader_idle_s
        self._on_idle = on_idle
        self._idle_timer: asyncio.TimerHandle | None = None
        self._taken_at = 0.0
        self.memory_bytes_peak = 0

    @property
    def memory_bytes(self) -> int:
        return self._window_bytes + self._backlog.memory_bytes

    @property
    def is_unfetched(self) -> bool:
        """Whether all of it is here, and its reader has not come yet."""
        return self._is_finished and not self._is_begun

    @property
    def disk_bytes(self) -> int:
        return self._backlog.disk_bytes

    @property
    def spooled_bytes(self) -> int:
        """All that ever went to disk."""
        return self._backlog.spooled_bytes

    async def put(self, frame: Frame) -> None:
        """Take `frame` along. Waits at most for the disk. After the end it is dropped: nobody will read it.

        Raises RESOURCE_EXHAUSTED when there is no more room, STORAGE_ERROR when the disk fails.
        """
        if self._is_closed or self._error is not None:
            return
        if self._idle_timer is None:
            self._watch_reader()
        weight = weight_bytes(frame)
        if self._backlog.is_empty and (not self._window or self._window_bytes + weight <= self._room_bytes()):
            if not self._window:
                self._taken_at = asyncio.get_running_loop().time()
            self._window.append(frame)
            self._window_bytes += weight
        else:
            await self._backlog.append(frame)
        self.memory_bytes_peak = max(self.memory_bytes_peak, self.memory_bytes)
        self._wake()

    def _room_bytes(self) -> int:
        """What the window may hold now."""
        return self._shrunk_bytes_max if self._is_memory_short() else self._window_bytes_max

    def finish(self) -> None:
        """Nothing more will come. What is here stays for the reader."""
        self._is_finished = True
        self._wake()

    def fail(self, error: BailiwickError) -> None:
        """End it now: the reader gets `error` next, the rest is forgotten. The first failure counts."""
        if self._error is None and not self._is_closed:
            self._error = error
            self._forget()
            self._wake()

    def close(self) -> None:
        """Forget everything. The reader is gone, or done."""
        self._is_closed = True
        self._forget()
        self._wake()

    async def frames(self) -> AsyncIterator[Frame]:
        """What was put, in order. For one reader, once."""
        self._is_begun = True
        while True:
            if self._error is not None:
                raise self._error
            if self._window:
                frame = self._window.popleft()
                self._window_bytes -= weight_bytes(frame)
                self._taken_at = asyncio.get_running_loop().time()
                yield frame
            elif not self._backlog.is_empty:
                await self._refill()
            elif self._is_finished or self._is_closed:
                self._is_read = True
                return
            else:
                await self._wait()

    async def _refill(self) -> None:
        frames = await self._backlog.take()
        if self._is_closed or self._error is not None:
            return
        self._window = frames
        self._window_bytes = sum(map(weight_bytes, frames))
        self.memory_bytes_peak = max(self.memory_bytes_peak, self.memory_bytes)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _forget(self) -> None:
        self._window.clear()
        self._window_bytes = 0
        self._backlog.discard()
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    def _watch_reader(self) -> None:
        loop = asyncio.get_running_loop()
        self._taken_at = loop.time()
        self._idle_timer = loop.call_later(self._reader_idle_s, self._check_reader)

    def _check_reader(self) -> None:
        """One timer that looks when the last frame was taken, instead of one that each frame sets anew."""
        loop = asyncio.get_running_loop()
        # A reader that waits for us is not idle; one that has not come back to learn of the end is.
        is_awaited = self._waiter is None and not self._is_read
        has_something = bool(self._window) or not self._backlog.is_empty or self._is_finished
        idle_s = loop.time() - self._taken_at if is_awaited and has_something else 0.0
        if idle_s < self._reader_idle_s:
            self._idle_timer = loop.call_later(self._reader_idle_s - idle_s, self._check_reader)
            return
        error = BailiwickError(
            Code.QUERY_CANCELLED,
            f"The client took nothing of the result for {self._reader_idle_s:g} s.",
            details={"reason": "reader_idle"},
        )
        self.fail(error)
        if self._on_idle is not None:
            self._on_idle(error)

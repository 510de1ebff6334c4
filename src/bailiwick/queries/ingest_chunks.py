"""The way of a client's rows from the wire to chunks, always one chunk ahead of whoever takes them.

While Spark writes one chunk, the next is made, in a thread; then nothing more is read, and the client has to
wait. A client that sends nothing for too long, while it is waited for, is ended.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

import pyarrow as pa

from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.ingest_columns import Columns
from bailiwick.queries.ingest_stream import Chunk, Chunker, MessageReader

Value = TypeVar("Value")
Arguments = TypeVarTuple("Arguments")


class ChunkSource:
    """For one ingest, and one taker. `threads` do the CPU work; `on_message` is told of each sign of life."""

    def __init__(
        self,
        messages: AsyncIterator[bytes],
        threads: Executor,
        *,
        idle_s: float,
        on_message: Callable[[], None] = lambda: None,
    ) -> None:
        self._messages = aiter(messages)
        self._threads = threads
        self._idle_s = idle_s
        self._on_message = on_message
        self._reader = MessageReader()
        self._chunker: Chunker | None = None
        self._cut: Iterator[Chunk] = iter(())
        self._is_over = False
        self._ahead: asyncio.Task[Chunk | None] | None = None

    async def schema(self) -> pa.Schema:
        """What the rows look like. Asked first, and once."""
        message = await self._next_message()
        if message is None:
            raise BailiwickError(Code.INVALID_ARGUMENTS, "The stream ended before it said what the rows are.")
        return await self._in_thread(self._reader.schema, message)

    def start(self, columns: Columns) -> None:
        """Begin to make chunks of these columns."""
        self._chunker = Chunker(columns)
        self._look_ahead(self._chunker)

    async def next(self) -> Chunk | None:
        """The next chunk, or None after the last. Raises what is wrong with the rows or their client."""
        if self._ahead is None or self._chunker is None:
            return None
        chunk = await self._ahead
        if chunk is None:
            self._ahead = None
        else:
            self._look_ahead(self._chunker)
        return chunk

    def empty(self) -> Chunk:
        """A chunk without rows, which still says what its columns are."""
        if self._chunker is None:
            raise RuntimeError("chunks are not made yet")
        return self._chunker.empty()

    def close(self) -> None:
        """Read no more. Closing twice is fine."""
        if self._ahead is not None:
            self._ahead.cancel()

    def _look_ahead(self, chunker: Chunker) -> None:
        self._ahead = asyncio.create_task(self._make(chunker), name="ingest-chunk")
        # If nobody takes it any more, nobody needs to know what became of it.
        self._ahead.add_done_callback(lambda made: made.cancelled() or made.exception())

    async def _make(self, chunker: Chunker) -> Chunk | None:
        while not self._is_over:
            chunk = await self._in_thread(next, self._cut, None)
            if chunk is not None:
                return chunk
            message = await self._next_message()
            if message is None:
                self._is_over = True
                return await self._in_thread(chunker.finish)
            batch = await self._in_thread(self._reader.batch, message)
            if batch is not None:
                self._cut = chunker.add(batch)
        return None

    async def _next_message(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._idle_s):
                message = await anext(self._messages, None)
        except TimeoutError:
            raise BailiwickError(
                Code.QUERY_CANCELLED,
                f"The client sent nothing for {self._idle_s:g} s.",
                details={"reason": "client_idle"},
            ) from None
        self._on_message()
        return message

    async def _in_thread(self, function: Callable[[*Arguments], Value], *arguments: *Arguments) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

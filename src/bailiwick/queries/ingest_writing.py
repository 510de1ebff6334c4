"""How the chunks of one ingest get into a table: at once, or by way of a table that nobody sees.

Everything here happens under one lease. Until the last statement, nothing that was done can be seen; what a
failure leaves of it is thrown away, behind the ingest's back, as soon as Spark has stopped writing.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import assert_never

from bailiwick.catalog.staging import Staging
from bailiwick.engines.description import Kind
from bailiwick.engines.engine import Batch, Completed, EngineSession, Progress
from bailiwick.engines.write import TableRows, Write, WriteMode
from bailiwick.identity.principal import Principal
from bailiwick.ids import new_operation_id
from bailiwick.names import TableName
from bailiwick.queries import failures
from bailiwick.queries.ingest_stream import Chunk
from bailiwick.queries.pulse import Pulse
from bailiwick.queries.running import Running
from bailiwick.queries.spark_side import Lease, SparkSide
from bailiwick.telemetry.breadcrumbs import breadcrumb

QUIET_S = 15.0
"""How long Spark gets to stop writing. By then its session has been closed, if it did not."""
_LOOK_EVERY_S = 0.1
_STAGED_PROPERTIES = {
    # Written once, read once, soon: what counts is time.
    "write.parquet.compression-codec": "snappy",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "1",
    "commit.manifest-merge.enabled": "false",
}
_TURNS_TO_SETTLE = 3


class Stages:
    """The tables in which ingests gather their rows: one each, gone soon after it ended, however it did."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._clearing: set[asyncio.Task[None]] = set()

    def open(self, principal: Principal) -> TableName:
        return self._staging.open(principal)

    def close(self, table: TableName, session: EngineSession) -> None:
        """Forget the table, in the background: `session` may have to be stopped first."""
        task = asyncio.create_task(self._clear(table, session), name="ingest-clear")
        self._clearing.add(task)
        task.add_done_callback(self._clearing.discard)

    async def end(self) -> None:
        """Wait no more for any session: the gateway stops. What is left then, the next start removes."""
        for task in self._clearing:
            task.cancel()
        await asyncio.gather(*self._clearing, return_exceptions=True)

    async def _clear(self, table: TableName, session: EngineSession) -> None:
        try:
            await asyncio.to_thread(self._staging.close, table)
            # Spark is being stopped, but until it has confirmed that it may write another file.
            await _wait_quiet(session)
        finally:
            await asyncio.to_thread(self._staging.purge, table)


async def _wait_quiet(session: EngineSession) -> None:
    waited_s = 0.0
    while not session.is_settled and waited_s < QUIET_S:
        await asyncio.sleep(_LOOK_EVERY_S)
        waited_s += _LOOK_EVERY_S


class Writing:
    """One ingest, from its lease on."""

    def __init__(self, running: Running, side: SparkSide, lease: Lease) -> None:
        self._running = running
        self._side = side
        self._lease = lease
        self.chunks = 0

    async def write_at_once(self, target: tuple[str, ...], mode: WriteMode, chunk: Chunk) -> None:
        """One chunk, one commit."""
        await self._running.start(Kind.CHANGE, new_operation_id())
        await self._write(Write(target, mode, chunk.arrow))
        self._count(chunk)

    async def write_by_stages(
        self,
        target: tuple[str, ...],
        mode: WriteMode,
        chunks: AsyncIterator[Chunk],
        stages: "Stages",
    ) -> None:
        """Any number of chunks, and one commit in the end."""
        running = self._running
        table = stages.open(running.statement.principal)
        staged = (target[0], *table.parts)
        running.is_unseen = True
        try:
            await running.start(Kind.CHANGE, new_operation_id())
            stage_mode = WriteMode.CREATE
            async for chunk in chunks:
                await self._write(Write(staged, stage_mode, chunk.arrow, _STAGED_PROPERTIES))
                stage_mode = WriteMode.APPEND
                self._count(chunk)
            breadcrumb("staged", rows=running.rows)
            running.is_unseen = False
            await self._write(Write(target, mode, TableRows(staged)))
        finally:
            stages.close(table, self._lease.session)

    async def _write(self, write: Write) -> None:
        running, side, lease = self._running, self._side, self._lease

        def give_up() -> None:
            lease.spoil("no sign of life")
            running.fail(failures.stalled(side.limits.stream_idle_s))

        pulse = Pulse(lease.engine, side.tasks, idle_s=side.limits.stream_idle_s, on_silence=give_up)
        try:
            events = lease.session.write(
                write, operation=new_operation_id(), lease=lease.id, query_id=running.id
            )
            async for event in events:
                pulse.beat()
                match event:
                    case Progress(done, total):
                        self._note_progress(done, total)
                    case Batch() | Completed():
                        pass
                    case _:
                        assert_never(event)
        finally:
            pulse.stop()
        running.renew_deadline()
        await _wait_settled(lease.session)

    def _note_progress(self, done: int, total: int) -> None:
        running = self._running
        if (done, total) != (running.tasks_done, running.tasks_total):
            running.renew_deadline()
        running.tasks_done, running.tasks_total = done, total

    def _count(self, chunk: Chunk) -> None:
        self.chunks += 1
        self._running.rows += chunk.rows
        self._running.bytes += chunk.size_bytes


async def _wait_settled(session: EngineSession) -> None:
    """Let an operation that has told its end come to it: a clean session goes back without a question."""
    for _ in range(_TURNS_TO_SETTLE):
        if session.is_settled:
            return
        await asyncio.sleep(0)

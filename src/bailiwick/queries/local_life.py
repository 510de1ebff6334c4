"""How the gateway answers a statement by itself: administration and system tables.

No engine takes part. The answer is a table in memory, made in one go and then delivered like any other
result.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pyarrow as pa

from bailiwick.clock import Clock
from bailiwick.engines.description import Kind
from bailiwick.ids import NodeId
from bailiwick.queries import failures
from bailiwick.queries.machine import Admitted
from bailiwick.queries.running import Running
from bailiwick.results.batches import frames_of_table, read_schema

GATEWAY = NodeId("gateway")
"""Where these statements ran, as the history shows it."""

Produce = Callable[[], Awaitable[pa.Table]]


async def live(running: Running, kind: Kind, produce: Produce, wall: Clock) -> None:
    """Answer the statement of `running` with what `produce` gives."""
    running.apply(Admitted(wall(), GATEWAY))
    await running.start(kind)
    schema, frames = frames_of_table(await produce())
    expected = running.expected_schema
    if expected is not None and not read_schema(expected).equals(read_schema(schema)):
        raise failures.schema_changed()
    running.schema = schema
    for frame in frames:
        running.rows += frame.rows
        running.bytes += frame.size_bytes
        await running.delivery.put(frame)
        await asyncio.sleep(0)
    await running.complete()

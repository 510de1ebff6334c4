"""Running statements on the gateway for the command line, from the first byte to the last."""

import asyncio
import time

import pyarrow as pa

from bailiwick.cli.progress import Watch, watching
from bailiwick.cli.render import Ending, Sink
from bailiwick.client.address import Address
from bailiwick.client.credentials import Credentials
from bailiwick.client.flight import FlightClient, announced_id


def run_query(address: Address, credentials: Credentials, statement: str, sink: Sink) -> None:
    """Pass one statement's answer on as it comes, with progress on stderr."""
    asyncio.run(_run(FlightClient(address, credentials), statement, sink))


def answer_of(address: Address, credentials: Credentials, statement: str) -> pa.Table:
    """One statement's answer, whole."""
    return asyncio.run(_answer(FlightClient(address, credentials), statement))


async def _answer(client: FlightClient, statement: str) -> pa.Table:
    async with client, client.execute(statement) as answer:
        return await answer.table()


async def _run(client: FlightClient, statement: str, sink: Sink) -> None:
    started_at = time.monotonic()
    async with client:
        async with watching(client) as watch:
            affected_rows = await _stream(client, statement, sink, watch)
        sink.end(Ending(affected_rows, time.monotonic() - started_at))


async def _stream(client: FlightClient, statement: str, sink: Sink, watch: Watch) -> int:
    """Pass the answer on. Leaving early, also by Ctrl-C, ends the query on the gateway."""
    started = client.start(statement)
    try:
        # A change runs before there is an info; its id comes ahead of it.
        early = asyncio.create_task(started.query_id())
        early.add_done_callback(lambda task: None if task.cancelled() else watch.follow(task.result()))
        info = await started.info()
        watch.follow(announced_id(info))
        async with client.fetch(info) as answer:
            sink.begin(answer.schema)
            async for batch in answer.batches():
                if not sink.take(batch):
                    break
        return int(info.total_records)
    finally:
        started.cancel()

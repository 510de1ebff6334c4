"""Running statements on the gateway for the command line, from the first byte to the last."""

import asyncio
import time
from collections.abc import Mapping

import pyarrow as pa
import typer

from bailiwick.cli.gateway_options import FoundGateway
from bailiwick.cli.progress import Watch, watching
from bailiwick.cli.render import Ending, Sink
from bailiwick.client.credentials import Credentials
from bailiwick.client.flight import NO_HEADERS, FlightClient, announced_id


def run_query(
    gateway: FoundGateway,
    credentials: Credentials,
    statement: str,
    sink: Sink,
    headers: Mapping[str, str] = NO_HEADERS,
) -> None:
    """Pass one statement's answer on as it comes, with progress on stderr. `headers` go with it."""
    asyncio.run(_run(client_of(gateway, credentials), statement, sink, headers))


def answer_of(gateway: FoundGateway, credentials: Credentials, statement: str) -> pa.Table:
    """One statement's answer, whole."""
    return asyncio.run(_answer(client_of(gateway, credentials), statement))


def client_of(gateway: FoundGateway, credentials: Credentials) -> FlightClient:
    return FlightClient(gateway.address, credentials, gateway.encryption)


async def _answer(client: FlightClient, statement: str) -> pa.Table:
    async with client, client.execute(statement) as answer:
        return await answer.table()


async def _run(client: FlightClient, statement: str, sink: Sink, headers: Mapping[str, str]) -> None:
    async with client:
        await ask(client, statement, sink, headers=headers)


async def ask(
    client: FlightClient,
    statement: str,
    sink: Sink,
    *,
    is_watched: bool = True,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Ending:
    """Pass one statement's answer on as it comes, with progress on stderr if it is watched."""
    started_at = time.monotonic()
    async with watching(client, is_on=is_watched) as watch:
        affected_rows, fallback = await _stream(client, statement, sink, watch, headers)
    if fallback is not None:
        typer.echo(f"ran on {fallback}, the gateway's own engine: no other could take it", err=True)
    ending = Ending(affected_rows, time.monotonic() - started_at)
    sink.end(ending)
    return ending


async def _stream(
    client: FlightClient, statement: str, sink: Sink, watch: Watch, headers: Mapping[str, str]
) -> tuple[int, str | None]:
    """Pass the answer on. Leaving early, also by Ctrl-C, ends the query on the gateway."""
    started = client.start(statement, headers)
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
        return int(info.total_records), answer.fallback
    finally:
        started.cancel()

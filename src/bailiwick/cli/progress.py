"""Spark's progress of a long query, on stderr, for a person who waits at a terminal.

It asks the gateway on calls of its own. Whatever goes wrong there is no reason to disturb the query.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bailiwick.cli.sql_text import progress_of
from bailiwick.client.errors import ClientError
from bailiwick.client.flight import FlightClient

FIRST_AFTER_S = 1.0
EVERY_S = 0.5


class Watch:
    """What is being watched. The id becomes known some time after the query was sent."""

    def __init__(self) -> None:
        self.query_id: str | None = None

    def follow(self, query_id: str | None) -> None:
        self.query_id = self.query_id or query_id


@asynccontextmanager
async def watching(client: FlightClient, *, is_on: bool = True) -> AsyncIterator[Watch]:
    """Show progress until the block ends, from one second on, if stderr is a terminal."""
    watch = Watch()
    console = Console(stderr=True)
    if not is_on or not console.is_terminal:
        yield watch
        return
    shown = asyncio.create_task(_show(client, watch, console))
    try:
        yield watch
    finally:
        shown.cancel()
        with suppress(asyncio.CancelledError):
            await shown


async def _show(client: FlightClient, watch: Watch, console: Console) -> None:
    await asyncio.sleep(FIRST_AFTER_S)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("waiting", total=None)
        while True:
            if watch.query_id is not None:
                with suppress(ClientError):
                    await _update(client, watch.query_id, progress, bar)
            await asyncio.sleep(EVERY_S)


async def _update(client: FlightClient, query_id: str, progress: Progress, bar: TaskID) -> None:
    async with client.execute(progress_of(query_id)) as answer:
        found = (await answer.table()).to_pylist()
    if not found:
        return
    done, total, state = found[0]["tasks_done"], found[0]["tasks_total"], found[0]["state"]
    progress.update(bar, description=str(state), completed=done or 0, total=total or None)

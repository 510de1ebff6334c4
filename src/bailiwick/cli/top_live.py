"""Looking at a gateway again and again, for a person at a terminal.

One connection, two statements a look. A gateway that does not answer is looked for again: who watches wants
to see it come back.
"""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console
from rich.live import Live

from bailiwick.cli.asking import client_of
from bailiwick.cli.gateway_options import FoundGateway
from bailiwick.cli.top_picture import SQL_SHOWN_MAX, Picture, drawn
from bailiwick.client.credentials import Credentials
from bailiwick.client.errors import ClientError, QueryFailed
from bailiwick.client.flight import FlightClient

WIDTH_WITHOUT_TERMINAL: Final = 160
LOOK_S: Final = 30.0
QUERIES_MAX: Final = 10_000

NODES: Final = (
    "SELECT node_id, class, health, state, cores, running, active, memory_utilization, watermark, queue_s, "
    "heartbeat_age_s, restarts, why FROM system.runtime.nodes ORDER BY node_id"
)
# Not what the gateway answers by itself: looking would see itself.
QUERIES: Final = (
    "SELECT query_id, principal, node_id, state, finished_at IS NOT NULL AS ended, queue_position, "  # noqa: S608
    "elapsed_ms, queued_ms, tasks_done, tasks_total, rows, attempts, is_fallback, "
    f"substr(sql, 1, {SQL_SHOWN_MAX}) AS sql "
    "FROM system.runtime.queries WHERE node_id IS DISTINCT FROM 'gateway' "
    "AND (finished_at IS NULL OR finished_at > now() - INTERVAL 1 MINUTE) "
    f"ORDER BY finished_at IS NOT NULL, created_at LIMIT {QUERIES_MAX}"
)

_SIGN_IN_AGAIN: Final = ("SESSION_EXPIRED", "AUTHENTICATION_FAILED")
_END_OF_INPUT: Final = "\x04"
_QUIT: Final = frozenset({"q", "Q", _END_OF_INPUT})
_KEYS_MAX: Final = 64


def print_once(gateway: FoundGateway, credentials: Credentials) -> None:
    """One picture. What goes wrong is raised."""

    async def run() -> None:
        async with client_of(gateway, credentials) as client:
            picture = await look(client)
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=WIDTH_WITHOUT_TERMINAL)
        console.print(drawn(picture, title=_title(gateway), width=console.width))

    asyncio.run(run())


def watch(gateway: FoundGateway, credentials: Credentials, *, every_s: float) -> None:
    """Pictures until a key says that it is enough. Only the first connection must succeed."""

    async def run() -> None:
        async with client_of(gateway, credentials) as client:
            await _watch(client, gateway, every_s)

    with suppress(KeyboardInterrupt):  # As good a way to say so as any.
        asyncio.run(run())


async def look(client: FlightClient) -> Picture:
    return Picture(await _rows(client, NODES), await _rows(client, QUERIES))


async def _rows(client: FlightClient, statement: str) -> list[dict[str, Any]]:
    async with client.execute(statement) as answer:
        return [dict(row) for row in (await answer.table()).to_pylist()]


async def _watch(client: FlightClient, gateway: FoundGateway, every_s: float) -> None:
    console = Console(highlight=False)
    quitting = asyncio.Event()
    picture = Picture()
    with (
        _keys(lambda key: quitting.set() if key in _QUIT else None),
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while not quitting.is_set():
            looking = asyncio.create_task(_try_to_look(client, picture))
            leaving = asyncio.create_task(quitting.wait())
            await asyncio.wait((looking, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not looking.done():
                looking.cancel()
                await asyncio.wait((looking,))
                break
            picture, trouble = looking.result()
            title = f"{_title(gateway)}   q to quit"
            size = {"width": console.width, "lines": console.height}
            live.update(drawn(picture, title=title, trouble=trouble, **size), refresh=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(leaving, every_s)


async def _try_to_look(client: FlightClient, last: Picture) -> tuple[Picture, str | None]:
    """A new picture; or the last one, and what went wrong."""
    try:
        async with asyncio.timeout(LOOK_S):
            try:
                return await look(client), None
            except QueryFailed as failure:
                if failure.code not in _SIGN_IN_AGAIN:
                    raise
                await client.login()
                return await look(client), None
    except ClientError as error:
        return last, f"what stands here is old: {error}"
    except TimeoutError:
        return last, f"what stands here is old: no answer within {LOOK_S:g} s"


def _title(gateway: FoundGateway) -> str:
    return f"{gateway.address}   {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


@contextmanager
def _keys(pressed: Callable[[str], object]) -> Iterator[None]:
    """Tell each key as it is pressed, without waiting for Enter and without showing it."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in os.read(terminal, _KEYS_MAX).decode(errors="replace") or _END_OF_INPUT:
            pressed(key)

    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)

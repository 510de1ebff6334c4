"""`bailiwick demo`: a gateway, a small lake, a few questions to it, and how to go on."""

import asyncio
import signal
import socket
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import bailiwick
from bailiwick.cli.failures import UsageProblem, reported
from bailiwick.cli.settings import read_settings

if TYPE_CHECKING:
    from rich.console import Console

    from bailiwick.app import Gateway
    from bailiwick.config import Config

CHECKOUT = Path(bailiwick.__file__).parents[2]
PIPELINE = CHECKOUT / "examples" / "make_lake.py"


def demo(
    once: Annotated[bool, typer.Option("--once", help="End after the show instead of serving on.")] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            metavar="DIR",
            file_okay=False,
            help="Where the lake is kept. [default: the project's data/]",
        ),
    ] = None,
) -> None:
    """Start a gateway with a small lake, ask it a few questions, and serve until Ctrl-C.

    The first time, a PySpark pipeline (`examples/make_lake.py`) makes the lake; later starts find it there.
    """
    with reported():
        if not PIPELINE.exists():
            raise UsageProblem("the demo needs a checkout of the project: there is no examples/make_lake.py")
        wanted = read_settings(None).server
        ports = {"grpc_port": _free(wanted.grpc_port), "http_port": _free(wanted.http_port)}
        settings = read_settings(None, server=ports)
        import uvloop

        uvloop.run(_run(settings, (data_dir or CHECKOUT / "data").resolve(), once=once))


async def _run(settings: "Config", data_dir: Path, *, once: bool) -> None:
    """Ctrl-C is heard at any time: during the show it ends the show, afterwards the serving."""
    from rich.console import Console

    from bailiwick.app import Gateway
    from bailiwick.cli.steps import step

    console = Console(highlight=False)
    interrupted = _interrupted()
    async with AsyncExitStack() as stack:
        with step(console, "Starting Spark and warming it up", done="Spark is up and warm"):
            gateway = await stack.enter_async_context(Gateway.open(settings, data_dir))
        show = asyncio.create_task(_show(gateway, data_dir, console))
        await asyncio.wait((show, interrupted), return_when=asyncio.FIRST_COMPLETED)
        if not show.done():
            show.cancel()
            return
        await show
        if not once:
            console.print(f"\n[bold]Serving[/bold] {gateway.grpc_address} until Ctrl-C.")
            await interrupted
            console.print("Stopping.")


async def _show(gateway: "Gateway", data_dir: Path, console: "Console") -> None:
    from bailiwick.cli.demo_lake import ensure_lake
    from bailiwick.cli.demo_show import print_how_to_connect, show_queries

    await ensure_lake(gateway, data_dir, PIPELINE, console)
    await show_queries(gateway, console)
    print_how_to_connect(gateway, data_dir, console)


def _interrupted() -> "asyncio.Future[None]":
    """Done at the first SIGINT or SIGTERM."""
    loop = asyncio.get_running_loop()
    interrupted: asyncio.Future[None] = loop.create_future()

    def hear() -> None:
        if not interrupted.done():
            interrupted.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, hear)
    return interrupted


def _free(port: int) -> int:
    """The port, or 0 for any if another server has it: a demo should start beside one."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port

"""`bailiwick demo`: a gateway, a small lake, questions by three people, and how to go on."""

import asyncio
import signal
import socket
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

import bailiwick
from bailiwick.cli.failures import UsageProblem, reported
from bailiwick.cli.settings import read_settings
from bailiwick.client.errors import QueryFailed

if TYPE_CHECKING:
    from rich.console import Console

    from bailiwick.app.gateway import Gateway
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
    """Start a gateway with a small lake, ask it questions as three people, and serve until Ctrl-C.

    The first time, a PySpark pipeline (`examples/make_lake.py`) makes the lake; later starts find it there.
    """
    with reported():
        if not PIPELINE.exists():
            raise UsageProblem("the demo needs a checkout of the project: there is no examples/make_lake.py")
        wanted = read_settings(None).server
        ports = {"grpc_port": _free(wanted.grpc_port), "http_port": _free(wanted.http_port)}
        settings = read_settings(None, server=ports)
        if settings.profile != "dev-local":
            raise UsageProblem(
                f"the demo makes users and tables for show, and the profile is {settings.profile}"
            )
        import uvloop

        uvloop.run(_run(settings, (data_dir or CHECKOUT / "data").resolve(), once=once))


async def _run(settings: "Config", data_dir: Path, *, once: bool) -> None:
    """The first SIGINT or SIGTERM ends it in good order, wherever it is."""
    loop, work = asyncio.get_running_loop(), asyncio.current_task()
    assert work is not None  # noqa: S101 - a coroutine runs in a task
    asked_to_stop = False

    def stop() -> None:
        nonlocal asked_to_stop
        if not asked_to_stop:
            asked_to_stop = True
            work.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    with suppress(asyncio.CancelledError):
        await _demonstrate(settings, data_dir, once=once)


async def _demonstrate(settings: "Config", data_dir: Path, *, once: bool) -> None:
    from rich.console import Console

    from bailiwick.app import open_gateway
    from bailiwick.cli.steps import step

    console = Console(highlight=False)
    failure: QueryFailed | None = None
    async with AsyncExitStack() as stack:
        stack.enter_context(await asyncio.to_thread(_log_to_file, settings, data_dir))
        with step(console, "Starting the gateway", done="The gateway and its Spark are up and warm") as say:
            gateway = await stack.enter_async_context(open_gateway(settings, data_dir, say))
        try:
            await _show(gateway, data_dir, console)
        except QueryFailed as error:
            failure = error
        else:
            if not once:
                await _serve_on(gateway, console)
    # Only now: it must not disturb the orderly way down.
    if failure is not None:
        raise failure


async def _serve_on(gateway: "Gateway", console: "Console") -> None:
    console.print(f"\n[bold]Serving[/bold] {gateway.grpc_address} until Ctrl-C.")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        console.print("Stopping.")
        await gateway.drain()
        raise


async def _show(gateway: "Gateway", data_dir: Path, console: "Console") -> None:
    from bailiwick.cli.demo_client import Client
    from bailiwick.cli.demo_lake import ensure_lake
    from bailiwick.cli.demo_people import ANA, AUDREY, password_path, show_people
    from bailiwick.cli.demo_show import print_how_to_connect, show_queries

    admin_password = data_dir / "admin-password"
    password = (await asyncio.to_thread(admin_password.read_text)).strip()
    async with Client.connected(gateway.grpc_address, "admin", password) as admin:
        await ensure_lake(gateway.spark.pool, admin, data_dir, PIPELINE, console)
        await show_queries(admin, console)
        await show_people(gateway.grpc_address, admin, data_dir, console)
    others = [password_path(data_dir, person) for person in (ANA, AUDREY)]
    print_how_to_connect(gateway.grpc_address, gateway.http_address, admin_password, others, console)


def _log_to_file(settings: "Config", data_dir: Path) -> TextIO:
    """The screen is for the show: what the gateway has to say goes to a file beside its engine's."""
    from bailiwick.profiles import mark_as_demo
    from bailiwick.telemetry import logs

    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    mark_as_demo(data_dir)
    (data_dir / "log").mkdir(exist_ok=True, mode=0o700)
    stream = (data_dir / "log" / "gateway.log").open("a", buffering=1)
    logs.configure(settings.logging, stream=stream)
    return stream


def _free(port: int) -> int:
    """The port, or 0 for any if another server has it: a demo should start beside one."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port

"""The demo's lake, made by the example's own pipeline with the stock PySpark client."""

import asyncio
import importlib.util
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from bailiwick.cli.demo_client import Client
from bailiwick.cli.steps import step
from bailiwick.fleet.sessions import SessionPool
from bailiwick.identity.principal import ADMIN, Principal
from bailiwick.testing.stock_spark import EngineDoor

COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'shop'"
MADE = {("revenue_by_country", "country"), ("customers", "region")}
"""The view is made last: where it is, all is. The column is not in lakes that older versions made."""

Value = TypeVar("Value")


async def ensure_lake(
    pool: SessionPool, client: Client, data_dir: Path, pipeline: Path, console: Console
) -> None:
    """Make the lake unless it is there."""
    if await _is_there(client):
        console.print("[green]✓[/green] The lake is there from last time")
        return
    principal = Principal("admin", frozenset({ADMIN}))
    with step(console, "Making a lake with PySpark", done="The lake is made") as say:
        async with pool.lease(principal) as lease:
            door = await asyncio.to_thread(EngineDoor.of, data_dir)

            def make() -> None:
                spark = door.connect(session_handle=lease.session.handle, lease_id=lease.id)
                try:
                    _build(pipeline)(spark, lambda table, rows: say(f"{table} has {rows:,} rows"))
                finally:
                    spark.stop()

            await _in_thread(make)


async def _is_there(client: Client) -> bool:
    columns = await client.ask(COLUMNS)
    found = zip(*(column.to_pylist() for column in columns.columns), strict=True)
    return set(found) >= MADE


def _build(pipeline: Path) -> Callable[[Any, Callable[[str, int], None]], None]:
    """The pipeline's `build`. It is an example beside the package, not a part of it."""
    spec = importlib.util.spec_from_file_location("make_lake", pipeline)
    assert spec is not None, pipeline  # noqa: S101 - a path that ends in .py has one
    assert spec.loader is not None, pipeline  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build: Callable[[Any, Callable[[str, int], None]], None] = module.build
    return build


async def _in_thread(work: Callable[[], Value]) -> Value:
    """Like `asyncio.to_thread`, but the program's end does not wait for it.

    The stock client goes on trying for a minute when its server is gone, as it is after Ctrl-C.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Value] = loop.create_future()

    def settle(value: Value | None, error: BaseException | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        try:
            value = work()
        except Exception as error:
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, value, None)

    threading.Thread(target=run, name="demo-lake", daemon=True).start()
    return await result

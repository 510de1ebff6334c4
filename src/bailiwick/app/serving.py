"""The gateway as a process of its own: signals, and the one line that says it is ready."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bailiwick.app.beginning import open_gateway
from bailiwick.config import Config
from bailiwick.telemetry import breadcrumbs, logs

Announce = Callable[[str], None]

_log = logs.logger(__name__)


async def serve(config: Config, data_dir: Path, announce: Announce) -> None:
    """Serve until SIGINT or SIGTERM. `announce` gets the first admin's password, once, and the ready line."""
    logs.configure(config.logging)
    breadcrumbs.switch(config.logging.breadcrumbs)
    asked_to_stop = asyncio.Event()
    with suppress(asyncio.CancelledError), _stopping_by_signal(asked_to_stop) as now_ready:
        async with open_gateway(config, data_dir, lambda line: _log.info("starting", step=line)) as gateway:
            now_ready()
            if gateway.admin_password is not None:
                kept = data_dir / "admin-password"
                announce(f"user admin has the password {gateway.admin_password} (kept in {kept})")
            announce(f"ready grpc={gateway.grpc_address} http={gateway.http_address}")
            await asked_to_stop.wait()
            await gateway.drain()
    _log.info("stopped")


@contextmanager
def _stopping_by_signal(asked_to_stop: asyncio.Event) -> Iterator[Callable[[], None]]:
    """SIGINT and SIGTERM set the event. Before the yielded function was called they break off the start."""
    loop, starting = asyncio.get_running_loop(), asyncio.current_task()

    def stop() -> None:
        asked_to_stop.set()
        if starting is not None:
            starting.cancel()

    def ready() -> None:
        nonlocal starting
        starting = None

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield ready
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

"""The keeper as a process of its own: its directory, its signals, its logs."""

import asyncio
import signal
from contextlib import AsyncExitStack
from dataclasses import replace

from bailiwick.database.lock import DirectoryLock
from bailiwick.keeper.config import KeeperConfig
from bailiwick.keeper.keeper import Announce, Keeper
from bailiwick.telemetry import logs
from bailiwick.telemetry.config import LoggingConfig

_log = logs.logger(__name__)


async def keep(config: KeeperConfig, announce: Announce, logging: LoggingConfig | None = None) -> None:
    """Keep an engine until SIGINT or SIGTERM; a second one does not wait. `announce` gets the ready lines."""
    logs.configure(logging or LoggingConfig())
    config.data_directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = replace(config, data_directory=config.data_directory.resolve())
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        stack.enter_context(DirectoryLock.acquire(config.data_directory))
        keeper = await Keeper.opened(stack, config, announce)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, keeper.stop)
            stack.callback(loop.remove_signal_handler, number)
        await keeper.run()
    _log.info("stopped")

"""Finding out that an engine hangs: its process is there, its port is open, and nobody answers.

That happens after a thread died of memory, or when the process was stopped. The gateway stops sending queries
at its first sign (`fleet/health.py`); here it takes many, in a row, because the cure is to end the engine.
Heartbeats do not depend on it.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from bailiwick.engines.engine import EngineLost
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.errors import BailiwickError
from bailiwick.telemetry.logs import logger

EVERY_S: Final = 5.0
TIMEOUT_S: Final = 10.0
UNANSWERED_MAX: Final = 6

_log = logger(__name__)


class Pinged(Protocol):
    async def ping(self, timeout_s: float) -> None: ...

    async def close(self) -> None: ...


Reach = Callable[[str, str], Pinged]
"""Address and token to a way to the engine."""


class Watch:
    """How an engine is asked, and how many questions in a row it may leave unanswered."""

    def __init__(
        self,
        reach: Reach = SparkConnectChannel,
        *,
        every_s: float = EVERY_S,
        timeout_s: float = TIMEOUT_S,
        unanswered_max: int = UNANSWERED_MAX,
    ) -> None:
        self._reach = reach
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._unanswered_max = unanswered_max

    async def wait_hung(self, address: str, token: str) -> None:
        """Return when the engine there hangs. Cancel it when that does not matter any more."""
        channel = self._reach(address, token)
        unanswered = 0
        try:
            while unanswered < self._unanswered_max:
                await asyncio.sleep(self._every_s)
                unanswered = 0 if await self._answers(channel) else unanswered + 1
        finally:
            await channel.close()
        _log.warning("engine_hangs", unanswered_count=unanswered)

    async def _answers(self, channel: Pinged) -> bool:
        try:
            async with asyncio.timeout(self._timeout_s):
                await channel.ping(self._timeout_s)
        except BailiwickError:
            return True  # A refusal is an answer.
        except (EngineLost, TimeoutError):
            return False
        return True

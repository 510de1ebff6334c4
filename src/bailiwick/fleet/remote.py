"""One life of an engine that a keeper looks after, as the gateway uses it.

It knows how to open sessions there. Whether it should be used is decided by `health.py` and told by
`registry.py`; starting and stopping is the keeper's business. When the engine is started again, this one is
lost for good, and another takes its place.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bailiwick.engines import launch
from bailiwick.engines.engine import Engine, EngineLost, EngineSession
from bailiwick.engines.life_keys import new_handle
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.link import EngineChannel
from bailiwick.fleet.report import Report
from bailiwick.ids import NodeId

LOSS_KNOWN_S: Final = 1.0
OUT_OF_MEMORY: Final = "out_of_memory"
EXITED: Final = "exited"
STOPPED: Final = "stopped"


class RemoteEngine(Engine):
    """`generation` counts the lives seen under this name. It is not to be used before `use`."""

    def __init__(
        self,
        report: Report,
        channel: EngineChannel,
        *,
        generation: int = 1,
        on_trouble: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self.node_id: NodeId = report.node_id
        self.life = report.life
        self.generation = generation
        self.report = report
        """The newest of this life."""
        self.why_not: str | None = "it has not been used yet"
        """Why nothing new is given to it; None if it is used."""
        self._channel = channel
        self._on_trouble = on_trouble
        self._loss: str | None = None
        self._lost = asyncio.Event()
        self._usable = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        return self._usable.is_set() and not self._lost.is_set()

    @property
    def is_lost(self) -> bool:
        return self._lost.is_set()

    def use(self) -> None:
        self.why_not = None
        self._usable.set()

    def avoid(self, why: str) -> None:
        """Nothing new; what runs goes on."""
        self.why_not = why
        self._usable.clear()

    def lose(self, reason: str) -> None:
        """This life is over: `out_of_memory`, `exited` or `stopped`. The first reason stays."""
        if not self._lost.is_set():
            self._loss = reason
            self.avoid("it has ended")
            self._lost.set()

    async def wait_ready(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._usable.wait()
        if not self.is_ready:
            raise _not_there()

    async def wait_lost(self) -> None:
        await self._lost.wait()

    async def open_session(self) -> EngineSession:
        if not self.is_ready:
            raise _not_there()
        handle = new_handle(self.life)
        return await self._channel.open_session(handle, {f"spark.sql.catalog.{launch.CATALOG}.token": handle})

    def note_trouble(self, why: str) -> None:
        self._on_trouble(why)

    async def explain_loss(self) -> str | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOSS_KNOWN_S):
                await self._lost.wait()
        return self._loss

    async def probe(self, timeout_s: float) -> str | None:
        """Ask something small. None if there was an answer, else why not, in words fit for a client."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._channel.ping(timeout_s)
        except (EngineLost, TimeoutError):
            return "it does not answer"
        except BailiwickError:
            return "it refuses the gateway"
        return None

    async def close(self) -> None:
        """Close the way to it: streams that are open end with EngineLost."""
        self.lose(STOPPED)
        await self._channel.close()


def _not_there() -> BailiwickError:
    return BailiwickError(
        Code.CIRCUIT_BREAKER_OPEN, "The engine cannot be used now.", retryable=True, retry_after_s=1.0
    )

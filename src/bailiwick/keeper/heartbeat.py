"""Telling the gateway how the engine is: every few seconds, and at once when something changed.

Reports go out whether the engine is busy, hangs or is not there at all: nothing here asks it anything. What
the gateway answers is left in `Standing`, for whoever lives the engine's lives to act upon.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from bailiwick.engines.process import EngineProcess
from bailiwick.fleet.report import EngineState, Report
from bailiwick.keeper.engine import Life
from bailiwick.keeper.gateway import Answered, GatewayCalls, GatewayRefusedError, GatewayUnreachableError
from bailiwick.telemetry.logs import logger

FIRST_INTERVAL_S: Final = 5.0
DRAIN_INTERVAL_S: Final = 0.25

_log = logger(__name__)


@dataclass(slots=True)
class Standing:
    """How things stand: what is to be told, and what was answered to it."""

    life: Life = field(default_factory=Life)
    state: EngineState = EngineState.STARTING
    process: EngineProcess | None = None
    catalog_uri: str = ""
    """What the engine of this life was started with."""
    answer: Answered | None = None
    """The gateway's newest, to a report of this life in this state."""
    is_heard: bool = True
    """Whether the gateway took the newest report, of whatever state."""
    refused: str | None = None
    """Why the gateway took the newest report not, in its words."""
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and another put in its place, after each report, whatever came of it."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the gateway should know at once."""
    telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the gateway is told something: a report never overtakes the end of its life."""
    is_over: bool = False
    """Whether there is nothing to report any more."""

    def become(self, state: EngineState) -> None:
        self.state = state
        self.answer = None
        self.changed.set()

    def begin_anew(self) -> None:
        """The next life, with secrets of its own."""
        self.life, self.process, self.catalog_uri = Life(), None, ""
        self.become(EngineState.STARTING)


class Heartbeats:
    """`report` makes what is told, from how things stand at that moment."""

    def __init__(self, calls: GatewayCalls, standing: Standing, report: Callable[[], Report]) -> None:
        self._calls = calls
        self._standing = standing
        self._report = report

    async def beat_for_ever(self) -> None:
        while True:
            self._standing.changed.clear()
            await self.beat()
            # Not `wait_for`, which may swallow that we are cancelled.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s()):
                    await self._standing.changed.wait()

    async def beat(self) -> None:
        """Tell once, and note what came of it."""
        async with self._standing.telling:
            if not self._standing.is_over:
                await self._tell()

    async def _tell(self) -> None:
        standing = self._standing
        told = self._report()
        try:
            answer = await self._calls.heartbeat(told, standing.catalog_uri)
        except GatewayRefusedError as refused:
            standing.refused = str(refused)
            self._note(str(refused))
        except GatewayUnreachableError as unreachable:
            self._note(str(unreachable))
        else:
            standing.refused = None
            self._note(None)
            # An answer to what is not so any more is none.
            if (told.life, told.state) == (standing.life.name, standing.state):
                standing.answer = answer
        heard, standing.heard = standing.heard, asyncio.Event()
        heard.set()

    def _interval_s(self) -> float:
        if self._standing.state is EngineState.DRAINING:
            return DRAIN_INTERVAL_S
        return self._standing.answer.interval_s if self._standing.answer else FIRST_INTERVAL_S

    def _note(self, problem: str | None) -> None:
        """In the log when it changes, not each time."""
        was_heard, self._standing.is_heard = self._standing.is_heard, problem is None
        if problem is not None and was_heard:
            _log.warning("gateway_takes_no_reports", reason=problem, trying_again_every_s=FIRST_INTERVAL_S)
        if problem is None and not was_heard:
            _log.info("gateway_takes_reports_again")

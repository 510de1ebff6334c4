"""Notices an engine that hangs.

Spark says nothing while it plans or works in its driver alone, so silence is no proof. After a while of it
the engine is asked something else; only if that stays unanswered, too, it counts as gone.
"""

import asyncio
from collections.abc import Callable

from bailiwick.engines.engine import Engine, EngineLost
from bailiwick.errors import BailiwickError
from bailiwick.telemetry.logs import logger

ANSWER_S = 5.0

_log = logger(__name__)


class Pulse:
    """Watches one running query. `beat` is called at each sign of life and costs next to nothing."""

    def __init__(
        self, engine: Engine, tasks: asyncio.TaskGroup, *, idle_s: float, on_silence: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._tasks = tasks
        self._idle_s = idle_s
        self._on_silence = on_silence
        self._loop = asyncio.get_running_loop()
        self._last_beat = self._loop.time()
        self._is_over = False
        self._timer = self._loop.call_later(idle_s, self._look)

    def beat(self) -> None:
        self._last_beat = self._loop.time()

    def stop(self) -> None:
        self._is_over = True
        self._timer.cancel()

    def _look(self) -> None:
        silent_s = self._loop.time() - self._last_beat
        if silent_s < self._idle_s:
            self._timer = self._loop.call_later(self._idle_s - silent_s, self._look)
        else:
            self._tasks.create_task(self._ask(), name="pulse")

    async def _ask(self) -> None:
        silent_since = self._last_beat
        alive = await answers(self._engine, ANSWER_S)
        if self._is_over:
            return
        if alive or self._last_beat > silent_since:
            self.beat()
            self._timer = self._loop.call_later(self._idle_s, self._look)
        else:
            self._on_silence()


async def answers(engine: Engine, timeout_s: float) -> bool:
    """Whether the engine does what it always can: open a session."""
    try:
        async with asyncio.timeout(timeout_s):
            session = await engine.open_session()
            await session.close()
    except (TimeoutError, EngineLost, BailiwickError):
        return False
    except Exception:
        # Whatever else is wrong with it, it is no answer; and a look at an engine must not end the service.
        _log.exception("engine_not_understood")
        return False
    return True

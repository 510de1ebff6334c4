"""Work that is finished once begun, even if the caller goes away in the middle.

Storing a change and taking it into memory belong together: a client that hangs up between the two must not
leave a dropped user signed in.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Outcome = TypeVar("Outcome")


class Unbroken:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """The outcome of `work`. Cancelling this call ends the waiting, not the work."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def wait(self) -> None:
        """Return when nothing runs any more."""
        while self._running:
            await asyncio.wait(self._running)

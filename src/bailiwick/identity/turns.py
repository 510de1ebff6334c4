"""Who may hash a password next: a few at a time, and networks take turns.

Hashing is costly on purpose. Were it first come, first served, one network sending hundreds of guesses would
make everybody wait behind them.
"""

import asyncio
from collections import OrderedDict, deque

from bailiwick.errors import BailiwickError, Code


class Turns:
    def __init__(self, slots: int, *, waiting_max: int) -> None:
        self._free = slots
        self._waiting_max = waiting_max
        self._waiting = 0
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, network: str) -> None:
        """Wait for a turn. Every turn taken must be given back. Refused at once when too many wait."""
        if self._free > 0:
            self._free -= 1
            return
        if self._waiting >= self._waiting_max:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                "Too many are signing in. Try again.",
                retryable=True,
                retry_after_s=1.0,
            )
        await self._wait(network)

    def give_back(self) -> None:
        """The next in turn goes: the first of the network that was served longest ago."""
        while self._queues:
            network, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[network] = queue
            # One that was cancelled in this round of the loop has not left the queue yet.
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    async def _wait(self, network: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(network, deque()).append(turn)
        self._waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(network, turn)
            else:
                # It became our turn in the very moment in which the caller went away.
                self.give_back()
            raise
        finally:
            self._waiting -= 1

    def _leave(self, network: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(network)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[network]

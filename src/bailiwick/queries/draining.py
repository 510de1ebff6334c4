"""How long a gateway that stops waits for the queries it has."""

import asyncio
from collections.abc import Mapping
from typing import Final

from bailiwick.ids import QueryId
from bailiwick.queries.running import Running

UNFETCHED_S: Final = 1.0
"""So long for readers who have not come yet: a client that polls comes at once, or never."""

_LOOK_EVERY_S: Final = 0.05


async def wait_idle(active: Mapping[QueryId, Running]) -> None:
    """Return when nothing of `active` runs and nobody reads."""
    quiet_s = 0.0
    while active and quiet_s < UNFETCHED_S:
        is_quiet = all(running.delivery.is_unfetched for running in active.values())
        quiet_s = quiet_s + _LOOK_EVERY_S if is_quiet else 0.0
        await asyncio.sleep(_LOOK_EVERY_S)

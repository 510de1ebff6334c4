"""Questions of our own to Spark: each has one row of one column for an answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pyarrow.ipc

from bailiwick.engines.engine import Batch, Event
from bailiwick.errors import BailiwickError, Code


async def told(events: AsyncIterator[Event], timeout_s: float, what: str) -> Any:
    """The one value. QUERY_TIMEOUT without it within `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            batches = [event.data async for event in events if isinstance(event, Batch)]
    except TimeoutError:
        raise BailiwickError(
            Code.QUERY_TIMEOUT, f"Spark did not say within {timeout_s:g} s what {what} is."
        ) from None
    for data in batches:
        table = pyarrow.ipc.open_stream(data).read_all()
        if table.num_rows == 1 and table.num_columns == 1:
            return table.column(0)[0].as_py()
    raise BailiwickError(Code.INTERNAL_ERROR, f"Spark did not say what {what} is.")

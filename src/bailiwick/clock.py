"""What time it is, as an argument.

Code that decides never reads a clock; code that acts is handed one of these, so that a test can move it.
"""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds. `wall` counts from the epoch, `monotonic` from some moment and never backwards; `steady` is for
what is compared within one process only."""

wall: Clock = time.time
monotonic: Clock = time.monotonic

_BEGAN_AT = wall() - monotonic()


def steady() -> float:
    """What `wall` said when the process began, counted on: the clock of the machine may be set meanwhile."""
    return _BEGAN_AT + monotonic()

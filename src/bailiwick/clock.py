"""What time it is, as an argument.

Code that decides never reads a clock; code that acts is handed one of these, so that a test can move it.
"""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds. `wall` counts from the epoch, `monotonic` from some moment and never backwards."""

wall: Clock = time.time
monotonic: Clock = time.monotonic

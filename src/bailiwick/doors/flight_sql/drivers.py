"""Which driver calls, by its own word, and what is known of it.

Only how an answer is dressed depends on this, never what it holds or who may have it: a caller may claim to
be any driver. One that nobody knows gets what the protocol says.
"""

from dataclasses import dataclass
from typing import Final

from bailiwick.queries.statement import UNKNOWN_ROWS


@dataclass(frozen=True, slots=True)
class Driver:
    reads_compressed: bool = False
    """Whether it reads record batches with zstd bodies."""
    unknown_rows: int = UNKNOWN_ROWS
    """What it is told where nobody knows how many rows an update touched."""
    timestamp_unit: str = "us"
    """In what unit it is asked for timestamps as parameters."""
    runs_what_it_prepares: bool = False
    """Whether it prepares every statement, and runs it at once."""


PLAIN: Final = Driver()
ADBC: Final = Driver(reads_compressed=True, runs_what_it_prepares=True)
JAVA: Final = Driver(
    # JDBC's SUCCESS_NO_INFO. The driver takes -1 for "there is a result set", and runs the update again.
    unknown_rows=-2,
    # It writes milliseconds into whatever unit it is asked for.
    timestamp_unit="ms",
)

_BY_BEGINNING: Final = (("ADBC Flight SQL Driver", ADBC), ("grpc-java", JAVA))


def driver_of(user_agent: str) -> Driver:
    """
    >>> driver_of("grpc-java-netty/1.72.0").unknown_rows
    -2
    """
    for beginning, driver in _BY_BEGINNING:
        if user_agent.startswith(beginning):
            return driver
    return PLAIN

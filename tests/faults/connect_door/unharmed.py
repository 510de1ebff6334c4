"""What must be the same after something bad was sent: processes, memory, and the session of somebody else."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bailiwick.testing.leaks import Secrets
from faults.connect_door.house import Door
from faults.connect_door.raw import Ended, RawConnect, raw_connect, row_counts, sql, table, view

GROWTH_BYTES_MAX = 250 << 20
KEPT_ROWS = 7
_PLACES = re.compile(
    r"\bat [\w.$]+\(|\.(?:java|scala|py):\d|Traceback|File \"|127\.0\.0\.1|(?<![\w.])/(?:tmp|root|home|usr)/"
)


@dataclass(frozen=True, slots=True)
class Unharmed:
    """Ann, who works on while bob does what he likes."""

    door: Door
    ann: RawConnect
    pids: tuple[int, int]
    resident_bytes: int
    hidden: Secrets

    def check(self) -> None:
        """Ann's session is what it was, in the same processes, and the gateway has not swollen meanwhile."""
        end = self.ann.run(table("mine"))
        assert row_counts(end) == KEPT_ROWS, end
        assert (self.door.gateway.pid, self.door.gateway.engine_pid) == self.pids
        growth_bytes = _peak_bytes(self.pids[0]) - self.resident_bytes
        assert growth_bytes < GROWTH_BYTES_MAX, growth_bytes

    def check_words(self, end: Ended) -> None:
        """Nothing of the house is told, nor how it is built."""
        found = [*self.hidden.found_in(end.words), *_PLACES.findall(end.words)]
        assert not found, (found, end)


@contextmanager
def unharmed(door: Door) -> Iterator[Unharmed]:
    gateway = door.gateway
    hidden = Secrets(frozenset({socket.gethostname(), str(gateway.data_dir), *door.tokens.values()}))
    with raw_connect(door.port, door.tokens["ann"]) as ann:
        made = ann.run(view("mine", sql(f"SELECT n FROM faults.numbers WHERE n < {KEPT_ROWS}")))
        assert made.condition == "", made
        # From here on the highest that it comes to is noted anew.
        Path(f"/proc/{gateway.pid}/clear_refs").write_text("5")
        pids = (gateway.pid, gateway.engine_pid)
        yield Unharmed(door, ann, pids, _peak_bytes(gateway.pid), hidden)


def _peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10

"""How much memory processes take while others work, and whether that grows. Sampled from outside."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil

EVERY_S = 0.5
SETTLING = 0.5
"""The share of the samples, from the first on, in which caches fill and code is compiled: not judged."""
MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    bytes: int


@dataclass(slots=True)
class Memory:
    """What was sampled, by the name of the process. Grows while it is watched."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def largest_bytes(self, name: str) -> int:
        return max((sample.bytes for sample in self.samples[name]), default=0)

    def growth_bytes_per_minute(self, name: str) -> float:
        """After it has settled. 0 of too few samples to tell."""
        samples = self.samples[name]
        return 60.0 * slope(samples[int(len(samples) * SETTLING) :])

    def lines(self) -> Iterator[str]:
        for name, samples in self.samples.items():
            if samples:
                yield (
                    f"{name}: {samples[0].bytes // MEGABYTE} MB at first, {samples[-1].bytes // MEGABYTE} MB "
                    f"at last, {self.largest_bytes(name) // MEGABYTE} MB at most; in the second half "
                    f"{self.growth_bytes_per_minute(name) / MEGABYTE:+.1f} MB a minute"
                )


def slope(samples: Sequence[Sample]) -> float:
    """Bytes a second, of the line that fits best."""
    if len(samples) < 2:
        return 0.0
    middle_s = sum(sample.at_s for sample in samples) / len(samples)
    spread = sum((sample.at_s - middle_s) ** 2 for sample in samples)
    return sum((sample.at_s - middle_s) * sample.bytes for sample in samples) / spread if spread else 0.0


@contextmanager
def watched(pids: Mapping[str, Callable[[], int]], every_s: float = EVERY_S) -> Iterator[Memory]:
    """The processes' resident memory, until the block ends. One that is not there now has no sample."""
    memory = Memory({name: [] for name in pids})
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(every_s):
            for name, pid in pids.items():
                with suppress(psutil.Error, LookupError):
                    found = Sample(time.monotonic(), int(psutil.Process(pid()).memory_info().rss))
                    memory.samples[name].append(found)

    thread = threading.Thread(target=sample, name="memory")
    thread.start()
    try:
        yield memory
    finally:
        is_over.set()
        thread.join()

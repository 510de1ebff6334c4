"""Whether memory grows is told from samples, and one leap at the start is not held against anyone."""

import os
import threading

import pytest

from bailiwick.testing.asking import wait_until
from bailiwick.testing.load.memory import MEGABYTE, Memory, Sample, slope, watched


def samples(*megabytes: float) -> list[Sample]:
    return [Sample(float(second), int(each * MEGABYTE)) for second, each in enumerate(megabytes)]


@pytest.mark.parametrize(
    ("megabytes", "expected"),
    [((), 0.0), ((5,), 0.0), ((5, 5, 5, 5), 0.0), ((1, 2, 3, 4), 1.0), ((4, 3, 2, 1), -1.0)],
)
def test_the_slope_is_that_of_the_line_that_fits(megabytes: tuple[float, ...], expected: float) -> None:
    assert slope(samples(*megabytes)) == pytest.approx(expected * MEGABYTE)


def test_only_the_second_half_is_judged() -> None:
    settled = Memory({"gateway": samples(1, 50, 90, 100, 100, 100, 100, 100)})
    assert settled.growth_bytes_per_minute("gateway") == 0.0
    leaking = Memory({"gateway": samples(100, 100, 100, 100, 101, 102, 103, 104)})
    assert leaking.growth_bytes_per_minute("gateway") == pytest.approx(60 * MEGABYTE)
    assert leaking.largest_bytes("gateway") == 104 * MEGABYTE
    assert next(leaking.lines()).startswith("gateway: 100 MB at first, 104 MB at last")


def test_a_process_that_is_not_there_has_no_samples() -> None:
    def nobody() -> int:
        raise LookupError

    with watched({"own": os.getpid, "nobody": nobody}, every_s=0.01) as memory:
        wait_until("sampled", lambda: len(memory.samples["own"]) > 2)
    assert memory.samples["nobody"] == []
    assert len([*memory.lines()]) == 1
    assert all(thread.name != "memory" for thread in threading.enumerate())

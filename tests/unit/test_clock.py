"""Clocks: what is compared within one process does not move when the machine's clock is set."""

import subprocess
import sys
from pathlib import Path

from bailiwick.clock import monotonic, steady, wall
from bailiwick.testing.gateway import clean_environment
from bailiwick.testing.stepping_clock import SteppingClock

_SCRIPT = """
import sys
from bailiwick.clock import steady, wall
print(round(wall() - steady()), flush=True)
sys.stdin.readline()
print(round(wall() - steady()), flush=True)
"""


def test_steady_tells_the_time_of_day_and_counts_on() -> None:
    assert abs(steady() - wall()) < 60
    before = (steady(), monotonic())
    assert 0 <= steady() - before[0] <= monotonic() - before[1] + 0.01


def test_a_clock_that_is_set_moves_the_wall_and_not_what_is_steady(tmp_path: Path) -> None:
    clock = SteppingClock(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT],
        env=clean_environment(clock.settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "0\n"
        clock.set(-7200)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "-7200\n"

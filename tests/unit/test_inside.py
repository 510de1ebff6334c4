"""What is put into a gateway's process does there what it says, and only for as long as it is wanted."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bailiwick.testing.asking import wait_until
from bailiwick.testing.inside import Inside, Point, _pass

PROGRAM = """
import sys
from pathlib import Path
from bailiwick.fleet.acceptance import Versions
from bailiwick.fleet.schedule import EngineLoad, Work, choose
from bailiwick.fleet.vitals import HealthRules
from bailiwick.testing.inside import Inside

inside = Inside(Path(sys.argv[1]))
engines = [EngineLoad("left", 5), EngineLoad("right", 5, running=3)]
print(choose(engines))
inside.keep_to("right")
print(choose(engines), choose(engines, Work(excluded=frozenset({"right"}))))
inside.open_all()
print(choose(engines))
print(HealthRules(Versions("1", "4")).hold_down_for_s(9))
"""


def test_who_comes_to_a_closed_gate_with_its_table_waits_and_others_pass(tmp_path: Path) -> None:
    inside = Inside(tmp_path)
    inside.close(Point.PLANNING, "held")
    _pass(tmp_path, Point.PLANNING, "another")
    _pass(tmp_path, Point.COMMITTING, "held")
    with ThreadPoolExecutor(1) as threads:
        passing = threads.submit(_pass, tmp_path, Point.PLANNING, "held")
        wait_until("reached", lambda: inside.is_reached(Point.PLANNING, "held"))
        assert not passing.done()
        inside.open_all()
        passing.result(10)


def test_queries_are_kept_to_one_engine_until_all_is_opened_and_none_is_held_down(tmp_path: Path) -> None:
    inside = Inside(tmp_path, detours={"127.0.0.1:1": "127.0.0.1:2"}, forgives=True)
    environment = {**os.environ, **inside.settings}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["left", "right None", "left", "0.0", ""]

"""A fault hits what it was meant for, by its id, and nothing of it is left when it is put right."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from random import Random

import psutil
import pytest

from bailiwick.testing.faults import Blow, Fault, House, Part, Struck
from bailiwick.testing.line import Line, laid


class Hut(House):
    """Two engines, of which each is a process that does nothing, and a line to nowhere."""

    def __init__(self, engines: dict[str, "subprocess.Popen[bytes]"], line: Line) -> None:
        self.engines = engines
        self.line = line
        self.mended = 0

    def pids(self, part: Part, node_id: str | None) -> Sequence[int]:
        assert part is Part.ENGINE
        return [engine.pid for name, engine in self.engines.items() if node_id in (None, name)]

    def lines(self, node_id: str | None) -> Sequence[Line]:
        del node_id
        return [self.line]

    def mend(self) -> None:
        self.mended += 1

    def states(self) -> list[str]:
        return [psutil.Process(engine.pid).status() for engine in self.engines.values()]


@pytest.fixture
def hut() -> Iterator[Hut]:
    waiting = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    engines = {name: subprocess.Popen(waiting, stdin=subprocess.PIPE) for name in ("a", "b")}
    with laid(lambda: ("127.0.0.1", 1)) as line:
        yield Hut(engines, line)
    for engine in engines.values():
        engine.kill()
        engine.communicate()


def strike(hut: Hut, fault: Fault, node_id: str | None = None) -> Struck:
    return Struck(hut, fault, Random(7), node_id)


def test_the_engine_that_was_named_is_killed_and_the_other_lives(hut: Hut) -> None:
    strike(hut, Fault(Part.ENGINE, Blow.KILLED), "b")
    assert hut.engines["b"].wait(10) == -9
    assert hut.engines["a"].poll() is None


def test_all_are_hit_where_a_fault_is_everywhere(hut: Hut) -> None:
    fault = Fault(Part.ENGINE, Blow.KILLED, is_everywhere=True)
    strike(hut, fault, "b")
    assert [engine.wait(10) for engine in hut.engines.values()] == [-9, -9]
    assert fault.name == "every engine killed"


def test_the_same_seed_hits_the_same_one(hut: Hut) -> None:
    fault = Fault(Part.ENGINE, Blow.STOPPED)
    hits = []
    for _ in range(3):
        struck = strike(hut, fault)
        hits.append([state == psutil.STATUS_STOPPED for state in hut.states()])
        struck.put_right()
    assert hits[0] == hits[1] == hits[2]
    assert sum(hits[0]) == 1
    assert psutil.STATUS_STOPPED not in hut.states()


def test_putting_right_mends_the_house_also_twice(hut: Hut) -> None:
    struck = strike(hut, Fault(Part.NETWORK, Blow.CUT))
    struck.put_right()
    struck.put_right()
    assert hut.mended == 2


def test_a_fault_that_finds_nothing_to_hit_is_told(hut: Hut) -> None:
    with pytest.raises(LookupError, match="no engine that could be killed"):
        strike(hut, Fault(Part.ENGINE, Blow.KILLED), "elsewhere")

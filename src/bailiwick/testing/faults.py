"""Ways in which a part of a running house breaks: killed, stopped, cut off. And how it is put right again.

A fault says what it does to which part; a `House` knows where its parts are. Signals go to single processes
by their id.
"""

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Literal, TypeVar, assert_never

import psutil

from bailiwick.testing.line import Line

Hit = TypeVar("Hit")


class Part(StrEnum):
    ENGINE = "engine"
    EXECUTOR = "executor"
    WORKER = "worker"
    MASTER = "master"
    KEEPER = "keeper"
    GATEWAY = "gateway"
    DATABASE = "database"
    NETWORK = "network"
    """Between gateway and engine."""


class Blow(StrEnum):
    KILLED = "killed"
    STOPPED = "stopped"
    """By SIGSTOP: it is there, and does not answer."""
    RESET = "reset"
    """Every connection breaks once."""
    CUT = "cut"
    """Every connection breaks, and no new one is made."""
    HUNG = "hung"
    SLOW = "slow"
    FLAPPING = "flapping"
    """Cut and whole again, several times a second."""


SLOW_BYTES_PER_S = 400_000
SLOW_LATENCY_S = 0.1
FLAPS_EVERY_S = 0.4
_EFFECT_WITHIN_S = 10.0
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Fault:
    part: Part
    blow: Blow
    lasts_s: float = 0.0
    """Until it is put right; less if what it hit is over before."""
    is_everywhere: bool = False
    """Whether it hits all that there are of the part, and not only the one that the query depends on."""

    @property
    def name(self) -> str:
        return f"every {self.part} {self.blow}" if self.is_everywhere else f"{self.part} {self.blow}"


class House(ABC):
    """A gateway and all that it stands on."""

    @abstractmethod
    def pids(self, part: Part, node_id: str | None) -> Sequence[int]:
        """The processes that are this part now: those of the engine `node_id`, or of all if it is None."""

    @abstractmethod
    def lines(self, node_id: str | None) -> Sequence[Line]:
        """The lines between gateway and engines, chosen likewise."""

    @abstractmethod
    def mend(self) -> None:
        """Start again whatever of it does not come back by itself."""


class Struck:
    """A fault that has happened, until it is put right."""

    def __init__(self, house: House, fault: Fault, random: Random, node_id: str | None = None) -> None:
        """It hits what belongs to the engine `node_id`, one of it if there are several, or everything."""
        self._house = house
        self._stopped: list[int] = []
        where = None if fault.is_everywhere else node_id
        match fault.blow:
            case Blow.KILLED:
                for pid in _chosen(house.pids(fault.part, where), fault, random):
                    _send(pid, signal.SIGKILL, psutil.STATUS_ZOMBIE)
            case Blow.STOPPED:
                self._stopped = _chosen(house.pids(fault.part, where), fault, random)
                for pid in self._stopped:
                    _send(pid, signal.SIGSTOP, psutil.STATUS_STOPPED)
            case _:
                for line in _chosen(house.lines(where), fault, random):
                    _break(line, fault.blow)

    def put_right(self) -> None:
        """May be called twice."""
        for pid in self._stopped:
            with suppress(ProcessLookupError):  # Somebody lost patience with it.
                os.kill(pid, signal.SIGCONT)
        self._stopped = []
        for line in self._house.lines(None):
            line.mend()
        self._house.mend()


def _chosen(candidates: Sequence[Hit], fault: Fault, random: Random) -> list[Hit]:
    if not candidates:
        raise LookupError(f"there is no {fault.part} that could be {fault.blow}")
    # The processes of a database are one server.
    is_whole = fault.is_everywhere or fault.part is Part.DATABASE
    return list(candidates) if is_whole else [random.choice(candidates)]


def _break(line: Line, blow: Literal[Blow.RESET, Blow.CUT, Blow.HUNG, Blow.SLOW, Blow.FLAPPING]) -> None:
    match blow:
        case Blow.RESET:
            line.reset()
        case Blow.CUT:
            line.cut()
        case Blow.HUNG:
            line.hang()
        case Blow.SLOW:
            line.slow(bytes_per_s=SLOW_BYTES_PER_S, latency_s=SLOW_LATENCY_S)
        case Blow.FLAPPING:
            line.flap(every_s=FLAPS_EVERY_S)
        case _:
            assert_never(blow)


def _send(pid: int, number: signal.Signals, wanted: str) -> None:
    """Return when it has had its effect. A dead process is left for its parent to reap."""
    deadline = time.monotonic() + _EFFECT_WITHIN_S
    with suppress(psutil.NoSuchProcess, ProcessLookupError):  # Dead and reaped.
        process = psutil.Process(pid)
        os.kill(pid, number)
        while process.status() != wanted or (wanted == psutil.STATUS_ZOMBIE and _has_threads(pid)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{number.name} had no effect on process {pid}")
            time.sleep(_POLL_S)


def _has_threads(pid: int) -> bool:
    """Whether threads of a dead process are still ending: until then its parent does not learn of its end."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except FileNotFoundError:
        return False

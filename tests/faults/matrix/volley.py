"""Queries that are held at their points, one in each phase of its life, so that one blow hits them all."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random

from bailiwick.testing.asking import ENDLESS, running_queries, start_client, wait_until
from faults.matrix.houses import NUMBERS_COUNT, PLACES, GatewayHouse
from faults.matrix.judging import End, Known
from faults.matrix.victims import Phase, Victim, histories

REACHED_WITHIN_S = 90.0
_WAITING = (Phase.PLANNING, Phase.FINISHING)
_CHANGING = (Phase.COMMITTED, Phase.COMMITTING)
_RUNNING = (Phase.MIDDLE, Phase.FIRST_ROW)


@dataclass(slots=True)
class Volley:
    house: GatewayHouse
    victims: Mapping[Phase, Victim]
    node_id: str | None
    """The engine that all of them depend on, if there are several."""
    blockers: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    """Others' endless queries, in the places that no victim has."""

    def let_go(self) -> None:
        """What was held goes on; what stood before it leaves. May be called twice."""
        self.house.inside.open_all()
        for victim in self.victims.values():
            victim.read_on()
        for blocker in self.blockers:
            blocker.kill()
            blocker.wait()
        self.blockers.clear()

    def wait_ended(self, timeout_s: float) -> bool:
        """Whether all have an answer or an error, within that time."""
        return not wait([victim.future for victim in self.victims.values()], timeout_s).not_done

    def end(self, phase: Phase) -> End | None:
        """What the client of that phase has, if it has anything."""
        future = self.victims[phase].future
        return future.result() if future.done() else None

    def bring_into_position(self, threads: ThreadPoolExecutor, random: Random) -> None:
        """Return when each query is where it should be hit.

        What is known of a statement holds until the catalog changes, and to learn it takes a place: so those
        that wait for the catalog begin before the change, and the one that is to queue is prepared after it.
        """
        if Phase.QUEUED in self.victims:
            self._block(PLACES - sum(phase.has_place for phase in self.victims))
        self._start(threads, _WAITING, is_prepared=True)
        self._wait(_WAITING, Victim.has_begun)
        self._start(threads, _CHANGING)
        self._wait((*_WAITING, *_CHANGING), Victim.is_there)
        if Phase.QUEUED in self.victims:
            self.victims[Phase.QUEUED].prepare()
        self._start(threads, _RUNNING)
        self._wait(_RUNNING, Victim.has_begun)
        self._start(threads, (Phase.QUEUED,))
        rows_least = int(random.uniform(0.3, 0.6) * NUMBERS_COUNT)
        self._wait(tuple(Phase), partial(Victim.is_there, rows_least=rows_least))

    def _start(
        self, threads: ThreadPoolExecutor, phases: Sequence[Phase], *, is_prepared: bool = False
    ) -> None:
        for phase in phases:
            if phase in self.victims:
                if is_prepared:
                    self.victims[phase].prepare()
                self.victims[phase].start(threads)

    def _wait(self, phases: Sequence[Phase], condition: Callable[[Victim, Known], bool]) -> None:
        """Return when this holds for all of these phases at the same time."""
        meant = [self.victims[phase] for phase in phases if phase in self.victims]

        def are_there() -> bool:
            known = histories(self.house)
            return all(condition(victim, known.get(victim.marker, ())) for victim in meant)

        wait_until(f"there: {', '.join(phases)}", are_there, REACHED_WITHIN_S)

    def _block(self, count: int) -> None:
        self.blockers += [start_client(self.house.gateway, ENDLESS) for _ in range(count)]
        wait_until(
            "blocked",
            lambda: len(running_queries(self.house.gateway, "CROSS JOIN")) >= count,
            REACHED_WITHIN_S,
        )


@contextmanager
def held(house: GatewayHouse, markers: Mapping[Phase, str], random: Random) -> Iterator[Volley]:
    """A query for each of `markers`, by phase, held there. Each has a thread of its own."""
    with ThreadPoolExecutor(len(markers)) as threads:
        victims = {phase: Victim(house, phase, marker) for phase, marker in markers.items()}
        volley = Volley(house, victims, house.gather(random))
        try:
            volley.bring_into_position(threads, random)
            yield volley
        finally:
            volley.let_go()
            threads.shutdown()
            for victim in victims.values():
                victim.close()

"""Time that passes only when we say so, and chance that can be repeated."""

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final

STORY_LINES_MAX: Final = 120

Act = Callable[[], None]


class Clockwork:
    """Does what is due, in the order of time; of two things at the same moment, what was planned first."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_s = 0.0
        self._notes: deque[tuple[float, tuple[object, ...]]] = deque(maxlen=STORY_LINES_MAX)
        self._due: list[tuple[float, int, Act]] = []
        self._count = count()

    def after(self, delay_s: float, act: Act) -> None:
        heapq.heappush(self._due, (self.now_s + delay_s, next(self._count), act))

    def every(self, interval_s: float, act: Act, jitter_s: float = 0.0) -> None:
        def again() -> None:
            act()
            self.after(interval_s + self.random.uniform(0, jitter_s), again)

        self.after(self.random.uniform(0, interval_s), again)

    def run_until(self, end_s: float) -> None:
        while self._due and self._due[0][0] <= end_s:
            self.now_s, _, act = heapq.heappop(self._due)
            act()
        self.now_s = end_s

    def note(self, *words: object) -> None:
        """Remember for the story. They are put into letters only if it is told."""
        self._notes.append((self.now_s, words))

    @property
    def story(self) -> list[str]:
        """What happened last, for when a promise is broken."""
        return [f"{at_s:9.3f}  {' '.join(map(str, words))}" for at_s, words in self._notes]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def between(self, least: float, most: float) -> float:
        return self.random.uniform(least, most)

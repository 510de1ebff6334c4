"""What came of it, in figures. Pure: answers in, a summary out."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SHARE_MAX = 0.9
SLOWER_MAX = 3.0
JUDGED_QUERIES_MIN = 20
JUDGED_QUERIES_OF_ENGINE_MIN = 5
"""Of fewer queries nothing is said: they would prove nothing."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of one client, and how it went."""

    client: int
    question: str
    elapsed_s: float
    is_right: bool = True
    error: str | None = None
    """The code of the failure, if it failed."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Where the history says that a question was answered."""

    question: str
    node_id: str
    elapsed_ms: float


@dataclass(frozen=True, slots=True)
class Times:
    count: int
    min_s: float
    avg_s: float
    p95_s: float
    max_s: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Times":
        """Of none, all are 0."""
        if not seconds:
            return cls(0, 0.0, 0.0, 0.0, 0.0)
        ordered = sorted(seconds)
        p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
        return cls(len(ordered), ordered[0], sum(ordered) / len(ordered), p95, ordered[-1])


@dataclass(frozen=True, slots=True)
class Share:
    """What one engine did of the work."""

    node_id: str
    queries: int
    share: float
    pace: float
    """How long its queries took, with 1.0 for as long as the same questions took on average everywhere."""


@dataclass(frozen=True, slots=True)
class Summary:
    elapsed_s: float
    asked: int
    wrong: int
    errors: Mapping[str, int]
    times: Times
    by_question: Mapping[str, Times]
    spread: tuple[Share, ...]
    flags: tuple[str, ...]
    """Sentences about engines that have too much to do, or are too slow."""

    @property
    def failed(self) -> int:
        return sum(self.errors.values())

    @property
    def queries_per_s(self) -> float:
        return self.times.count / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def is_passed(self) -> bool:
        """Every question was answered, and rightly. What is flagged is told, and fails nothing."""
        return self.asked > 0 and not self.failed and not self.wrong


def summarise(
    asked: Sequence[Asked], ran: Sequence[Ran], engines: Sequence[str], elapsed_s: float
) -> Summary:
    """`engines` are those that could have taken part; what ran elsewhere, as in the gateway, is no work."""
    answered = [one for one in asked if one.error is None]
    by_question: defaultdict[str, list[float]] = defaultdict(list)
    for one in answered:
        by_question[one.question].append(one.elapsed_s)
    spread = _spread([one for one in ran if one.node_id in engines], engines)
    return Summary(
        elapsed_s=elapsed_s,
        asked=len(asked),
        wrong=sum(not one.is_right for one in answered),
        errors=dict(Counter(one.error for one in asked if one.error is not None).most_common()),
        times=Times.of([one.elapsed_s for one in answered]),
        by_question={question: Times.of(seconds) for question, seconds in by_question.items()},
        spread=spread,
        flags=(*_crowded(spread), *_slow(spread)),
    )


def _spread(ran: Sequence[Ran], engines: Sequence[str]) -> tuple[Share, ...]:
    usual = _usual_ms(ran)
    shares = []
    for node_id in sorted(engines):
        own = [one for one in ran if one.node_id == node_id]
        ratios = [one.elapsed_ms / usual[one.question] for one in own if usual[one.question]]
        pace = sum(ratios) / len(ratios) if ratios else 0.0
        shares.append(Share(node_id, len(own), len(own) / len(ran) if ran else 0.0, pace))
    return tuple(shares)


def _usual_ms(ran: Sequence[Ran]) -> dict[str, float]:
    """How long each question takes: the mean over engines, so that a busy one does not set the standard."""
    taken: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in ran:
        taken[one.question][one.node_id].append(one.elapsed_ms)
    return {
        question: sum(sum(times) / len(times) for times in by_node.values()) / len(by_node)
        for question, by_node in taken.items()
    }


def _crowded(spread: Sequence[Share]) -> list[str]:
    if len(spread) < 2 or sum(one.queries for one in spread) < JUDGED_QUERIES_MIN:
        return []
    return [
        f"{one.node_id} did {one.share:.0%} of the work although there are {len(spread) - 1} more"
        for one in spread
        if one.share > SHARE_MAX
    ]


def _slow(spread: Sequence[Share]) -> list[str]:
    judged = [one for one in spread if one.queries >= JUDGED_QUERIES_OF_ENGINE_MIN and one.pace]
    if len(judged) < 2:
        return []
    best = min(judged, key=lambda one: one.pace)
    return [
        f"{one.node_id} takes {one.pace / best.pace:.1f} times as long as {best.node_id} for the same"
        for one in judged
        if one.pace >= SLOWER_MAX * best.pace
    ]

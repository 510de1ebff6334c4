"""One day from one seed, and whether every promise was kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bailiwick.fleet.report import EMBEDDED
from bailiwick.fleet.vitals import Condition
from bailiwick.ids import NodeId
from faults.simulation.clockwork import Clockwork
from faults.simulation.faults import PATIENT, QUICK, STOPPED_MAX_S, TIMEOUT_MAX_S, Day, rehearsal
from faults.simulation.gateway import Gateway
from faults.simulation.promises import PromiseBrokenError, Promises

DAY_S: Final = 60.0
REHEARSAL_S: Final = 12.0
STEP_S: Final = 2.0
NOTICED_AFTER_S: Final = 16.0
"""What broke last has been noticed by then."""
PATIENT_ONE_IN: Final = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the day brought, to see that days are bad enough."""

    answers: tuple[str, ...]
    retries: int
    demotions: int


class BadDayError(AssertionError):
    """A promise was broken. Tells the seed, and the story up to there."""

    def __init__(self, seed: int, error: Exception, story: list[str]) -> None:
        lines = "\n".join(story)
        super().__init__(
            f"seed {seed}: {type(error).__name__}: {error}\n"
            f"The same again: SIMULATION_SEED={seed} pytest tests/faults/simulation\n"
            f"The story, as far as it was kept:\n{lines}"
        )


def run(seed: int, gateway_kind: type[Gateway] = Gateway) -> Outcome:
    """Live through the day of `seed`. Raises BadDayError if anything went as it must not."""
    clockwork = Clockwork(seed)
    try:
        return _live(clockwork, gateway_kind)
    except Exception as error:
        raise BadDayError(seed, error, clockwork.story) from error


def _live(clockwork: Clockwork, gateway_kind: type[Gateway]) -> Outcome:
    rules = PATIENT if clockwork.random.randrange(PATIENT_ONE_IN) == 0 else QUICK
    promises = Promises(clockwork, rules.silence_max_s)
    gateway = gateway_kind(clockwork, promises, rules)
    day = Day(clockwork, gateway, DAY_S)
    day.furnish()
    gateway.begin()
    day.people_ask()
    day.things_break()
    clockwork.run_until(DAY_S)
    clockwork.run_until(max(DAY_S, gateway.stopped_until_s))
    day.make_peace()
    clockwork.run_until(clockwork.now_s + NOTICED_AFTER_S)
    # Flappers are left alone for a while, and what was asked last may take its time.
    patience_s = max(rules.hold_down_max_s, TIMEOUT_MAX_S) + 4 * rules.interval_s + STOPPED_MAX_S
    _run_until(clockwork, lambda: promises.is_quiet(gateway) and not _unwell(gateway), patience_s)
    promises.nobody_is_lost(gateway)
    _everyone_is_used_again(gateway)
    answers = tuple(promises.answers.values())
    retries = sum(len(one.query.attempts) for one in gateway.inquiries.values())
    return Outcome(answers, retries, sum(map(len, promises.uses.values())))


def _run_until(clockwork: Clockwork, is_over: Callable[[], bool], at_most_s: float) -> None:
    end_s = clockwork.now_s + at_most_s
    while not is_over() and clockwork.now_s < end_s:
        clockwork.run_until(clockwork.now_s + STEP_S)


def _everyone_is_used_again(gateway: Gateway) -> None:
    expected, unwell = _who_should_be_well(gateway), _unwell(gateway)
    if unwell:
        raise PromiseBrokenError(f"whoever answers again is used again: {unwell}")
    gateway.promises.choices.clear()
    for number in range(sum(gateway.engines[name].make.slots for name in expected)):
        gateway.submit(rehearsal(number))
    _run_until(gateway.clockwork, lambda: gateway.promises.is_quiet(gateway), REHEARSAL_S)
    gateway.promises.nobody_is_lost(gateway)
    unused = expected - set(gateway.promises.choices)
    if unused:
        raise PromiseBrokenError(f"whoever answers again is used again: {sorted(unused)} got nothing")
    failed = [
        name for name, answer in gateway.promises.answers.items() if name[0] == "r" and answer != "rows"
    ]
    if failed:
        raise PromiseBrokenError(f"in peace every query succeeds: {failed}")


def _unwell(gateway: Gateway) -> list[str]:
    engines = {name: gateway.fleet.engines.get(name) for name in sorted(_who_should_be_well(gateway))}
    return [
        f"{name} is {known and known.condition}: {known}"
        for name, known in engines.items()
        if known is None or known.condition is not Condition.HEALTHY
    ]


def _who_should_be_well(gateway: Gateway) -> set[NodeId]:
    """All of ours that are there; of two that claim one address, whoever was first."""
    names = set(gateway.engines) - {EMBEDDED, NodeId("old")}
    copy, original = NodeId("copy"), NodeId("n0")
    known = gateway.fleet.engines.get(copy)
    if copy in names:
        names.remove(original if known is not None and known.condition is Condition.HEALTHY else copy)
    return names

"""Whatever happens on a bad day, the promises are kept: many days, each made from its seed.

A failure prints its seed. `SIMULATION_SEED=<seed> pytest tests/faults/simulation` lives through that day
alone; `SIMULATION_DAYS=<count>` through that many.
"""

import os
from collections.abc import Sequence

import pytest

from faults.simulation.run import Outcome, run

DAYS = int(os.environ.get("SIMULATION_DAYS", "500"))
SEEDS: Sequence[int] = (
    [int(os.environ["SIMULATION_SEED"])] if "SIMULATION_SEED" in os.environ else range(DAYS)
)
PARTS = 8

pytestmark = pytest.mark.fault


def test_every_promise_is_kept_on_bad_days() -> None:
    outcomes = [run(seed) for seed in SEEDS]
    assert len(outcomes) < 100 or _are_bad_enough(outcomes)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_is_kept_on_thousands_of_bad_days(part: int) -> None:
    first = 1_000_000 + part * 2 * DAYS
    for seed in range(first, first + 2 * DAYS):
        run(seed)


def test_one_seed_is_one_story() -> None:
    assert [run(seed) for seed in range(5)] == [run(seed) for seed in range(5)]


def _are_bad_enough(outcomes: Sequence[Outcome]) -> bool:
    """Promises that nothing ever tempts are easy to keep."""
    answers = [answer for outcome in outcomes for answer in outcome.answers]
    assert len(answers) / 4 < answers.count("rows") < len(answers) * 3 / 4
    assert sum(outcome.retries for outcome in outcomes) > len(outcomes) / 4
    assert sum(outcome.demotions for outcome in outcomes) > len(outcomes)
    expected = ("was lost", "Too many", "waited too long", "onfiguration error", "by zero", "Cancelled")
    assert [words for words in expected if not any(words in answer for answer in answers)] == []
    return True

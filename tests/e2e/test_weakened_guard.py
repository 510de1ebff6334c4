"""Oracle and attacks can fail: with a guard that is broken on purpose they do.

Each test compiles a patched copy of the guard's source and serves the policy house with it. What is proved
elsewhere must not hold there, else those proofs prove nothing. The house is furnished once, by the guard that
comes first: what is in it, policies included, is the gateway's and not the guard's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from attacks.attempt import Attacker, Attempt, Ledger
from attacks.test_attack_leaky_predicates import EVERYWHERE, ONLY_HIDDEN
from attacks.test_attack_subqueries import ATTEMPTS as SUBQUERIES
from attacks.test_attack_time_travel import ATTEMPTS as TIME_TRAVEL
from oracle.comparison import compare
from oracle.queries import queries

from bailiwick.testing.gateway import NotReadyError, running_gateway
from bailiwick.testing.leaks import Secrets
from bailiwick.testing.policy_house import House, furnish
from bailiwick.testing.policy_tables import COUNTED_ROWS
from bailiwick.testing.weak_guard import Patch, cache_without_guard, weak_cache

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

QUERIES = 10
REFUSED_S = 120.0
"""Until when the gateway must have said that it does not serve, if it does not end by itself."""
NO_FILTER = Patch(
    "Wrapping.java",
    "plan = marked(new Filter(condition, plan), mark);",
    "plan = marked(new Filter(Literal.create(true, DataTypes.BooleanType), plan), mark);",
)
NO_MASK = Patch("Masking.java", "masked.getOrDefault(raw.get(i).exprId(), raw.get(i))", "raw.get(i)")
NO_BARRIER = (
    Patch("Wrapping.java", "plan = marked(new Barrier(plan), mark);", ""),
    Patch("Check.java", "wanted.add(Barrier.class);", ""),
)
NO_CHECK = Patch("Check.java", "if (!operation.isProcedure() && !isForDecoding(plan)) {", "if (false) {")


@dataclass(slots=True)
class WeakHouse:
    """One data directory, served by one weak guard after the other."""

    data_dir: Path
    places: dict[str, Mapping[str, str]] | None = None
    """Of the tables' history, once there are tables."""

    @contextmanager
    def served(self, directory: Path, *patches: Patch) -> Iterator[House]:
        settings = {
            "BAILIWICK_CACHE": str(weak_cache(directory, *patches)),
            "BAILIWICK__ENGINE__MEMORY": "1g",
            "BAILIWICK__ENGINE__CLASS_DATA_SHARING": "false",
        }
        with running_gateway(self.data_dir, settings=settings) as gateway:
            house = furnish(gateway) if self.places is None else House(gateway, self.places)
            self.places = house.places
            yield house


@pytest.fixture(scope="module")
def weak(tmp_path_factory: pytest.TempPathFactory) -> WeakHouse:
    return WeakHouse(tmp_path_factory.mktemp("weak") / "data")


def succeeding(house: House, attempts: Sequence[Attempt]) -> list[str]:
    """The attempts that showed something hidden."""
    ledger, connections = Ledger(), {}  # type: ignore[var-annotated]
    attacker = Attacker(house, Secrets().with_more({str(COUNTED_ROWS)}), ledger, "weakened", connections)
    shown = []
    for attempt in attempts:
        try:
            attacker.judge(attempt)
        except AssertionError:
            shown.append(attempt.what)
    for _, context in connections.values():
        context.__exit__(None, None, None)
    return shown


def test_without_filters_oracle_and_attacks_fail(weak: WeakHouse, tmp_path: Path) -> None:
    with weak.served(tmp_path, NO_FILTER) as house:
        tally = compare(house, queries(1, QUERIES), Secrets())
        assert len(tally.differences) > QUERIES / 4, tally
        shown = succeeding(house, [*SUBQUERIES[:8], *TIME_TRAVEL[:4]])
        assert len(shown) > 5, shown


@pytest.mark.full
def test_without_masks_oracle_and_attacks_fail(weak: WeakHouse, tmp_path: Path) -> None:
    with weak.served(tmp_path, NO_MASK) as house:
        tally = compare(house, queries(1, QUERIES), Secrets())
        assert len(tally.differences) > QUERIES / 4, tally
        masked = [attempt for attempt in SUBQUERIES if "mask" in attempt.what or "raw" in attempt.what]
        assert len(succeeding(house, masked)) > 4


def test_without_the_barrier_leaky_predicates_leak(weak: WeakHouse, tmp_path: Path) -> None:
    with weak.served(tmp_path, *NO_BARRIER) as house:
        leaky = [attempt for attempt in (*EVERYWHERE, *ONLY_HIDDEN) if "raise_error" in attempt.what]
        assert len(succeeding(house, leaky)) > 0


def refusal_of(directory: Path, cache: Path) -> str:
    """What the gateway says when it is to serve with that engine, which it must not."""
    settings = {
        "BAILIWICK_CACHE": str(cache),
        "BAILIWICK__ENGINE__MEMORY": "1g",
        "BAILIWICK__ENGINE__CLASS_DATA_SHARING": "false",
    }
    serving = running_gateway(directory / "data", settings=settings, ready_s=REFUSED_S)
    with pytest.raises(NotReadyError) as caught, serving:
        raise AssertionError("the gateway serves with an engine that has no guard")
    return str(caught.value)


def test_an_engine_without_the_guard_is_not_used_and_it_is_said_why(tmp_path: Path) -> None:
    """facts/policy: Spark fails open if the class does not load."""
    said = refusal_of(tmp_path, cache_without_guard(tmp_path))
    assert "engine is not used" in said
    assert "Traceback" not in said


@pytest.mark.full
def test_an_engine_whose_guard_accepts_everything_is_not_used(tmp_path: Path) -> None:
    said = refusal_of(tmp_path, weak_cache(tmp_path, NO_CHECK))
    assert "engine is not used" in said

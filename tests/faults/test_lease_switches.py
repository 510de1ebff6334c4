"""One engine session is lent from person to person while things break: nothing of one reaches the next.

Each seed is a round: a query is killed, hung, cut off, cancelled, or fails with its owner's own words, at a
moment of its life, and two others wait for the session. A few seeds are in every run; `make faults` has more.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from random import Random

import pytest

from bailiwick.testing.lease_book import Entry, Happened, Sabotage
from faults.switches.crossings import Kept, Said, crossings, switched
from faults.switches.people import NAMES, Ask, Kind, right
from faults.switches.rounds import CANCELLED, UNTOUCHED, Moment, Round, run
from faults.switches.shared_house import SharedHouse

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(400)]

IN_EVERY_RUN = (22, 25)
SEEDS = 60
ANEMONE, BERGAMOT, CHICORY = NAMES


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedHouse]:
    with ExitStack() as stack:
        house = SharedHouse(tmp_path_factory.mktemp("shared"), stack)
        yield house


def seeds() -> Iterator[object]:
    for seed in range(SEEDS):
        marks = () if seed in IN_EVERY_RUN else (pytest.mark.full,)
        yield pytest.param(seed, id=f"{seed}: {Round.of(seed).name}", marks=marks)


@pytest.mark.parametrize("seed", [*seeds()])
def test_nothing_of_one_person_reaches_the_next_in_the_session(shared: SharedHouse, seed: int) -> None:
    said = run(shared, Round.of(seed), Random(seed))
    shared.wait_well()
    assert shared.crossings(said) == []


def test_a_session_passes_from_hand_to_hand_when_its_queries_fail_or_are_cancelled(
    shared: SharedHouse,
) -> None:
    """Else the rounds would prove nothing: everyone would have a session of their own."""
    asks = (Ask(ANEMONE, Kind.BAD_CAST, "h0"), Ask(BERGAMOT, Kind.FEW, "h1"), Ask(CHICORY, Kind.FEW, "h2"))
    failing = Round(asks, Moment.PLANNING, UNTOUCHED, 0.0)
    reading = replace(asks[0], kind=Kind.READ, mark="h3")
    cancelled = Round((reading, *asks[1:]), Moment.FIRST_ROW, CANCELLED, 0.0)
    for this in (failing, cancelled):
        began_with = len(shared.inside.entries())
        said = run(shared, this, Random(0))
        assert not said[0].is_answered
        assert [one.is_answered for one in said[1:]] == [True, True]
        followed = switched(shared.inside.entries()[began_with:])
        assert any(before == ANEMONE for before, _ in followed)
        assert len(followed) >= 2
        assert shared.crossings(said) == []


@pytest.fixture
def sabotaged(shared: SharedHouse) -> Iterator[SharedHouse]:
    try:
        yield shared
    finally:
        shared.inside.be_honest()
        shared.forget()


def test_rows_that_cross_are_found(sabotaged: SharedHouse) -> None:
    asks = (Ask(ANEMONE, Kind.FEW, "r0"), Ask(BERGAMOT, Kind.FEW, "r1"), Ask(CHICORY, Kind.FEW, "r2"))
    honest = Round(asks, Moment.PLANNING, UNTOUCHED, 0.0)
    assert sabotaged.crossings(run(sabotaged, honest, Random(0))) == []
    sabotaged.inside.sabotage(Sabotage.ROWS)
    again = Round((replace(asks[0], mark="r3"), *asks[1:]), Moment.PLANNING, UNTOUCHED, 0.0)
    found = sabotaged.crossings(run(sabotaged, again, Random(0)))
    assert any("sees what is not theirs" in one for one in found)


def test_a_commit_that_comes_late_is_found(sabotaged: SharedHouse) -> None:
    asks = (Ask(ANEMONE, Kind.INSERT, "c0"), Ask(BERGAMOT, Kind.FEW, "c1"), Ask(CHICORY, Kind.FEW, "c2"))
    late = Round(asks, Moment.COMMITTING, CANCELLED, 0.0)
    assert sabotaged.crossings(run(sabotaged, late, Random(0))) == []
    sabotaged.inside.sabotage(Sabotage.COMMITS)
    again = Round((replace(asks[0], mark="c3"), *asks[1:]), Moment.COMMITTING, CANCELLED, 0.0)
    said = run(sabotaged, again, Random(0))
    sabotaged.wait_changed(ANEMONE)
    found = sabotaged.crossings(said)
    assert any(one.startswith(f"{ANEMONE} changed the catalog while") for one in found)


def test_an_error_of_somebody_else_is_found(sabotaged: SharedHouse) -> None:
    first, second, third = (Ask(name, Kind.BAD_CAST, f"e{number}") for number, name in enumerate(NAMES))
    failing = Round((first, second, third), Moment.PLANNING, UNTOUCHED, 0.0)
    assert sabotaged.crossings(run(sabotaged, failing, Random(0))) == []
    sabotaged.inside.sabotage(Sabotage.ERRORS)
    found = sabotaged.crossings(run(sabotaged, failing, Random(0)))
    assert any("was told of" in one for one in found)


def test_each_kind_of_crossing_is_told_from_what_is_right() -> None:
    """The judge alone, without any process."""
    ask = Ask(ANEMONE, Kind.READ, "j0")
    own, others = [tuple(sorted(right(who), key=str)) for who in (ANEMONE, BERGAMOT)]
    marks = {"j0": ANEMONE}
    assert crossings([Said(ask, own)], [], [Kept("j0", row) for row in own], marks) == []
    assert crossings([Said(ask, own[:7], "EXECUTION_FAILED: lost")], [], [], marks) == []
    assert crossings([Said(ask, own[:7])], [], [], marks)
    assert crossings([Said(ask, (*own[1:], others[0]))], [], [], marks)
    assert crossings([Said(ask, (), f"no column {BERGAMOT}_x")], [], [], marks)
    assert crossings([], [], [Kept("j0", row) for row in others], marks)
    assert crossings([], [], [Kept("j0", row) for row in own[1:]], marks)
    entered, changed, left = (
        Entry(what, "session", "lease", ANEMONE)
        for what in (Happened.ENTERED, Happened.CHANGED, Happened.LEFT)
    )
    following = replace(entered, lease="next", who=BERGAMOT)
    assert crossings([], [entered, changed, left, following], [], marks) == []
    assert crossings([], [entered, left, following, changed], [], marks)
    assert crossings([], [entered, left, changed], [], marks)
    assert switched([entered, left, following]) == [(ANEMONE, BERGAMOT)]

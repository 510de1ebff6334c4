"""However callers, gateways and crashes interleave, a change under one key is written once at most.

Thousands of seeded schedules over the real decision and the real store in memory, with a clock that the
schedule moves. A gateway may die at any step, or be believed dead and go on. A failure names its seed.
"""

import random
from collections.abc import Generator
from dataclasses import dataclass, field, replace

import pytest

from bailiwick.engines.description import Kind
from bailiwick.errors import Code
from bailiwick.ids import QueryId
from bailiwick.queries.query import Failure, Query, State
from bailiwick.queries.submissions import (
    Answer,
    Broke,
    Done,
    Outcome,
    Submission,
    SubmissionId,
    TakeOver,
    decide,
)
from bailiwick.queries.submissions_memory import MemorySubmissionStore

SEEDS = range(3_000)
CALLERS = 5
STEPS_MAX = 2_000
KEY = SubmissionId("t", "ann", "", "k")
LOST = Failure(Code.EXECUTION_FAILED, "lost")


@dataclass
class World:
    dice: random.Random
    store: MemorySubmissionStore = field(default_factory=MemorySubmissionStore)
    queries: dict[QueryId, Query] = field(default_factory=dict)
    now: float = 1_000.0
    written: list[QueryId] = field(default_factory=list)
    answers: list[Outcome] = field(default_factory=list)

    def fail(self, query_id: QueryId) -> None:
        """The gateway of this query is dead, or is believed to be."""
        query = self.queries.get(query_id)
        if query is not None and not query.state.is_terminal:
            self.queries[query_id] = replace(query, state=State.FAILED, failure=LOST, finished_at=self.now)


def run(coroutine: object) -> object:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)  # type: ignore[attr-defined]
    except StopIteration as ended:
        return ended.value
    raise AssertionError("a store in memory does not wait")


def caller(world: World, number: int) -> Generator[None]:
    """Somebody who sends the statement, and their gateway. A step ends where others may come between."""
    query_id = QueryId(f"q{number}")
    while True:
        wanted = Submission(KEY, "digest", query_id, world.now, world.now + 1e6)
        found = run(world.store.claim(wanted, keys_max=9))
        assert isinstance(found, Submission)
        yield
        if found.query_id == query_id:
            break
        verdict = decide(found, world.queries.get(found.query_id), now=world.now)
        if isinstance(verdict, Answer):
            world.answers.append(verdict.outcome)
            return
        yield
        if isinstance(verdict, TakeOver) and run(world.store.take_over(found, wanted)):
            found = wanted
            break
        yield
    yield
    yield from execute(world, found)


def execute(world: World, held: Submission) -> Generator[None]:
    query = Query(held.query_id, "ann", "t", "d", "INSERT", created_at=world.now, kind=Kind.CHANGE)
    world.queries[held.query_id] = replace(query, state=State.RUNNING)
    yield
    if not run(world.store.begin(held, at=world.now)):
        world.fail(held.query_id)
        return
    yield
    if world.dice.random() < 0.2:
        run(world.store.give_back(held))
        yield
        world.fail(held.query_id)
        return
    world.written.append(held.query_id)
    yield
    if world.dice.random() < 0.9:
        run(world.store.end(held, Done(1)))
        world.answers.append(Done(1))
    yield
    found = world.queries[held.query_id]
    if not found.state.is_terminal:
        world.queries[held.query_id] = replace(found, state=State.FINISHED, finished_at=world.now)


def play(seed: int) -> World:
    dice = random.Random(seed)
    world = World(dice)
    living = {number: caller(world, number) for number in range(CALLERS)}
    for _ in range(STEPS_MAX):
        if not living:
            return world
        number = dice.choice(sorted(living))
        world.now += dice.choice((0.0, 0.1, 3.0, 20.0))
        if dice.random() < 0.05:
            world.fail(QueryId(f"q{number}"))
            if dice.random() < 0.5:
                del living[number]
                continue
        if next(living[number], "ended") == "ended":
            del living[number]
    return world


@pytest.mark.parametrize("first", range(0, len(SEEDS), 500))
def test_a_change_is_written_once_at_most_and_nobody_is_told_otherwise(first: int) -> None:
    for seed in SEEDS[first : first + 500]:
        world = play(seed)
        assert len(world.written) <= 1, f"seed {seed}: written by {world.written}"
        done = [answer for answer in world.answers if isinstance(answer, Done)]
        assert bool(world.written) or not done, f"seed {seed}: told that it happened, and it did not"
        broke = [answer for answer in world.answers if isinstance(answer, Broke)]
        assert all(answer.is_unknown for answer in broke), f"seed {seed}: told that it did not happen"


def test_schedules_reach_what_they_are_about() -> None:
    worlds = [play(seed) for seed in SEEDS[:500]]
    assert sum(bool(world.written) for world in worlds) > 300
    kinds = {type(answer) for world in worlds for answer in world.answers}
    assert kinds == {Done, Broke}
    assert any(len(world.queries) > 1 for world in worlds)

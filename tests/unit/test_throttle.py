"""Wrong credentials get slower, nobody else does, and memory stays bounded."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity import throttle
from bailiwick.identity.throttle import DELAY_MAX_S, HELD_MAX, QUIET_S, Throttle
from bailiwick.identity.turns import Turns


def test_the_delay_doubles_for_a_name_wherever_the_guesses_come_from() -> None:
    record = Throttle(0.5)
    delays = [record.failed("ann", f"network {number}", now=0.0) for number in range(6)]
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


def test_the_delay_doubles_for_a_network_whatever_names_it_tries() -> None:
    record = Throttle(0.5)
    delays = [record.failed(f"user {number}", "home", now=0.0) for number in range(4)]
    assert delays == [0.5, 1.0, 2.0, 4.0]


def test_wrong_tokens_slow_down_their_network() -> None:
    record = Throttle(0.5)
    assert [record.failed(None, "home", now=0.0) for _ in range(3)] == [0.5, 1.0, 2.0]
    assert record.failed(None, "elsewhere", now=0.0) == 0.5


def test_five_quiet_minutes_wipe_the_record() -> None:
    record = Throttle(0.5)
    for _ in range(5):
        record.failed("ann", "home", now=0.0)
    assert record.failed("ann", "home", now=QUIET_S + 1) == 0.5


def test_no_delay_at_all_can_be_chosen() -> None:
    record = Throttle(0.0)
    assert [record.failed("ann", "home", now=0.0) for _ in range(50)] == [0.0] * 50
    assert record.turned_away_s("ann", "home", now=0.0) == 0.0


def test_a_first_delay_above_the_cap_is_kept() -> None:
    record = Throttle(20.0)
    assert [record.failed("ann", "home", now=0.0) for _ in range(3)] == [20.0] * 3


def test_a_pair_is_turned_away_while_enough_wrong_answers_wait() -> None:
    record = Throttle(0.5)
    for _ in range(HELD_MAX - 1):
        record.failed("ann", "home", now=0.0)
    assert record.turned_away_s("ann", "home", now=0.0) == 0.0
    record.failed("ann", "home", now=0.0)
    assert record.turned_away_s("ann", "home", now=0.0) == 0.5
    assert record.turned_away_s("ann", "home", now=0.5) == 0.0


def test_only_the_pair_of_name_and_network_is_turned_away() -> None:
    record = Throttle(0.5)
    for _ in range(20):
        record.failed("ann", "home", now=0.0)
    assert record.turned_away_s("ann", "home", now=0.0) > 0
    assert record.turned_away_s("ann", "elsewhere", now=0.0) == 0.0
    assert record.turned_away_s("bob", "home", now=0.0) == 0.0


def test_a_persistent_guesser_gets_about_one_guess_in_two_seconds() -> None:
    record = Throttle(0.5)
    guesses = 0
    for tick in range(6000):
        now = tick / 10
        while record.turned_away_s("ann", "home", now) == 0.0:
            record.failed("ann", "home", now)
            guesses += 1
    assert guesses <= 600 / 2 + 20


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "REMEMBERED_MAX", 100)
    record = Throttle(0.5)
    for number in range(5000):
        record.failed(f"user {number}", f"network {number}", now=float(number))
    assert len(record._failures) <= 100


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.floats(0, 100)), max_size=60))
def test_delays_and_refusals_are_never_longer_than_the_cap(story: list[tuple[str, str, float]]) -> None:
    record = Throttle(0.5)
    now = 0.0
    for user, network, passed_s in story:
        now += passed_s
        assert 0 <= record.turned_away_s(user, network, now) <= DELAY_MAX_S + 1e-6
        assert 0.5 <= record.failed(user, network, now) <= DELAY_MAX_S


async def test_networks_take_turns() -> None:
    turns = Turns(1, waiting_max=100)
    await turns.take("first")
    order: list[str] = []

    async def wait(network: str) -> None:
        await turns.take(network)
        order.append(network)
        turns.give_back()

    async with asyncio.TaskGroup() as group:
        for network in ("flood", "flood", "flood", "flood", "quiet"):
            group.create_task(wait(network))
        await asyncio.sleep(0)
        turns.give_back()
    assert order == ["flood", "quiet", "flood", "flood", "flood"]


async def test_too_many_waiting_are_refused_with_a_time_to_come_back() -> None:
    turns = Turns(1, waiting_max=1)
    await turns.take("a")
    waiting = asyncio.create_task(turns.take("a"))
    await asyncio.sleep(0)
    with pytest.raises(BailiwickError) as refused:
        await turns.take("b")
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert refused.value.retry_after_s
    turns.give_back()
    await waiting


async def test_a_turn_is_not_lost_with_those_who_went_away() -> None:
    turns = Turns(1, waiting_max=10)
    await turns.take("a")
    leaves_early = asyncio.create_task(turns.take("a"))
    leaves_when_called = asyncio.create_task(turns.take("b"))
    leaves_in_the_same_round = asyncio.create_task(turns.take("c"))
    await asyncio.sleep(0)
    leaves_early.cancel()
    await asyncio.sleep(0)
    turns.give_back()
    leaves_when_called.cancel()
    leaves_in_the_same_round.cancel()
    gone = (leaves_early, leaves_when_called, leaves_in_the_same_round)
    await asyncio.gather(*gone, return_exceptions=True)
    async with asyncio.timeout(1):
        await turns.take("d")

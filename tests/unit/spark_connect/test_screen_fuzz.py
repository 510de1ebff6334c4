"""Thousands of broken requests, by a fixed seed: each is screened or ends in a typed error, and soon."""

import random
import time

import pytest
from hostile_requests import grown, mutated, seeds
from spark_connect_messages import JUDGES

from bailiwick.errors import BailiwickError, Code

SEED = 20_260_116
ROUNDS = 40
"""For each of about two hundred kinds of messages."""
EXPECTED = {
    Code.NOT_SUPPORTED,
    Code.PARSE_ERROR,
    Code.SYNTAX_ERROR,
    Code.INVALID_ARGUMENTS,
    Code.RESOURCE_EXHAUSTED,
}
SECONDS_MAX = 2.0


def judged(name: str, data: bytes) -> Code | None:
    """How it ended; anything but a typed error fails the test by itself."""
    try:
        JUDGES[name](data)
    except BailiwickError as error:
        return error.code
    return None


def test_mutated_requests_end_in_typed_errors() -> None:
    chance = random.Random(SEED)
    ends: dict[Code | None, int] = {}
    longest_s = 0.0
    for request in seeds(chance):
        name, whole = request.DESCRIPTOR.name, request.SerializeToString()
        for _ in range(ROUNDS):
            data = mutated(whole, chance)
            begun = time.monotonic()
            end = judged(name, data)
            longest_s = max(longest_s, time.monotonic() - begun)
            ends[end] = ends.get(end, 0) + 1
    assert sum(ends.values()) > 7_000
    assert set(ends) - {None} <= EXPECTED
    assert longest_s < SECONDS_MAX
    # The mutations are of use only if some reach beyond the parser.
    assert min(ends[Code.PARSE_ERROR], ends[Code.NOT_SUPPORTED], ends[None]) > 100


def test_requests_grown_at_random_end_in_typed_errors() -> None:
    chance = random.Random(SEED)
    ends: dict[Code | None, int] = {}
    for _ in range(3_000):
        request = grown(chance)
        end = judged(request.DESCRIPTOR.name, request.SerializeToString())
        ends[end] = ends.get(end, 0) + 1
    assert set(ends) - {None} <= EXPECTED
    assert min(ends[Code.NOT_SUPPORTED], ends[None]) > 300


@pytest.mark.parametrize("name", JUDGES)
def test_noise_ends_in_typed_errors(name: str) -> None:
    chance = random.Random(f"{SEED} {name}")
    ends = {judged(name, chance.randbytes(chance.randint(0, 200))) for _ in range(500)}
    assert ends - {None} <= EXPECTED


def test_a_request_for_another_call_ends_in_a_typed_error() -> None:
    chance = random.Random(SEED)
    for request in seeds(chance)[::5]:
        for name in JUDGES:
            assert judged(name, request.SerializeToString()) in {*EXPECTED, None}

"""The gateway's clock is set forwards and backwards while it serves: nobody is kept out, and queries go on.

What one may wait for is counted from when it began. Only what bears a date is judged by the date.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from bailiwick.errors import Code
from bailiwick.testing.asking import ENDLESS, failure, in_background, rows, running_queries, value, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.leaks import ask
from bailiwick.testing.raw_flight import Refused, raw_flight
from bailiwick.testing.stepping_clock import SteppingClock

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(300)]

SETTINGS = {
    "BAILIWICK__ENGINE__MEMORY": "1g",
    "BAILIWICK__POOL__SESSIONS": "1",
    "BAILIWICK__POOL__LONG_RUNNING_MAX": "0",
    "BAILIWICK__SERVER__DRAIN_S": "1",
    # What a password is traded for bears a date.
    "BAILIWICK__IDENTITY__TOKEN_S": str(24 * 3600),
}
HOUR_S = 3600.0
STEPS_S = (2 * HOUR_S, -2 * HOUR_S, 20 * HOUR_S, -20 * HOUR_S)
"""A stamp is good for a day, so that a lease that nobody ends does: more than that needs a restart."""
SLOW = "SELECT count(*) FROM range(0, 400000000, 1, 8) WHERE id % 3 = 1"
WAITS = "SELECT max(n) FROM lake.steps.t"
QUEUED = "SELECT query_id FROM system.runtime.queries WHERE state = 'queued'"


@dataclass(frozen=True, slots=True)
class House:
    gateway: RunningGateway
    clock: SteppingClock


@pytest.fixture(scope="module")
def stepping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("stepping")
    clock = SteppingClock(directory / "clock")
    with running_gateway(directory / "data", settings={**SETTINGS, **clock.settings}) as gateway:
        rows(gateway, "CREATE NAMESPACE lake.steps")
        rows(gateway, "CREATE TABLE lake.steps.t AS SELECT 1L AS n")
        yield House(gateway, clock)


@pytest.fixture
def house(stepping: House) -> Iterator[House]:
    try:
        yield stepping
    finally:
        stepping.clock.set(0.0)


@pytest.mark.parametrize("step_s", STEPS_S)
def test_a_query_that_runs_or_waits_does_not_notice(house: House, step_s: float) -> None:
    # What it is, is known from then on, so that it waits as a query and not as a question about one.
    assert value(house.gateway, WAITS) == 1
    with in_background(lambda: value(house.gateway, SLOW)) as running:
        wait_until("running", lambda: running_queries(house.gateway, "400000000"))
        with in_background(lambda: value(house.gateway, WAITS)) as waiting:
            wait_until("waiting", lambda: rows(house.gateway, QUEUED))
            house.clock.set(step_s)
            assert (running.result(120), waiting.result(120)) == (133_333_333, 1)
    told = rows(
        house.gateway, "SELECT elapsed_ms, queued_ms FROM system.runtime.queries WHERE state = 'finished'"
    )
    assert len(told) >= 2
    assert all(elapsed_ms >= 0 and (queued_ms or 0) >= 0 for elapsed_ms, queued_ms in told)


@pytest.mark.parametrize("step_s", STEPS_S)
def test_one_can_sign_in_and_stays_signed_in(house: House, step_s: float) -> None:
    with house.gateway.connect() as before:
        assert ask(before, "SELECT 1").rows == [(1,)]
        house.clock.set(step_s)
        with house.gateway.connect() as after:
            for connection in (after, after, before):
                outcome = ask(connection, "SELECT count(*) > 0 FROM lake.steps.t")
                assert outcome.rows == [(True,)], outcome.text


def test_what_bears_a_date_is_judged_by_it_and_the_refusal_says_so(house: House) -> None:
    with raw_flight(house.gateway.grpc_address, basic=("admin", house.gateway.admin_password)) as client:
        ticket = client.ticket("SELECT 42 AS n")
        for step_s, code in ((2 * HOUR_S, Code.INVALID_ARGUMENTS), (25 * HOUR_S, Code.SESSION_EXPIRED)):
            house.clock.set(step_s)
            with pytest.raises(Refused) as refused:
                client.fetch(ticket)
            assert refused.value.code == code
        house.clock.set(-2 * HOUR_S)
        assert client.fetch(ticket).to_pydict() == {"n": [42]}


def test_who_cancels_and_who_is_on_record_is_right_whatever_the_clock_says(house: House) -> None:
    with in_background(lambda: failure(house.gateway, ENDLESS)) as ended:
        (query_id,) = wait_until("running", lambda: running_queries(house.gateway, "CROSS JOIN"))
        house.clock.set(-HOUR_S)
        rows(house.gateway, f"CANCEL QUERY '{query_id}'")
        assert "ancel" in ended.result(30)
    state = f"SELECT state, elapsed_ms FROM system.runtime.queries WHERE query_id = '{query_id}'"
    assert rows(house.gateway, state) == [("cancelled", 0.0)]
    assert rows(house.gateway, "SELECT count(*) > 0 FROM system.runtime.audit") == [(True,)]

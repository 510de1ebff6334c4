"""Many clients connected, many of them busy: nobody is failed, and neither gateway nor engine grows."""

from collections.abc import Iterator

import pytest

from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.load.clients import Address, Rush, processes_of, rush, settings_for
from bailiwick.testing.load.memory import MEGABYTE, watched
from bailiwick.testing.load.questions import Mix

# Ten times fewer, without idle ones, are in every run: `tests/e2e/test_load.py`.
pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.full, pytest.mark.timeout(1800)]

BUSY = 100
IDLE = 400
EACH = 30
GATEWAY_MAX_MB = 700
ENGINE_MAX_MB = 2300
"""A heap of 1 GB, and what Java needs besides."""
GATEWAY_GROWTH_MAX_MB = 10.0
ENGINE_GROWTH_MAX_MB = 60.0
"""A minute, when they have settled."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    settings = {
        **settings_for(BUSY),
        "BAILIWICK__ENGINE__MEMORY": "1g",
        "BAILIWICK__ENGINE__QUICK_COMPILE": "false",
        "BAILIWICK__SERVER__DRAIN_S": "1",
    }
    with running_gateway(tmp_path_factory.mktemp("crowds") / "data", settings=settings) as running:
        yield running


def test_of_five_hundred_clients_a_hundred_are_busy_and_all_are_answered_in_flat_memory(
    gateway: RunningGateway,
) -> None:
    with watched(processes_of(gateway)) as memory:
        summary = rush(Address.of(gateway), Rush(BUSY, Mix.MIXED, EACH, seed=6, idle=IDLE))
    print(f"{summary.queries_per_s:.1f} queries/s", *memory.lines(), sep="\n")  # noqa: T201
    assert dict(summary.errors) == {}
    assert summary.wrong == 0
    assert summary.times.count == BUSY * EACH + IDLE
    assert memory.largest_bytes("gateway") < GATEWAY_MAX_MB * MEGABYTE
    assert memory.largest_bytes("engine") < ENGINE_MAX_MB * MEGABYTE
    assert memory.growth_bytes_per_minute("gateway") < GATEWAY_GROWTH_MAX_MB * MEGABYTE
    assert memory.growth_bytes_per_minute("engine") < ENGINE_GROWTH_MAX_MB * MEGABYTE

"""What tests share: one gateway for all that only look at its front, because starting Spark is the slow part.

A test that breaks something, or needs settings of its own, starts its own with `running_gateway`.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.policy_house import House, furnish
from bailiwick.testing.postgres import PrivatePostgres, running_postgres, why_not


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    # That wrong credentials wait is tested in tests/unit/test_throttle.py; here it would only add up.
    # What clients left unread would be waited for at the end; tests/faults/test_gateway.py is about that.
    settings = {"BAILIWICK__IDENTITY__FAILURE_DELAY_S": "0", "BAILIWICK__SERVER__DRAIN_S": "1"}
    with running_gateway(tmp_path_factory.mktemp("gateway") / "data", settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def connection(gateway: RunningGateway) -> Iterator[Any]:
    """ADBC, as `admin`."""
    with gateway.connect() as opened:
        yield opened


@pytest.fixture(scope="session")
def house(gateway: RunningGateway) -> House:
    """The policy house, made once for all that prove what policies hold."""
    return furnish(gateway)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivatePostgres]:
    """A PostgreSQL of our own, in which each test makes its own database."""
    if (problem := why_not()) is not None:
        pytest.skip(problem)
    with running_postgres() as running:
        yield running

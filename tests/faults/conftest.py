"""Gateways that are broken on purpose. None of them is shared with the tests that expect peace."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bailiwick.testing.gateway import RunningGateway, running_gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """One for each module: what a test breaks must be whole again before the next."""
    data_dir: Path = tmp_path_factory.mktemp("gateway") / "data"
    settings = {"BAILIWICK__ENGINE__MEMORY": "1g", "BAILIWICK__SERVER__DRAIN_S": "1"}
    with running_gateway(data_dir, settings=settings) as running:
        yield running

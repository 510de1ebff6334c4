"""One gateway for all that breaks at the Spark Connect door: its engine, then its peace, then itself."""

from collections.abc import Iterator

import pytest

from faults.connect_door.house import Door, opened


@pytest.fixture(scope="package")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with opened(tmp_path_factory.mktemp("door")) as made:
        yield made

"""One engine for all that is promised of sessions of one's own."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dedicated.house import ANNA, RESTRICTED, Client, DedicatedHouse, dedicated_house


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DedicatedHouse]:
    async with dedicated_house(tmp_path_factory.mktemp("dedicated")) as house:
        yield house


@pytest_asyncio.fixture(loop_scope="session")
async def client(house: DedicatedHouse) -> AsyncIterator[Client]:
    """Anna, who sees a part of the orders, with a new session."""
    house.enact(RESTRICTED)
    own = await house.dedicated.dedicate(ANNA)
    yield Client(own, ANNA)
    await own.close()

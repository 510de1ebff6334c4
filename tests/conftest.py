"""What tests share: one gateway for all that only look at its front, because starting Spark is the slow part.

A test that breaks something, or needs settings of its own, starts its own with `running_gateway`.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import settings as hypothesis_settings

from bailiwick.catalog.backend import Kind
from bailiwick.catalog.service import CatalogService
from bailiwick.engines.config import EngineConfig
from bailiwick.testing.engine import RunningEngine, running_engine
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.opened_files import OpenedFiles
from bailiwick.testing.plain_spark import PlainSpark, plain_spark
from bailiwick.testing.policy_house import House, furnish
from bailiwick.testing.postgres import PrivatePostgres, running_postgres, why_not

# How many examples are tried: few before each commit, many in `make test-all`. They are other ones each time,
# so that few at a time still cover much over the days. How long one takes says more about what else the
# machine does, so none has a deadline of its own; each test has one.
hypothesis_settings.register_profile("few", max_examples=30, deadline=None)
hypothesis_settings.register_profile("many", max_examples=300, deadline=None)
hypothesis_settings.load_profile("few")


@pytest.fixture(scope="session")
def opened_files(tmp_path_factory: pytest.TempPathFactory) -> OpenedFiles:
    """What the shared gateway opens of the lake, from its start to its end."""
    directory = tmp_path_factory.mktemp("gateway")
    return OpenedFiles(directory / "watch", directory / "data")


@pytest.fixture(scope="session")
def gateway(opened_files: OpenedFiles) -> Iterator[RunningGateway]:
    # That wrong credentials wait is tested in tests/unit/test_throttle.py; here it would only add up.
    # What clients left unread would be waited for at the end; tests/faults/test_gateway.py is about that.
    settings = {"BAILIWICK__IDENTITY__FAILURE_DELAY_S": "0", "BAILIWICK__SERVER__DRAIN_S": "1"}
    with running_gateway(opened_files.root, settings={**settings, **opened_files.settings}) as running:
        yield running
    # Whatever it was asked in this run, it has opened no file that rows stand in.
    assert opened_files.data_files() == []


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


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainSpark]:
    """A Spark as it comes, to compare with."""
    with plain_spark(tmp_path_factory.mktemp("plain")) as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningEngine]:
    # A Spark that was asked much before also answers quicker. A test that breaks an engine starts its own.
    async with running_engine(tmp_path_factory.mktemp("engine"), EngineConfig(memory="1g")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(shared_engine: RunningEngine) -> AsyncIterator[RunningEngine]:
    """The engine with an empty lake. What a module makes in it goes with the module."""
    yield shared_engine
    _empty(shared_engine.catalog)


def _empty(catalog: CatalogService) -> None:
    for view in catalog.views():
        catalog.drop(view, Kind.VIEW)
    for table in catalog.tables():
        catalog.drop(table)
    for namespace in sorted(catalog.contents.namespaces, key=len, reverse=True):
        catalog.drop_namespace(namespace)

"""What needs no gateway is shared: one engine for all that ask Spark directly.

A Spark that was asked much before also answers quicker. A test that breaks an engine starts its own.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bailiwick.catalog.backend import Kind
from bailiwick.catalog.service import CatalogService
from bailiwick.engines.config import EngineConfig
from bailiwick.testing.engine import RunningEngine, running_engine


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningEngine]:
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

"""Both kinds of database, for what must hold on either."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bailiwick.database.config import DatabaseConfig
from bailiwick.database.database import Database
from bailiwick.testing.postgres import PrivatePostgres


@pytest.fixture(params=["sqlite", "postgresql"])
def database_config(request: pytest.FixtureRequest) -> DatabaseConfig:
    """Of an empty database."""
    if request.param == "sqlite":
        return DatabaseConfig()
    server: PrivatePostgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
async def database(tmp_path: Path, database_config: DatabaseConfig) -> AsyncIterator[Database]:
    opened = Database.open(tmp_path / "bailiwick.db", database_config)
    yield opened
    await opened.close()


@pytest.fixture
async def shared(postgres: PrivatePostgres, tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    """The database of two gateways, as each of them has it open."""
    config = postgres.new_database()
    one, other = (Database.open(tmp_path / "bailiwick.db", config) for _ in range(2))
    yield one, other
    await one.close()
    await other.close()

"""Both kinds of database, for what must hold on either."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bailiwick.database.config import DatabaseConfig
from bailiwick.database.database import Database
from bailiwick.testing.databases import opened_database
from bailiwick.testing.postgres import PrivatePostgres

KINDS = ("sqlite", "postgresql")
OpenDatabase = Callable[[str], Database]
"""An empty database of a kind, closed after the test."""


@pytest.fixture
async def open_database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenDatabase]:
    opened: list[Database] = []

    def open_one(kind: str) -> Database:
        path = tmp_path / f"{len(opened)}.db"
        is_file = kind == "sqlite"
        opened.append(opened_database(path) if is_file else Database.open(path, _config(request, kind)))
        return opened[-1]

    yield open_one
    for database in opened:
        await database.close()


@pytest.fixture(params=KINDS)
def database_config(request: pytest.FixtureRequest) -> DatabaseConfig:
    """Of an empty database."""
    return _config(request, request.param)


def _config(request: pytest.FixtureRequest, kind: str) -> DatabaseConfig:
    if kind == "sqlite":
        return DatabaseConfig()
    server: PrivatePostgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, open_database: OpenDatabase) -> Database:
    kind: str = request.param
    return open_database(kind)


@pytest.fixture
async def shared(postgres: PrivatePostgres, tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    """The database of two gateways, as each of them has it open."""
    config = postgres.new_database()
    one, other = (Database.open(tmp_path / "bailiwick.db", config) for _ in range(2))
    yield one, other
    await one.close()
    await other.close()

"""A table that is being filled is reached by whoever fills it, and does not exist for anybody else."""

from pathlib import Path
from typing import Any

import pytest

from bailiwick.catalog import wire
from bailiwick.catalog.call import Answer, Call
from bailiwick.catalog.commits import no_fence
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.refusals import (
    BadRequestError,
    CatalogError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
)
from bailiwick.catalog.routes import Route, Target
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.staging import NAMESPACE, StagedCalls, Staging
from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.access import Access
from bailiwick.policy.model import Policies
from bailiwick.testing.iceberg import create_request

ANN = Principal("ann", frozenset({"writer"}))
BOB = Principal("bob", frozenset({"admin"}))


class Desk:
    """A catalog with staging, asked as engines ask it."""

    def __init__(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "staging"
        self.lake = CatalogService(MemoryBackend(), tmp_path / "warehouse")
        self.lake.create_namespace(("db",))
        self.staging = Staging(self.directory)
        self._calls = StagedCalls(self.lake, self.staging)

    def ask(
        self, route: Route, name: str = "", who: Principal = ANN, body: Any = None, namespace: str = NAMESPACE
    ) -> Answer | None:
        target = Target(route, (namespace,) if namespace else (), name)
        access = Access(who, Policies())
        call = Call(target, access, no_fence, body=b"" if body is None else wire.rendered(body))
        return self._calls.read(call) if route.reads else self._calls.change(call)

    def make(self, table: TableName, who: Principal = ANN) -> None:
        self.ask(Route.CREATE_TABLE, who=who, body=create_request(table.name))

    def files(self) -> list[Path]:
        return [path for path in self.directory.rglob("*") if path.is_file()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_who_opened_it_makes_and_loads_it(desk: Desk) -> None:
    table = desk.staging.open(ANN)
    desk.make(table)
    assert desk.ask(Route.LOAD_TABLE, table.name) is not None
    assert desk.ask(Route.TABLE_EXISTS, table.name) is not None


def test_nobody_else_finds_it_not_even_an_administrator(desk: Desk) -> None:
    table = desk.staging.open(ANN)
    desk.make(table)
    for route in (Route.LOAD_TABLE, Route.TABLE_EXISTS, Route.COMMIT_TABLE):
        with pytest.raises(NoSuchTableError):
            desk.ask(route, table.name, BOB, {"requirements": [], "updates": []})


def test_it_is_in_no_list_of_the_lake(desk: Desk) -> None:
    desk.make(desk.staging.open(ANN))
    assert desk.lake.namespaces() == (("db",),)
    assert desk.lake.tables() == ()


@pytest.mark.parametrize(
    "route",
    [
        Route.LIST_TABLES,
        Route.LIST_VIEWS,
        Route.LOAD_NAMESPACE,
        Route.NAMESPACE_EXISTS,
        Route.DROP_NAMESPACE,
        Route.UPDATE_NAMESPACE,
        Route.DROP_TABLE,
        Route.REGISTER_TABLE,
        Route.CREATE_VIEW,
    ],
)
def test_its_schema_does_not_exist(desk: Desk, route: Route) -> None:
    table = desk.staging.open(ANN)
    desk.make(table)
    with pytest.raises(NoSuchNamespaceError):
        desk.ask(route, table.name)


def test_there_are_no_views_among_them(desk: Desk) -> None:
    with pytest.raises(NoSuchViewError):
        desk.ask(Route.LOAD_VIEW, desk.staging.open(ANN).name)


def test_a_table_that_was_not_opened_cannot_be_made_there(desk: Desk) -> None:
    with pytest.raises(NoSuchNamespaceError):
        desk.make(TableName((NAMESPACE,), "mine"))


def test_the_schema_s_name_is_taken(desk: Desk) -> None:
    for namespace in ([NAMESPACE], [NAMESPACE, "below"]):
        with pytest.raises(BadRequestError):
            desk.ask(Route.CREATE_NAMESPACE, body={"namespace": namespace}, namespace="")
    desk.ask(Route.CREATE_NAMESPACE, who=BOB, body={"namespace": ["other"]}, namespace="")


def test_once_closed_it_takes_nothing_more_and_its_files_can_go(desk: Desk) -> None:
    table = desk.staging.open(ANN)
    desk.make(table)
    stray = next(desk.directory.rglob("*.json")).parent / "stray.parquet"
    stray.write_bytes(b"rows that no commit knows")
    desk.staging.close(table)
    with pytest.raises(CatalogError):
        desk.ask(Route.COMMIT_TABLE, table.name, body={"requirements": [], "updates": []})
    desk.staging.purge(table)
    assert desk.files() == []
    desk.staging.close(table)
    desk.staging.purge(table)


def test_what_a_crash_left_is_gone_at_the_next_start(desk: Desk) -> None:
    desk.make(desk.staging.open(ANN))
    assert desk.files()
    Staging(desk.directory)
    assert desk.files() == []

"""A place where policy statements are asked: a real store, a catalog of a few tables, Spark played by a stub.

The stub knows what each expression is that a test uses; it stands for the engine's own check, which is tested
with Spark.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.names import Namespace, TableName
from bailiwick.policy.administration import PolicyAdministration, result_schema
from bailiwick.policy.commands import ExplainPolicy
from bailiwick.policy.decision import Column, Table, TableKind
from bailiwick.policy.expressions import Checked, ExpressionKind
from bailiwick.policy.statements import parse
from bailiwick.policy.store import PolicyStore
from bailiwick.testing.databases import opened_database

ADMIN = Principal("root", frozenset({"admin"}))
AUDITOR = Principal("ada", frozenset({"auditor"}))
ANN = Principal("ann", frozenset({"reader", "analyst"}))
OTTO = Principal("otto", frozenset({"writer"}))
BOB = Principal("bob", frozenset({"reader"}))

COLUMNS = (
    Column(1, "id", type="long"),
    Column(2, "region"),
    Column(3, "email"),
    Column(4, "home", type="struct"),
    Column(5, "home.street"),
)
ORDERS = Table("lake", TableName(("sales",), "orders"), "uuid-orders", COLUMNS)
PEOPLE = Table("lake", TableName(("crm",), "people"), "uuid-people", COLUMNS)
TOTALS = Table("lake", TableName(("sales",), "totals"), "uuid-totals", COLUMNS[:1], kind=TableKind.VIEW)


@dataclass
class Catalog:
    tables: dict[tuple[str, TableName], Table] = field(default_factory=dict)
    before_find: Callable[[], object] | None = None
    """Called once, to let something happen in between."""

    def add(self, table: Table) -> None:
        self.tables[table.catalog, table.name] = table

    def find(self, catalog: str, name: TableName) -> Table | None:
        if (happening := self.before_find) is not None:
            self.before_find = None
            happening()
        return self.tables.get((catalog, name))


KNOWN = {
    "region = 'EU'": Checked(("region",)),
    "REGION = 'US'": Checked(("REGION",)),
    "region IN (SELECT r FROM lake.crm.people)": Checked(("region",), ("lake.crm.people",)),
    "sha2(email, 256)": Checked(("email",), functions=("sha2",), type="string"),
    "'x'": Checked(type="string"),
    "value": Checked(type="value"),
    "sha2(value, 256)": Checked(type="string"),
    "id + 1": Checked(("id",), type="bigint"),
}


class StubCheck:
    """Answers what it knows and refuses the rest, as Spark would."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...] | None, ExpressionKind, str | None, str | None]] = []

    async def check(
        self,
        table: tuple[str, ...] | None,
        kind: ExpressionKind,
        column: str | None,
        sql: str,
        value_type: str | None,
    ) -> Checked:
        self.asked.append((table, kind, column, value_type))
        if sql not in KNOWN:
            raise BailiwickError(Code.SEMANTIC_ERROR, "The expression names something that is not there.")
        checked = KNOWN[sql]
        return Checked(type={"long": "bigint"}.get(value_type or "", "string")) if sql == "value" else checked


@dataclass
class Desk:
    store: PolicyStore
    catalog: Catalog
    spark: StubCheck
    administration: PolicyAdministration
    namespace: Namespace = ("sales",)

    async def run(self, sql: str, principal: Principal = ADMIN) -> list[dict[str, object]]:
        command = parse(sql)
        assert command is not None
        assert not isinstance(command, ExplainPolicy)
        table = await self.administration.perform(command, principal, "lake", self.namespace)
        assert table.schema == result_schema(command)
        rows: list[dict[str, object]] = table.to_pylist()
        return rows

    async def refused(self, sql: str, principal: Principal = ADMIN) -> BailiwickError:
        version = self.store.current.version
        with pytest.raises(BailiwickError) as refused:
            await self.run(sql, principal)
        assert self.store.current.version == version
        return refused.value


@asynccontextmanager
async def opened_desk(directory: Path) -> AsyncIterator[Desk]:
    database = opened_database(directory / "bailiwick.db")
    store = PolicyStore(database, now=lambda: 1_000_000.0)
    await store.load()
    catalog, spark = Catalog(), StubCheck()
    for table in (ORDERS, PEOPLE, TOTALS):
        catalog.add(table)
    try:
        yield Desk(store, catalog, spark, PolicyAdministration(store, spark, catalog))
    finally:
        await store.close()
        await database.close()

"""A small lake for tests of what browsing tools see: nested schemas, odd names, all Iceberg types, a view."""

import threading
from pathlib import Path
from typing import Any

from bailiwick.catalog.backend import Entry, Kind
from bailiwick.catalog.commits import Loaded
from bailiwick.catalog.contents import Contents, NamespaceContents
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.wire import Json
from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.access import Access
from bailiwick.policy.model import Grant, Grantee, Policies, Privilege, Securable
from bailiwick.testing.iceberg import column, create_request, schema

READER = Principal("ann", frozenset({"reader"}))
NOBODY = Principal("noone")
POLICIES = Policies(grants=(Grant("1", Grantee.role("reader"), Securable("lake"), Privilege.SELECT),))

ORDERS = TableName(("sales",), "orders")

ALL_TYPES: dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "decimal": "decimal(10, 2)",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "string": "string",
    "uuid": "uuid",
    "fixed": "fixed[4]",
    "binary": "binary",
    "list": {"type": "list", "element-id": 101, "element": "int", "element-required": True},
    "map": {
        "type": "map",
        "key-id": 102,
        "key": "string",
        "value-id": 103,
        "value": "timestamptz",
        "value-required": False,
    },
    "struct": {
        "type": "struct",
        "fields": [column(104, "x", "long", required=True), column(105, "the y", "string")],
    },
    "variant": "variant",
}


def sight(principal: Principal) -> Access:
    """Readers see all, others nothing."""
    return Access(principal, POLICIES)


def browsed_lake(directory: Path) -> CatalogService:
    catalog = CatalogService(MemoryBackend(), directory)
    for namespace in (("sales",), ("sales", "eu"), ("Odd name",)):
        catalog.create_namespace(namespace)
    catalog.commits.create_table(
        ORDERS,
        create_request(
            "orders",
            column(1, "id", "long", required=True),
            column(2, "amount", "decimal(10, 2)", doc="in euro"),
            column(3, "note", "string"),
            properties={"comment": "What was ordered"},
        ),
    )
    for name in (TableName(("sales", "eu"), "orders"), TableName(("Odd name",), "a%b_c"), _ORDER_ITEMS):
        catalog.commits.create_table(name, create_request(name.name))
    types = [column(number, name, type_) for number, (name, type_) in enumerate(ALL_TYPES.items(), 1)]
    catalog.commits.create_table(
        TableName(("sales",), "types"), create_request("types", *types, format_version=3)
    )
    catalog.commits.create_view(TableName(("sales",), "big"), _view("SELECT id FROM orders"))
    return catalog


class CountingSource:
    """A lake of many tables that counts the metadata it is asked for."""

    def __init__(self, catalog: CatalogService, table_count: int) -> None:
        self._data = catalog.load(ORDERS).data
        self.loaded: list[TableName] = []
        self.problem: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        objects = {
            f"t{number:06d}": Entry(Kind.TABLE, str(number), f"file:/{number}")
            for number in range(table_count)
        }
        self.contents = Contents(1, {("many",): NamespaceContents({}, objects)})

    def load(self, name: TableName, kind: Kind = Kind.TABLE) -> Loaded:
        self.loaded.append(name)
        self.gate.wait(20)
        if self.problem is not None:
            raise self.problem
        return Loaded(name, self.contents.entry(name, kind), self._data)


_ORDER_ITEMS = TableName(("sales",), "order_items")


def _view(sql: str) -> Json:
    return {
        "name": "big",
        "schema": schema(column(1, "id", "long")),
        "view-version": {
            "version-id": 1,
            "schema-id": 0,
            "timestamp-ms": 5,
            "summary": {"engine-name": "spark"},
            "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
            "default-namespace": ["sales"],
        },
        "properties": {},
    }

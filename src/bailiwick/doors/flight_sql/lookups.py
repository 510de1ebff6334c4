"""What browsing tools ask: catalogs, schemas, tables and their columns, types, keys, facts about the server.

Answered from what the gateway knows; no engine takes part. Only what the asking principal may see is told.
Two catalogs are there: `lake`, which holds the tables, and `system`, which is about the gateway itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import pyarrow as pa

from bailiwick.catalog import arrow
from bailiwick.catalog.backend import Kind
from bailiwick.catalog.inventory import Inventory, Picture
from bailiwick.doors.flight_sql import sql_info, type_info
from bailiwick.doors.flight_sql.columns import column_fields
from bailiwick.doors.flight_sql.commands import (
    CatalogsQuery,
    Keys,
    KeysQuery,
    Lookup,
    SchemasQuery,
    SqlInfoQuery,
    TablesQuery,
    TableTypesQuery,
    TypeInfoQuery,
)
from bailiwick.doors.flight_sql.patterns import Pattern, pattern
from bailiwick.doors.flight_sql.sql_info import Abilities
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.names import Namespace
from bailiwick.results.batches import schema_message

LAKE = "lake"
SYSTEM_TABLE = "system table"
TABLE_TYPES = (SYSTEM_TABLE, "table", "view")
ANSWER_BYTES_MAX = 128 << 20

SystemTables = Callable[[], Mapping[tuple[str, str, str], pa.Schema]]
"""The gateway's own tables, by catalog, schema and name."""

_TYPES_BY_KIND = {Kind.TABLE: "table", Kind.VIEW: "view"}

_TEXT = pa.string()


def _schema(**fields: tuple[pa.DataType, bool]) -> pa.Schema:
    return pa.schema([pa.field(name, type_, nullable=null) for name, (type_, null) in fields.items()])


CATALOGS_SCHEMA = _schema(catalog_name=(_TEXT, False))
SCHEMAS_SCHEMA = _schema(catalog_name=(_TEXT, True), db_schema_name=(_TEXT, False))
TABLE_TYPES_SCHEMA = _schema(table_type=(_TEXT, False))
TABLES_SCHEMA = _schema(
    catalog_name=(_TEXT, True),
    db_schema_name=(_TEXT, True),
    table_name=(_TEXT, False),
    table_type=(_TEXT, False),
)
TABLES_WITH_COLUMNS_SCHEMA = TABLES_SCHEMA.append(pa.field("table_schema", pa.binary(), nullable=False))
PRIMARY_KEYS_SCHEMA = _schema(
    catalog_name=(_TEXT, True),
    db_schema_name=(_TEXT, True),
    table_name=(_TEXT, False),
    column_name=(_TEXT, False),
    key_name=(_TEXT, True),
    key_sequence=(pa.int32(), False),
)
FOREIGN_KEYS_SCHEMA = _schema(
    pk_catalog_name=(_TEXT, True),
    pk_db_schema_name=(_TEXT, True),
    pk_table_name=(_TEXT, False),
    pk_column_name=(_TEXT, False),
    fk_catalog_name=(_TEXT, True),
    fk_db_schema_name=(_TEXT, True),
    fk_table_name=(_TEXT, False),
    fk_column_name=(_TEXT, False),
    key_sequence=(pa.int32(), False),
    fk_key_name=(_TEXT, True),
    pk_key_name=(_TEXT, True),
    update_rule=(pa.uint8(), False),
    delete_rule=(pa.uint8(), False),
)


@dataclass(frozen=True, slots=True)
class _Row:
    """One table of an answer; `columns` is empty where nobody asked for it."""

    catalog: str
    schema: str
    table: str
    type: str
    columns: bytes = b""


class Lookups:
    def __init__(
        self, inventory: Inventory, *, system_tables: SystemTables = dict, abilities: Abilities | None = None
    ) -> None:
        self._inventory = inventory
        self._system_tables = system_tables
        self._facts = sql_info.all_facts(abilities or Abilities())

    def schema(self, lookup: Lookup) -> pa.Schema:
        """The columns of the answer. They are the protocol's, and the same for everyone."""
        match lookup:
            case SqlInfoQuery():
                return sql_info.SCHEMA
            case CatalogsQuery():
                return CATALOGS_SCHEMA
            case SchemasQuery():
                return SCHEMAS_SCHEMA
            case TablesQuery(include_schema=with_columns):
                return TABLES_WITH_COLUMNS_SCHEMA if with_columns else TABLES_SCHEMA
            case TableTypesQuery():
                return TABLE_TYPES_SCHEMA
            case TypeInfoQuery():
                return type_info.SCHEMA
            case KeysQuery(keys):
                return PRIMARY_KEYS_SCHEMA if keys is Keys.PRIMARY else FOREIGN_KEYS_SCHEMA
            case _:
                assert_never(lookup)

    async def answer(self, principal: Principal, lookup: Lookup, *, time_zone: str = arrow.UTC) -> pa.Table:
        """The rows, in the order that the protocol wants. Columns of tables are told as a session in
        `time_zone` would get them."""
        match lookup:
            case SqlInfoQuery(codes):
                return sql_info.table(self._facts, codes)
            case CatalogsQuery():
                return pa.table([sorted(self._catalogs(principal))], schema=CATALOGS_SCHEMA)
            case SchemasQuery():
                return await self._inventory.ask(
                    principal, lambda picture: self._schemas(principal, picture, lookup)
                )
            case TablesQuery():
                return await self._inventory.ask(
                    principal, lambda picture: self._tables(principal, picture, lookup, time_zone)
                )
            case TableTypesQuery():
                return pa.table([TABLE_TYPES], schema=TABLE_TYPES_SCHEMA)
            case TypeInfoQuery(data_type):
                return type_info.table(data_type)
            case KeysQuery():
                return self.schema(lookup).empty_table()
            case _:
                assert_never(lookup)

    def _catalogs(self, principal: Principal) -> set[str]:
        return {LAKE, *(catalog for catalog, _, _ in self._own(principal))}

    def _own(self, principal: Principal) -> Mapping[tuple[str, str, str], pa.Schema]:
        """The gateway's own tables: their rows are filtered, their existence is no secret."""
        return self._system_tables() if principal.roles else {}

    def _schemas(self, principal: Principal, picture: Picture, lookup: SchemasQuery) -> pa.Table:
        wanted = pattern(lookup.schema_pattern)
        found = {(LAKE, shown(namespace)) for namespace in picture.namespaces()}
        found |= {(catalog, schema) for catalog, schema, _ in self._own(principal)}
        rows = sorted(
            (catalog, schema)
            for catalog, schema in found
            if lookup.catalog in (None, catalog) and wanted.matches(schema)
        )
        return pa.table(
            [[catalog for catalog, _ in rows], [schema for _, schema in rows]], schema=SCHEMAS_SCHEMA
        )

    def _tables(
        self, principal: Principal, picture: Picture, lookup: TablesQuery, time_zone: str
    ) -> pa.Table:
        wanted = _Wanted(lookup)
        rows: list[_Row] = []
        size_bytes = 0
        for row in (*self._own_rows(principal, wanted), *_lake_rows(picture, wanted, time_zone)):
            rows.append(row)
            size_bytes += len(row.columns) + len(row.schema) + len(row.table) + 16
            if size_bytes > ANSWER_BYTES_MAX:
                raise _too_much()
        rows.sort(key=lambda row: (row.catalog, row.schema, row.table, row.type))
        columns: list[list[Any]] = [
            [row.catalog for row in rows],
            [row.schema for row in rows],
            [row.table for row in rows],
            [row.type for row in rows],
        ]
        if lookup.include_schema:
            columns.append([row.columns for row in rows])
        return pa.table(columns, schema=self.schema(lookup))

    def _own_rows(self, principal: Principal, wanted: "_Wanted") -> Iterator[_Row]:
        for (catalog, schema, table), columns in self._own(principal).items():
            if wanted.namespace(catalog, schema) and wanted.name(table) and wanted.type(SYSTEM_TABLE):
                told = b""
                if wanted.with_columns:
                    fields = column_fields(arrow.columns_of_arrow(columns), (catalog, schema, table))
                    told = schema_message(pa.schema(fields))
                yield _Row(catalog, schema, table, SYSTEM_TABLE, told)


def shown(namespace: Namespace) -> str:
    """A namespace as one schema name. It is for looking at: it cannot always be taken apart again."""
    return ".".join(namespace)


class _Wanted:
    """What a GetTables asks for."""

    def __init__(self, lookup: TablesQuery) -> None:
        self.with_columns = lookup.include_schema
        self._catalog = lookup.catalog
        self._schema: Pattern = pattern(lookup.schema_pattern)
        self._table: Pattern = pattern(lookup.table_pattern)
        self._types = frozenset(type_.lower() for type_ in lookup.types)

    def namespace(self, catalog: str, schema: str) -> bool:
        return self._catalog in (None, catalog) and self._schema.matches(schema)

    def name(self, name: str) -> bool:
        return self._table.matches(name)

    def type(self, type_: str) -> bool:
        return not self._types or type_ in self._types


def _lake_rows(picture: Picture, wanted: _Wanted, time_zone: str) -> Iterator[_Row]:
    """Reads metadata only of what is wanted, and only where columns are."""
    relations = picture.relations(lambda namespace: wanted.namespace(LAKE, shown(namespace)), wanted.name)
    for relation in relations:
        schema, table = shown(relation.name.namespace), relation.name.name
        type_ = _TYPES_BY_KIND[relation.kind]
        if not wanted.type(type_):
            continue
        told = b""
        if wanted.with_columns:
            described = picture.describe(relation)
            if described is None:
                continue
            columns = arrow.columns_of(described.schema, time_zone=time_zone)
            told = schema_message(pa.schema(column_fields(columns, (LAKE, schema, table))))
        yield _Row(LAKE, schema, table, type_, told)


def _too_much() -> BailiwickError:
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED,
        f"The answer has more than {ANSWER_BYTES_MAX} bytes. Ask for one schema, or fewer tables.",
        retryable=False,
    )

"""`information_schema`: what is in a catalog, under the names that the SQL standard gives it.

Each catalog has its own. The lake's is made from the catalog at every question, and holds what the asking
principal may see; the system catalog's is about the gateway's own tables. The standard's columns that nothing
here has a value for are there, and empty.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bailiwick.catalog import arrow
from bailiwick.catalog.arrow import Column
from bailiwick.catalog.backend import Kind
from bailiwick.catalog.inventory import Described, Inventory, Picture, Relation
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.queries.narrowing import NOTHING_KNOWN, Narrowing
from bailiwick.queries.routing import CATALOG, INFORMATION_SCHEMA, LAKE, SystemName
from bailiwick.queries.system_tables import SystemTable

ROWS_MAX = 1_000_000
SYSTEM_TABLE = "SYSTEM TABLE"

_TEXT, _INT = pa.string(), pa.int32()
_TYPES = {Kind.TABLE: "BASE TABLE", Kind.VIEW: "VIEW"}

Row = dict[str, Any]
SystemSchemas = Mapping[SystemName, pa.Schema]


def _schema(*names: str, **others: pa.DataType) -> pa.Schema:
    """Texts, unless something else is said."""
    return pa.schema([pa.field(name, others.get(name, _TEXT)) for name in names])


SCHEMATA = _schema(
    "catalog_name",
    "schema_name",
    "schema_owner",
    "default_character_set_catalog",
    "default_character_set_schema",
    "default_character_set_name",
    "sql_path",
)
TABLES = _schema(
    "table_catalog",
    "table_schema",
    "table_name",
    "table_type",
    "self_referencing_column_name",
    "reference_generation",
    "user_defined_type_catalog",
    "user_defined_type_schema",
    "user_defined_type_name",
    "is_insertable_into",
    "is_typed",
    "commit_action",
    "comment",
)
COLUMNS = _schema(
    "table_catalog",
    "table_schema",
    "table_name",
    "column_name",
    "ordinal_position",
    "column_default",
    "is_nullable",
    "data_type",
    "character_maximum_length",
    "character_octet_length",
    "numeric_precision",
    "numeric_precision_radix",
    "numeric_scale",
    "datetime_precision",
    "interval_type",
    "interval_precision",
    "is_generated",
    "is_updatable",
    "comment",
    ordinal_position=_INT,
    character_maximum_length=_INT,
    character_octet_length=_INT,
    numeric_precision=_INT,
    numeric_precision_radix=_INT,
    numeric_scale=_INT,
    datetime_precision=_INT,
    interval_precision=_INT,
)
VIEWS = _schema(
    "table_catalog",
    "table_schema",
    "table_name",
    "view_definition",
    "check_option",
    "is_updatable",
    "is_insertable_into",
    "is_trigger_updatable",
    "is_trigger_deletable",
    "is_trigger_insertable_into",
)
SCHEMAS: Mapping[str, pa.Schema] = {
    "schemata": SCHEMATA,
    "tables": TABLES,
    "columns": COLUMNS,
    "views": VIEWS,
}


def information_schema(
    inventory: Inventory, system_tables: Callable[[], SystemSchemas]
) -> Sequence[SystemTable]:
    """The tables of both catalogs' information schemas. `system_tables` tells of all there are, these too."""
    return [*_tables(inventory, LAKE, system_tables), *_tables(inventory, CATALOG, system_tables)]


def _tables(
    inventory: Inventory, catalog: str, system_tables: Callable[[], SystemSchemas]
) -> Iterator[SystemTable]:
    makes: Mapping[str, Callable[[_Question], Iterable[Row]]] = {
        "schemata": _schemata,
        "tables": _all_tables,
        "columns": _all_columns,
        "views": _views,
    }
    for name, schema in SCHEMAS.items():
        yield _table(inventory, (catalog, INFORMATION_SCHEMA, name), system_tables, schema, makes[name])


def _table(
    inventory: Inventory,
    name: SystemName,
    system_tables: Callable[[], SystemSchemas],
    schema: pa.Schema,
    make: Callable[["_Question"], Iterable[Row]],
) -> SystemTable:
    async def rows(principal: Principal, needed: Narrowing = NOTHING_KNOWN) -> pa.Table:
        def work(picture: Picture) -> pa.Table:
            return _filled(schema, make(_Question(name[0], picture, system_tables(), needed)))

        return await inventory.ask(principal, work)

    return SystemTable(name, schema, rows, rows)


@dataclass(frozen=True, slots=True)
class _Question:
    """What one table of one catalog's information schema is made from."""

    catalog: str
    picture: Picture
    system_tables: SystemSchemas
    needed: Narrowing

    def namespaces(self) -> list[str]:
        return [".".join(it) for it in self.picture.namespaces()] if self.catalog == LAKE else []

    def own(self) -> Iterator[tuple[SystemName, pa.Schema]]:
        """The system tables that are needed, in order."""
        for name in sorted(self.system_tables):
            is_needed = self.needed.allows("table_schema", name[1]) and self.needed.allows(
                "table_name", name[2]
            )
            if name[0] == self.catalog and is_needed:
                yield name, self.system_tables[name]

    def relations(self) -> Iterator[tuple[SystemName, Relation]]:
        """The lake's tables and views that are needed, in order."""
        if self.catalog != LAKE:
            return
        for relation in self.picture.relations(
            lambda namespace: self.needed.allows("table_schema", ".".join(namespace)),
            lambda name: self.needed.allows("table_name", name),
        ):
            yield (LAKE, ".".join(relation.name.namespace), relation.name.name), relation

    def described(self) -> Iterator[tuple[SystemName, Relation, Described]]:
        """The same with what their metadata says."""
        for name, relation in self.relations():
            described = self.picture.describe(relation)
            if described is not None:
                yield name, relation, described


def _filled(schema: pa.Schema, rows: Iterable[Row]) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for count, row in enumerate(rows, 1):
        if count > ROWS_MAX:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"The information schema has more than {ROWS_MAX} rows here. Use SHOW or DESCRIBE instead.",
                retryable=False,
            )
        for name, values in columns.items():
            values.append(row.get(name))
    return pa.table(columns, schema=schema)


def _schemata(question: _Question) -> Iterator[Row]:
    own = {schema for (_, schema, _), _ in question.own()}
    for name in sorted(own.union(question.namespaces())):
        yield {"catalog_name": question.catalog, "schema_name": name}


def _all_tables(question: _Question) -> Iterator[Row]:
    for name, _ in question.own():
        yield {**_named(name), "table_type": SYSTEM_TABLE, "is_insertable_into": "NO", "is_typed": "NO"}
    # A comment is the only thing that has to be read from the tables' metadata.
    with_comments = question.needed.needs("comment", TABLES.names)
    for name, relation in question.relations():
        described = question.picture.describe(relation) if with_comments else None
        yield {
            **_named(name),
            "table_type": _TYPES[relation.kind],
            "is_insertable_into": "YES" if relation.kind is Kind.TABLE else "NO",
            "is_typed": "NO",
            "comment": None if described is None else described.comment,
        }


def _all_columns(question: _Question) -> Iterator[Row]:
    for name, schema in question.own():
        yield from _columns(name, arrow.columns_of_arrow(schema), is_updatable=False)
    for name, relation, described in question.described():
        columns = arrow.columns_of(described.schema)
        yield from _columns(name, columns, is_updatable=relation.kind is Kind.TABLE)


def _views(question: _Question) -> Iterator[Row]:
    never = dict.fromkeys(VIEWS.names[5:], "NO")
    for name, relation in question.relations():
        described = question.picture.describe(relation) if relation.kind is Kind.VIEW else None
        if described is not None:
            yield {
                **_named(name),
                "view_definition": described.view_sql,
                "check_option": "NONE",
                **never,
            }


def _columns(name: SystemName, columns: Sequence[Column], *, is_updatable: bool) -> Iterator[Row]:
    for position, column in enumerate(columns, 1):
        yield {
            **_named(name),
            "column_name": column.name,
            "ordinal_position": position,
            "column_default": column.default,
            "is_nullable": "YES" if column.nullable else "NO",
            "data_type": arrow.sql_type(column.type),
            **_precision(column.type),
            "is_generated": "NEVER",
            "is_updatable": "YES" if is_updatable else "NO",
            "comment": column.comment,
        }


_NUMBERS: Mapping[pa.DataType, tuple[int, int, int | None]] = {
    pa.int8(): (8, 2, 0),
    pa.int16(): (16, 2, 0),
    pa.int32(): (32, 2, 0),
    pa.int64(): (64, 2, 0),
    pa.float32(): (24, 2, None),
    pa.float64(): (53, 2, None),
}


def _precision(type_: pa.DataType) -> Row:
    if pa.types.is_decimal(type_):
        precision, radix, scale = type_.precision, 10, type_.scale
    elif type_ in _NUMBERS:
        precision, radix, scale = _NUMBERS[type_]
    elif pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        return {"datetime_precision": 6 if type_.unit == "us" else 9}
    elif pa.types.is_date(type_):
        return {"datetime_precision": 0}
    else:
        return {}
    return {"numeric_precision": precision, "numeric_precision_radix": radix, "numeric_scale": scale}


def _named(name: SystemName) -> Row:
    catalog, schema, table = name
    return {"table_catalog": catalog, "table_schema": schema, "table_name": table}

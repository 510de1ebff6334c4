"""`information_schema`: what is in a catalog, under the names that the SQL standard gives it.

Each catalog has its own. The lake's is made from the catalog at every question, and holds what the asking
principal may see; the system catalog's is about the gateway's own tables. The standard's columns that nothing
here has a value for are there, and empty.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bailiwick.catalog import arrow
from bailiwick.catalog.arrow import Column
from bailiwick.catalog.backend import Kind
from bailiwick.catalog.inventory import Inventory, Picture, Relation
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.queries.routing import CATALOG, INFORMATION_SCHEMA, LAKE, SystemName
from bailiwick.queries.system_tables import SystemTable

ROWS_MAX = 1_000_000
SYSTEM_TABLE = "SYSTEM TABLE"

_TEXT, _INT = pa.string(), pa.int32()
_TYPES = {Kind.TABLE: "BASE TABLE", Kind.VIEW: "VIEW"}

Row = dict[str, Any]
Make = Callable[[Picture], Iterable[Row]]
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
_SCHEMAS: Mapping[str, pa.Schema] = {
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
    def own() -> SystemSchemas:
        return {name: schema for name, schema in system_tables().items() if name[0] == catalog}

    is_lake = catalog == LAKE
    makes: Mapping[str, Make] = {
        "schemata": lambda picture: _schemata(catalog, own(), picture if is_lake else None),
        "tables": lambda picture: _all_tables(own(), picture if is_lake else None),
        "columns": lambda picture: _all_columns(own(), picture if is_lake else None),
        "views": lambda picture: _views(picture) if is_lake else (),
    }
    for name, schema in _SCHEMAS.items():
        yield _table(inventory, (catalog, INFORMATION_SCHEMA, name), schema, makes[name])


def _table(inventory: Inventory, name: SystemName, schema: pa.Schema, make: Make) -> SystemTable:
    async def rows(principal: Principal) -> pa.Table:
        return await inventory.ask(principal, lambda picture: _filled(schema, make(picture)))

    return SystemTable(name, schema, rows)


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


def _schemata(catalog: str, own: SystemSchemas, picture: Picture | None) -> Iterator[Row]:
    names = {schema for _, schema, _ in own}
    if picture is not None:
        names |= {".".join(namespace) for namespace in picture.namespaces()}
    for name in sorted(names):
        yield {"catalog_name": catalog, "schema_name": name}


def _all_tables(own: SystemSchemas, picture: Picture | None) -> Iterator[Row]:
    for name in sorted(own):
        yield {**_named(name), "table_type": SYSTEM_TABLE, "is_insertable_into": "NO", "is_typed": "NO"}
    if picture is None:
        return
    for relation in picture.relations():
        described = picture.describe(relation)
        if described is not None:
            yield {
                **_named(_name(relation)),
                "table_type": _TYPES[relation.kind],
                "is_insertable_into": "YES" if relation.kind is Kind.TABLE else "NO",
                "is_typed": "NO",
                "comment": described.comment,
            }


def _all_columns(own: SystemSchemas, picture: Picture | None) -> Iterator[Row]:
    for name in sorted(own):
        yield from _columns(name, arrow.columns_of_arrow(own[name]), is_updatable=False)
    if picture is None:
        return
    for relation in picture.relations():
        described = picture.describe(relation)
        if described is not None:
            columns = arrow.columns_of(described.schema)
            yield from _columns(_name(relation), columns, is_updatable=relation.kind is Kind.TABLE)


def _views(picture: Picture) -> Iterator[Row]:
    never = dict.fromkeys(VIEWS.names[5:], "NO")
    for relation in picture.relations():
        described = picture.describe(relation) if relation.kind is Kind.VIEW else None
        if described is not None:
            yield {
                **_named(_name(relation)),
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


def _name(relation: Relation) -> SystemName:
    return LAKE, ".".join(relation.name.namespace), relation.name.name


def _named(name: SystemName) -> Row:
    catalog, schema, table = name
    return {"table_catalog": catalog, "table_schema": schema, "table_name": table}

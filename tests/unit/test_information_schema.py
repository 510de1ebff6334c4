"""`information_schema`: the standard's names over what the asking principal may see of the catalog."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from browsed_lake import ALL_TYPES, NOBODY, READER, CountingSource, browsed_lake, sight

from bailiwick.catalog.inventory import Inventory
from bailiwick.engines.parameters import ParameterValue
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.queries import information_schema as information_schema_module
from bailiwick.queries.information_schema import information_schema
from bailiwick.queries.sandbox import Sandbox
from bailiwick.queries.system_tables import SystemTables, nodes_table


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def tables(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemTables]:
    """Of a lake that no test changes."""
    inventory = Inventory(browsed_lake(tmp_path_factory.mktemp("lake")), sight)
    made: list[SystemTables] = []
    own = [nodes_table(list), *information_schema(inventory, lambda: made[0].schemas)]
    made.append(SystemTables(sandbox, own))
    yield made[0]
    inventory.close()


async def ask(tables: SystemTables, sql: str, *parameters: Any, who: Principal = READER) -> list[Any]:
    query = await tables.route(sql)
    assert query is not None, "it was left to Spark"
    values = [ParameterValue.of(parameter) for parameter in parameters]
    answer = await asyncio.wait_for(tables.answer(query, who, values), 20)
    assert answer.schema == await tables.schema(query, values)
    return [tuple(row.values()) for row in answer.to_pylist()]


@pytest.mark.parametrize(
    "name",
    [
        "information_schema.tables",
        "lake.information_schema.tables",
        "INFORMATION_SCHEMA.TABLES",
        "`information_schema`.`tables`",
        '"lake"."information_schema"."tables"',
    ],
)
async def test_the_lakes_information_schema_has_these_names(tables: SystemTables, name: str) -> None:
    sql = f"SELECT table_name FROM {name} WHERE table_type = 'VIEW'"
    assert await ask(tables, sql) == [("big",)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT information_schema.tables.table_name FROM information_schema.tables WHERE table_name = 'big'",
        "SELECT tables.table_name FROM information_schema.tables WHERE tables.table_name = 'big'",
        "SELECT lake.information_schema.tables.table_name FROM lake.information_schema.tables "
        "WHERE lake.information_schema.tables.table_name = 'big'",
        "SELECT t.table_name FROM information_schema.tables t JOIN information_schema.views v "
        "ON t.table_name = v.table_name AND t.table_schema = v.table_schema",
        "WITH v AS (SELECT * FROM information_schema.views) SELECT table_name FROM v",
    ],
)
async def test_columns_are_found_by_any_of_their_names(tables: SystemTables, sql: str) -> None:
    assert await ask(tables, sql) == [("big",)]


async def test_schemata_are_those_of_the_catalog(tables: SystemTables) -> None:
    sql = "SELECT catalog_name, schema_name FROM {}information_schema.schemata ORDER BY 2"
    assert await ask(tables, sql.format("")) == [
        ("lake", "Odd name"),
        ("lake", "information_schema"),
        ("lake", "sales"),
        ("lake", "sales.eu"),
    ]
    assert await ask(tables, sql.format("system.")) == [
        ("system", "information_schema"),
        ("system", "runtime"),
    ]


async def test_tables_have_types_and_comments(tables: SystemTables) -> None:
    sql = (
        "SELECT table_schema, table_name, table_type, is_insertable_into, comment "
        "FROM information_schema.tables WHERE table_schema LIKE 'sales%' ORDER BY 1, 2"
    )
    assert await ask(tables, sql) == [
        ("sales", "big", "VIEW", "NO", None),
        ("sales", "order_items", "BASE TABLE", "YES", None),
        ("sales", "orders", "BASE TABLE", "YES", "What was ordered"),
        ("sales", "types", "BASE TABLE", "YES", None),
        ("sales.eu", "orders", "BASE TABLE", "YES", None),
    ]


async def test_columns_have_sparks_type_names(tables: SystemTables) -> None:
    sql = (
        "SELECT column_name, ordinal_position, data_type FROM information_schema.columns "
        "WHERE table_name = 'types' ORDER BY ordinal_position"
    )
    rows = await ask(tables, sql)
    assert [(name, position) for name, position, _ in rows] == [
        (name, number) for number, name in enumerate(ALL_TYPES, 1)
    ]
    assert [type_ for _, _, type_ in rows] == [
        "BOOLEAN",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(10,2)",
        "DATE",
        "TIMESTAMP_NTZ",
        "TIMESTAMP",
        "STRING",
        "STRING",
        "BINARY",
        "BINARY",
        "ARRAY<INT>",
        "MAP<STRING, TIMESTAMP>",
        "STRUCT<x: BIGINT NOT NULL, `the y`: STRING>",
        "VARIANT",
    ]


async def test_columns_tell_what_else_is_known(tables: SystemTables) -> None:
    sql = (
        "SELECT column_name, is_nullable, numeric_precision, numeric_precision_radix, numeric_scale, comment "
        "FROM information_schema.columns WHERE table_schema = 'sales' AND table_name = 'orders' ORDER BY 1"
    )
    assert await ask(tables, sql) == [
        ("amount", "YES", 10, 10, 2, "in euro"),
        ("id", "NO", 64, 2, 0, None),
        ("note", "YES", None, None, None, None),
    ]


async def test_system_tables_have_columns_too(tables: SystemTables) -> None:
    sql = "SELECT data_type FROM system.information_schema.columns WHERE column_name = 'started_at'"
    assert await ask(tables, sql) == [("TIMESTAMP",)]
    own = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'information_schema'"
    schemas = information_schema_module
    expected = sum(map(len, (schemas.SCHEMATA, schemas.TABLES, schemas.COLUMNS, schemas.VIEWS)))
    assert await ask(tables, own) == [(expected,)]


async def test_views_show_their_text(tables: SystemTables) -> None:
    sql = "SELECT table_schema, table_name, view_definition, is_updatable FROM information_schema.views"
    assert await ask(tables, sql) == [("sales", "big", "SELECT id FROM orders", "NO")]
    assert await ask(tables, "SELECT count(*) FROM system.information_schema.views") == [(0,)]


async def test_who_has_no_role_sees_no_table_of_the_lake(tables: SystemTables) -> None:
    sql = "SELECT count(*) FROM information_schema.{} WHERE table_schema <> 'information_schema'"
    for name in ("tables", "columns", "views"):
        assert await ask(tables, sql.format(name), who=NOBODY) == [(0,)]


async def test_parameters_are_bound_by_their_place(tables: SystemTables) -> None:
    sql = (
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_name = ? AND table_schema = ? AND ordinal_position = ?"
    )
    assert await ask(tables, sql, "orders", "sales", 2) == [("amount",)]
    assert await ask(tables, sql, "orders", "sales", "2") == [("amount",)]
    assert await ask(tables, sql, "x' OR '1'='1", "sales", 2) == []


async def test_a_wrong_number_of_parameters_is_refused(tables: SystemTables) -> None:
    query = await tables.route("SELECT * FROM information_schema.tables WHERE table_name = ?")
    assert query is not None
    assert query.parameter_count == 1
    assert (await tables.schema(query)).names == information_schema_module.TABLES.names
    with pytest.raises(BailiwickError, match="1 parameters, and 0") as refused:
        await tables.answer(query, READER)
    assert refused.value.code is Code.INVALID_ARGUMENTS
    with pytest.raises(BailiwickError) as refused:
        await tables.route("SELECT * FROM information_schema.tables WHERE table_name = $name")
    assert refused.value.code is Code.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT * FROM information_schema.tables JOIN sales.orders ON true", Code.NOT_SUPPORTED),
        ("SELECT * FROM information_schema.tables, lake.sales.orders", Code.NOT_SUPPORTED),
        ("SELECT * FROM information_schema.triggers", Code.TABLE_NOT_FOUND),
        ("SELECT * FROM lake.information_schema.triggers", Code.TABLE_NOT_FOUND),
        ("SELECT * FROM system.information_schema.triggers", Code.TABLE_NOT_FOUND),
    ],
)
async def test_mixtures_and_unknown_tables_are_refused(tables: SystemTables, sql: str, code: Code) -> None:
    with pytest.raises(BailiwickError) as refused:
        await tables.route(sql)
    assert refused.value.code is code


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'information_schema.tables'",
        "SELECT * FROM other.information_schema.tables",
        "SELECT * FROM lake.more.information_schema.tables",
        "SELECT * FROM information_schema",
        "INSERT INTO lake.a.b SELECT * FROM information_schema.tables",
    ],
)
async def test_what_only_looks_alike_is_left_to_spark(tables: SystemTables, sql: str) -> None:
    assert await tables.route(sql) is None


async def test_an_endless_information_schema_is_refused(
    tables: SystemTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(information_schema_module, "ROWS_MAX", 10)
    with pytest.raises(BailiwickError) as refused:
        await ask(tables, "SELECT * FROM information_schema.columns")
    assert refused.value.code is Code.RESOURCE_EXHAUSTED


async def test_every_column_is_there_even_where_nothing_is_known(tables: SystemTables) -> None:
    for name in ("schemata", "tables", "columns", "views"):
        query = await tables.route(f"SELECT * FROM information_schema.{name}")
        assert query is not None
        answer = await tables.answer(query, READER)
        assert isinstance(answer, pa.Table)
        assert answer.schema == tables.schemas["lake", "information_schema", name]


@pytest.mark.parametrize(
    ("sql", "parameters", "read"),
    [
        ("SELECT * FROM information_schema.columns WHERE table_name = 't000007'", (), 1),
        (
            "SELECT * FROM information_schema.columns c WHERE c.table_schema = ? AND c.table_name = ?",
            ("many", "t000007"),
            1,
        ),
        ("SELECT * FROM information_schema.columns WHERE table_schema = 'none'", (), 0),
        ("SELECT * FROM information_schema.tables WHERE table_name = 't000007'", (), 1),
        ("SELECT table_name FROM information_schema.tables", (), 0),
        ("SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 't%'", (), 0),
        ("SELECT comment FROM information_schema.tables", (), 20),
        ("SELECT t FROM information_schema.tables t", (), 20),
        ("SELECT * FROM information_schema.columns WHERE table_name = 't000007' OR true", (), 20),
        ("SELECT * FROM information_schema.columns WHERE NOT table_name = 't000007'", (), 20),
        ("SELECT * FROM information_schema.views", (), 0),
    ],
)
async def test_metadata_is_read_only_where_it_makes_a_difference(
    sandbox: Sandbox, tmp_path: Path, sql: str, parameters: tuple[str, ...], read: int
) -> None:
    source = CountingSource(browsed_lake(tmp_path), 20)
    tables = SystemTables(sandbox, information_schema(Inventory(source, sight), dict))
    await ask(tables, sql, *parameters)
    assert len(source.loaded) == read


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("SELECT 1 FROM information_schema.tables WHERE table_schema = 'sales' AND table_name = 'orders'", 1),
        ("SELECT 1 FROM information_schema.tables WHERE 'orders' = table_name", 2),
        ("SELECT 1 FROM information_schema.tables AS t(a, b, table_schema) WHERE table_schema = 'orders'", 2),
        ("SELECT 1 FROM information_schema.tables WHERE table_name = 'x' OR table_name = 'orders'", 2),
        ("SELECT 1 FROM information_schema.tables WHERE lower(table_name) = 'orders'", 2),
        (
            "SELECT 1 FROM information_schema.tables WHERE table_name = 'orders' AND EXISTS "
            "(SELECT 1 FROM information_schema.views WHERE table_name = 'big')",
            2,
        ),
        (
            "SELECT 1 FROM information_schema.tables a JOIN information_schema.tables b "
            "ON b.table_name = 'big' WHERE a.table_name = 'orders'",
            2,
        ),
        ("SELECT 1 FROM (SELECT * FROM information_schema.tables) WHERE table_name = 'orders'", 2),
    ],
)
async def test_no_row_is_lost_by_what_is_not_read(tables: SystemTables, sql: str, count: int) -> None:
    assert len(await ask(tables, sql)) == count


def test_the_reference_names_the_columns_that_are_there() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/system-tables.md").read_text(encoding="utf-8")
    for name, schema in information_schema_module.SCHEMAS.items():
        (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", page, re.MULTILINE)
        told = set(re.findall(r"`([a-z_]+)`", row))
        assert told <= set(schema.names), name

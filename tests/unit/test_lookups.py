"""What browsing tools are told: the protocol's own schemas, names by pattern, columns as they will stream."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest
from browsed_lake import ALL_TYPES, NOBODY, ORDERS, READER, CountingSource, browsed_lake, sight

from bailiwick.catalog import inventory as inventories
from bailiwick.catalog.inventory import Inventory
from bailiwick.catalog.refusals import DamagedMetadataError
from bailiwick.catalog.service import CatalogService
from bailiwick.doors.flight_sql import lookups as lookups_module
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
from bailiwick.doors.flight_sql.lookups import Lookups
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.policy.access import Access
from bailiwick.policy.model import Grant, Grantee, Policies, Privilege, Securable
from bailiwick.testing.asking import wait_until

SYSTEM = {("system", "runtime", "nodes"): pa.schema([pa.field("node_id", pa.string())])}
EVERYTHING = TablesQuery(None, None, None, (), False)


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogService:
    return browsed_lake(tmp_path)


@pytest.fixture
def inventory(catalog: CatalogService) -> Iterator[Inventory]:
    opened = Inventory(catalog, sight)
    yield opened
    opened.close()


@pytest.fixture
def lookups(inventory: Inventory) -> Lookups:
    return Lookups(inventory, system_tables=lambda: SYSTEM)


def tables(
    catalog: str | None = None,
    schema: str | None = None,
    table: str | None = None,
    types: tuple[str, ...] = (),
    columns: bool = False,
) -> TablesQuery:
    return TablesQuery(catalog, schema, table, types, columns)


async def names(lookups: Lookups, query: TablesQuery, who: Principal = READER) -> list[str]:
    rows = (await lookups.answer(who, query)).to_pylist()
    return [f"{row['catalog_name']}.{row['db_schema_name']}.{row['table_name']}" for row in rows]


async def columns(lookups: Lookups, table: str, **more: str) -> pa.Schema:
    answer = await lookups.answer(READER, tables("lake", "sales", table, columns=True), **more)
    (message,) = answer.column("table_schema").to_pylist()
    return pyarrow.ipc.read_schema(pa.py_buffer(message))


@pytest.mark.parametrize(
    "lookup",
    [
        SqlInfoQuery(()),
        SqlInfoQuery((99_999,)),
        CatalogsQuery(),
        SchemasQuery(None, None),
        SchemasQuery("nowhere", "none"),
        EVERYTHING,
        tables(columns=True),
        tables(table="none", columns=True),
        TableTypesQuery(),
        TypeInfoQuery(None),
        TypeInfoQuery(12345),
        *(KeysQuery(keys) for keys in Keys),
    ],
    ids=str,
)
async def test_an_answer_has_the_schema_that_was_told_before(lookups: Lookups, lookup: Lookup) -> None:
    answer = await lookups.answer(READER, lookup)
    answer.validate(full=True)
    assert answer.schema.equals(lookups.schema(lookup), check_metadata=True)
    for field, column in zip(answer.schema, answer.columns, strict=True):
        assert field.nullable or column.null_count == 0


async def test_there_are_two_catalogs_and_nested_schemas_have_dotted_names(lookups: Lookups) -> None:
    catalogs = await lookups.answer(READER, CatalogsQuery())
    assert catalogs.column(0).to_pylist() == ["lake", "system"]
    schemas = await lookups.answer(READER, SchemasQuery(None, None))
    assert [tuple(row.values()) for row in schemas.to_pylist()] == [
        ("lake", "Odd name"),
        ("lake", "sales"),
        ("lake", "sales.eu"),
        ("system", "runtime"),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (SchemasQuery("lake", "sales%"), ["sales", "sales.eu"]),
        (SchemasQuery("lake", "sales"), ["sales"]),
        (SchemasQuery("LAKE", None), []),
        (SchemasQuery("", None), []),
        (SchemasQuery(None, "run____"), ["runtime"]),
        (SchemasQuery(None, ""), []),
    ],
)
async def test_schemas_are_found_by_catalog_and_pattern(
    lookups: Lookups, query: SchemasQuery, expected: list[str]
) -> None:
    assert (await lookups.answer(READER, query)).column("db_schema_name").to_pylist() == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            EVERYTHING,
            [
                "lake.Odd name.a%b_c",
                "lake.sales.big",
                "lake.sales.order_items",
                "lake.sales.orders",
                "lake.sales.types",
                "lake.sales.eu.orders",
                "system.runtime.nodes",
            ],
        ),
        (tables(table="orders"), ["lake.sales.orders", "lake.sales.eu.orders"]),
        (tables(schema="sales", table="order%"), ["lake.sales.order_items", "lake.sales.orders"]),
        (tables(table=r"a\%b\_c"), ["lake.Odd name.a%b_c"]),
        (tables(table=r"a\%b\%c"), []),
        (tables(table="ORDERS"), []),
        (tables(types=("VIEW",)), ["lake.sales.big"]),
        (tables(types=("view",)), ["lake.sales.big"]),
        (tables(types=("SYSTEM TABLE",)), ["system.runtime.nodes"]),
        (tables(types=("TEMPORARY",)), []),
        (tables(catalog="system"), ["system.runtime.nodes"]),
        (tables(catalog="", table="orders"), []),
        (tables(table="SELECT * FROM sales.orders WHERE note LIKE '%x%'"), []),
    ],
    ids=str,
)
async def test_tables_are_found_by_catalog_patterns_and_type(
    lookups: Lookups, query: TablesQuery, expected: list[str]
) -> None:
    assert await names(lookups, query) == expected


async def test_table_types_are_the_ones_that_tables_have(lookups: Lookups) -> None:
    listed = (await lookups.answer(READER, TableTypesQuery())).column(0).to_pylist()
    shown = (await lookups.answer(READER, EVERYTHING)).column("table_type").to_pylist()
    assert listed == ["system table", "table", "view"] == sorted(set(shown))


async def test_who_has_no_role_sees_nothing(lookups: Lookups) -> None:
    assert await names(lookups, EVERYTHING, NOBODY) == []
    assert (await lookups.answer(NOBODY, SchemasQuery(None, None))).num_rows == 0


async def test_what_is_granted_is_seen_and_where_it_is(catalog: CatalogService) -> None:
    orders = Securable.table("lake", ORDERS, catalog.find(ORDERS).uuid)
    policies = Policies(grants=(Grant("1", Grantee.role("reader"), orders, Privilege.INSERT),))
    lookups = Lookups(Inventory(catalog, lambda principal: Access(principal, policies)))
    assert await names(lookups, EVERYTHING) == ["lake.sales.orders"]
    schemas = await lookups.answer(READER, SchemasQuery(None, None))
    assert schemas.column("db_schema_name").to_pylist() == ["sales"]


async def test_columns_carry_what_drivers_show(lookups: Lookups) -> None:
    id_, amount, note = await columns(lookups, "orders")
    assert (id_.name, id_.type, id_.nullable) == ("id", pa.int64(), False)
    told = {key.decode().removeprefix("ARROW:FLIGHT:SQL:"): value for key, value in amount.metadata.items()}
    assert told == {
        "CATALOG_NAME": b"lake",
        "DB_SCHEMA_NAME": b"sales",
        "TABLE_NAME": b"orders",
        "TYPE_NAME": b"DECIMAL",
        "PRECISION": b"10",
        "SCALE": b"2",
        "IS_AUTO_INCREMENT": b"0",
        "IS_CASE_SENSITIVE": b"0",
        "IS_READ_ONLY": b"0",
        "IS_SEARCHABLE": b"1",
        "REMARKS": b"in euro",
    }
    assert note.metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"] == b"VARCHAR"


async def test_every_iceberg_type_is_shown_as_spark_streams_it(lookups: Lookups) -> None:
    variant = pa.struct(
        [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
    )
    found = await columns(lookups, "types", time_zone="Europe/Berlin")
    assert {field.name: field.type for field in found} == {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "decimal": pa.decimal128(10, 2),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "Europe/Berlin"),
        "string": pa.string(),
        "uuid": pa.string(),
        "fixed": pa.binary(),
        "binary": pa.binary(),
        "list": pa.list_(pa.field("element", pa.int32(), nullable=False)),
        "map": pa.map_(pa.string(), pa.timestamp("us", "Europe/Berlin")),
        "struct": pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("the y", pa.string())]),
        "variant": variant,
    }
    assert len(found) == len(ALL_TYPES)


async def test_a_view_and_a_system_table_have_columns_too(lookups: Lookups) -> None:
    assert (await columns(lookups, "big")).names == ["id"]
    answer = await lookups.answer(READER, tables("system", columns=True))
    (message,) = answer.column("table_schema").to_pylist()
    assert pyarrow.ipc.read_schema(pa.py_buffer(message)).names == ["node_id"]


async def test_metadata_is_read_for_matching_tables_only_and_once(catalog: CatalogService) -> None:
    source = CountingSource(catalog, 1000)
    lookups = Lookups(Inventory(source, sight))
    await lookups.answer(READER, EVERYTHING)
    await lookups.answer(READER, tables(table="SELECT * FROM t", columns=True))
    assert source.loaded == []
    for _ in range(3):
        assert (await lookups.answer(READER, tables(table="t00001_", columns=True))).num_rows == 10
    assert len(source.loaded) == 10


async def test_what_is_remembered_is_bounded(catalog: CatalogService) -> None:
    source = CountingSource(catalog, 100)
    lookups = Lookups(Inventory(source, sight, remembered_fields_max=40))
    for _ in range(2):
        assert (await lookups.answer(READER, tables(columns=True))).num_rows == 100
    assert len(source.loaded) == 200


async def test_an_absurd_filter_over_a_large_lake_is_cheap(catalog: CatalogService) -> None:
    lookups = Lookups(Inventory(CountingSource(catalog, 50_000), sight))
    started = time.process_time()
    for text in ("SELECT " + "x" * 1_000_000, "%" * 1_000_000 + "y", "%a" * 2000 + "b", "_" * 4000):
        assert (await lookups.answer(READER, tables(table=text, columns=True))).num_rows == 0
    assert time.process_time() - started < 5


async def test_the_event_loop_goes_on_while_metadata_is_read(catalog: CatalogService) -> None:
    source = CountingSource(catalog, 1)
    source.gate.clear()
    answer = asyncio.create_task(Lookups(Inventory(source, sight)).answer(READER, tables(columns=True)))
    await asyncio.to_thread(wait_until, "reading", lambda: source.loaded)
    source.gate.set()
    assert (await answer).num_rows == 1


async def test_work_that_nobody_waits_for_ends(catalog: CatalogService) -> None:
    source = CountingSource(catalog, 1000)
    source.gate.clear()
    lookups = Lookups(Inventory(source, sight))
    for _ in range(inventories.THREADS + 1):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lookups.answer(READER, tables(columns=True)), 0.05)
    source.gate.set()
    assert (await lookups.answer(READER, tables(table="t000999", columns=True))).num_rows == 1
    assert len(source.loaded) < 10


async def test_a_damaged_table_does_not_hide_the_others(catalog: CatalogService) -> None:
    source = CountingSource(catalog, 3)
    source.problem = DamagedMetadataError("metadata cannot be read")
    answer = await Lookups(Inventory(source, sight)).answer(READER, tables(columns=True))
    assert answer.num_rows == 3
    schemas = [pyarrow.ipc.read_schema(pa.py_buffer(it)) for it in answer.column("table_schema").to_pylist()]
    assert [len(schema) for schema in schemas] == [0, 0, 0]


async def test_a_table_that_is_dropped_meanwhile_is_left_out(
    catalog: CatalogService, inventory: Inventory
) -> None:
    def work(picture: inventories.Picture) -> list[str]:
        relations = picture.relations()
        catalog.drop(ORDERS)
        return [str(it.name) for it in relations if picture.describe(it) is None]

    assert await inventory.ask(READER, work) == ["sales.orders"]


async def test_an_answer_that_is_too_large_is_refused(
    catalog: CatalogService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups_module, "ANSWER_BYTES_MAX", 10_000)
    lookups = Lookups(Inventory(CountingSource(catalog, 1000), sight))
    with pytest.raises(BailiwickError, match="fewer tables") as refused:
        await lookups.answer(READER, tables(columns=True))
    assert refused.value.code is Code.RESOURCE_EXHAUSTED

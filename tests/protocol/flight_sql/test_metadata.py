"""What browsing tools ask, through the drivers that ask it: ADBC's catalogue calls, pandas, raw Flight."""

from collections.abc import Iterator
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.flight
import pyarrow.ipc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = "browsed"


@pytest.fixture(scope="module")
def lake(connection: Any) -> Any:
    """A schema with a table, a view, and a table in a schema below it."""
    with connection.cursor() as cursor:
        for statement in (
            f"CREATE NAMESPACE {SCHEMA}",
            f"CREATE NAMESPACE {SCHEMA}.inner",
            f"CREATE TABLE {SCHEMA}.orders (id BIGINT NOT NULL, amount DECIMAL(10,2) COMMENT 'in euro', "
            "at TIMESTAMP, note STRING, tags ARRAY<STRING>)",
            f"CREATE TABLE {SCHEMA}.`Odd %_Name` (`a b` INT)",
            f"CREATE VIEW {SCHEMA}.big AS SELECT id, amount FROM {SCHEMA}.orders WHERE amount > 100",
            f"CREATE TABLE {SCHEMA}.inner.deep (x INT)",
        ):
            cursor.execute(statement)
    return connection


@pytest.fixture(scope="module")
def client(gateway: RunningGateway, lake: Any) -> Iterator[Any]:
    with pyarrow.flight.connect(f"grpc://{gateway.grpc_address}") as opened:
        header = opened.authenticate_basic_token("admin", gateway.admin_password)
        yield opened, pyarrow.flight.FlightCallOptions(headers=[header], timeout=60)


def ask(client: Any, command: Message) -> pa.Table:
    """The whole answer; announced, described and streamed with one schema."""
    connection, options = client
    packed = AnyMessage(
        type_url=f"type.googleapis.com/{command.DESCRIPTOR.full_name}", value=command.SerializeToString()
    )
    descriptor = pyarrow.flight.FlightDescriptor.for_command(packed.SerializeToString())
    info = connection.get_flight_info(descriptor, options)
    answer = connection.do_get(info.endpoints[0].ticket, options).read_all()
    assert answer.schema.equals(info.schema, check_metadata=True)
    assert answer.schema.equals(connection.get_schema(descriptor, options).schema, check_metadata=True)
    return answer


def objects(connection: Any, **filters: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """Tables by schema and name, of all catalogs."""
    tree = connection.adbc_get_objects(**filters).read_all().to_pylist()
    return {
        (schema["db_schema_name"], table["table_name"]): table
        for catalog in tree
        for schema in catalog["catalog_db_schemas"] or ()
        for table in schema["db_schema_tables"] or ()
    }


def test_adbc_lists_catalogs_and_schemas(lake: Any) -> None:
    tree = lake.adbc_get_objects(depth="db_schemas").read_all().to_pylist()
    schemas = {
        catalog["catalog_name"]: [schema["db_schema_name"] for schema in catalog["catalog_db_schemas"]]
        for catalog in tree
    }
    assert {SCHEMA, f"{SCHEMA}.inner", "information_schema"} <= set(schemas["lake"])
    assert {"runtime", "information_schema"} <= set(schemas["system"])


def test_adbc_lists_tables_by_pattern_and_type(lake: Any) -> None:
    assert {name for schema, name in objects(lake, depth="tables", db_schema_filter=SCHEMA)} == {
        "orders",
        "big",
        "Odd %_Name",
    }
    found = objects(lake, depth="tables", db_schema_filter=SCHEMA, table_name_filter="o%")
    assert list(found) == [(SCHEMA, "orders")]
    found = objects(lake, depth="tables", db_schema_filter=SCHEMA, table_name_filter=r"Odd \%\_Name")
    assert list(found) == [(SCHEMA, "Odd %_Name")]
    for type_ in ("view", "VIEW"):
        found = objects(lake, depth="tables", db_schema_filter=SCHEMA, table_types_filter=[type_])
        assert list(found) == [(SCHEMA, "big")]
    assert lake.adbc_get_table_types() == ["system table", "table", "view"]


def test_adbc_shows_columns_with_their_types(lake: Any) -> None:
    ((_, orders),) = objects(lake, db_schema_filter=SCHEMA, table_name_filter="orders").items()
    assert orders["table_type"] == "table"
    columns = {column["column_name"]: column for column in orders["table_columns"]}
    assert list(columns) == ["id", "amount", "at", "note", "tags"]
    assert [column["xdbc_type_name"] for column in columns.values()] == [
        "BIGINT",
        "DECIMAL",
        "TIMESTAMP",
        "VARCHAR",
        "ARRAY<STRING>",
    ]
    assert {column["xdbc_scope_table"] for column in columns.values()} == {"orders"}


@pytest.mark.parametrize(
    ("schema", "table", "name"),
    [
        (SCHEMA, "orders", f"{SCHEMA}.orders"),
        (SCHEMA, "big", f"{SCHEMA}.big"),
        (f"{SCHEMA}.inner", "deep", f"{SCHEMA}.inner.deep"),
        ("runtime", "queries", "system.runtime.queries"),
        ("information_schema", "columns", "information_schema.columns"),
    ],
)
def test_a_table_is_announced_with_the_columns_it_has(lake: Any, schema: str, table: str, name: str) -> None:
    catalog = "system" if schema == "runtime" else "lake"
    announced = lake.adbc_get_table_schema(table, catalog_filter=catalog, db_schema_filter=schema)
    with lake.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {name} LIMIT 1")
        assert announced.equals(cursor.fetch_arrow_table().schema)


def test_pandas_may_take_a_statement_for_a_table(lake: Any) -> None:
    frame = pandas.read_sql(f"SELECT count(*) AS n FROM {SCHEMA}.orders WHERE note LIKE '%x%'", lake)
    assert frame["n"].tolist() == [0]


def test_facts_about_the_server_are_complete(client: Any, lake: Any) -> None:
    assert lake.adbc_get_info()["vendor_name"] == "Bailiwick"
    answer = ask(client, sql.CommandGetSqlInfo())
    assert answer.column("info_name").to_pylist() == sorted(sql.SqlInfo.values())
    some = ask(client, sql.CommandGetSqlInfo(info=[sql.SQL_IDENTIFIER_QUOTE_CHAR]))
    assert some.to_pylist() == [{"info_name": 504, "value": "`"}]


def test_types_are_told_by_number(client: Any) -> None:
    assert ask(client, sql.CommandGetXdbcTypeInfo()).num_rows > 20
    (row,) = ask(client, sql.CommandGetXdbcTypeInfo(data_type=sql.XDBC_BIGINT)).to_pylist()
    assert (row["type_name"], row["column_size"]) == ("BIGINT", 19)


@pytest.mark.parametrize(
    "command",
    [
        sql.CommandGetPrimaryKeys(table="orders"),
        sql.CommandGetExportedKeys(table="orders"),
        sql.CommandGetImportedKeys(table="orders"),
        sql.CommandGetCrossReference(pk_table="orders", fk_table="orders"),
    ],
    ids=lambda command: command.DESCRIPTOR.name,
)
def test_there_are_no_keys_and_the_answer_says_so_in_form(client: Any, command: Message) -> None:
    answer = ask(client, command)
    assert answer.num_rows == 0
    assert answer.schema.field("key_sequence").type == pa.int32()
    assert not answer.schema.field("key_sequence").nullable


def test_raw_lookups_answer_with_the_protocols_schemas(client: Any) -> None:
    catalogs = ask(client, sql.CommandGetCatalogs())
    assert catalogs.column("catalog_name").to_pylist() == ["lake", "system"]
    schemas = ask(client, sql.CommandGetDbSchemas(catalog="lake", db_schema_filter_pattern=f"{SCHEMA}%"))
    assert schemas.column("db_schema_name").to_pylist() == [SCHEMA, f"{SCHEMA}.inner"]
    tables = ask(client, sql.CommandGetTables(table_name_filter_pattern="deep", include_schema=True))
    ((message,),) = [tables.column("table_schema").to_pylist()]
    assert pyarrow.ipc.read_schema(pa.py_buffer(message)).names == ["x"]
    assert ask(client, sql.CommandGetTables(catalog="")).num_rows == 0


def test_the_information_schema_takes_parameters(lake: Any) -> None:
    with lake.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, data_type, comment FROM information_schema.columns "
            "WHERE table_schema = ? AND table_name = ? AND is_nullable = ? ORDER BY ordinal_position",
            (SCHEMA, "orders", "YES"),
        )
        assert cursor.fetchall() == [
            ("amount", "DECIMAL(10,2)", "in euro"),
            ("at", "TIMESTAMP", None),
            ("note", "STRING", None),
            ("tags", "ARRAY<STRING>", None),
        ]


def test_a_mixture_with_tables_of_the_lake_is_refused(lake: Any) -> None:
    with lake.cursor() as cursor, pytest.raises(lake.NotSupportedError, match="cannot be read together"):
        cursor.execute(f"SELECT * FROM information_schema.tables, {SCHEMA}.orders")

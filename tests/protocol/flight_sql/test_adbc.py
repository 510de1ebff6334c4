"""ADBC's Python driver, used as its documentation says: queries, changes, errors, partitions, ends."""

import datetime
import decimal
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi

from bailiwick.testing.asking import ENDLESS, in_background, running_queries, wait_until
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def orders(connection: Any, schema: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {schema}.orders (id BIGINT, name STRING, price DECIMAL(9,2), day DATE)")
        cursor.execute(
            f"INSERT INTO {schema}.orders VALUES (1, 'one', 1.50, DATE '2024-01-01'), "
            "(2, 'two', 2.50, DATE '2024-01-02'), (3, NULL, NULL, NULL)"
        )
    return f"{schema}.orders"


@pytest.fixture
def cursor(connection: Any) -> Iterator[Any]:
    with connection.cursor() as opened:
        yield opened


@pytest.mark.proves(
    "CreatePreparedStatement", "CommandPreparedStatementQuery", "TicketStatementQuery", "DoAction"
)
def test_rows_come_as_python_values(cursor: Any, orders: str) -> None:
    cursor.execute(f"SELECT * FROM {orders} ORDER BY id")
    assert [column[0] for column in cursor.description] == ["id", "name", "price", "day"]
    assert cursor.fetchone() == (1, "one", decimal.Decimal("1.50"), datetime.date(2024, 1, 1))
    assert cursor.fetchmany(1) == [(2, "two", decimal.Decimal("2.50"), datetime.date(2024, 1, 2))]
    assert cursor.fetchall() == [(3, None, None, None)]


def test_rows_come_as_arrow(cursor: Any, orders: str) -> None:
    cursor.execute(f"SELECT id, name FROM {orders} ORDER BY id")
    table = cursor.fetch_arrow_table()
    assert table.schema.types == [pa.int64(), pa.string()]
    assert table.to_pydict() == {"id": [1, 2, 3], "name": ["one", "two", None]}


def test_rows_come_as_a_stream_of_batches(cursor: Any) -> None:
    cursor.execute("SELECT id FROM range(200000)")
    with cursor.fetch_record_batch() as reader:
        counts = [batch.num_rows for batch in reader]
    assert sum(counts) == 200_000


def test_a_result_without_rows_keeps_its_columns(cursor: Any, orders: str) -> None:
    cursor.execute(f"SELECT id, price FROM {orders} WHERE id < 0")
    table = cursor.fetch_arrow_table()
    assert table.num_rows == 0
    assert table.schema.types == [pa.int64(), pa.decimal128(9, 2)]


def test_the_schema_is_told_without_running_anything(cursor: Any, orders: str) -> None:
    schema = cursor.adbc_execute_schema(f"SELECT id, upper(name) AS name FROM {orders}")
    assert schema.names == ["id", "name"]
    assert schema.types == [pa.int64(), pa.string()]


@pytest.mark.proves("CommandPreparedStatementUpdate", "affected rows")
def test_changes_tell_how_many_rows_they_touched(cursor: Any, schema: str) -> None:
    cursor.execute(f"CREATE TABLE {schema}.counted (id INT, name STRING)")
    cursor.execute(f"INSERT INTO {schema}.counted VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    assert cursor.rowcount == 3
    cursor.execute(f"DELETE FROM {schema}.counted")
    assert cursor.rowcount == 3
    assert count(cursor, f"{schema}.counted") == 0


@pytest.mark.proves("parameters")
@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("BOOLEAN", True),
        ("BIGINT", 1 << 40),
        ("DOUBLE", 1.5),
        ("DECIMAL(9,2)", decimal.Decimal("12.34")),
        ("STRING", "ü'; DROP TABLE x --"),
        ("BINARY", b"\x00\xff"),
        ("DATE", datetime.date(2024, 2, 29)),
        ("TIMESTAMP_NTZ", datetime.datetime(2024, 2, 29, 12, 30, 1, 500)),
        ("TIMESTAMP", datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)),
        ("STRING", None),
    ],
)
def test_a_parameter_comes_back_as_it_was_sent(cursor: Any, type_name: str, value: Any) -> None:
    cursor.execute(f"SELECT CAST(? AS {type_name}) AS v", (value,))
    assert cursor.fetchone() == (value,)


@pytest.mark.proves("parameters")
def test_one_statement_runs_again_with_other_parameters(cursor: Any, orders: str) -> None:
    found = []
    for number in (1, 2, 9):
        cursor.execute(f"SELECT name FROM {orders} WHERE id = ?", (number,))
        found.append(cursor.fetchall())
    assert found == [[("one",)], [("two",)], []]


@pytest.mark.proves("CommandPreparedStatementUpdate", "parameters", "ClosePreparedStatement")
def test_executemany_runs_once_for_each_row(cursor: Any, schema: str) -> None:
    cursor.execute(f"CREATE TABLE {schema}.many (id BIGINT, name STRING)")
    cursor.executemany(f"INSERT INTO {schema}.many VALUES (?, ?)", [(1, "a"), (2, None), (3, "c")])
    assert cursor.rowcount == 3
    cursor.execute(f"SELECT * FROM {schema}.many ORDER BY id")
    assert cursor.fetchall() == [(1, "a"), (2, None), (3, "c")]


@pytest.mark.proves("CommandStatementIngest")
def test_ingest_creates_appends_and_replaces(cursor: Any, schema: str) -> None:
    table = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", None]})
    options = {"catalog_name": "lake", "db_schema_name": schema}
    assert cursor.adbc_ingest("brought", table, mode="create", **options) == 2
    assert cursor.adbc_ingest("brought", table, mode="append", **options) == 2
    assert count(cursor, f"{schema}.brought") == 4
    assert cursor.adbc_ingest("brought", table, mode="replace", **options) == 2
    assert count(cursor, f"{schema}.brought") == 2
    assert cursor.adbc_ingest("brought", table, mode="create_append", **options) == 2
    assert count(cursor, f"{schema}.brought") == 4


@pytest.mark.proves("CommandStatementIngest")
def test_ingest_takes_a_stream_of_batches(cursor: Any, schema: str) -> None:
    batches = [
        pa.record_batch({"id": pa.array(range(start, start + 1000))}) for start in range(0, 5000, 1000)
    ]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert cursor.adbc_ingest("streamed", reader, mode="create", db_schema_name=schema) == 5000
    cursor.execute(f"SELECT count(*), sum(id) FROM {schema}.streamed")
    assert cursor.fetchone() == (5000, sum(range(5000)))


def test_ingest_into_a_table_that_exists_is_refused(cursor: Any, schema: str, orders: str) -> None:
    with pytest.raises(dbapi.Error, match="DUPLICATE_TABLE"):
        cursor.adbc_ingest("orders", pa.table({"id": [1]}), mode="create", db_schema_name=schema)


@pytest.mark.proves("CommandGetCatalogs", "CommandGetDbSchemas", "CommandGetTables")
def test_objects_are_listed_down_to_columns(connection: Any, schema: str, orders: str) -> None:
    objects = connection.adbc_get_objects(depth="all", db_schema_filter=schema, table_name_filter="orders")
    (lake,) = [each for each in objects.read_all().to_pylist() if each["catalog_name"] == "lake"]
    (found,) = [each for each in lake["catalog_db_schemas"] if each["db_schema_name"] == schema]
    (table,) = found["db_schema_tables"]
    assert (table["table_name"], table["table_type"]) == ("orders", "table")
    columns = {each["column_name"]: each["xdbc_type_name"] for each in table["table_columns"]}
    assert columns == {"id": "BIGINT", "name": "VARCHAR", "price": "DECIMAL", "day": "DATE"}


@pytest.mark.proves("CommandGetTables")
def test_a_table_s_schema_is_what_is_streamed_of_it(connection: Any, schema: str, orders: str) -> None:
    told = connection.adbc_get_table_schema("orders", db_schema_filter=schema)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {orders}")
        assert told.equals(cursor.fetch_arrow_table().schema)


@pytest.mark.proves("CommandGetTableTypes")
def test_table_types_are_told(connection: Any) -> None:
    assert {"table", "view"} <= set(connection.adbc_get_table_types())


@pytest.mark.proves("CommandGetSqlInfo")
def test_the_server_says_what_it_is(connection: Any) -> None:
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Bailiwick"
    assert info["vendor_version"]


@pytest.mark.proves("SetSessionOptions", "GetSessionOptions", "CloseSession")
def test_the_current_schema_is_the_connection_s_own(
    gateway: RunningGateway, schema: str, orders: str
) -> None:
    with gateway.connect() as one, gateway.connect() as other:
        one.adbc_current_db_schema = schema
        assert (one.adbc_current_catalog, one.adbc_current_db_schema) == ("lake", schema)
        assert other.adbc_current_db_schema != schema
        with one.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM orders")
            assert cursor.fetchone() == (3,)
        with other.cursor() as cursor, pytest.raises(dbapi.Error, match="TABLE_NOT_FOUND"):
            cursor.execute("SELECT count(*) FROM orders")


def test_use_holds_for_the_statements_that_follow(gateway: RunningGateway, schema: str, orders: str) -> None:
    with gateway.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {schema}")
        cursor.execute("SELECT count(*) FROM orders")
        assert cursor.fetchone() == (3,)
        assert connection.adbc_current_db_schema == schema


def test_cancel_ends_the_query_in_the_gateway(gateway: RunningGateway) -> None:
    with gateway.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"{ENDLESS} -- adbc cancel")

        with in_background(cursor.fetchall) as fetching:
            wait_until("running", lambda: running_queries(gateway, "adbc cancel"))
            cursor.adbc_cancel()
            with pytest.raises(dbapi.Error):
                fetching.result(30)
    wait_until("stopped", lambda: not running_queries(gateway, "adbc cancel"), 10)


def test_a_timeout_of_the_driver_ends_the_query_in_the_gateway(gateway: RunningGateway) -> None:
    options = {"adbc.flight.sql.rpc.timeout_seconds.fetch": "2"}
    with gateway.connect(options=options) as connection, connection.cursor() as cursor:
        with pytest.raises(dbapi.Error, match=r"(?i)deadline|timeout"):
            fetched(cursor, f"{ENDLESS} -- adbc timeout")
    wait_until("stopped", lambda: not running_queries(gateway, "adbc timeout"), 10)


def test_partitions_are_read_by_another_connection_of_the_same_user(
    gateway: RunningGateway, orders: str
) -> None:
    with gateway.connect() as one, one.cursor() as cursor:
        partitions, schema = cursor.adbc_execute_partitions(f"SELECT id FROM {orders} ORDER BY id")
        assert schema.names == ["id"]
    with gateway.connect() as other, other.cursor() as reader:
        found = []
        for partition in partitions:
            reader.adbc_read_partition(partition)
            found += reader.fetchall()
    assert found == [(1,), (2,), (3,)]


@pytest.mark.proves("PollFlightInfo", "GetFlightInfo")
def test_a_query_can_be_run_step_by_step_with_progress(gateway: RunningGateway) -> None:
    with gateway.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.statement.exec.incremental": "true"})
        sql = "SELECT count(*) FROM range(1000000)"
        found: list[Any] = []
        partitions, _ = cursor.adbc_execute_partitions(sql)
        while partitions:
            for partition in partitions:
                with gateway.connect() as other, other.cursor() as reader:
                    reader.adbc_read_partition(partition)
                    found += reader.fetchall()
            partitions, _ = cursor.adbc_execute_partitions(sql)
    assert found == [(1_000_000,)]


def test_the_default_of_pep_249_leaves_a_usable_connection(gateway: RunningGateway, schema: str) -> None:
    credentials = {"username": "admin", "password": gateway.admin_password}
    with pytest.warns(dbapi.Warning, match="Cannot disable autocommit"):
        connection = dbapi.connect(gateway.uri, db_kwargs=credentials)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {schema}.committed AS SELECT 1 AS id")
        connection.rollback()
        cursor.execute(f"SELECT * FROM {schema}.committed")
        assert cursor.fetchall() == [(1,)]
        connection.commit()


@pytest.mark.proves("Handshake")
def test_a_wrong_password_is_refused_at_once(gateway: RunningGateway) -> None:
    with pytest.raises(dbapi.Error, match="UNAUTHENTICATED"):
        gateway.connect(password="wrong")


def test_a_token_signs_in(gateway: RunningGateway, connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TOKEN FOR admin TTL '1h'")
        token = cursor.fetchone()[1]
    with gateway.connect_with_token(token) as signed_in, signed_in.cursor() as cursor:
        cursor.execute("SELECT current_user()")
        assert cursor.fetchall()


@pytest.mark.proves("errors")
@pytest.mark.parametrize(
    ("sql", "code", "kind"),
    [
        ("SELEC 1", "SYNTAX_ERROR", dbapi.ProgrammingError),
        ("SELECT * FROM nowhere", "TABLE_NOT_FOUND", dbapi.Error),
        ("SELECT nothing FROM range(1)", "COLUMN_NOT_FOUND", dbapi.Error),
        ("SELECT 1 / (id - id) FROM range(1)", "DIVISION_BY_ZERO", dbapi.Error),
    ],
)
def test_errors_carry_our_code(cursor: Any, sql: str, code: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=code):
        fetched(cursor, sql)


@pytest.mark.proves("identifiers")
@pytest.mark.parametrize("name", ["select", "a.b", "Größe", "MixedCase", "with `tick`", "white space"])
def test_names_of_any_kind_work_in_backticks(cursor: Any, schema: str, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    cursor.execute(f"SELECT 1 AS {quoted}")
    assert cursor.fetch_arrow_table().column_names == [name]


@pytest.mark.proves("identifiers")
def test_double_quotes_mean_names_when_the_session_says_so(gateway: RunningGateway) -> None:
    with gateway.connect() as connection, connection.cursor() as cursor:
        key = "adbc.flight.sql.session.option.double_quoted_identifiers"
        connection.adbc_connection.set_options(**{key: "true"})
        cursor.execute('SELECT 1 AS "white space"')
        assert cursor.fetch_arrow_table().column_names == ["white space"]


def test_many_threads_share_one_connection(connection: Any) -> None:
    found: list[int] = []

    def work(number: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {number}")
            found.append(cursor.fetchone()[0])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(8))


def fetched(cursor: Any, sql: str) -> list[tuple[Any, ...]]:
    cursor.execute(sql)
    return list(cursor.fetchall())


def count(cursor: Any, table: str) -> int:
    return int(fetched(cursor, f"SELECT count(*) FROM {table}")[0][0])

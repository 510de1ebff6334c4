"""Results as clients see them: schemas that are announced are streamed, and nothing odd about nothing."""

import urllib.request
from typing import Any

import grpc
import pyarrow as pa
import pytest
from adbc_driver_manager.dbapi import Error as AdbcError
from pyarrow import flight

from bailiwick._generated.Flight_pb2 import FlightData
from bailiwick.queries.ingest_stream import encapsulated
from bailiwick.testing.asking import rows, value, wait_until
from bailiwick.testing.gateway import RunningGateway
from bailiwick.testing.raw_flight import OPTIONS, RawFlight

pytestmark = pytest.mark.spark

EVERY_TYPE = {
    "boolean": "true",
    "tinyint": "cast(1 AS TINYINT)",
    "smallint": "cast(1 AS SMALLINT)",
    "int": "1",
    "bigint": "1L",
    "float": "cast(1.5 AS FLOAT)",
    "double": "1.5D",
    "decimal": "cast(1.25 AS DECIMAL(38, 10))",
    "string": "'é'",
    "binary": "X'00ff'",
    "date": "DATE '2026-01-02'",
    "timestamp": "TIMESTAMP '2026-01-02 03:04:05.678901'",
    "timestamp_ntz": "TIMESTAMP_NTZ '2026-01-02 03:04:05'",
    "array": "array(1, NULL, 3)",
    "map": "map('a', 1)",
    "struct": "named_struct('a', 1, 'b', array('x'))",
    "day_time_interval": "INTERVAL '1 02:03:04' DAY TO SECOND",
    "void": "NULL",
}


def fetch(gateway: RunningGateway, sql: str) -> tuple[pa.Schema, pa.Table]:
    """What is announced before, and what comes then."""
    with gateway.connect() as connection, connection.cursor() as cursor:
        announced = cursor.adbc_execute_schema(sql)
        cursor.execute(sql)
        return announced, cursor.fetch_arrow_table()


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_the_announced_schema_is_the_streamed_one_for_every_type(gateway: RunningGateway, name: str) -> None:
    announced, table = fetch(gateway, f"SELECT {EVERY_TYPE[name]} AS `{name}`, 'beside' AS other")
    assert announced == table.schema
    assert table.num_rows == 1


def raw_answer(gateway: RunningGateway, agent: str, text: str) -> tuple[int, pa.Table]:
    """The bytes that DoGet streams to a client that calls itself so, and what they hold."""
    token = rows(gateway, "CREATE TOKEN FOR admin TTL '1h'")[0][1]
    options = (*OPTIONS, ("grpc.primary_user_agent", agent))
    with grpc.insecure_channel(gateway.grpc_address, options=options) as channel:
        client = RawFlight(channel, (("authorization", f"Bearer {token}"),))
        messages = client.call("DoGet", client.ticket(text))
    sent = [FlightData.FromString(message) for message in messages]
    stream = b"".join(encapsulated(each.data_header, each.data_body) for each in sent)
    return len(stream), pa.ipc.open_stream(stream).read_all()


def test_drivers_that_read_compressed_batches_get_them_and_others_do_not(gateway: RunningGateway) -> None:
    text = "SELECT id, concat('customer ', id % 100) AS name FROM range(50000)"
    plain_bytes, plain = raw_answer(gateway, "a client nobody knows", text)
    packed_bytes, packed = raw_answer(gateway, "ADBC Flight SQL Driver 1.13.0", text)
    again_bytes, _ = raw_answer(gateway, "a client nobody knows", text)
    assert packed.sort_by("id").equals(plain.sort_by("id"))
    assert packed_bytes < plain_bytes / 3
    assert again_bytes == plain_bytes


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_an_empty_result_has_its_real_schema(gateway: RunningGateway, name: str) -> None:
    announced, table = fetch(gateway, f"SELECT {EVERY_TYPE[name]} AS `{name}` FROM range(3) WHERE id > 5")
    assert announced == table.schema
    assert table.num_rows == 0
    assert table.schema.names == [name]


def test_commands_that_tell_have_their_schema(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS shapes")
    for sql in ("SHOW NAMESPACES", "SHOW TABLES IN shapes", "EXPLAIN SELECT 1"):
        announced, table = fetch(gateway, sql)
        assert announced == table.schema
        assert table.num_columns > 0


def test_counting_and_scans_without_columns_stay_right(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS shapes")
    rows(gateway, "CREATE OR REPLACE TABLE shapes.t AS SELECT id FROM range(0, 12345, 1, 3)")
    assert value(gateway, "SELECT count(*) FROM shapes.t") == 12345
    assert value(gateway, "SELECT count(*) FROM (SELECT 1 FROM shapes.t)") == 12345
    assert value(gateway, "SELECT count(*) FROM shapes.t WHERE id < 0") == 0


def test_duplicate_column_names_pass(gateway: RunningGateway) -> None:
    announced, table = fetch(gateway, "SELECT 1 AS a, 2 AS a")
    assert announced == table.schema
    assert [column.to_pylist() for column in table.columns] == [[1], [2]]


def test_two_hundred_columns_pass(gateway: RunningGateway) -> None:
    columns = ", ".join(f"id + {number} AS c{number}" for number in range(200))
    _, table = fetch(gateway, f"SELECT {columns} FROM range(0, 20000, 1, 2)")
    assert (table.num_rows, table.num_columns) == (20000, 200)


def test_half_a_million_rows_arrive_whole(gateway: RunningGateway) -> None:
    _, table = fetch(gateway, "SELECT id, cast(id AS STRING) AS text FROM range(0, 500000, 1, 8)")
    assert table.num_rows == 500_000
    assert pa.compute.sum(table["id"]).as_py() == 500_000 * 499_999 // 2


def test_a_table_that_changed_since_it_was_announced_is_a_typed_error(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS shapes")
    rows(gateway, "CREATE OR REPLACE TABLE shapes.moving AS SELECT 1 AS a")
    with gateway.connect() as connection, connection.cursor() as cursor:
        partitions, _schema = cursor.adbc_execute_partitions("SELECT * FROM shapes.moving")
        # A short read is begun with its ticket, and what it has read is as it was announced.
        living = (
            "SELECT count(*) FROM system.runtime.queries WHERE sql = 'SELECT * FROM shapes.moving' "
            "AND state NOT IN ('finished', 'failed', 'cancelled')"
        )
        wait_until("nobody came for it", lambda: value(gateway, living) == 0)
        rows(gateway, "ALTER TABLE shapes.moving ADD COLUMN b STRING")
        with pytest.raises(AdbcError, match="SEMANTIC_ERROR"):  # noqa: PT012 - either call may tell
            cursor.adbc_read_partition(partitions[0])
            cursor.fetchall()


def test_fetching_a_ticket_again_runs_the_read_again(gateway: RunningGateway) -> None:
    client, options, info = signed_in(gateway, "SELECT rand() AS r")
    first, second = (client.do_get(info.endpoints[0].ticket, options).read_all() for _ in range(2))
    assert first.num_rows == second.num_rows == 1
    assert first != second
    client.close()


def test_another_user_s_ticket_is_refused(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE USER thea PASSWORD 'a long password' ROLES (reader)")
    client, _options, info = signed_in(gateway, "SELECT 'for admin'")
    token = client.authenticate_basic_token("thea", "a long password")
    with pytest.raises(pa.ArrowException, match="INVALID_ARGUMENTS"):
        client.do_get(info.endpoints[0].ticket, flight.FlightCallOptions(headers=[token])).read_all()
    client.close()


def signed_in(gateway: RunningGateway, sql: str) -> tuple[Any, Any, Any]:
    from google.protobuf import any_pb2

    from bailiwick._generated import FlightSql_pb2 as messages

    client = flight.connect(f"grpc://{gateway.grpc_address}")
    options = flight.FlightCallOptions(
        headers=[client.authenticate_basic_token("admin", gateway.admin_password)]
    )
    packed = any_pb2.Any()
    packed.Pack(messages.CommandStatementQuery(query=sql))
    descriptor = flight.FlightDescriptor.for_command(packed.SerializeToString())
    return client, options, client.get_flight_info(descriptor, options)


def page(gateway: RunningGateway, path: str) -> str:
    with urllib.request.urlopen(f"http://{gateway.http_address}{path}") as answer:
        return str(answer.read().decode())


def test_health_and_readiness_answer(gateway: RunningGateway) -> None:
    assert page(gateway, "/healthz") == "ok\n"
    assert page(gateway, "/readyz") == "ready\n"


def test_metrics_count_queries_by_outcome(gateway: RunningGateway) -> None:
    value(gateway, "SELECT 1")
    with pytest.raises(AdbcError):
        value(gateway, "SELECT 1 / 0")
    text = page(gateway, "/metrics")
    assert 'outcome="finished"' in text
    assert 'code="DIVISION_BY_ZERO"' in text
    assert "bailiwick_engine_up 1.0" in text
    assert gateway.admin_password not in text

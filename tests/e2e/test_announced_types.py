"""What is announced is what is streamed, for every type that Spark can send; what it cannot send is refused.

Three places tell a result's schema: the prepared statement, GetFlightInfo, and the stream itself.
"""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from adbc_driver_manager.dbapi import Error as AdbcError
from pyarrow import flight

from bailiwick._generated import FlightSql_pb2 as sql_messages
from bailiwick.doors.flight_sql.wire import pack
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SENT = {
    "boolean": "true",
    "tinyint": "1Y",
    "smallint": "1S",
    "int": "1",
    "bigint": "1L",
    "float": "1.5F",
    "double": "1.5D",
    "decimal(1,0)": "1BD",
    "decimal(38,10)": "cast(1.25 AS DECIMAL(38, 10))",
    "decimal(38,38)": "cast(0.25 AS DECIMAL(38, 38))",
    "string": "'é'",
    "string, collated": "'é' COLLATE UNICODE_CI",
    "char": "cast('a' AS CHAR(3))",
    "varchar": "cast('a' AS VARCHAR(3))",
    "binary": "X'00ff'",
    "date": "DATE '2026-01-02'",
    "timestamp": "TIMESTAMP '2026-01-02 03:04:05.678901'",
    "timestamp_ntz": "TIMESTAMP_NTZ '2026-01-02 03:04:05'",
    "interval, days": "INTERVAL '1' DAY",
    "interval, days to seconds": "INTERVAL '1 02:03:04' DAY TO SECOND",
    "interval, seconds": "INTERVAL '1.5' SECOND",
    "interval, years to months": "INTERVAL '1-2' YEAR TO MONTH",
    "interval, any": "make_interval(1, 2, 3, 4, 5, 6, 7)",
    "void": "NULL",
    "variant": "parse_json('{\"a\": [1, null]}')",
    "array": "array(1, NULL, 3)",
    "array of void": "array()",
    "array of arrays": "array(array('x'), NULL)",
    "array of structs": "array(named_struct('a', 1, 'b', 'x'), NULL)",
    "array of timestamps": "array(TIMESTAMP '2026-01-02 03:04:05')",
    "array of variants": "array(parse_json('1'))",
    "map": "map('a', 1)",
    "map of structs": "map(1, named_struct('a', DATE '2026-01-02'))",
    "map of maps": "map('a', map('b', X'00'))",
    "struct": "named_struct('a', 1, 'b', array('x'), 'c', NULL)",
    "struct of structs": "named_struct('a', named_struct('b', named_struct('c', 1.5BD)))",
    "struct with odd names": "named_struct('', 1, 'ü `x`', 2, 'A', 3, 'a', 4)",
}
"""Everything that arrives, in a driver that knows the type."""

REFUSED = {
    "time": "TIME '01:02:03'",
    "array of times": "array(TIME '01:02:03')",
    "geometry": "ST_GeomFromWKB(X'0101000000000000000000F03F0000000000000040')",
}
NAMED = {
    "time": "TIME(6) of the column odd",
    "array of times": "ARRAY<TIME(6)> of the column odd",
    "geometry": "Geospatial",
}
"""What the refusal says of it."""

STORED = {
    "boolean": "BOOLEAN",
    "int": "INT NOT NULL",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "decimal": "DECIMAL(20, 3)",
    "string": "STRING",
    "char": "CHAR(5)",
    "varchar": "VARCHAR(5)",
    "binary": "BINARY",
    "date": "DATE NOT NULL",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
    "array": "ARRAY<INT>",
    "map": "MAP<STRING, STRUCT<a: INT>>",
    "struct": "STRUCT<a: INT NOT NULL, b: ARRAY<STRUCT<c: STRING>>>",
}


class Client:
    """One driver for what it is told, one raw Flight client for what it is told otherwise."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._adbc = gateway.connect()
        self._flight = flight.FlightClient(gateway.uri)
        header = self._flight.authenticate_basic_token("admin", gateway.admin_password)
        self._options = flight.FlightCallOptions(headers=[header])

    def close(self) -> None:
        self._adbc.close()
        self._flight.close()

    def prepared(self, sql: str) -> pa.Schema:
        with self._adbc.cursor() as cursor:
            return cursor.adbc_execute_schema(sql)

    def fetched(self, sql: str) -> pa.Table:
        with self._adbc.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table()

    def told(self, sql: str) -> tuple[pa.Schema, pa.Schema]:
        """What GetFlightInfo announces, and what the stream begins with."""
        command = pack(sql_messages.CommandStatementQuery(query=sql))
        info = self._flight.get_flight_info(flight.FlightDescriptor.for_command(command), self._options)
        reader = self._flight.do_get(info.endpoints[0].ticket, self._options)
        reader.read_all()
        return info.schema, reader.schema


@pytest.fixture(scope="module")
def client(gateway: RunningGateway) -> Iterator[Client]:
    opened = Client(gateway)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize("condition", ["", " FROM range(3) WHERE id > 5"], ids=["one row", "no rows"])
def test_all_three_schemas_are_one(client: Client, name: str, condition: str) -> None:
    sql = f"SELECT {SENT[name]} AS `{name}`, {SENT[name]}, 'beside' AS other{condition}"
    prepared, table, (announced, streamed) = client.prepared(sql), client.fetched(sql), client.told(sql)
    assert prepared.equals(table.schema, check_metadata=True)
    assert announced.equals(streamed, check_metadata=True)
    assert announced.equals(prepared, check_metadata=True)


def test_every_type_that_a_table_can_store_is_announced_as_streamed(client: Client) -> None:
    columns = ", ".join(f"`{name}` {type_}" for name, type_ in STORED.items())
    client.fetched("CREATE NAMESPACE IF NOT EXISTS lake.announced")
    client.fetched(f"CREATE TABLE lake.announced.stored ({columns}) USING iceberg")
    sql = "SELECT * FROM lake.announced.stored"
    announced, streamed = client.told(sql)
    assert announced.equals(streamed, check_metadata=True)
    assert client.prepared(sql).equals(client.fetched(sql).schema, check_metadata=True)
    assert announced.names == list(STORED)


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES IN lake.announced",
        "SHOW NAMESPACES IN lake",
        "SHOW CREATE TABLE lake.announced.stored",
        "SHOW FUNCTIONS LIKE 'abs'",
        "DESCRIBE lake.announced.stored",
        "EXPLAIN SELECT 1",
    ],
)
def test_what_only_tells_is_announced_as_streamed(client: Client, sql: str) -> None:
    announced, streamed = client.told(sql)
    assert announced.equals(streamed, check_metadata=True)
    assert client.prepared(sql).equals(client.fetched(sql).schema, check_metadata=True)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_sent_is_refused_when_it_is_prepared(client: Client, name: str) -> None:
    with pytest.raises(AdbcError, match="NOT_SUPPORTED") as refused:
        client.prepared(f"SELECT 1 AS plain, {REFUSED[name]} AS odd")
    assert NAMED[name] in str(refused.value)

"""Raw pyarrow.flight: every command and every action by hand, what is offered and what is refused."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.testing.asking import ENDLESS, in_background, running_queries, wait_until
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def packed(message: Message) -> bytes:
    url = f"type.googleapis.com/{message.DESCRIPTOR.full_name}"
    return AnyMessage(type_url=url, value=message.SerializeToString()).SerializeToString()


def descriptor(command: Message) -> Any:
    return pa.flight.FlightDescriptor.for_command(packed(command))


class Raw:
    """A signed-in client that adds nothing."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.client = pa.flight.connect(gateway.uri)
        header = self.client.authenticate_basic_token("admin", gateway.admin_password)
        self.options = pa.flight.FlightCallOptions(headers=[header], timeout=60)

    def info(self, command: Message) -> Any:
        return self.client.get_flight_info(descriptor(command), self.options)

    def fetch(self, info: Any) -> pa.Table:
        return self.client.do_get(info.endpoints[0].ticket, self.options).read_all()

    def ask(self, command: Message) -> pa.Table:
        """The whole answer; announced, described and streamed with one schema."""
        info = self.info(command)
        answer = self.fetch(info)
        assert answer.schema.equals(info.schema, check_metadata=True)
        described = self.client.get_schema(descriptor(command), self.options).schema
        assert answer.schema.equals(described, check_metadata=True)
        return answer

    def query(self, text: str) -> pa.Table:
        return self.ask(sql.CommandStatementQuery(query=text))

    def put(self, command: Message, rows: pa.Table) -> bytes:
        writer, reader = self.client.do_put(descriptor(command), rows.schema, self.options)
        with writer:
            writer.write_table(rows)
            writer.done_writing()
            return bytes(reader.read())

    def update(self, text: str) -> int:
        answer = self.put(sql.CommandStatementUpdate(query=text), pa.table({}))
        return sql.DoPutUpdateResult.FromString(answer).record_count

    def act(self, name: str, body: bytes) -> list[bytes]:
        action = pa.flight.Action(name, body)
        return [bytes(each.body) for each in self.client.do_action(action, self.options)]

    def prepare(self, text: str) -> sql.ActionCreatePreparedStatementResult:
        request = sql.ActionCreatePreparedStatementRequest(query=text)
        (answer,) = self.act("CreatePreparedStatement", packed(request))
        return sql.ActionCreatePreparedStatementResult.FromString(AnyMessage.FromString(answer).value)


@pytest.fixture(scope="module")
def raw(gateway: RunningGateway) -> Iterator[Raw]:
    opened = Raw(gateway)
    with opened.client:
        yield opened


@pytest.fixture(scope="module")
def table(raw: Raw, schema: str) -> str:
    raw.update(f"CREATE TABLE {schema}.numbers (id BIGINT, name STRING)")
    raw.update(f"INSERT INTO {schema}.numbers VALUES (1, 'one'), (2, 'two')")
    return f"{schema}.numbers"


@pytest.mark.proves("CommandStatementQuery", "GetFlightInfo", "GetSchema", "DoGet", "TicketStatementQuery")
def test_a_query_is_announced_described_and_streamed_alike(raw: Raw, table: str) -> None:
    assert raw.query(f"SELECT * FROM {table} ORDER BY id").to_pydict() == {
        "id": [1, 2],
        "name": ["one", "two"],
    }


TYPES = {
    "BOOLEAN": ("true", pa.bool_()),
    "TINYINT": ("1Y", pa.int8()),
    "SMALLINT": ("1S", pa.int16()),
    "INT": ("1", pa.int32()),
    "BIGINT": ("1L", pa.int64()),
    "FLOAT": ("1.5F", pa.float32()),
    "DOUBLE": ("1.5D", pa.float64()),
    "DECIMAL": ("CAST(1 AS DECIMAL(38,18))", pa.decimal128(38, 18)),
    "STRING": ("'ü'", pa.string()),
    "CHAR, VARCHAR": ("CAST('a' AS VARCHAR(3))", pa.string()),
    "BINARY": ("X'00FF'", pa.binary()),
    "DATE": ("DATE '2024-02-29'", pa.date32()),
    "TIMESTAMP": ("TIMESTAMP '2024-02-29 12:30:00'", pa.timestamp("us", "UTC")),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ '2024-02-29 12:30:00'", pa.timestamp("us")),
    "INTERVAL DAY TO SECOND": ("INTERVAL '1' DAY", pa.duration("us")),
    "VOID": ("NULL", pa.null()),
}


@pytest.mark.proves("type BOOLEAN", "type TINYINT", "type SMALLINT", "type INT", "type BIGINT", "type FLOAT")
@pytest.mark.proves("type DOUBLE", "type DECIMAL", "type STRING", "type CHAR, VARCHAR", "type BINARY")
@pytest.mark.proves("type DATE", "type TIMESTAMP", "type TIMESTAMP_NTZ", "type INTERVAL DAY TO SECOND")
@pytest.mark.proves("type VOID")
@pytest.mark.parametrize("name", TYPES)
def test_a_type_is_streamed_as_the_arrow_type_that_was_announced(raw: Raw, name: str) -> None:
    expression, expected = TYPES[name]
    answer = raw.query(f"SELECT {expression} AS v")
    assert answer.schema.field("v").type == expected
    assert answer.num_rows == 1


@pytest.mark.proves("type ARRAY", "type MAP", "type STRUCT", "type INTERVAL YEAR TO MONTH", "type VARIANT")
@pytest.mark.proves("type INTERVAL")
@pytest.mark.parametrize(
    ("expression", "is_expected"),
    [
        ("array(1, 2)", pa.types.is_list),
        ("map('k', 1)", pa.types.is_map),
        ("named_struct('a', 1, 'b', array('x'))", pa.types.is_struct),
        ("INTERVAL '1' YEAR", lambda type_: str(type_) == "month_interval"),
        ("parse_json('{\"a\": 1}')", pa.types.is_struct),
        ("make_interval(1, 2, 3, 4, 5, 6, 7)", pa.types.is_interval),
    ],
)
def test_nested_types_are_streamed_as_announced(raw: Raw, expression: str, is_expected: Any) -> None:
    answer = raw.query(f"SELECT {expression} AS v")
    assert is_expected(answer.schema.field("v").type)
    assert answer.num_rows == 1


@pytest.mark.proves("type TIME", "type GEOMETRY, GEOGRAPHY")
@pytest.mark.parametrize(
    "expression", ["TIME '01:02:03'", "ST_GeomFromWKB(X'0101000000000000000000F03F0000000000000040')"]
)
def test_a_type_that_spark_cannot_send_is_refused_at_prepare(raw: Raw, expression: str) -> None:
    with pytest.raises((NotImplementedError, pa.ArrowInvalid), match="NOT_SUPPORTED"):
        raw.prepare(f"SELECT {expression} AS v")


@pytest.mark.proves("CommandStatementUpdate", "DoPut", "affected rows")
def test_an_update_says_how_many_rows_it_touched(raw: Raw, schema: str) -> None:
    raw.update(f"CREATE TABLE {schema}.touched (id INT)")
    assert raw.update(f"INSERT INTO {schema}.touched VALUES (1), (2), (3)") == 3
    assert raw.update(f"DELETE FROM {schema}.touched") == 3


@pytest.mark.proves("CreatePreparedStatement", "CommandPreparedStatementQuery", "ClosePreparedStatement")
def test_a_prepared_query_is_bound_run_and_closed(raw: Raw, table: str) -> None:
    prepared = raw.prepare(f"SELECT name FROM {table} WHERE id = ?")
    assert pa.ipc.read_schema(pa.py_buffer(prepared.dataset_schema)).names == ["name"]
    assert pa.ipc.read_schema(pa.py_buffer(prepared.parameter_schema)).types == [pa.int64()]
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=prepared.prepared_statement_handle)
    answer = raw.put(command, pa.table({"1": pa.array([2], pa.int64())}))
    bound = sql.DoPutPreparedStatementResult.FromString(answer).prepared_statement_handle
    assert raw.ask(sql.CommandPreparedStatementQuery(prepared_statement_handle=bound)).to_pydict() == {
        "name": ["two"]
    }
    close = sql.ActionClosePreparedStatementRequest(prepared_statement_handle=bound)
    assert raw.act("ClosePreparedStatement", packed(close)) == []


@pytest.mark.proves("CommandPreparedStatementUpdate", "DoPut")
def test_a_prepared_update_takes_many_rows(raw: Raw, schema: str) -> None:
    raw.update(f"CREATE TABLE {schema}.bound (id BIGINT, name STRING)")
    prepared = raw.prepare(f"INSERT INTO {schema}.bound VALUES (?, ?)")
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=prepared.prepared_statement_handle)
    answer = raw.put(command, pa.table({"1": pa.array([1, 2], pa.int64()), "2": ["a", None]}))
    assert sql.DoPutUpdateResult.FromString(answer).record_count == 2


@pytest.mark.proves("CommandStatementIngest", "DoPut")
def test_rows_are_brought_into_a_new_table(raw: Raw, schema: str) -> None:
    kinds = sql.CommandStatementIngest.TableDefinitionOptions
    command = sql.CommandStatementIngest(
        table="brought",
        schema=schema,
        catalog="lake",
        table_definition_options=kinds(
            if_not_exist=kinds.TABLE_NOT_EXIST_OPTION_CREATE, if_exists=kinds.TABLE_EXISTS_OPTION_FAIL
        ),
    )
    answer = raw.put(command, pa.table({"id": pa.array(range(1000))}))
    assert sql.DoPutUpdateResult.FromString(answer).record_count == 1000
    assert raw.query(f"SELECT count(*) AS n FROM {schema}.brought").to_pydict() == {"n": [1000]}


@pytest.mark.proves("CommandGetCatalogs")
def test_catalogs_are_listed(raw: Raw) -> None:
    assert raw.ask(sql.CommandGetCatalogs())["catalog_name"].to_pylist() == ["lake", "system"]


@pytest.mark.proves("CommandGetDbSchemas")
def test_schemas_are_listed_by_pattern(raw: Raw, schema: str, table: str) -> None:
    command = sql.CommandGetDbSchemas(catalog="lake", db_schema_filter_pattern="pyarrow%")
    assert raw.ask(command)["db_schema_name"].to_pylist() == [schema]


@pytest.mark.proves("CommandGetTables")
def test_tables_are_listed_with_their_schemas(raw: Raw, schema: str, table: str) -> None:
    command = sql.CommandGetTables(
        db_schema_filter_pattern=schema, table_name_filter_pattern="numbers", include_schema=True
    )
    (row,) = raw.ask(command).to_pylist()
    assert (row["table_name"], row["table_type"]) == ("numbers", "table")
    assert pa.ipc.read_schema(pa.py_buffer(row["table_schema"])).names == ["id", "name"]


@pytest.mark.proves("CommandGetTableTypes")
def test_table_types_are_listed(raw: Raw) -> None:
    types = raw.ask(sql.CommandGetTableTypes())["table_type"].to_pylist()
    assert {"table", "view", "system table"} == set(types)


@pytest.mark.proves("CommandGetXdbcTypeInfo")
def test_types_are_told_and_can_be_picked(raw: Raw) -> None:
    everything = raw.ask(sql.CommandGetXdbcTypeInfo())
    picked = raw.ask(sql.CommandGetXdbcTypeInfo(data_type=sql.XDBC_BIGINT))
    assert everything.num_rows > 10
    assert picked["type_name"].to_pylist() == ["BIGINT"]


@pytest.mark.proves("CommandGetPrimaryKeys", "CommandGetExportedKeys", "CommandGetImportedKeys")
@pytest.mark.proves("CommandGetCrossReference")
@pytest.mark.parametrize(
    "command",
    [
        sql.CommandGetPrimaryKeys(table="numbers"),
        sql.CommandGetExportedKeys(table="numbers"),
        sql.CommandGetImportedKeys(table="numbers"),
        sql.CommandGetCrossReference(pk_table="numbers", fk_table="numbers"),
    ],
    ids=lambda command: command.DESCRIPTOR.name,
)
def test_there_are_no_keys_and_that_is_a_well_formed_answer(raw: Raw, command: Message) -> None:
    answer = raw.ask(command)
    assert answer.num_rows == 0
    assert answer.num_columns in (6, 13)


@pytest.mark.proves("CommandGetSqlInfo", "SqlInfo")
def test_every_fact_that_the_protocol_knows_is_told(raw: Raw) -> None:
    answer = raw.ask(sql.CommandGetSqlInfo())
    assert answer["info_name"].to_pylist() == sorted(set(sql.SqlInfo.values()))
    (name,) = raw.ask(sql.CommandGetSqlInfo(info=[sql.FLIGHT_SQL_SERVER_NAME]))["value"].to_pylist()
    assert name == "Bailiwick"


@pytest.mark.proves("ListActions")
def test_every_action_that_is_listed_has_a_sentence(raw: Raw) -> None:
    actions = {each.type: each.description for each in raw.client.list_actions(raw.options)}
    assert {"CreatePreparedStatement", "CancelFlightInfo", "SetSessionOptions"} <= set(actions)
    assert all(actions.values())


@pytest.mark.proves("SetSessionOptions", "GetSessionOptions", "CloseSession")
def test_a_session_s_options_are_set_told_and_end_with_it(gateway: RunningGateway, schema: str) -> None:
    raw = Raw(gateway)
    wanted = {"schema": schema, "time_zone": "Europe/Berlin", "nonsense": "1"}
    values = {name: flight.SessionOptionValue(string_value=value) for name, value in wanted.items()}
    body = flight.SetSessionOptionsRequest(session_options=values).SerializeToString()
    (answer,) = raw.act("SetSessionOptions", body)
    errors = flight.SetSessionOptionsResult.FromString(answer).errors
    assert {name: error.value for name, error in errors.items()} == {
        "nonsense": flight.SetSessionOptionsResult.INVALID_NAME
    }
    (told,) = raw.act("GetSessionOptions", flight.GetSessionOptionsRequest().SerializeToString())
    options = flight.GetSessionOptionsResult.FromString(told).session_options
    assert (options["schema"].string_value, options["time_zone"].string_value) == (schema, "Europe/Berlin")
    assert raw.query("SELECT current_timezone() AS z").to_pydict() == {"z": ["Europe/Berlin"]}
    (closed,) = raw.act("CloseSession", flight.CloseSessionRequest().SerializeToString())
    assert flight.CloseSessionResult.FromString(closed).status == flight.CloseSessionResult.CLOSED
    with pytest.raises(pa.flight.FlightError, match="SESSION_EXPIRED"):
        raw.query("SELECT 1")


def cancel_info(raw: Raw, info: Any) -> str:
    request = flight.CancelFlightInfoRequest(info=flight.FlightInfo.FromString(info.serialize()))
    (answer,) = raw.act("CancelFlightInfo", request.SerializeToString())
    return flight.CancelStatus.Name(flight.CancelFlightInfoResult.FromString(answer).status)


def cancel_query(raw: Raw, info: Any) -> str:
    (answer,) = raw.act("CancelQuery", packed(sql.ActionCancelQueryRequest(info=info.serialize())))
    result = sql.ActionCancelQueryResult.FromString(AnyMessage.FromString(answer).value).result
    return sql.ActionCancelQueryResult.CancelResult.Name(result)


@pytest.mark.proves("CancelFlightInfo", "CancelQuery")
@pytest.mark.parametrize("cancel", [cancel_info, cancel_query])
def test_a_running_query_is_cancelled_by_its_info(gateway: RunningGateway, raw: Raw, cancel: Any) -> None:
    mark = f"raw {cancel.__name__}"
    info = raw.info(sql.CommandStatementQuery(query=f"{ENDLESS} -- {mark}"))
    with in_background(lambda: raw.fetch(info)) as fetching:
        wait_until("running", lambda: running_queries(gateway, mark))
        assert cancel(raw, info).endswith("_CANCELLED")
        with pytest.raises((pa.flight.FlightError, pa.ArrowException), match=r"CANCEL"):
            fetching.result(30)
    assert cancel(raw, info).endswith("_NOT_CANCELLABLE")


@pytest.mark.proves("RenewFlightEndpoint")
def test_a_ticket_is_renewed(raw: Raw, table: str) -> None:
    info = raw.info(sql.CommandStatementQuery(query=f"SELECT count(*) AS n FROM {table}"))
    endpoint = flight.FlightInfo.FromString(info.serialize()).endpoint[0]
    body = flight.RenewFlightEndpointRequest(endpoint=endpoint).SerializeToString()
    renewed = flight.FlightEndpoint.FromString(raw.act("RenewFlightEndpoint", body)[0])
    assert renewed.expiration_time.seconds >= endpoint.expiration_time.seconds
    answer = raw.client.do_get(pa.flight.Ticket(renewed.ticket.ticket), raw.options).read_all()
    assert answer.to_pydict() == {"n": [2]}


@pytest.mark.proves("CommandStatementSubstraitPlan")
def test_substrait_is_refused_with_a_sentence(raw: Raw) -> None:
    plan = sql.CommandStatementSubstraitPlan(plan=sql.SubstraitPlan(plan=b"plan", version="1"))
    with pytest.raises(NotImplementedError, match=r"NOT_SUPPORTED.*SubstraitPlan"):
        raw.info(plan)


@pytest.mark.proves("BeginTransaction", "EndTransaction", "BeginSavepoint", "EndSavepoint")
@pytest.mark.proves("CreatePreparedSubstraitPlan")
@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("BeginTransaction", sql.ActionBeginTransactionRequest()),
        ("EndTransaction", sql.ActionEndTransactionRequest(transaction_id=b"t")),
        ("BeginSavepoint", sql.ActionBeginSavepointRequest(transaction_id=b"t", name="s")),
        ("EndSavepoint", sql.ActionEndSavepointRequest(savepoint_id=b"s")),
        ("CreatePreparedSubstraitPlan", sql.ActionCreatePreparedSubstraitPlanRequest()),
    ],
)
def test_actions_that_are_not_offered_are_refused_with_a_sentence(raw: Raw, name: str, body: Message) -> None:
    with pytest.raises(NotImplementedError, match="NOT_SUPPORTED"):
        raw.act(name, packed(body))


@pytest.mark.proves("DoExchange", "ListFlights")
def test_calls_that_are_not_offered_are_refused_with_a_sentence(raw: Raw) -> None:
    with pytest.raises(NotImplementedError, match="NOT_SUPPORTED"):
        list(raw.client.list_flights(options=raw.options))
    # Whether the client learns it while it opens the exchange or while it reads is a matter of moments.
    with pytest.raises(NotImplementedError, match="NOT_SUPPORTED"):
        raw.client.do_exchange(descriptor(sql.CommandGetCatalogs()), raw.options)[1].read_all()


@pytest.mark.proves("Handshake")
def test_a_handshake_with_a_wrong_password_is_refused(gateway: RunningGateway) -> None:
    with pa.flight.connect(gateway.uri) as client:
        with pytest.raises(pa.flight.FlightUnauthenticatedError, match="AUTHENTICATION_FAILED"):
            client.authenticate_basic_token("admin", "wrong")


@pytest.mark.proves("errors")
def test_a_call_without_credentials_is_refused(gateway: RunningGateway) -> None:
    with pa.flight.connect(gateway.uri) as client:
        with pytest.raises(pa.flight.FlightUnauthenticatedError):
            client.get_flight_info(descriptor(sql.CommandGetCatalogs()))

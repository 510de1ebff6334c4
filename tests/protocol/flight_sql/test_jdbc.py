"""The Flight SQL JDBC driver in a Java process of its own: what `jdbc/Probe.java` saw is judged here."""

import json
from typing import Any

import pytest

from bailiwick.testing.asking import ENDLESS, rows, running_queries, wait_until
from bailiwick.testing.gateway import RunningGateway
from flight_sql.foreign_clients import JDBC, run_java

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


TABLES = (
    "CREATE TABLE jdbc.counted (id BIGINT, name STRING)",
    "CREATE TABLE jdbc.executed (id INT)",
    "CREATE TABLE jdbc.batched (id BIGINT, name STRING)",
    "CREATE TABLE jdbc.once AS SELECT 0 AS n",
    "CREATE TABLE jdbc.typed (c_boolean BOOLEAN, c_int INT, c_bigint BIGINT, c_float FLOAT, c_double DOUBLE, "
    "c_decimal DECIMAL(9,2), c_string STRING, c_binary BINARY, c_date DATE, c_timestamp TIMESTAMP, "
    "c_timestamp_ntz TIMESTAMP_NTZ)",
    "INSERT INTO jdbc.typed VALUES (true, 3, 4, 1.5, 2.5, 12.34, 'ü''', X'00FF', DATE '2024-02-29', "
    "TIMESTAMP '2024-02-29 12:30:00', TIMESTAMP_NTZ '2024-02-29 12:30:00')",
)


@pytest.fixture(scope="module")
def saw(gateway: RunningGateway, schema: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the probe saw, by case."""
    for statement in TABLES:
        rows(gateway, statement)
    settings = {
        "ADDRESS": gateway.grpc_address,
        "PASSWORD": gateway.admin_password,
        "TOKEN": rows(gateway, "CREATE TOKEN FOR admin TTL '1h'")[0][1],
        "ENDLESS": ENDLESS,
    }
    printed = run_java(JDBC / "Probe.java", tmp_path_factory.mktemp("jdbc"), settings)
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return {line["case"]: line["saw"] for line in lines}


@pytest.mark.parametrize("case", ["password", "token"])
def test_a_password_or_a_token_signs_in(saw: dict[str, Any], case: str) -> None:
    assert saw[case] == [True, [[42]]]


@pytest.mark.proves("Handshake", "errors")
def test_a_wrong_password_is_refused(saw: dict[str, Any]) -> None:
    assert "AUTHENTICATION_FAILED" in saw["wrong password"]["message"]


@pytest.mark.proves("affected rows")
def test_updates_tell_how_many_rows_they_touched(saw: dict[str, Any]) -> None:
    inserted, _deleted, left = saw["updates"]
    assert (inserted, left) == (3, [[1, "one"], [2, "two"]])


def test_a_definition_runs_once(saw: dict[str, Any]) -> None:
    """The driver takes a count of -1 for a result set, and runs the statement again to fetch it."""
    assert saw["create runs once"] == [[0]]


def test_an_update_whose_count_is_not_known_runs_once(saw: dict[str, Any]) -> None:
    assert saw["update runs once"] == [[1]]


@pytest.mark.proves("CreatePreparedStatement", "CommandPreparedStatementQuery")
@pytest.mark.parametrize(
    ("column", "type_number", "value"),
    [
        ("c_boolean", 16, "true"),
        ("c_tinyint", -6, "1"),
        ("c_smallint", 5, "2"),
        ("c_int", 4, "3"),
        ("c_bigint", -5, "4"),
        ("c_float", 6, "1.5"),
        ("c_double", 8, "2.5"),
        ("c_decimal", 3, "12.34"),
        ("c_string", 12, "ü"),
        ("c_binary", -3, "[0, -1]"),
        ("c_date", 91, "2024-02-29"),
        ("c_null", 4, "null"),
    ],
)
def test_values_come_with_their_jdbc_type(
    saw: dict[str, Any], column: str, type_number: int, value: str
) -> None:
    found_number, _, found = saw["types"][column]
    assert (found_number, found) == (type_number, value)


@pytest.mark.parametrize(("column", "type_number"), [("c_array", 2003), ("c_struct", 2000)])
def test_nested_values_are_read(saw: dict[str, Any], column: str, type_number: int) -> None:
    found_number, _, found = saw["types"][column]
    assert found_number == type_number
    assert "1" in found


def test_an_empty_result_has_no_rows(saw: dict[str, Any]) -> None:
    assert saw["empty"] == []


def test_many_rows_arrive_whole(saw: dict[str, Any]) -> None:
    assert saw["many rows"] == [100_000, sum(range(100_000))]


def test_execute_tells_queries_from_updates(saw: dict[str, Any]) -> None:
    assert saw["execute tells queries from updates"] == [True, False, 2, True]


@pytest.mark.proves("parameters")
@pytest.mark.parametrize(
    "column",
    [
        *("c_boolean", "c_int", "c_bigint", "c_float", "c_double", "c_decimal", "c_string", "c_binary"),
        *("c_date", "c_timestamp", "c_timestamp_ntz"),
    ],
)
def test_a_parameter_of_each_type_finds_its_row(saw: dict[str, Any], column: str) -> None:
    assert saw["parameters"][column] == [[1]]


def test_a_null_parameter_finds_nothing(saw: dict[str, Any]) -> None:
    assert saw["parameters"]["null"] == [[0]]


@pytest.mark.proves("parameters")
def test_a_prepared_query_runs_again_with_other_values(saw: dict[str, Any]) -> None:
    assert saw["prepared again"] == [[["one"]], [["two"]], []]


def test_a_prepared_query_is_described_before_it_runs(saw: dict[str, Any]) -> None:
    assert saw["prepared metadata"] == [2, "id", "BIGINT", 1, "Int(64, true)"]


@pytest.mark.proves("CommandPreparedStatementUpdate", "affected rows")
def test_prepared_updates_take_parameters(saw: dict[str, Any]) -> None:
    assert saw["prepared updates"] == [1, 1, 2]


@pytest.mark.proves("CommandPreparedStatementUpdate")
def test_a_batch_runs_for_each_row(saw: dict[str, Any]) -> None:
    assert saw["batch"] == [3, [[1, "n1"], [2, "n2"], [3, "n3"]]]


@pytest.mark.proves("CommandGetCatalogs", "CommandGetDbSchemas", "CommandGetTableTypes")
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("catalogs", [["lake"], ["system"]]),
        ("schemas", [["jdbc", "lake"]]),
        ("table types", [["system table"], ["table"], ["view"]]),
    ],
)
def test_catalogs_schemas_and_table_types_are_listed(
    saw: dict[str, Any], case: str, expected: list[list[str]]
) -> None:
    assert saw[case] == expected


@pytest.mark.proves("CommandGetTables")
def test_tables_and_columns_are_listed(saw: dict[str, Any]) -> None:
    assert saw["tables"] == [["lake", "jdbc", "counted", "table"]]
    columns = {name: [number, type_name] for name, number, type_name, *_ in saw["columns"]}
    assert columns["c_bigint"] == [-5, "BIGINT"]
    assert columns["c_string"] == [12, "VARCHAR"]
    assert len(columns) == 11


def test_the_driver_answers_for_types_without_asking(saw: dict[str, Any]) -> None:
    """It never sends CommandGetXdbcTypeInfo; that one is tested by raw Flight."""
    assert saw["type info"] == []


@pytest.mark.proves(
    "CommandGetPrimaryKeys", "CommandGetImportedKeys", "CommandGetExportedKeys", "CommandGetCrossReference"
)
def test_there_are_no_keys(saw: dict[str, Any]) -> None:
    assert saw["keys"] == [[], [], [], []]


@pytest.mark.proves("CommandGetSqlInfo")
def test_the_server_says_what_it_is(saw: dict[str, Any]) -> None:
    told = saw["product"]
    assert (told["name"], told["quote"], told["transactions"]) == ("Bailiwick", "`", False)
    assert told["has functions"]
    assert told["has keywords"]
    assert told["outer joins"]
    assert not told["read only"]


@pytest.mark.proves("errors")
@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("syntax error", "SYNTAX_ERROR"),
        ("missing table", "TABLE_NOT_FOUND"),
        ("late error", "DIVISION_BY_ZERO"),
    ],
)
def test_errors_carry_our_code(saw: dict[str, Any], case: str, code: str) -> None:
    assert code in saw[case]["message"]


def test_a_connection_works_on_after_errors(saw: dict[str, Any]) -> None:
    assert saw["after errors"] == [[1]]


@pytest.mark.proves("identifiers")
def test_names_of_any_kind_work_through_the_driver_s_own_quote(saw: dict[str, Any]) -> None:
    assert saw["identifiers"] == ["select", "a.b", "Größe", "MixedCase", "white space"]


def test_use_holds_for_the_connection(saw: dict[str, Any]) -> None:
    assert saw["use"] == [[2]]


def test_cancel_and_timeouts_end_the_query_in_the_gateway(
    gateway: RunningGateway, saw: dict[str, Any]
) -> None:
    assert "error" in saw["cancel"]
    assert "error" in saw["query timeout"]
    wait_until("stopped", lambda: not running_queries(gateway, "jdbc cancel"), 15)
    wait_until("stopped", lambda: not running_queries(gateway, "jdbc timeout"), 15)


def test_autocommit_is_on_and_stays_on(saw: dict[str, Any]) -> None:
    assert saw["autocommit"] is True

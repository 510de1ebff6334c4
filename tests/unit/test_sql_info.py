"""Facts about the server: every code of the protocol, each with the kind of value that drivers expect."""

import pyarrow as pa
import pytest

from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql import sql_info, type_info
from bailiwick.doors.flight_sql.patterns import pattern
from bailiwick.doors.flight_sql.sql_info import Abilities, ValueKind

FACTS = sql_info.all_facts(Abilities())
BIGINTS = {*range(541, 556), *range(557, 563)}
INT32S = {8, 100, 101, 503, 505, 507, 522, 525, 526, 528, 533, 534, 535, 538, 540, 564, *range(567, 572)}
TEXTS = {0, 1, 2, 6, 7, 504, 513, 514, 529, 530, 531}
LISTS = {508, 509, 510, 511, 512}


def value(code: int, facts: sql_info.Facts = FACTS) -> object:
    return sql_info.table(facts, [code]).column("value").to_pylist()[0]


def test_every_code_of_the_protocol_has_an_answer_of_its_kind() -> None:
    assert set(FACTS) == set(sql.SqlInfo.values())
    for code, (kind, _) in FACTS.items():
        expected = (
            ValueKind.BIGINT
            if code in BIGINTS
            else ValueKind.INT32
            if code in INT32S
            else ValueKind.TEXT
            if code in TEXTS
            else ValueKind.TEXTS
            if code in LISTS
            else ValueKind.INT32_LISTS
            if code == sql.SQL_SUPPORTS_CONVERT
            else ValueKind.FLAG
        )
        assert kind is expected, sql.SqlInfo.Name(code)


def test_the_union_has_the_protocols_fields_in_their_order() -> None:
    union = sql_info.SCHEMA.field("value").type
    assert [union.field(index).name for index in range(union.num_fields)] == [
        "string_value",
        "bool_value",
        "bigint_value",
        "int32_bitmask",
        "string_list",
        "int32_to_int32_list_map",
    ]
    assert union.type_codes == [0, 1, 2, 3, 4, 5]


def test_only_the_codes_that_were_asked_for_are_answered() -> None:
    assert sql_info.table(FACTS, [8, 0, 99_999]).column("info_name").to_pylist() == [0, 8]
    assert sql_info.table(FACTS).num_rows == len(FACTS)
    assert sql_info.table(FACTS, [99_999]).num_rows == 0


def test_what_drivers_act_upon_is_true() -> None:
    assert value(sql.SQL_IDENTIFIER_QUOTE_CHAR) == "`"
    assert value(sql.FLIGHT_SQL_SERVER_TRANSACTION) == sql.SQL_SUPPORTED_TRANSACTION_NONE
    assert value(sql.SQL_TRANSACTIONS_SUPPORTED) is False
    assert value(sql.FLIGHT_SQL_SERVER_SUBSTRAIT_MIN_VERSION) is None
    keywords = value(sql.SQL_KEYWORDS)
    assert isinstance(keywords, list)
    assert {"SELECT", "TBLPROPERTIES", "TIMESTAMP_NTZ"} <= set(keywords)
    conversions = value(sql.SQL_SUPPORTS_CONVERT)
    assert isinstance(conversions, list)
    assert sql.SQL_CONVERT_DATE in dict(conversions)[sql.SQL_CONVERT_VARCHAR]
    assert sql.SQL_CONVERT_DATE not in dict(conversions)[sql.SQL_CONVERT_BIT]


def test_abilities_are_told_as_they_are() -> None:
    facts = sql_info.all_facts(
        Abilities(cancel=True, bulk_ingestion=True, batch_updates=True, prepared_statement_s=60.0)
    )
    assert value(sql.FLIGHT_SQL_SERVER_CANCEL, facts) is True
    assert value(sql.FLIGHT_SQL_SERVER_BULK_INGESTION, facts) is True
    assert value(sql.SQL_BATCH_UPDATES_SUPPORTED, facts) is True
    assert value(sql.FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT, facts) == 60_000
    assert value(sql.FLIGHT_SQL_SERVER_CANCEL) is False


def test_types_come_in_the_protocols_order_and_by_their_number() -> None:
    rows = type_info.table().to_pylist()
    order = [(row["data_type"], row["type_name"]) for row in rows]
    assert order == sorted(order)
    assert {"STRING", "DECIMAL", "TIMESTAMP_NTZ", "VARIANT", "MAP"} <= {name for _, name in order}
    assert type_info.table(sql.XDBC_VARCHAR).column("type_name").to_pylist() == ["STRING", "VARCHAR"]
    assert type_info.table(0).column("type_name").to_pylist() == ["VOID"]
    assert type_info.table(77).num_rows == 0


def test_a_datetime_type_has_its_generic_number_and_a_subcode() -> None:
    (row,) = type_info.table(sql.XDBC_DATE).to_pylist()
    assert (row["sql_data_type"], row["datetime_subcode"]) == (sql.XDBC_DATETIME, sql.XDBC_SUBCODE_DATE)
    (row,) = type_info.table(sql.XDBC_DECIMAL).to_pylist()
    assert (row["create_params"], row["column_size"], row["num_prec_radix"]) == (
        ["precision", "scale"],
        38,
        10,
    )
    assert type_info.SCHEMA.field("create_params").type == pa.list_(
        pa.field("item", pa.string(), nullable=False)
    )


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        (None, "anything", True),
        ("%", "", True),
        ("", "", True),
        ("", "x", False),
        ("a%c", "abbc", True),
        ("a%c", "abb", False),
        ("a_c", "abc", True),
        ("a_c", "ac", False),
        ("%b%b%", "abcb", True),
        ("%b%b%", "abc", False),
        (r"\%", "%", True),
        (r"\%", "x", False),
        ("a\\", "a\\", True),
        ("a.c", "abc", False),
        ("ünï%", "ünïcode", True),
        ("_", "\n", True),
    ],
)
def test_a_pattern_matches_as_jdbc_says(text: str | None, name: str, matches: bool) -> None:
    assert pattern(text).matches(name) is matches

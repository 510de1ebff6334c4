"""What the server says about itself when a driver asks (CommandGetSqlInfo). Only what is true today.

Each fact has a code and one of six kinds of value, both fixed by the protocol: drivers cast without asking.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import Any

import pyarrow as pa

import bailiwick
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.catalog.schemas import FIELDS_MAX
from bailiwick.catalog.schemas import NAME_LENGTH_MAX as COLUMN_NAME_LENGTH_MAX
from bailiwick.names import DEPTH_MAX, PART_LENGTH_MAX


class ValueKind(IntEnum):
    """The numbers are the type codes of the protocol's union."""

    TEXT = 0
    FLAG = 1
    BIGINT = 2
    INT32 = 3
    """A bit mask, or one of an enumeration's numbers."""
    TEXTS = 4
    INT32_LISTS = 5


_UNION_FIELDS = (
    pa.field("string_value", pa.string()),
    pa.field("bool_value", pa.bool_()),
    pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()),
    pa.field("string_list", pa.list_(pa.string())),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
)
SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", pa.dense_union(_UNION_FIELDS), nullable=False),
    ]
)

UNLIMITED = 0
"""What drivers read as: no limit, or none that is known."""

Facts = Mapping[int, tuple[ValueKind, Any]]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What this gateway can do, as far as it depends on how it was put together."""

    cancel: bool = False
    bulk_ingestion: bool = False
    batch_updates: bool = False
    prepared_statement_s: float = 30 * 86_400.0
    sql_bytes_max: int = 1 << 20


def all_facts(abilities: Abilities) -> Facts:
    """Every code that the protocol knows, with its value."""
    return {
        code: (kind, value)
        for kind, values in (
            (ValueKind.TEXT, _texts()),
            (ValueKind.FLAG, _flags(abilities)),
            (ValueKind.BIGINT, _limits(abilities)),
            (ValueKind.INT32, _choices(abilities)),
            (ValueKind.TEXTS, _words()),
            (ValueKind.INT32_LISTS, {sql.SQL_SUPPORTS_CONVERT: list(_conversions().items())}),
        )
        for code, value in values.items()
    }


def table(facts: Facts, codes: Sequence[int] = ()) -> pa.Table:
    """The facts that were asked for, in the order of their codes; all of them if none are named."""
    wanted = frozenset(codes)
    chosen = sorted(code for code in facts if not wanted or code in wanted)
    children: list[list[Any]] = [[] for _ in _UNION_FIELDS]
    kinds, offsets = [], []
    for code in chosen:
        kind, value = facts[code]
        kinds.append(int(kind))
        offsets.append(len(children[kind]))
        children[kind].append(value)
    union = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(child, field.type) for child, field in zip(children, _UNION_FIELDS, strict=True)],
        [field.name for field in _UNION_FIELDS],
    )
    return pa.table([pa.array(chosen, pa.uint32()), union], schema=SCHEMA)


def _texts() -> dict[int, str | None]:
    return {
        sql.FLIGHT_SQL_SERVER_NAME: "Bailiwick",
        sql.FLIGHT_SQL_SERVER_VERSION: bailiwick.__version__,
        sql.FLIGHT_SQL_SERVER_ARROW_VERSION: pa.__version__,
        sql.FLIGHT_SQL_SERVER_SUBSTRAIT_MIN_VERSION: None,
        sql.FLIGHT_SQL_SERVER_SUBSTRAIT_MAX_VERSION: None,
        sql.SQL_IDENTIFIER_QUOTE_CHAR: "`",
        sql.SQL_SEARCH_STRING_ESCAPE: "\\",
        sql.SQL_EXTRA_NAME_CHARACTERS: "",
        sql.SQL_SCHEMA_TERM: "schema",
        sql.SQL_PROCEDURE_TERM: "procedure",
        sql.SQL_CATALOG_TERM: "catalog",
    }


def _flags(abilities: Abilities) -> dict[int, bool]:
    true = (
        sql.FLIGHT_SQL_SERVER_SQL,
        sql.SQL_DDL_SCHEMA,
        sql.SQL_DDL_TABLE,
        sql.SQL_SUPPORTS_COLUMN_ALIASING,
        sql.SQL_NULL_PLUS_NULL_IS_NULL,
        sql.SQL_SUPPORTS_TABLE_CORRELATION_NAMES,
        sql.SQL_SUPPORTS_EXPRESSIONS_IN_ORDER_BY,
        sql.SQL_SUPPORTS_ORDER_BY_UNRELATED,
        sql.SQL_SUPPORTS_LIKE_ESCAPE_CLAUSE,
        sql.SQL_SUPPORTS_NON_NULLABLE_COLUMNS,
        sql.SQL_CATALOG_AT_START,
        sql.SQL_CORRELATED_SUBQUERIES_SUPPORTED,
        sql.SQL_ALL_TABLES_ARE_SELECTABLE,
    )
    false = (
        sql.FLIGHT_SQL_SERVER_READ_ONLY,
        sql.FLIGHT_SQL_SERVER_SUBSTRAIT,
        sql.FLIGHT_SQL_SERVER_INGEST_TRANSACTIONS_SUPPORTED,
        sql.SQL_DDL_CATALOG,
        sql.SQL_SUPPORTS_DIFFERENT_TABLE_CORRELATION_NAMES,
        sql.SQL_SUPPORTS_INTEGRITY_ENHANCEMENT_FACILITY,
        sql.SQL_SELECT_FOR_UPDATE_SUPPORTED,
        sql.SQL_STORED_PROCEDURES_SUPPORTED,
        sql.SQL_MAX_ROW_SIZE_INCLUDES_BLOBS,
        sql.SQL_TRANSACTIONS_SUPPORTED,
        sql.SQL_DATA_DEFINITION_CAUSES_TRANSACTION_COMMIT,
        sql.SQL_DATA_DEFINITIONS_IN_TRANSACTIONS_IGNORED,
        sql.SQL_SAVEPOINTS_SUPPORTED,
        sql.SQL_NAMED_PARAMETERS_SUPPORTED,
        sql.SQL_LOCATORS_UPDATE_COPY,
        sql.SQL_STORED_FUNCTIONS_USING_CALL_SYNTAX_SUPPORTED,
    )
    return {
        **dict.fromkeys(true, True),
        **dict.fromkeys(false, False),
        sql.FLIGHT_SQL_SERVER_CANCEL: abilities.cancel,
        sql.FLIGHT_SQL_SERVER_BULK_INGESTION: abilities.bulk_ingestion,
        sql.SQL_BATCH_UPDATES_SUPPORTED: abilities.batch_updates,
    }


def _limits(abilities: Abilities) -> dict[int, int]:
    unlimited = (
        sql.SQL_MAX_BINARY_LITERAL_LENGTH,
        sql.SQL_MAX_CHAR_LITERAL_LENGTH,
        sql.SQL_MAX_COLUMNS_IN_GROUP_BY,
        sql.SQL_MAX_COLUMNS_IN_INDEX,
        sql.SQL_MAX_COLUMNS_IN_ORDER_BY,
        sql.SQL_MAX_COLUMNS_IN_SELECT,
        sql.SQL_MAX_CONNECTIONS,
        sql.SQL_MAX_CURSOR_NAME_LENGTH,
        sql.SQL_MAX_INDEX_LENGTH,
        sql.SQL_MAX_PROCEDURE_NAME_LENGTH,
        sql.SQL_MAX_CATALOG_NAME_LENGTH,
        sql.SQL_MAX_ROW_SIZE,
        sql.SQL_MAX_STATEMENTS,
        sql.SQL_MAX_TABLES_IN_SELECT,
        sql.SQL_MAX_USERNAME_LENGTH,
    )
    return {
        **dict.fromkeys(unlimited, UNLIMITED),
        sql.SQL_MAX_COLUMN_NAME_LENGTH: COLUMN_NAME_LENGTH_MAX,
        sql.SQL_MAX_COLUMNS_IN_TABLE: FIELDS_MAX,
        sql.SQL_DB_SCHEMA_NAME_LENGTH: DEPTH_MAX * (PART_LENGTH_MAX + 1) - 1,
        sql.SQL_MAX_TABLE_NAME_LENGTH: PART_LENGTH_MAX,
        sql.SQL_MAX_STATEMENT_LENGTH: abilities.sql_bytes_max,
        # No limit, and an int32 by the protocol's text, but the JDBC driver takes nothing else than an int64.
        sql.SQL_DEFAULT_TRANSACTION_ISOLATION: sql.SQL_TRANSACTION_NONE,
    }


def _choices(abilities: Abilities) -> dict[int, int]:
    forward_only = _bits(sql.SQL_RESULT_SET_TYPE_FORWARD_ONLY)
    read_only = _bits(sql.SQL_RESULT_SET_CONCURRENCY_READ_ONLY)
    return {
        sql.FLIGHT_SQL_SERVER_TRANSACTION: sql.SQL_SUPPORTED_TRANSACTION_NONE,
        sql.FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT: min(
            round(abilities.prepared_statement_s * 1000), (1 << 31) - 1
        ),
        sql.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT: 0,
        # Tables' names are kept and compared as they are written, for which the protocol has no word.
        sql.SQL_IDENTIFIER_CASE: sql.SQL_CASE_SENSITIVITY_UNKNOWN,
        sql.SQL_QUOTED_IDENTIFIER_CASE: sql.SQL_CASE_SENSITIVITY_UNKNOWN,
        sql.SQL_NULL_ORDERING: sql.SQL_NULLS_SORTED_LOW,
        sql.SQL_SUPPORTED_GROUP_BY: _bits(sql.SQL_GROUP_BY_UNRELATED, sql.SQL_GROUP_BY_BEYOND_SELECT),
        sql.SQL_SUPPORTED_GRAMMAR: _bits(sql.SQL_MINIMUM_GRAMMAR, sql.SQL_CORE_GRAMMAR),
        sql.SQL_ANSI92_SUPPORTED_LEVEL: _bits(sql.ANSI92_ENTRY_SQL),
        # One number of an enumeration by the protocol's text, but the JDBC driver reads bits.
        sql.SQL_OUTER_JOINS_SUPPORT_LEVEL: _bits(sql.SQL_LIMITED_OUTER_JOINS, sql.SQL_FULL_OUTER_JOINS),
        sql.SQL_SCHEMAS_SUPPORTED_ACTIONS: 0,
        sql.SQL_CATALOGS_SUPPORTED_ACTIONS: 0,
        sql.SQL_SUPPORTED_POSITIONED_COMMANDS: 0,
        sql.SQL_SUPPORTED_SUBQUERIES: _bits(
            sql.SQL_SUBQUERIES_IN_COMPARISONS, sql.SQL_SUBQUERIES_IN_EXISTS, sql.SQL_SUBQUERIES_IN_INS
        ),
        sql.SQL_SUPPORTED_UNIONS: _bits(sql.SQL_UNION, sql.SQL_UNION_ALL),
        sql.SQL_SUPPORTED_TRANSACTIONS_ISOLATION_LEVELS: _bits(sql.SQL_TRANSACTION_NONE),
        sql.SQL_SUPPORTED_RESULT_SET_TYPES: forward_only,
        sql.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_UNSPECIFIED: 0,
        sql.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_FORWARD_ONLY: read_only,
        sql.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_SCROLL_SENSITIVE: 0,
        sql.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_SCROLL_INSENSITIVE: 0,
    }


def _words() -> dict[int, list[str]]:
    words = spark_sql()
    return {
        sql.SQL_KEYWORDS: words["keywords"],
        sql.SQL_NUMERIC_FUNCTIONS: words["numeric_functions"],
        sql.SQL_STRING_FUNCTIONS: words["string_functions"],
        sql.SQL_SYSTEM_FUNCTIONS: words["system_functions"],
        sql.SQL_DATETIME_FUNCTIONS: words["datetime_functions"],
    }


def _conversions() -> dict[int, list[int]]:
    """What CAST takes to what, by Spark's ANSI rules."""
    whole = {
        sql.SQL_CONVERT_TINYINT,
        sql.SQL_CONVERT_SMALLINT,
        sql.SQL_CONVERT_INTEGER,
        sql.SQL_CONVERT_BIGINT,
    }
    exact = whole | {sql.SQL_CONVERT_DECIMAL, sql.SQL_CONVERT_NUMERIC}
    numbers = exact | {sql.SQL_CONVERT_REAL, sql.SQL_CONVERT_FLOAT}
    texts = {sql.SQL_CONVERT_CHAR, sql.SQL_CONVERT_VARCHAR}
    bytes_ = {sql.SQL_CONVERT_BINARY, sql.SQL_CONVERT_VARBINARY}
    moments = {sql.SQL_CONVERT_DATE, sql.SQL_CONVERT_TIMESTAMP}
    intervals = {sql.SQL_CONVERT_INTERVAL_DAY_TIME, sql.SQL_CONVERT_INTERVAL_YEAR_MONTH}
    flag, timestamp = {sql.SQL_CONVERT_BIT}, {sql.SQL_CONVERT_TIMESTAMP}
    targets = {
        **dict.fromkeys(whole, numbers | texts | bytes_ | timestamp | flag | intervals),
        **dict.fromkeys(exact - whole, numbers | texts | timestamp | flag | intervals),
        **dict.fromkeys(numbers - exact, numbers | texts | timestamp | flag),
        **dict.fromkeys(texts, numbers | texts | bytes_ | moments | flag | intervals),
        **dict.fromkeys(bytes_, bytes_ | texts),
        **dict.fromkeys(flag, flag | numbers | texts),
        **dict.fromkeys(intervals, texts | exact),
        sql.SQL_CONVERT_DATE: moments | texts,
        sql.SQL_CONVERT_TIMESTAMP: moments | texts | numbers,
    }
    for interval in intervals:
        targets[interval] = targets[interval] | {interval}
    return {source: sorted(targets[source]) for source in sorted(targets)}


def _bits(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


@cache
def spark_sql() -> dict[str, list[str]]:
    """Spark's words by their kind: `keywords`, `string_functions` and so on."""
    return tomllib.loads(files(__package__).joinpath("spark_sql.toml").read_text(encoding="utf-8"))

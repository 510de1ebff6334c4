"""The types of Spark SQL, as JDBC and ODBC want to hear of them (CommandGetXdbcTypeInfo)."""

from dataclasses import astuple, dataclass

import pyarrow as pa

from bailiwick._generated import FlightSql_pb2 as sql

JDBC_STRUCT = 2002
JDBC_ARRAY = 2003
JDBC_OTHER = 1111
"""Numbers of JDBC's own, for what the protocol's list has no number for."""

STRING_LENGTH_MAX = (1 << 31) - 1

_TEXT, _INT, _FLAG = pa.string(), pa.int32(), pa.bool_()

SCHEMA = pa.schema(
    [
        pa.field("type_name", _TEXT, nullable=False),
        pa.field("data_type", _INT, nullable=False),
        pa.field("column_size", _INT),
        pa.field("literal_prefix", _TEXT),
        pa.field("literal_suffix", _TEXT),
        pa.field("create_params", pa.list_(pa.field("item", _TEXT, nullable=False))),
        pa.field("nullable", _INT, nullable=False),
        pa.field("case_sensitive", _FLAG, nullable=False),
        pa.field("searchable", _INT, nullable=False),
        pa.field("unsigned_attribute", _FLAG),
        pa.field("fixed_prec_scale", _FLAG, nullable=False),
        pa.field("auto_increment", _FLAG),
        pa.field("local_type_name", _TEXT),
        pa.field("minimum_scale", _INT),
        pa.field("maximum_scale", _INT),
        pa.field("sql_data_type", _INT, nullable=False),
        pa.field("datetime_subcode", _INT),
        pa.field("num_prec_radix", _INT),
        pa.field("interval_precision", _INT),
    ]
)


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """One row; its fields are the columns of the answer, in their order."""

    type_name: str
    data_type: int
    column_size: int | None = None
    literal_prefix: str | None = None
    literal_suffix: str | None = None
    create_params: tuple[str, ...] | None = None
    nullable: int = sql.NULLABILITY_NULLABLE
    case_sensitive: bool = False
    searchable: int = sql.SEARCHABLE_BASIC
    unsigned_attribute: bool | None = None
    fixed_prec_scale: bool = False
    auto_increment: bool | None = None
    local_type_name: str | None = None
    minimum_scale: int | None = None
    maximum_scale: int | None = None
    sql_data_type: int = sql.XDBC_UNKNOWN_TYPE
    datetime_subcode: int | None = None
    num_prec_radix: int | None = None
    interval_precision: int | None = None


def _whole(name: str, number: int, digits: int) -> TypeInfo:
    return TypeInfo(
        name,
        number,
        digits,
        unsigned_attribute=False,
        auto_increment=False,
        minimum_scale=0,
        maximum_scale=0,
        sql_data_type=number,
        num_prec_radix=10,
    )


def _approximate(name: str, number: int, bits: int) -> TypeInfo:
    return TypeInfo(
        name,
        number,
        bits,
        unsigned_attribute=False,
        auto_increment=False,
        sql_data_type=number,
        num_prec_radix=2,
    )


def _text(name: str, number: int, params: tuple[str, ...] | None = None) -> TypeInfo:
    return TypeInfo(
        name,
        number,
        STRING_LENGTH_MAX,
        "'",
        "'",
        params,
        case_sensitive=True,
        searchable=sql.SEARCHABLE_FULL,
        sql_data_type=number,
    )


def _moment(name: str, number: int, prefix: str, length: int, subcode: int, digits: int) -> TypeInfo:
    return TypeInfo(
        name,
        number,
        length,
        f"{prefix} '",
        "'",
        minimum_scale=digits,
        maximum_scale=digits,
        sql_data_type=sql.XDBC_DATETIME,
        datetime_subcode=subcode,
    )


def _interval(name: str, number: int, subcode: int, suffix: str, precision: int) -> TypeInfo:
    return TypeInfo(
        name,
        number,
        literal_prefix="INTERVAL '",
        literal_suffix=suffix,
        sql_data_type=sql.XDBC_INTERVAL,
        datetime_subcode=subcode,
        interval_precision=precision,
    )


TYPES: tuple[TypeInfo, ...] = (
    TypeInfo("BOOLEAN", sql.XDBC_BIT, 1, sql_data_type=sql.XDBC_BIT),
    _whole("TINYINT", sql.XDBC_TINYINT, 3),
    _whole("SMALLINT", sql.XDBC_SMALLINT, 5),
    _whole("INT", sql.XDBC_INTEGER, 10),
    _whole("BIGINT", sql.XDBC_BIGINT, 19),
    TypeInfo(
        "DECIMAL",
        sql.XDBC_DECIMAL,
        38,
        create_params=("precision", "scale"),
        unsigned_attribute=False,
        auto_increment=False,
        minimum_scale=0,
        maximum_scale=38,
        sql_data_type=sql.XDBC_DECIMAL,
        num_prec_radix=10,
    ),
    _approximate("FLOAT", sql.XDBC_FLOAT, 24),
    _approximate("DOUBLE", sql.XDBC_DOUBLE, 53),
    _text("STRING", sql.XDBC_VARCHAR),
    _text("VARCHAR", sql.XDBC_VARCHAR, ("length",)),
    _text("CHAR", sql.XDBC_CHAR, ("length",)),
    TypeInfo("BINARY", sql.XDBC_VARBINARY, STRING_LENGTH_MAX, "X'", "'", sql_data_type=sql.XDBC_VARBINARY),
    _moment("DATE", sql.XDBC_DATE, "DATE", 10, sql.XDBC_SUBCODE_DATE, 0),
    _moment("TIMESTAMP", sql.XDBC_TIMESTAMP, "TIMESTAMP", 26, sql.XDBC_SUBCODE_TIMESTAMP, 6),
    _moment("TIMESTAMP_NTZ", sql.XDBC_TIMESTAMP, "TIMESTAMP_NTZ", 26, sql.XDBC_SUBCODE_TIMESTAMP, 6),
    _interval(
        "INTERVAL YEAR TO MONTH",
        sql.XDBC_SUBCODE_INTERVAL_YEAR_TO_MONTH,
        sql.XDBC_SUBCODE_YEAR_TO_MONTH,
        "' YEAR TO MONTH",
        9,
    ),
    _interval(
        "INTERVAL DAY TO SECOND",
        sql.XDBC_SUBCODE_INTERVAL_DAY_TO_SECOND,
        sql.XDBC_SUBCODE_DAY_TO_SECOND,
        "' DAY TO SECOND",
        9,
    ),
    TypeInfo("ARRAY", JDBC_ARRAY, create_params=("element type",)),
    TypeInfo("STRUCT", JDBC_STRUCT, create_params=("fields",)),
    TypeInfo("MAP", JDBC_OTHER, create_params=("key type", "value type"), searchable=sql.SEARCHABLE_NONE),
    TypeInfo("VARIANT", JDBC_OTHER, searchable=sql.SEARCHABLE_NONE),
    TypeInfo("VOID", sql.XDBC_UNKNOWN_TYPE, literal_prefix="NULL"),
)


def table(data_type: int | None = None) -> pa.Table:
    """The types of one number, or all, ordered by number and name."""
    chosen = sorted(
        (info for info in TYPES if data_type is None or info.data_type == data_type),
        key=lambda info: (info.data_type, info.type_name),
    )
    columns = zip(*map(astuple, chosen), strict=True) if chosen else ((),) * len(SCHEMA)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )

"""What the server says about itself when a driver asks (CommandGetSqlInfo). Only what is true today."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

import bailiwick
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.wire import flight_data, schema_header
from bailiwick.results.batches import frames_of_table

_UNION_FIELDS = (
    pa.field("string_value", pa.string()),
    pa.field("bool_value", pa.bool_()),
    pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()),
    pa.field("string_list", pa.list_(pa.string())),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
)
_STRING, _BOOLEAN, _BITMASK = 0, 1, 3

SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", pa.dense_union(_UNION_FIELDS), nullable=False),
    ]
)

FACTS: Mapping[int, tuple[int, str | bool | int]] = {
    sql.FLIGHT_SQL_SERVER_NAME: (_STRING, "Bailiwick"),
    sql.FLIGHT_SQL_SERVER_VERSION: (_STRING, bailiwick.__version__),
    sql.FLIGHT_SQL_SERVER_ARROW_VERSION: (_STRING, pa.__version__),
    sql.FLIGHT_SQL_SERVER_READ_ONLY: (_BOOLEAN, False),
    sql.FLIGHT_SQL_SERVER_SQL: (_BOOLEAN, True),
    sql.FLIGHT_SQL_SERVER_SUBSTRAIT: (_BOOLEAN, False),
    sql.FLIGHT_SQL_SERVER_TRANSACTION: (_BITMASK, sql.SQL_SUPPORTED_TRANSACTION_NONE),
    sql.FLIGHT_SQL_SERVER_CANCEL: (_BOOLEAN, False),
    sql.FLIGHT_SQL_SERVER_BULK_INGESTION: (_BOOLEAN, False),
    sql.FLIGHT_SQL_SERVER_INGEST_TRANSACTIONS_SUPPORTED: (_BOOLEAN, False),
    sql.SQL_IDENTIFIER_QUOTE_CHAR: (_STRING, "`"),
}


def known(codes: Sequence[int]) -> tuple[int, ...]:
    """The codes among these that have an answer, in order; all of them if none are named."""
    return tuple(code for code in FACTS if not codes or code in codes)


def answer(codes: Sequence[int]) -> tuple[bytes, tuple[bytes, ...]]:
    """The schema as an encapsulated IPC message, and the whole answer as FlightData messages."""
    schema, frames = frames_of_table(pa.Table.from_batches([_batch(known(codes))]))
    return schema, (
        flight_data(schema_header(schema)),
        *(flight_data(frame.header, frame.body) for frame in frames),
    )


def _batch(codes: Sequence[int]) -> pa.RecordBatch:
    children: list[list[str | bool | int]] = [[] for _ in _UNION_FIELDS]
    types, offsets = [], []
    for code in codes:
        kind, value = FACTS[code]
        types.append(kind)
        offsets.append(len(children[kind]))
        children[kind].append(value)
    value = pa.UnionArray.from_dense(
        pa.array(types, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(child, field.type) for child, field in zip(children, _UNION_FIELDS, strict=True)],
        [field.name for field in _UNION_FIELDS],
    )
    return pa.record_batch([pa.array(codes, pa.uint32()), value], schema=SCHEMA)

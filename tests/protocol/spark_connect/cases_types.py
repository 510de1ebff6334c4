# ruff: noqa: E501 - one case a line
"""Every type, both ways: collected, as pandas, as Arrow; and frames made of rows, pandas and Arrow."""

import datetime
from decimal import Decimal
from typing import Any

from spark_connect.case import case, several

VALUES = {
    "boolean": "true",
    "tinyint": "-128Y",
    "smallint": "32767S",
    "int": "-2147483648",
    "bigint": "9223372036854775807L",
    "float": "CAST(1.5 AS FLOAT)",
    "float nan": "CAST('NaN' AS FLOAT)",
    "double": "-0.1D",
    "double infinity": "CAST('-Infinity' AS DOUBLE)",
    "decimal": "CAST(12345678901234567890.123456789012345678 AS DECIMAL(38, 18))",
    "small decimal": "CAST(-1.50 AS DECIMAL(5, 2))",
    "string": "'naïve \\u2603 text'",
    "empty string": "''",
    "char": "CAST('ab' AS CHAR(4))",
    "varchar": "CAST('ab' AS VARCHAR(4))",
    "binary": "X'00FF10'",
    "date": "DATE '1582-10-15'",
    "far date": "DATE '9999-12-31'",
    "timestamp": "TIMESTAMP '2026-02-03 04:05:06.789012'",
    "old timestamp": "TIMESTAMP '1900-01-01 00:00:00'",
    "timestamp ntz": "TIMESTAMP_NTZ '2026-02-03 04:05:06.789012'",
    "day time interval": "INTERVAL '1 02:03:04.000005' DAY TO SECOND",
    "null": "NULL",
    "typed null": "CAST(NULL AS DECIMAL(10, 2))",
    "array": "array(1, NULL, 3)",
    "empty array": "CAST(array() AS ARRAY<STRING>)",
    "array of arrays": "array(array(1), array(2, 3))",
    "map": "map('a', 1, 'b', NULL)",
    "map of structs": "map(1, named_struct('x', 'y'))",
    "struct": "named_struct('a', 1, 'b', named_struct('c', 'd'))",
    "null struct": "CAST(NULL AS STRUCT<a: INT>)",
    "array of structs": "array(named_struct('k', 1, 'v', DATE '2026-01-01'))",
}
COLLECTED_ONLY = {
    "variant": "parse_json('{\"a\": 1}')",
    "collated string": "'a' COLLATE UTF8_LCASE",
    "duplicate names": "1 AS v, 2",
}
NOT_SENT = {
    "year month interval": "INTERVAL '1-2' YEAR TO MONTH",
    "calendar interval": "make_interval(1, 2, 3, 4, 5, 6, 7.5)",
}


def _collected(text: str) -> Any:
    def body(spark: Any) -> Any:
        frame = spark.sql(f"SELECT {text} AS v")
        return [frame.schema, frame.collect()]

    return body


def _as_pandas(text: str) -> Any:
    return lambda spark: spark.sql(f"SELECT {text} AS v").toPandas()


def _as_arrow(text: str) -> Any:
    return lambda spark: spark.sql(f"SELECT {text} AS v").toArrow()


for told, values in (("", VALUES), ("", COLLECTED_ONLY), ("", NOT_SENT)):
    several("types", {f"{name} collected{told}": _collected(text) for name, text in values.items()})
several("types", {f"{name} as pandas": _as_pandas(text) for name, text in VALUES.items()})
several("types", {f"{name} as Arrow": _as_arrow(text) for name, text in VALUES.items()})


def _made(spark: Any, rows: list[Any], schema: Any = None) -> Any:
    frame = spark.createDataFrame(rows, schema) if schema else spark.createDataFrame(rows)
    return [frame.schema, frame.collect()]


several(
    "types",
    {
        "rows of numbers": lambda s: _made(s, [(1, 2.5), (None, None)], "a INT, b DOUBLE"),
        "rows of texts": lambda s: _made(s, [("ü", b"\x00"), (None, None)], "a STRING, b BINARY"),
        "rows of dates": lambda s: _made(s, [(datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4, 5, 6))]),
        "rows of decimals": lambda s: _made(s, [(Decimal("1.50"),), (None,)], "a DECIMAL(10, 2)"),
        "rows of intervals": lambda s: _made(s, [(datetime.timedelta(days=1, microseconds=5),)], "a INTERVAL DAY TO SECOND"),
        "rows of arrays and maps": lambda s: _made(s, [([1, None], {"k": 1.5})], "a ARRAY<INT>, m MAP<STRING, DOUBLE>"),
        "rows of structs": lambda s: _made(s, [((1, "x"),)], "p STRUCT<a: INT, b: STRING>"),
        "rows inferred": lambda s: _made(s, [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        "rows with names": lambda s: _made(s, [(1, "a"), (2, "b")], ["n", "t"]),
        "rows of one type": lambda s: _made(s, [1, 2, 3], "int"),
        "rows of no time zone": lambda s: _made(s, [(datetime.datetime(2026, 1, 2, 3, 4, 5),)], "a TIMESTAMP_NTZ"),
        "many rows": lambda s: s.createDataFrame([(n, str(n)) for n in range(20000)], "n INT, t STRING").selectExpr("sum(n)", "max(length(t))"),
    },
)  # fmt: skip


@case
def rows_as_objects(spark: Any) -> Any:
    from pyspark.sql import Row

    return _made(spark, [Row(a=1, b=Row(c="d")), Row(a=2, b=None)])


@case
def a_frame_of_pandas(spark: Any) -> Any:
    import pandas as pd

    frame = pd.DataFrame(
        {"a": [1, 2], "b": ["x", None], "c": [1.5, 2.5], "d": pd.to_datetime(["2026-01-01", "2026-01-02"])}
    )
    made = spark.createDataFrame(frame)
    return [made.schema, made.collect()]


@case
def a_frame_of_pandas_and_a_schema(spark: Any) -> Any:
    import pandas as pd

    made = spark.createDataFrame(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), "a INT, b BIGINT")
    return [made.schema, made.collect()]


@case
def a_frame_of_an_array(spark: Any) -> Any:
    import numpy as np

    return spark.createDataFrame(np.array([[1, 2], [3, 4]])).collect()


@case
def a_frame_of_arrow(spark: Any) -> Any:
    import pyarrow as pa

    table = pa.table(
        {
            "i": pa.array([1, None], pa.int8()),
            "t": pa.array(["a", None]),
            "d": pa.array([datetime.date(2026, 1, 1), None]),
            "ts": pa.array([datetime.datetime(2026, 1, 1, 2), None], pa.timestamp("us", tz="UTC")),
            "l": pa.array([[1], None], pa.list_(pa.int32())),
            "c": pa.array([Decimal("1.10"), None], pa.decimal128(5, 2)),
        }
    )
    made = spark.createDataFrame(table)
    return [made.schema, made.collect()]


@case
def arrow_there_and_back(spark: Any) -> Any:
    return spark.createDataFrame(spark.table("people").orderBy("id").toArrow()).toArrow()


@case
def pandas_there_and_back(spark: Any) -> Any:
    return spark.createDataFrame(spark.table("orders").orderBy("id").toPandas()).orderBy("id").toPandas()


@case
def a_whole_table_as_pandas(spark: Any) -> Any:
    return spark.table("people").drop("tags").orderBy("id").toPandas()


@case
def an_empty_frame_as_arrow_and_pandas(spark: Any) -> Any:
    frame = spark.table("people").limit(0)
    return [frame.toArrow(), frame.select("id", "name").toPandas()]


@case
def a_frame_joined_with_a_table(spark: Any) -> Any:
    own = spark.createDataFrame([(1, "one"), (9, "nine")], "id INT, word STRING")
    return own.join(spark.table("people"), "id", "left").select("id", "word", "name")


@case
def schemas_from_texts(spark: Any) -> Any:
    from pyspark.sql.types import DataType, StructType

    texts = ("a INT, b ARRAY<STRUCT<c: STRING>>", "struct<x: decimal(3,1)>")
    return [
        StructType.fromDDL(text) if hasattr(StructType, "fromDDL") else DataType.fromDDL(text)
        for text in texts
    ]

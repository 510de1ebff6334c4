"""Rows that are too many to stand in a plan: clients send them ahead, each line of them in its own way."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as f

from spark_connect.case import case, refused

MIB = 1 << 20


def _table(rows: int = 300_000) -> pa.Table:
    """Some 24 bytes a row."""
    numbers = np.arange(rows)
    return pa.table({"n": numbers, "half": numbers / 2, "t": [f"t{n % 100}" for n in range(rows)]})


def _sums(frame: Any) -> Any:
    return frame.groupBy("t").agg(f.count("*"), f.sum("n"), f.sum("half")).orderBy("t").limit(3)


@case
def many_rows_of_arrow(spark: Any) -> Any:
    frame = spark.createDataFrame(_table())
    return [frame.schema, _sums(frame).collect(), frame.count()]


@case
def many_rows_of_pandas_and_a_schema(spark: Any) -> Any:
    rows = 200_000
    pandas = pd.DataFrame({"a": np.arange(rows), "b": [[n, None] for n in range(rows)]})
    frame = spark.createDataFrame(pandas, "a INT, b ARRAY<BIGINT>")
    return [frame.schema, frame.selectExpr("sum(a)", "sum(b[0])", "count(b[1])").collect()]


@case
def many_rows_of_objects(spark: Any) -> Any:
    frame = spark.createDataFrame(
        [(n, str(n), None) for n in range(60_000)], "n INT, t STRING, m MAP<INT, INT>"
    )
    return [frame.schema, frame.selectExpr("sum(n)", "max(length(t))", "count(m)").collect()]


@case
def many_rows_there_and_back(spark: Any) -> Any:
    table = _table()
    return spark.createDataFrame(table).orderBy("n").toArrow().equals(table)


@case
def many_rows_and_their_schema_alone(spark: Any) -> Any:
    frame = spark.createDataFrame(_table()).withColumn("more", f.lit(1))
    return [frame.columns, frame.isLocal(), frame.sameSemantics(frame)]


@case
def many_rows_joined_with_a_table_and_themselves(spark: Any) -> Any:
    frame = spark.createDataFrame(_table(100_000))
    twice = frame.alias("a").join(frame.alias("b"), "n").select("n", f.col("b.t").alias("t"), "a.half")
    people = spark.table("people").select(f.col("id").cast("bigint").alias("n"), "name")
    return [_sums(twice).collect(), people.join(frame, "n").select("n", "name", "t").orderBy("n").collect()]


@case
def many_rows_in_a_text(spark: Any) -> Any:
    return spark.sql("SELECT count(*) AS c, max(n) AS m FROM {rows}", rows=spark.createDataFrame(_table()))


@case
def many_rows_as_a_view(spark: Any) -> Any:
    spark.createDataFrame(_table()).createOrReplaceTempView("brought")
    return _sums(spark.sql("SELECT * FROM brought WHERE n > 10"))


@case
def many_rows_for_a_table(spark: Any) -> Any:
    frame = spark.createDataFrame(_table())
    frame.write.mode("overwrite").saveAsTable("brought_rows")
    frame.limit(10).writeTo("brought_rows").append()
    told = spark.table("brought_rows").selectExpr("count(*)", "sum(n)").collect()
    spark.sql("DROP TABLE brought_rows")
    return told


@case
def many_rows_sent_once_and_used_often(spark: Any) -> Any:
    frame = spark.createDataFrame(_table(100_000))
    return [frame.filter(f"n % 7 = {rest}").count() for rest in range(7)]


@case
def many_rows_that_differ_in_size(spark: Any) -> Any:
    texts = ["x" * (1 if n % 1000 else 50_000) for n in range(100_000)]
    return spark.createDataFrame(pa.table({"t": texts})).selectExpr("sum(length(t))", "max(length(t))")


@case
def forty_megabytes(spark: Any) -> Any:
    texts = [f"{n:06}" * 170 for n in range(40_000)]
    return spark.createDataFrame(pa.table({"t": texts})).selectExpr(
        "sum(length(t))", "max(t) = repeat('039999', 170)"
    )


@refused(
    "RESOURCE_EXHAUSTED",
    because="an engine holds the rows of a plan in its memory; more of them are brought in several parts",
)
def more_rows_than_a_plan_may_bring(spark: Any) -> Any:
    numbers = np.arange(80 * MIB // 8)
    return spark.createDataFrame(pa.table({"n": numbers})).count()

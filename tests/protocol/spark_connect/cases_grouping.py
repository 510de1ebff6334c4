# ruff: noqa: E501 - one case a line
"""Groups, windows, pivots and what is counted over all rows."""

from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as f

from spark_connect.case import case, several


def people(spark: Any) -> Any:
    return spark.table("people")


def orders(spark: Any) -> Any:
    return spark.table("orders")


def _agg(*made: Any, by: tuple[str, ...] = ("city",)) -> Any:
    return lambda spark: people(spark).groupBy(*by).agg(*(each() for each in made))


def _over(made: Any, window: Any) -> Any:
    return lambda spark: orders(spark).select("id", made().over(window()).alias("v"))


def _by_status() -> Any:
    return Window.partitionBy("status").orderBy("id")


def _all_rows() -> Any:
    return Window.orderBy("id").rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)


several(
    "grouping",
    {
        "count": lambda s: people(s).groupBy("city").count(),
        "shortcuts": lambda s: people(s).groupBy("city").sum("age", "id"),
        "average": lambda s: people(s).groupBy("city").avg("age"),
        "mean": lambda s: people(s).groupBy("city").mean("age"),
        "least": lambda s: people(s).groupby("city").min("age"),
        "greatest": lambda s: people(s).groupBy("city").max("age", "id"),
        "by an expression": lambda s: people(s).groupBy((f.col("id") % 2).alias("odd")).count(),
        "by position": lambda s: people(s).select("city", "age").groupBy(1).count(),
        "by nothing": lambda s: people(s).groupBy().agg(f.sum("id"), f.count("*")),
        "by a dictionary": lambda s: people(s).groupBy("city").agg({"age": "max", "*": "count"}),
        "of all": lambda s: people(s).agg(f.max("age"), f.min("name")),
        "sums": _agg(lambda: f.sum("salary"), lambda: f.sum_distinct("age"), lambda: f.try_sum("id")),
        "counts": _agg(lambda: f.count("age"), lambda: f.count_distinct("age"), lambda: f.countDistinct("age", "id"), lambda: f.count_if(f.col("age") > 30)),
        "approximate counts": _agg(lambda: f.approx_count_distinct("age")),
        "deviations": _agg(lambda: f.round(f.stddev("age"), 6), lambda: f.round(f.var_pop("age"), 6), lambda: f.round(f.skewness("age"), 6)),
        "lists": _agg(lambda: f.sort_array(f.collect_list("id")), lambda: f.sort_array(f.collect_set("age"))),
        "joined texts": _agg(lambda: f.listagg("name", f.lit(",")), by=("id",)),
        "booleans": _agg(lambda: f.bool_and(f.col("age") > 20), lambda: f.bool_or(f.col("age") > 50), lambda: f.every(f.col("id") > 0)),
        "by another column": _agg(lambda: f.max_by("name", "id"), lambda: f.min_by("name", "id")),
        "percentiles": _agg(lambda: f.percentile("age", 0.5), lambda: f.median("age"), lambda: f.percentile_approx("age", [0.25, 0.75], 100)),
        "mode": lambda s: people(s).agg(f.mode("age", deterministic=True)),
        "correlation": lambda s: orders(s).agg(f.round(f.corr("id", "amount"), 6), f.round(f.covar_samp("id", "amount"), 6)),
        "regression": lambda s: orders(s).agg(f.round(f.regr_slope("amount", "id"), 6), f.regr_count("amount", "id")),
        "bits": lambda s: people(s).agg(f.bit_and("id"), f.bit_or("id"), f.bit_xor("id")),
        "any value": lambda s: people(s).filter("id = 1").agg(f.any_value("name"), f.first("city"), f.last("city")),
        "first of those that are": lambda s: people(s).orderBy("id").agg(f.first("age", ignorenulls=True)),
        "histogram": lambda s: orders(s).agg(f.histogram_numeric("amount", f.lit(3))),
        "sketches": lambda s: people(s).agg(f.hll_sketch_estimate(f.hll_sketch_agg("id"))),
        "product": lambda s: people(s).filter("id < 5").agg(f.product("id")),
        "rollup": lambda s: people(s).rollup("city", "age").count(),
        "cube": lambda s: people(s).cube("city", "age").agg(f.grouping("city"), f.grouping_id(), f.sum("id")),
        "grouping sets": lambda s: people(s).groupingSets([("city",), ("age",), ()], "city", "age").agg(f.count("*")),
        "having": lambda s: people(s).groupBy("city").agg(f.count("*").alias("n")).filter("n > 1"),
        "pivot": lambda s: orders(s).groupBy("person_id").pivot("status").sum("amount"),
        "pivot of values": lambda s: orders(s).groupBy("person_id").pivot("status", ["open", "late"]).agg(f.count("id"), f.max("amount")),
        "row number": _over(f.row_number, _by_status),
        "ranks": lambda s: people(s).select("id", f.rank().over(Window.orderBy("age")), f.dense_rank().over(Window.orderBy("age")), f.percent_rank().over(Window.orderBy("age"))),
        "tiles": _over(lambda: f.ntile(3), _by_status),
        "cumulative distribution": _over(f.cume_dist, _by_status),
        "lag": _over(lambda: f.lag("amount", 1, -1.0), _by_status),
        "lead": _over(lambda: f.lead("amount"), _by_status),
        "nth value": _over(lambda: f.nth_value("amount", 2), _by_status),
        "running sum": _over(lambda: f.sum("amount"), lambda: _by_status().rowsBetween(-2, 0)),
        "range frame": _over(lambda: f.sum("amount"), lambda: Window.orderBy("id").rangeBetween(-3, Window.currentRow)),
        "window spec": _over(lambda: f.sum("amount"), lambda: Window.orderBy("id").partitionBy("status").rangeBetween(-4, 0)),
        "whole frame": _over(lambda: f.max("amount"), _all_rows),
        "window without order": _over(lambda: f.count("*"), lambda: Window.partitionBy("status")),
        "tumbling windows": lambda s: people(s).groupBy(f.window("joined", "365 days")).count(),
        "sliding windows": lambda s: people(s).filter("id = 1").groupBy(f.window("joined", "2 hours", "1 hour")).count(),
        "session windows": lambda s: people(s).groupBy(f.session_window("joined", "400 days")).count(),
        "describe": lambda s: people(s).describe("age", "name"),
        "summary": lambda s: people(s).summary("count", "min", "25%", "max"),
        "quantiles": lambda s: orders(s).approxQuantile("amount", [0.0, 0.5, 1.0], 0.0),
        "quantiles of several": lambda s: orders(s).approxQuantile(["amount", "id"], [0.5], 0.0),
        "correlation of columns": lambda s: round(orders(s).corr("id", "amount"), 9),
        "covariance of columns": lambda s: round(orders(s).cov("id", "amount"), 9),
        "cross table": lambda s: people(s).crosstab("city", "age"),
        "statistics by stat": lambda s: [round(orders(s).stat.corr("id", "amount"), 9), round(orders(s).stat.cov("id", "amount"), 9), orders(s).stat.approxQuantile("id", [0.5], 0.0)],
    },
)  # fmt: skip


@case
def an_observation(spark: Any) -> Any:
    from pyspark.sql import Observation

    seen = Observation("seen")
    rows = (
        people(spark)
        .observe(seen, f.count("*").alias("n"), f.max("age").alias("top"))
        .filter("id > 6")
        .collect()
    )
    return [len(rows), seen.get]


@case
def a_named_observation(spark: Any) -> Any:
    frame = people(spark).observe("counted", f.sum("id").alias("s"))
    rows = frame.collect()
    told = frame.executionInfo
    return [len(rows), told is not None]

# ruff: noqa: E501 - one case a line
"""Missing values, replacing, melting and turning round."""

from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import several


def people(spark: Any) -> Any:
    return spark.table("people")


def _ages(spark: Any) -> Any:
    return people(spark).select("id", "age", f.col("salary").cast("int").alias("pay"))


def _sorted(items: Any) -> Any:
    return items.select(*(f.sort_array(name) for name in items.columns))


several(
    "reshaping",
    {
        "drop nulls": lambda s: people(s).na.drop().select("id"),
        "drop rows of nulls only": lambda s: people(s).select("age", "city").dropna(how="all"),
        "drop below a count": lambda s: people(s).select("id", "age", "city").dropna(thresh=3),
        "drop nulls of columns": lambda s: people(s).dropna(subset=["city"]).select("id"),
        "fill": lambda s: people(s).select("id", "age", "city").fillna(0),
        "fill texts": lambda s: people(s).select("id", "age", "city").na.fill("none"),
        "fill by column": lambda s: people(s).select("age", "city").fillna({"age": -1, "city": "?"}),
        "replace": lambda s: people(s).select("id", "city").replace("Oslo", "Bergen"),
        "replace several": lambda s: people(s).select("age").na.replace([28, 36], [1, 2]),
        "replace by a dictionary": lambda s: people(s).select("city").replace({"Oslo": "A", "Rome": None}),
        "unpivot": lambda s: _ages(s).unpivot("id", ["age", "pay"], "what", "value"),
        "unpivot of all": lambda s: _ages(s).unpivot("id", None, "what", "value"),
        "melt": lambda s: _ages(s).melt(["id"], ["age"], "what", "value"),
        "explode": lambda s: people(s).select("id", f.explode("tags").alias("tag")),
        "explode outer": lambda s: people(s).select("id", f.explode_outer("tags").alias("tag")),
        "posexplode": lambda s: people(s).select("id", f.posexplode("tags")),
        "explode of a map": lambda s: s.table("nested").select("id", f.explode("scores")),
        "inline": lambda s: s.table("nested").select("id", f.inline("items")),
        "stack": lambda s: people(s).select(f.stack(f.lit(2), "id", "name", "age", "city")),
        "flattened structs": lambda s: s.table("nested").select("home.*", "home.zip.*"),
        "json tuple": lambda s: s.table("nested").select(f.json_tuple("json", "n", "deep")),
        "frequent items": lambda s: _sorted(people(s).freqItems(["city", "age"], 0.3)),
        "frequent items by stat": lambda s: _sorted(people(s).stat.freqItems(["city", "age"], 0.3)),
        "a stratified sample": lambda s: people(s).sampleBy("id", {1: 1.0, 2: 0.5, 3: 0.5, 4: 0.0}, 3).select("id"),
        "a stratified sample by stat": lambda s: people(s).stat.sampleBy(f.col("city"), {"Oslo": 0.9}, 7).select("id"),
        "a stratified sample of texts": lambda s: people(s).sampleBy("city", {"Oslo": 1.0, "Rome": 0.0}, 1).select("id"),
        "transpose": lambda s: _ages(s).orderBy("id").transpose(),
        "transpose by a column": lambda s: people(s).filter("name IS NOT NULL").select("age", "name", "id").transpose("name"),
        "transpose of few": lambda s: s.createDataFrame([("a", 1), ("b", 3)], "k STRING, x INT").transpose().collect(),
        "a watermark of a table": lambda s: people(s).withWatermark("joined", "1 hour").groupBy("city").count(),
        "dedupe and count": lambda s: people(s).select("city").drop_duplicates().count(),
    },
)  # fmt: skip

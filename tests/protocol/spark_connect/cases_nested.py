# ruff: noqa: E501 - one case a line
"""Arrays, maps, structs, JSON, CSV, XML, variants, and functions that take functions."""

from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import several


def _people(*made: Any) -> Any:
    return lambda spark: spark.table("people").select("id", *(each() for each in made))


def _nested(*made: Any) -> Any:
    return lambda spark: spark.table("nested").select("id", *(each() for each in made))


several(
    "nested",
    {
        "array of columns": _people(lambda: f.array("id", "age"), lambda: f.array_repeat("name", 2)),
        "array membership": _people(lambda: f.array_contains("tags", "a"), lambda: f.array_position("tags", "a")),
        "array sizes": _people(lambda: f.size("tags"), lambda: f.array_size("tags"), lambda: f.cardinality("tags")),
        "array changes": _people(lambda: f.array_append("tags", f.lit("z")), lambda: f.array_prepend("tags", f.lit("y")), lambda: f.array_remove("tags", "a")),
        "array sets": _people(lambda: f.array_union("tags", f.array(f.lit("q"))), lambda: f.array_except("tags", f.array(f.lit("a"))), lambda: f.array_distinct("tags")),
        "array order": _people(lambda: f.array_sort("tags"), lambda: f.sort_array("tags", asc=False), lambda: f.array_max("tags"), lambda: f.array_min("tags")),
        "array parts": _people(lambda: f.slice("tags", 1, 1), lambda: f.get("tags", f.lit(0)), lambda: f.try_element_at("tags", f.lit(9))),
        "array joins": _people(lambda: f.array_join("tags", "|", "?"), lambda: f.flatten(f.array("tags", "tags")), lambda: f.arrays_overlap("tags", f.array(f.lit("a")))),
        "arrays zipped": _people(lambda: f.arrays_zip("tags", f.array(f.lit(1))), lambda: f.array_compact("tags"), lambda: f.array_insert("tags", 1, "n")),
        "sequence": lambda s: s.range(1).select(f.sequence(f.lit(1), f.lit(9), f.lit(4))),
        "transform": _people(lambda: f.transform("tags", lambda t: f.concat(f.upper(t), t))),
        "transform with a place": _people(lambda: f.transform("tags", lambda t, place: f.concat(t, place.cast("string")))),
        "filter": _people(lambda: f.filter("tags", lambda t: t > "a")),
        "exists and for all": _people(lambda: f.exists("tags", lambda t: t == "a"), lambda: f.forall("tags", lambda t: t.isNotNull())),
        "aggregate": _people(lambda: f.aggregate("tags", f.lit(0), lambda total, t: total + f.length(t), lambda total: total * 10)),
        "reduce": _nested(lambda: f.reduce(f.map_values("scores"), f.lit(0), lambda total, v: total + v)),
        "zip with": _people(lambda: f.zip_with("tags", f.array(f.lit("1"), f.lit("2")), lambda a, b: f.concat_ws("", a, b))),
        "sort with a function": _people(lambda: f.array_sort("tags", lambda a, b: f.when(a < b, 1).when(a > b, -1).otherwise(0))),
        "nested lambdas": _people(lambda: f.transform("tags", lambda t: f.transform(f.array(t, t), lambda u: f.concat(t, u)))),
        "map of columns": _people(lambda: f.create_map(f.lit("id"), "id"), lambda: f.map_from_arrays(f.array(f.lit("k")), f.array("id"))),
        "map keys and values": _nested(lambda: f.map_keys("scores"), lambda: f.map_values("scores"), lambda: f.map_entries("scores")),
        "map lookups": _nested(lambda: f.element_at("scores", "a"), lambda: f.map_contains_key("scores", "z"), lambda: f.map_concat("scores", f.create_map(f.lit("c"), f.lit(0)))),
        "map functions": _nested(lambda: f.transform_values("scores", lambda _k, v: v + 1), lambda: f.transform_keys("scores", lambda k, _v: f.upper(k)), lambda: f.map_filter("scores", lambda _k, v: v > 3)),
        "maps zipped": _nested(lambda: f.map_zip_with("scores", "scores", lambda _k, a, b: a + b)),
        "map from texts": lambda s: s.range(1).select(f.str_to_map(f.lit("a:1,b:2"))),
        "structs": _people(lambda: f.struct("id", "name"), lambda: f.named_struct(f.lit("x"), "id")),
        "to json": _nested(lambda: f.to_json("home"), lambda: f.to_json("scores"), lambda: f.to_json("items")),
        "from json": _nested(lambda: f.from_json("json", "n INT, deep STRUCT<t: STRING>")),
        "from json with a type": _nested(lambda: f.from_json("json", _schema())),
        "schema of json": lambda s: s.range(1).select(f.schema_of_json(f.lit('{"a": [1, 2.5]}'))),
        "json paths": _nested(lambda: f.get_json_object("json", "$.list[1]"), lambda: f.json_object_keys("json"), lambda: f.json_array_length(f.lit("[1]"))),
        "csv": lambda s: s.range(1).select(f.from_csv(f.lit("1,a"), "n INT, t STRING"), f.to_csv(f.struct(f.lit(1), f.lit("b"))), f.schema_of_csv(f.lit("1,a"))),
        "xml": lambda s: s.range(1).select(f.from_xml(f.lit("<p><a>1</a></p>"), "a INT"), f.to_xml(f.struct(f.lit(1).alias("a")))),
        "xpath": lambda s: s.range(1).select(f.xpath(f.lit("<a><b>1</b><b>2</b></a>"), f.lit("a/b/text()")), f.xpath_int(f.lit("<a>3</a>"), f.lit("a"))),
        "variants": _nested(lambda: f.variant_get(f.parse_json("json"), "$.n", "int"), lambda: f.schema_of_variant(f.parse_json("json")), lambda: f.to_json(f.parse_json("json"))),
        "variants that may fail": lambda s: s.range(1).select(f.is_variant_null(f.try_parse_json(f.lit("{bad")))),
        "struct in a filter": lambda s: s.table("nested").filter(f.col("home.zip.code") > 15).select("home.zip.code"),
        "order by a struct": lambda s: [row.id for row in s.table("nested").orderBy(f.col("home").desc()).collect()],
        "group by an array": lambda s: s.table("people").groupBy("tags").count(),
        "join on a field": lambda s: s.table("nested").alias("a").join(s.table("nested").alias("b"), f.col("a.home.zip.code") == f.col("b.home.zip.code")).select("a.id", "b.id"),
    },
)  # fmt: skip


def _schema() -> Any:
    from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

    return StructType([StructField("n", IntegerType()), StructField("list", ArrayType(IntegerType()))])

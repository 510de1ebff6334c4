# ruff: noqa: E501 - one case a line
"""DataFrames: choosing rows and columns, joining, sets, and the ways to get at the rows."""

from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import case, several, since


def people(spark: Any) -> Any:
    return spark.table("people")


def orders(spark: Any) -> Any:
    return spark.table("orders")


several(
    "frames",
    {
        "select names": lambda s: people(s).select("id", "name"),
        "select columns": lambda s: _by_attribute(people(s)),
        "select star": lambda s: people(s).select("*", f.lit(1).alias("one")),
        "select expressions": lambda s: people(s).selectExpr("id * 2 AS twice", "upper(name)"),
        "item": lambda s: _by_item(people(s)),
        "filter by text": lambda s: people(s).filter("age > 30"),
        "filter by column": lambda s: people(s).where((f.col("age") > 30) & ~f.col("city").isNull()),
        "limit": lambda s: people(s).orderBy("id").limit(3),
        "offset": lambda s: people(s).orderBy("id").offset(5),
        "limit of zero": lambda s: people(s).limit(0),
        "distinct": lambda s: people(s).select("city").distinct(),
        "drop duplicates": lambda s: people(s).orderBy("id").select("city", "age").dropDuplicates(),
        "drop duplicates of a column": lambda s: orders(s).dropDuplicates(["status"]).select("status"),
        "drop": lambda s: people(s).drop("tags", "born").drop(f.col("joined")),
        "drop what is not there": lambda s: people(s).drop("nothing"),
        "with column": lambda s: people(s).withColumn("next", f.col("age") + 1).select("id", "next"),
        "with columns": lambda s: people(s).withColumns({"a": f.lit(1), "b": f.col("id")}).select("a", "b"),
        "renamed": lambda s: people(s).withColumnRenamed("name", "who").select("who"),
        "several renamed": lambda s: people(s).withColumnsRenamed({"name": "who", "id": "no"}).select("who", "no"),
        "to df": lambda s: people(s).select("id", "name").toDF("a", "b"),
        "aliases": lambda s: people(s).alias("p").select("p.id", "p.name"),
        "regular expression of columns": lambda s: people(s).select(people(s).colRegex("`(na|ci).*`")),
        "inner join": lambda s: _of_people(s, "inner").select("name", "amount"),
        "join by name": lambda s: people(s).join(s.table("nested"), "id").select("id", "name", "home.street"),
        "join by names": lambda s: people(s).select("id", "city").join(people(s).select("id", "city", "age"), ["id", "city"]),
        "left join": lambda s: _joined(s, "left"),
        "right join": lambda s: _joined(s, "right"),
        "full join": lambda s: _joined(s, "full"),
        "semi join": lambda s: _of_people(s, "left_semi").select("id"),
        "anti join": lambda s: _of_people(s, "left_anti").select("id"),
        "cross join": lambda s: people(s).select("id").crossJoin(s.range(2).toDF("n")),
        "self join": lambda s: _pairs(s, "city"),
        "broadcast join": lambda s: orders(s).join(f.broadcast(people(s).select(f.col("id").alias("person_id"), "name")), "person_id"),
        "hint": lambda s: people(s).hint("broadcast").join(s.table("nested"), "id").select("id"),
        "union": lambda s: people(s).select("id").union(s.table("nested").select("id")),
        "union all": lambda s: people(s).select("id").unionAll(s.table("nested").select("id")),
        "metadata column": lambda s: _positions(people(s)),
        "union by name": lambda s: people(s).select("id", "name").unionByName(people(s).select("name", "id")),
        "union with missing columns": lambda s: people(s).select("id").unionByName(people(s).select("age"), allowMissingColumns=True),
        "intersect": lambda s: people(s).select("id").intersect(orders(s).select("person_id")),
        "intersect all": lambda s: orders(s).select("person_id").intersectAll(orders(s).select("id")),
        "subtract": lambda s: orders(s).select("person_id").subtract(people(s).select("id")),
        "except all": lambda s: orders(s).select("person_id").exceptAll(people(s).select("id")),
        "range": lambda s: s.range(3, 30, 5),
        "range with partitions": lambda s: s.range(0, 10, 1, 3).agg(f.sum("id")),
        "repartition": lambda s: people(s).repartition(3).select("id"),
        "repartition by column": lambda s: people(s).repartition(2, "city").select("id"),
        "repartition by range": lambda s: people(s).repartitionByRange(2, "id").select("id"),
        "coalesce": lambda s: people(s).coalesce(1).select("id"),
        "sort within partitions": lambda s: people(s).coalesce(1).sortWithinPartitions("id").select("id"),
        "transform": lambda s: people(s).transform(lambda frame, n: frame.filter(f.col("id") < n), 3).select("id"),
        "to a schema": lambda s: people(s).select("name", "id").to(_schema()),
        "sample of all": lambda s: people(s).sample(1.0).select("id"),
        "seeded sample": lambda s: s.range(0, 100, 1, 1).sample(False, 0.2, 42),
        "sample with replacement": lambda s: s.range(0, 50, 1, 1).sample(True, 0.5, 7),
        "a frame of nothing": lambda s: s.createDataFrame([], "a INT, b STRING"),
        "with metadata": lambda s: people(s).select("id").withMetadata("id", {"k": 1}),
        "drop duplicates in a watermark": lambda s: people(s).select("id").dropDuplicates(["id"]),
        "table function": lambda s: s.tvf.explode(f.array(f.lit(1), f.lit(2))),
        "table function range": lambda s: s.tvf.range(1, 4),
        "table function inline": lambda s: s.tvf.inline(f.array(f.struct(f.lit(1), f.lit("a")))),
        "table function stack": lambda s: s.tvf.stack(f.lit(2), f.lit(1), f.lit(2), f.lit(3)),
    },
)  # fmt: skip


def _schema() -> Any:
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    return StructType([StructField("id", IntegerType()), StructField("name", StringType())])


def _by_attribute(frame: Any) -> Any:
    return frame.select(frame.id + 1, frame.name)


def _positions(frame: Any) -> Any:
    return frame.select("id", frame.metadataColumn("_pos").isNotNull())


def _of_people(spark: Any, how: str) -> Any:
    everybody, some = people(spark), orders(spark)
    return everybody.join(some, everybody.id == some.person_id, how)


def _by_item(frame: Any) -> Any:
    return frame[frame["age"] > 30][["id", "age"]]


def _joined(spark: Any, how: str) -> Any:
    some = orders(spark).filter("amount > 6").alias("o")
    everybody = people(spark).alias("p")
    return everybody.join(some, f.col("p.id") == f.col("o.person_id"), how).select("p.id", "o.id", "o.status")


def _pairs(spark: Any, column: str) -> Any:
    left, right = people(spark).alias("a"), people(spark).alias("b")
    same = (f.col(f"a.{column}") == f.col(f"b.{column}")) & (f.col("a.id") < f.col("b.id"))
    return left.join(right, same).select("a.id", "b.id", "a.city")


@case
def order_by(spark: Any) -> Any:
    return people(spark).orderBy(f.col("age").desc_nulls_last(), "id").select("id").collect()


@case
def order_by_descending_names(spark: Any) -> Any:
    return people(spark).sort("city", "id", ascending=[False, True]).select("id", "city").collect()


@case
def head_first_take_and_tail(spark: Any) -> Any:
    frame = people(spark).select("id").orderBy("id")
    return [frame.head(), frame.head(2), frame.first(), frame.take(3), frame.tail(2), frame.limit(0).first()]


@case
def count_and_emptiness(spark: Any) -> Any:
    return [people(spark).count(), people(spark).isEmpty(), people(spark).limit(0).isEmpty()]


@case
def a_local_iterator(spark: Any) -> Any:
    return [row.id for row in people(spark).select("id").orderBy("id").toLocalIterator()]


@case
def a_local_iterator_that_reads_ahead(spark: Any) -> Any:
    return sum(row.id for row in spark.range(5000).toLocalIterator(prefetchPartitions=True))


@case
def a_random_split_is_whole(spark: Any) -> Any:
    parts = spark.range(0, 200, 1, 1).randomSplit([1.0, 3.0], seed=5)
    return [part.count() for part in parts]


@case
def columns_types_and_schema(spark: Any) -> Any:
    frame = people(spark)
    return [frame.columns, frame.dtypes, frame.schema]


@case
def a_printed_schema(spark: Any) -> Any:
    return _printed(lambda: spark.table("nested").printSchema())


@case
def a_printed_schema_of_two_levels(spark: Any) -> Any:
    return _printed(lambda: spark.table("nested").printSchema(2))


@case
def shown_rows(spark: Any) -> Any:
    return _printed(lambda: people(spark).orderBy("id").show())


@case
def shown_rows_in_full(spark: Any) -> Any:
    return _printed(lambda: people(spark).select("id", "name", "tags").orderBy("id").show(3, truncate=False))


@case
def shown_rows_cut_and_upright(spark: Any) -> Any:
    return _printed(lambda: people(spark).orderBy("id").show(2, truncate=4, vertical=True))


@case
def repr_of_a_frame(spark: Any) -> Any:
    return repr(people(spark).select("id", "salary"))


@case
def semantics(spark: Any) -> Any:
    one, same, other = (people(spark).filter(f.col("id") > n).select("id") for n in (1, 1, 2))
    return [one.sameSemantics(same), one.sameSemantics(other), one.semanticHash() == same.semanticHash()]


@case
def locality(spark: Any) -> Any:
    return [
        people(spark).isLocal(),
        people(spark).isStreaming,
        spark.createDataFrame([(1,)], "a INT").isLocal(),
    ]


@case
def an_explained_plan_is_a_plan(spark: Any) -> Any:
    frame = people(spark).filter("id > 3").select("id")
    texts = [
        _printed(lambda mode=mode: frame.explain(mode))
        for mode in ("simple", "extended", "cost", "formatted")
    ]
    return ["== Physical Plan ==" in text for text in texts]


@case
def a_scalar_subquery(spark: Any) -> Any:
    top = orders(spark).agg(f.max("amount")).scalar()
    return orders(spark).filter(f.col("amount") == top).select("id")


@case
def a_correlated_scalar_subquery(spark: Any) -> Any:
    mine = orders(spark).filter(f.col("person_id") == f.col("p.id").outer()).agg(f.count("*")).scalar()
    return people(spark).alias("p").select("id", mine.alias("n"))


@case
def an_exists_subquery(spark: Any) -> Any:
    big = (
        orders(spark).filter((f.col("person_id") == f.col("p.id").outer()) & (f.col("amount") > 11)).exists()
    )
    return people(spark).alias("p").filter(big).select("id")


@case
def a_lateral_join(spark: Any) -> Any:
    mine = orders(spark).filter(f.col("person_id") == f.col("p.id").outer()).select("amount")
    return (
        people(spark)
        .alias("p")
        .lateralJoin(mine.agg(f.max("amount").alias("top")), how="left")
        .select("id", "top")
    )


def _printed(work: Any) -> str:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as said:
        work()
    return said.getvalue()


@since(4, 1)
def partitions_by_their_number(spark: Any) -> Any:
    frame = spark.range(6).repartitionById(3, (f.col("id") % 3).cast("int"))
    return frame.select("id", f.spark_partition_id().alias("at"))

"""Temporary views: made of frames and by SQL, seen by this session only."""

from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import case


def _dropped(spark: Any, name: str, value: Any) -> Any:
    spark.catalog.dropTempView(name)
    return value


@case
def a_view_of_a_frame(spark: Any) -> Any:
    spark.table("people").filter("age > 30").createOrReplaceTempView("v_frame")
    return _dropped(spark, "v_frame", spark.sql("SELECT id FROM v_frame").collect())


@case
def a_view_is_a_table(spark: Any) -> Any:
    spark.range(3).createTempView("v_table")
    return _dropped(spark, "v_table", [spark.table("v_table").count(), spark.catalog.tableExists("v_table")])


@case
def a_view_of_local_rows(spark: Any) -> Any:
    spark.createDataFrame([(1, "a")], "n INT, t STRING").createOrReplaceTempView("v_rows")
    return _dropped(spark, "v_rows", spark.sql("SELECT * FROM v_rows").collect())


@case
def a_view_of_a_view(spark: Any) -> Any:
    spark.table("orders").filter("amount > 5").createOrReplaceTempView("v_one")
    spark.sql("SELECT status, sum(amount) AS s FROM v_one GROUP BY status").createOrReplaceTempView("v_two")
    rows = sorted(spark.sql("SELECT * FROM v_two").collect(), key=str)
    spark.catalog.dropTempView("v_one")
    return _dropped(spark, "v_two", rows)


@case
def a_view_that_is_replaced(spark: Any) -> Any:
    spark.range(1).createOrReplaceTempView("v_replaced")
    spark.range(5).createOrReplaceTempView("v_replaced")
    return _dropped(spark, "v_replaced", spark.table("v_replaced").count())


@case
def a_view_by_sql(spark: Any) -> Any:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW v_sql AS SELECT id, upper(name) AS n FROM people")
    return _dropped(spark, "v_sql", spark.table("v_sql").orderBy("id").collect())


@case
def a_view_dropped_by_sql(spark: Any) -> Any:
    spark.range(1).createOrReplaceTempView("v_dropped")
    spark.sql("DROP VIEW v_dropped")
    return spark.catalog.tableExists("v_dropped")


@case
def a_view_that_is_gone(spark: Any) -> Any:
    spark.range(1).createOrReplaceTempView("v_gone")
    spark.catalog.dropTempView("v_gone")
    return spark.table("v_gone").collect()


@case
def a_view_hides_a_table(spark: Any) -> Any:
    spark.range(2).createOrReplaceTempView("nested")
    seen = [spark.table("nested").count(), spark.table("lake.clients.nested").count()]
    return _dropped(spark, "nested", seen)


@case
def a_view_with_a_join_and_a_window(spark: Any) -> Any:
    from pyspark.sql import Window

    ranked = spark.table("orders").withColumn(
        "r", f.row_number().over(Window.partitionBy("person_id").orderBy("id"))
    )
    ranked.join(
        spark.table("people").withColumnRenamed("id", "person_id"), "person_id"
    ).createOrReplaceTempView("v_join")
    return _dropped(spark, "v_join", spark.sql("SELECT count(*) AS n, max(r) AS m FROM v_join").collect())


@case
def a_view_that_sees_new_rows(spark: Any) -> Any:
    spark.sql("CREATE OR REPLACE TABLE v_growing (n INT) USING iceberg")
    spark.sql("CREATE OR REPLACE TEMP VIEW v_grown AS SELECT * FROM v_growing")
    before = spark.table("v_grown").count()
    spark.sql("INSERT INTO v_growing VALUES (1)")
    return _dropped(spark, "v_grown", [before, spark.table("v_grown").count()])


@case
def writing_from_a_view(spark: Any) -> Any:
    spark.table("people").select("id", "name").createOrReplaceTempView("v_source")
    spark.sql("CREATE OR REPLACE TABLE v_target USING iceberg AS SELECT * FROM v_source")
    return _dropped(spark, "v_source", spark.table("v_target").count())


@case
def a_registered_temp_table(spark: Any) -> Any:
    spark.range(4).registerTempTable("v_old")
    return _dropped(spark, "v_old", spark.table("v_old").count())

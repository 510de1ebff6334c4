"""Writing frames to tables of the lake, in every mode."""

from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import case


def _some(spark: Any, first: int, last: int) -> Any:
    return spark.range(first, last).select(
        f.col("id").cast("int").alias("id"), (f.col("id") % 2).alias("odd")
    )


def _gone(spark: Any, name: str) -> str:
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    return name


def _existing(spark: Any, name: str) -> str:
    spark.sql(f"CREATE OR REPLACE TABLE {name} (id INT, odd BIGINT) USING iceberg")
    spark.sql(f"INSERT INTO {name} VALUES (100, 1)")
    return name


@case
def save_as_table(spark: Any) -> Any:
    _some(spark, 0, 3).write.saveAsTable(_gone(spark, "w_new"))
    return spark.table("w_new")


@case
def save_as_table_by_its_full_name(spark: Any) -> Any:
    _gone(spark, "w_full")
    _some(spark, 0, 2).write.format("iceberg").saveAsTable("lake.clients.w_full")
    return spark.table("w_full")


@case
def append(spark: Any) -> Any:
    _some(spark, 0, 3).write.mode("append").saveAsTable(_existing(spark, "w_append"))
    return spark.table("w_append")


@case
def append_by_name(spark: Any) -> Any:
    _some(spark, 0, 2).select("odd", "id").write.mode("append").saveAsTable(_existing(spark, "w_by_name"))
    return spark.table("w_by_name")


@case
def overwrite(spark: Any) -> Any:
    _some(spark, 5, 7).write.mode("overwrite").saveAsTable(_existing(spark, "w_overwrite"))
    return spark.table("w_overwrite")


@case
def ignore(spark: Any) -> Any:
    _some(spark, 0, 3).write.mode("ignore").saveAsTable(_existing(spark, "w_ignore"))
    return spark.table("w_ignore")


@case
def error_if_it_exists(spark: Any) -> Any:
    _some(spark, 0, 3).write.mode("error").saveAsTable(_existing(spark, "w_error"))


@case
def partitioned(spark: Any) -> Any:
    _some(spark, 0, 6).write.partitionBy("odd").saveAsTable(_gone(spark, "w_parted"))
    return spark.table("w_parted")


@case
def insert_into(spark: Any) -> Any:
    _some(spark, 0, 3).write.insertInto(_existing(spark, "w_insert"))
    return spark.table("w_insert")


@case
def insert_into_by_position(spark: Any) -> Any:
    _some(spark, 0, 2).toDF("x", "y").write.insertInto(_existing(spark, "w_position"))
    return spark.table("w_position")


@case
def insert_and_overwrite(spark: Any) -> Any:
    _some(spark, 0, 3).write.insertInto(_existing(spark, "w_insert_over"), overwrite=True)
    return spark.table("w_insert_over")


@case
def write_to_create(spark: Any) -> Any:
    _some(spark, 0, 3).writeTo(_gone(spark, "w_create")).using("iceberg").create()
    return spark.table("w_create")


@case
def write_to_create_with_properties(spark: Any) -> Any:
    name = _gone(spark, "w_properties")
    _some(spark, 0, 3).writeTo(name).tableProperty("owner-team", "a").partitionedBy(f.col("odd")).create()
    rows = spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    return [spark.table(name).count(), [row.value for row in rows if row.key == "owner-team"]]


@case
def write_to_with_transforms(spark: Any) -> Any:
    frame = spark.table("people").select("id", "joined").filter("joined IS NOT NULL")
    frame.writeTo(_gone(spark, "w_transforms")).partitionedBy(f.years("joined"), f.bucket(4, "id")).create()
    return spark.table("w_transforms").count()


@case
def write_to_append(spark: Any) -> Any:
    _some(spark, 0, 3).writeTo(_existing(spark, "w_to_append")).append()
    return spark.table("w_to_append")


@case
def write_to_append_with_an_option(spark: Any) -> Any:
    _some(spark, 0, 3).writeTo(_existing(spark, "w_option")).option("check-ordering", "false").append()
    return spark.table("w_option")


@case
def write_to_overwrite(spark: Any) -> Any:
    name = _existing(spark, "w_to_over")
    _some(spark, 0, 2).writeTo(name).overwrite(f.col("id") == 100)
    return spark.table(name)


@case
def write_to_overwrite_partitions(spark: Any) -> Any:
    name = _gone(spark, "w_parts")
    _some(spark, 0, 6).writeTo(name).partitionedBy(f.col("odd")).create()
    _some(spark, 10, 11).writeTo(name).overwritePartitions()
    return spark.table(name)


@case
def write_to_replace(spark: Any) -> Any:
    name = _existing(spark, "w_replace")
    spark.range(2).writeTo(name).replace()
    return spark.table(name)


@case
def write_to_create_or_replace(spark: Any) -> Any:
    name = _gone(spark, "w_cor")
    _some(spark, 0, 3).writeTo(name).createOrReplace()
    spark.range(2).writeTo(name).createOrReplace()
    return spark.table(name)


@case
def create_what_exists(spark: Any) -> Any:
    _some(spark, 0, 3).writeTo(_existing(spark, "w_exists")).create()


@case
def append_to_what_is_not_there(spark: Any) -> Any:
    _some(spark, 0, 3).writeTo(_gone(spark, "w_not_there")).append()


@case
def append_too_many_columns(spark: Any) -> Any:
    name = _existing(spark, "w_columns")
    _some(spark, 0, 3).withColumn("more", f.lit(1)).writeTo(name).append()


@case
def merge_into(spark: Any) -> Any:
    name = _existing(spark, "w_merge")
    source = _some(spark, 99, 102).alias("s")
    merge = source.mergeInto(name, f.expr(f"s.id = {name}.id"))
    merge.whenMatched().update({"odd": f.col("s.odd") + 50}).whenNotMatched().insertAll().merge()
    return spark.table(name)


@case
def merge_into_by_source(spark: Any) -> Any:
    name = _existing(spark, "w_merge_source")
    merge = _some(spark, 1, 2).alias("s").mergeInto(name, f.expr(f"s.id = {name}.id"))
    merge.whenNotMatched().insert(
        {"id": f.col("s.id"), "odd": f.lit(7)}
    ).whenNotMatchedBySource().delete().merge()
    return spark.table(name)


@case
def a_table_written_from_a_frame_of_rows(spark: Any) -> Any:
    made = spark.createDataFrame([(1, "a", [1.5]), (2, None, None)], "n INT, t STRING, l ARRAY<DOUBLE>")
    made.write.saveAsTable(_gone(spark, "w_rows"))
    return spark.table("w_rows")


@case
def a_table_written_from_itself(spark: Any) -> Any:
    name = _existing(spark, "w_itself")
    spark.table(name).select((f.col("id") + 1).cast("int").alias("id"), "odd").writeTo(name).append()
    return spark.table(name)


@case
def reading_what_was_written_at_a_version(spark: Any) -> Any:
    name = _existing(spark, "w_version")
    first = spark.sql(
        f"SELECT snapshot_id FROM lake.clients.{name}.snapshots ORDER BY committed_at DESC"
    ).first()[0]
    _some(spark, 0, 3).writeTo(name).append()
    return [spark.read.option("versionAsOf", first).table(name).count(), spark.table(name).count()]


@case
def a_reader_of_tables(spark: Any) -> Any:
    return spark.read.table("people").select("id")


@case
def a_written_struct(spark: Any) -> Any:
    spark.table("nested").select("id", "home", "items", "scores").write.saveAsTable(_gone(spark, "w_nested"))
    return spark.table("w_nested")


@case
def options_of_a_writer(spark: Any) -> Any:
    name = _existing(spark, "w_options")
    writer = (
        _some(spark, 0, 3).write.option("check-ordering", "false").options(**{"check-nullability": "true"})
    )
    writer.mode("append").saveAsTable(name)
    return spark.table(name)


@case
def write_to_append_with_options(spark: Any) -> Any:
    name = _existing(spark, "w_to_options")
    _some(spark, 0, 3).writeTo(name).options(**{"check-ordering": "false"}).append()
    return spark.table(name)


@case
def write_to_a_clustered_table(spark: Any) -> Any:
    _some(spark, 0, 3).writeTo(_gone(spark, "w_clustered")).clusterBy("id").create()
    return spark.table("w_clustered")


@case
def write_to_with_more_transforms(spark: Any) -> Any:
    frame = spark.table("people").select("id", "joined", "born").filter("joined IS NOT NULL")
    for number, transform in enumerate((f.months("joined"), f.days("joined"), f.hours("joined"))):
        frame.writeTo(_gone(spark, f"w_transform_{number}")).partitionedBy(transform).create()
    return [spark.table(f"w_transform_{number}").count() for number in range(3)]


@case
def merge_into_with_schema_evolution(spark: Any) -> Any:
    name = _existing(spark, "w_evolving")
    merge = _some(spark, 1, 3).alias("s").mergeInto(name, f.expr(f"s.id = {name}.id"))
    merge.whenNotMatched().insertAll().withSchemaEvolution().merge()
    return spark.table(name)


@case
def merge_into_of_all_columns(spark: Any) -> Any:
    name = _existing(spark, "w_all_columns")
    merge = _some(spark, 99, 102).alias("s").mergeInto(name, f.expr(f"s.id = {name}.id"))
    merge.whenMatched().updateAll().merge()
    return spark.table(name)


@case
def merge_into_that_deletes(spark: Any) -> Any:
    name = _existing(spark, "w_deletes")
    _some(spark, 100, 101).alias("s").mergeInto(
        name, f.expr(f"s.id = {name}.id")
    ).whenMatched().delete().merge()
    return spark.table(name)


@case
def merge_into_that_updates_the_rest(spark: Any) -> Any:
    name = _existing(spark, "w_rest")
    merge = _some(spark, 1, 2).alias("s").mergeInto(name, f.expr(f"s.id = {name}.id"))
    merge.whenNotMatchedBySource().update({"odd": f.lit(9)}).merge()
    return spark.table(name)


@case
def reading_with_options(spark: Any) -> Any:
    reader = spark.read.options(**{"split-size": "1048576", "lookback": "5"})
    return reader.table(_existing(spark, "w_read_options"))


@case
def a_bucketed_and_sorted_table(spark: Any) -> Any:
    _some(spark, 0, 3).write.bucketBy(2, "id").sortBy("odd").saveAsTable(_gone(spark, "w_sorted"))


@case
def a_table_saved_by_clusters(spark: Any) -> Any:
    _some(spark, 0, 3).write.clusterBy("id").saveAsTable(_gone(spark, "w_saved_clusters"))
    return spark.table("w_saved_clusters")


@case
def a_bucketed_table(spark: Any) -> Any:
    _some(spark, 0, 3).write.bucketBy(2, "id").saveAsTable(_gone(spark, "w_bucketed"))
    return spark.table("w_bucketed")

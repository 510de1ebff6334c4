"""What the gateway refuses, each with its code and its reason. Plain Spark would do these."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import Body, refused

Refusing = Callable[[Body], Body]
NO = "NOT_SUPPORTED"
CODE = "runs the client's own code inside the engine, where it could read any row and any file"
_FILES = "reads or writes files by path, past the catalog that knows who may"
_KEPT = "keeps rows in the engine beyond the query that was allowed to read them"
STREAM = "a streaming query outlives the call that is judged, and keeps its state in files"
_SETTINGS = "settings are allowed by name: others weaken the engine, or change what rules mean in a session"
FORMATS = "reads the descriptions of formats from files, and needs packages that are not installed"
_ML = "trains and keeps models inside the engine"


def _code(*calls: str) -> Refusing:
    return refused(NO, *calls, because=CODE)


def _files(*calls: str) -> Refusing:
    return refused(NO, *calls, because=_FILES)


def _kept(*calls: str) -> Refusing:
    return refused(NO, *calls, because=_KEPT)


def _setting(call: str) -> Refusing:
    return refused(NO, call, because=_SETTINGS, condition="CANNOT_MODIFY_CONFIG")


def _stream(*calls: str) -> Refusing:
    return refused(NO, *calls, because=STREAM)


@_code("functions.udf")
def a_python_function(spark: Any) -> Any:
    return spark.range(3).select(f.udf(lambda n: n + 1, "long")("id")).collect()


@_code("functions.pandas_udf")
def a_pandas_function(spark: Any) -> Any:
    return spark.range(3).select(f.pandas_udf(lambda n: n + 1, "long")("id")).collect()


@_code("SparkSession.udf", "UDFRegistration.register")
def a_registered_function(spark: Any) -> Any:
    spark.udf.register("plus_one", lambda n: n + 1, "long")
    return spark.sql("SELECT plus_one(1)").collect()


@_code("functions.udtf")
def a_table_function(spark: Any) -> Any:
    class Rows:
        def eval(self, n: int) -> Any:
            yield (n,)

    return f.udtf(Rows, returnType="n INT")(f.lit(1)).collect()


@_code("SparkSession.udtf", "UDTFRegistration.register")
def a_registered_table_function(spark: Any) -> Any:
    class Rows:
        def eval(self) -> Any:
            yield (1,)

    spark.udtf.register("some_rows", f.udtf(Rows, returnType="n INT"))
    return spark.sql("SELECT * FROM some_rows()").collect()


@_code("DataFrame.mapInPandas")
def map_in_pandas(spark: Any) -> Any:
    return spark.range(3).mapInPandas(lambda parts: parts, "id long").collect()


@_code("DataFrame.mapInArrow")
def map_in_arrow(spark: Any) -> Any:
    return spark.range(3).mapInArrow(lambda parts: parts, "id long").collect()


@_code("GroupedData.applyInPandas", "GroupedData.apply")
def apply_in_pandas(spark: Any) -> Any:
    return spark.range(3).groupBy("id").applyInPandas(lambda part: part, "id long").collect()


@_code("GroupedData.applyInArrow")
def apply_in_arrow(spark: Any) -> Any:
    return spark.range(3).groupBy("id").applyInArrow(lambda part: part, "id long").collect()


@_code("GroupedData.cogroup", "PandasCogroupedOps.applyInPandas", "PandasCogroupedOps.applyInArrow")
def cogroup(spark: Any) -> Any:
    groups = spark.range(3).groupBy("id")
    return groups.cogroup(groups).applyInPandas(lambda left, _right: left, "id long").collect()


@_code("DataFrame.foreach")
def foreach(spark: Any) -> Any:
    spark.range(3).foreach(lambda _row: None)


@_code("DataFrame.foreachPartition")
def foreach_partition(spark: Any) -> Any:
    spark.range(3).foreachPartition(lambda _rows: None)


@_code("SparkSession.dataSource", "DataSourceRegistration.register")
def a_python_data_source(spark: Any) -> Any:
    from pyspark.sql.datasource import DataSource

    class Own(DataSource):  # type: ignore[misc]
        def schema(self) -> str:
            return "n INT"

    spark.dataSource.register(Own)


@_code("SparkSession.addArtifacts", "SparkSession.addArtifact")
def artifacts(spark: Any) -> Any:
    spark.addArtifacts(__file__, pyfile=True)


@refused(NO, "SparkSession.copyFromLocalToFs", because=_FILES)
def a_copied_file(spark: Any) -> Any:
    spark.copyFromLocalToFs(__file__, "/tmp/bailiwick_copied")


@_code("functions.java_method", "functions.reflect", "functions.try_reflect")
def a_java_method(spark: Any) -> Any:
    return (
        spark.range(1)
        .select(f.reflect(f.lit("java.lang.System"), f.lit("getProperty"), f.lit("user.dir")))
        .collect()
    )


@refused(
    NO, "functions.unwrap_udt", because="a type of one's own is a class that the engine would have to load"
)
def a_type_of_ones_own(spark: Any) -> Any:
    from pyspark.ml.linalg import Vectors

    frame = spark.createDataFrame([(Vectors.dense(1.0, 2.0),)], ["v"])
    return frame.select(f.unwrap_udt("v")).collect()


def _reading(name: str, call: str, body: Body) -> None:
    body.__name__ = body.__qualname__ = f"reading_{name}"
    _files(call)(body)


_reading("parquet", "DataFrameReader.parquet", lambda s: s.read.parquet("/tmp/x").collect())
_reading("csv", "DataFrameReader.csv", lambda s: s.read.csv("/tmp/x").collect())
_reading("json", "DataFrameReader.json", lambda s: s.read.json("/tmp/x").collect())
_reading("text", "DataFrameReader.text", lambda s: s.read.text("/etc/passwd").collect())
_reading("orc", "DataFrameReader.orc", lambda s: s.read.orc("/tmp/x").collect())
_reading("xml", "DataFrameReader.xml", lambda s: s.read.xml("/tmp/x", rowTag="a").collect())
_reading("any format", "DataFrameReader.load", lambda s: s.read.format("parquet").load("/tmp/x").collect())
_reading("a schema", "DataFrameReader.schema", lambda s: s.read.schema("a INT").json("/tmp/x").collect())
_reading("jdbc", "DataFrameReader.jdbc", lambda s: s.read.jdbc("jdbc:h2:mem:", "t").collect())
_reading("a schema only", "DataFrameReader.format", lambda s: s.read.format("binaryFile").load("/etc").schema)


def _writing(name: str, call: str, body: Body) -> None:
    body.__name__ = body.__qualname__ = f"writing_{name}"
    _files(call)(body)


_writing("parquet", "DataFrameWriter.parquet", lambda s: s.range(1).write.parquet("/tmp/bailiwick_w"))
_writing("csv", "DataFrameWriter.csv", lambda s: s.range(1).write.csv("/tmp/bailiwick_w"))
_writing("json", "DataFrameWriter.json", lambda s: s.range(1).write.json("/tmp/bailiwick_w"))
_writing("orc", "DataFrameWriter.orc", lambda s: s.range(1).write.orc("/tmp/bailiwick_w"))
_writing("xml", "DataFrameWriter.xml", lambda s: s.range(1).write.xml("/tmp/bailiwick_w", rowTag="a"))
_writing(
    "text", "DataFrameWriter.text", lambda s: s.range(1).selectExpr("'a'").write.text("/tmp/bailiwick_w")
)
_writing("any format", "DataFrameWriter.save", lambda s: s.range(1).write.save("/tmp/bailiwick_w"))
_writing("jdbc", "DataFrameWriter.jdbc", lambda s: s.range(1).write.jdbc("jdbc:h2:mem:", "t"))


@_files("Catalog.refreshByPath")
def refreshing_a_path(spark: Any) -> Any:
    spark.catalog.refreshByPath("/tmp")


@_files("Catalog.createExternalTable")
def an_external_table(spark: Any) -> Any:
    spark.catalog.createExternalTable("r_external", path="/tmp/x", source="parquet")


@_files("Catalog.recoverPartitions")
def recovered_partitions(spark: Any) -> Any:
    spark.catalog.recoverPartitions("people")


@refused(NO, "DataFrame.inputFiles", because="tells the names of files, hidden rows' among them")
def input_files(spark: Any) -> Any:
    return spark.table("people").inputFiles()


@_kept("DataFrame.cache")
def cache(spark: Any) -> Any:
    return spark.range(3).cache().count()


@_kept("DataFrame.persist")
def persist(spark: Any) -> Any:
    return spark.range(3).persist().count()


@_kept("DataFrame.unpersist")
def unpersist(spark: Any) -> Any:
    return spark.range(3).unpersist()


@_kept("DataFrame.storageLevel", "DataFrame.is_cached")
def storage_level(spark: Any) -> Any:
    return spark.range(3).storageLevel


@_kept("DataFrame.checkpoint")
def checkpoint(spark: Any) -> Any:
    return spark.range(3).checkpoint()


@_kept("DataFrame.localCheckpoint")
def local_checkpoint(spark: Any) -> Any:
    return spark.range(3).localCheckpoint()


@_kept("Catalog.cacheTable")
def cache_table(spark: Any) -> Any:
    spark.catalog.cacheTable("people")


@_kept("Catalog.uncacheTable")
def uncache_table(spark: Any) -> Any:
    spark.catalog.uncacheTable("people")


@_kept("Catalog.clearCache")
def clear_cache(spark: Any) -> Any:
    spark.catalog.clearCache()


@refused(
    NO,
    "DataFrame.createGlobalTempView",
    "DataFrame.createOrReplaceGlobalTempView",
    because="global views are seen by every session of an engine, whoever it belongs to",
)
def a_global_view(spark: Any) -> Any:
    spark.range(1).createGlobalTempView("r_global")


@refused(NO, "Catalog.dropGlobalTempView", because="there are no global views here")
def dropping_a_global_view(spark: Any) -> Any:
    return spark.catalog.dropGlobalTempView("r_global")


@_stream("SparkSession.readStream")
def a_stream(spark: Any) -> Any:
    return spark.readStream.format("rate").load().isStreaming


@_stream("DataFrame.writeStream")
def a_written_stream(spark: Any) -> Any:
    return spark.readStream.format("rate").load().writeStream.format("console").start()


@_stream("SparkSession.streams")
def running_streams(spark: Any) -> Any:
    return spark.streams.active


@refused(NO, "ml", because=_ML)
def machine_learning(spark: Any) -> Any:
    from pyspark.ml.feature import StringIndexer

    frame = spark.table("people").select("city").filter("city IS NOT NULL")
    return StringIndexer(inputCol="city", outputCol="n").fit(frame).transform(frame).collect()


@_setting("RuntimeConfig.set (other keys)")
def a_setting_outside_the_list(spark: Any) -> Any:
    spark.conf.set("spark.sql.extensions", "x.Y")


@_setting("RuntimeConfig.set (catalogs)")
def a_catalog_of_ones_own(spark: Any) -> Any:
    spark.conf.set("spark.sql.catalog.mine", "org.apache.iceberg.spark.SparkCatalog")


@_setting("RuntimeConfig.set (the gateway's keys)")
def a_setting_of_the_gateway(spark: Any) -> Any:
    spark.conf.set("spark.bailiwick.catalogs", "none")


@refused(NO, "SQL on files", because=_FILES, condition="TABLE_OR_VIEW_NOT_FOUND")
def sql_on_files(spark: Any) -> Any:
    return spark.sql("SELECT * FROM parquet.`/tmp/x`").collect()


@_setting("RuntimeConfig.set (what SQL means)")
def another_meaning_of_sql(spark: Any) -> Any:
    spark.conf.set("spark.sql.ansi.enabled", "false")


@refused(
    "ACCESS_DENIED",
    "DataFrame.transpose (in a view)",
    because="Spark reads the rows of a transposed frame when the view is made, and a view keeps no rows",
)
def a_view_of_a_transposed_frame(spark: Any) -> Any:
    spark.table("people").select("name", "age").filter("id < 3").transpose().createTempView("r_transposed")

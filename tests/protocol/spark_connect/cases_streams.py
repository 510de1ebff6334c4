"""Streams, and the ways to bring code that stand beside functions: all refused, each with its reason."""

from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import Body, refused
from spark_connect.cases_refused import CODE, FORMATS, STREAM

NO = "NOT_SUPPORTED"
_ID = "6d1f8b0e-0000-4000-8000-000000000000"


def _query(spark: Any) -> Any:
    """One that there is not: none can be started, but a client may ask about any id."""
    from pyspark.sql.connect.streaming.query import StreamingQuery

    return StreamingQuery(spark, _ID, _ID, "nobody's")


def _each(group: str, because: str, bodies: dict[str, Body]) -> None:
    for call, body in bodies.items():
        body.__module__, body.__name__ = __name__, f"{group}_{call}"
        refused(NO, f"{group}.{call}", because=because)(body)


def _read(spark: Any) -> Any:
    return spark.readStream


def _written(spark: Any) -> Any:
    return spark.readStream.format("rate").load().writeStream


_each(
    "DataStreamReader",
    STREAM,
    {
        "csv": lambda s: _read(s).schema("a INT").csv("/tmp/x").schema,
        "json": lambda s: _read(s).schema("a INT").json("/tmp/x").schema,
        "orc": lambda s: _read(s).schema("a INT").orc("/tmp/x").schema,
        "parquet": lambda s: _read(s).schema("a INT").parquet("/tmp/x").schema,
        "text": lambda s: _read(s).text("/tmp/x").schema,
        "xml": lambda s: _read(s).schema("a INT").xml("/tmp/x", rowTag="a").schema,
        "load": lambda s: _read(s).format("rate").load().schema,
        "table": lambda s: _read(s).table("people").schema,
        "format": lambda s: _read(s).format("rate").load().schema,
        "option": lambda s: _read(s).option("rowsPerSecond", 1).format("rate").load().schema,
        "options": lambda s: _read(s).options(rowsPerSecond=1).format("rate").load().schema,
        "schema": lambda s: _read(s).schema("a INT").json("/tmp/x").schema,
    },
)
_each(
    "DataStreamWriter",
    STREAM,
    {
        "start": lambda s: _written(s).format("console").start(),
        "toTable": lambda s: _written(s).toTable("r_streamed"),
        "format": lambda s: _written(s).format("memory").start(),
        "option": lambda s: _written(s).option("checkpointLocation", "/tmp/x").start(),
        "options": lambda s: _written(s).options(checkpointLocation="/tmp/x").start(),
        "outputMode": lambda s: _written(s).outputMode("append").format("console").start(),
        "partitionBy": lambda s: _written(s).partitionBy("value").toTable("r_streamed"),
        "clusterBy": lambda s: _written(s).clusterBy("value").toTable("r_streamed"),
        "queryName": lambda s: _written(s).queryName("r_stream").format("memory").start(),
        "trigger": lambda s: _written(s).trigger(availableNow=True).format("console").start(),
        "foreach": lambda s: _written(s).foreach(lambda _row: None).start(),
        "foreachBatch": lambda s: _written(s).foreachBatch(lambda _frame, _number: None).start(),
    },
)
_each(
    "StreamingQuery",
    STREAM,
    {
        "awaitTermination": lambda s: _query(s).awaitTermination(1),
        "exception": lambda s: _query(s).exception(),
        "explain": lambda s: _query(s).explain(),
        "isActive": lambda s: _query(s).isActive,
        "lastProgress": lambda s: _query(s).lastProgress,
        "processAllAvailable": lambda s: _query(s).processAllAvailable(),
        "recentProgress": lambda s: _query(s).recentProgress,
        "status": lambda s: _query(s).status,
        "stop": lambda s: _query(s).stop(),
    },
)
_each(
    "StreamingQueryManager",
    STREAM,
    {
        "active": lambda s: s.streams.active,
        "awaitAnyTermination": lambda s: s.streams.awaitAnyTermination(1),
        "get": lambda s: s.streams.get(_ID),
        "resetTerminated": lambda s: s.streams.resetTerminated(),
    },
)


@refused(NO, "StreamingQueryManager.addListener", "StreamingQueryListener", because=STREAM)
def a_listener(spark: Any) -> Any:
    """The client only warns of a listener that it could not add."""
    import warnings

    from pyspark.sql.streaming import StreamingQueryListener

    class Own(StreamingQueryListener):  # type: ignore[misc]
        def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802
        def onQueryProgress(self, event: Any) -> None: ...  # noqa: N802
        def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spark.streams.addListener(Own())


@refused(NO, "DataFrame.dropDuplicatesWithinWatermark", because=STREAM)
def duplicates_within_a_watermark(spark: Any) -> Any:
    return spark.table("people").dropDuplicatesWithinWatermark(["id"]).collect()


@refused(NO, "GroupedData.applyInPandasWithState", because=CODE)
def a_state_of_groups(spark: Any) -> Any:
    groups = spark.table("people").groupBy("city")
    made = groups.applyInPandasWithState(
        lambda _key, parts, _state: parts, "city STRING", "n INT", "append", "NoTimeout"
    )
    return made.collect()


@refused(
    NO, "GroupedData.transformWithState", "GroupedData.transformWithStateInPandas", because=CODE, since=(4, 1)
)
def a_processor_of_groups(spark: Any) -> Any:
    from pyspark.sql.streaming import StatefulProcessor

    class Own(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None: ...
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any: ...  # noqa: N802, N803

    groups = spark.table("people").groupBy("city")
    return groups.transformWithStateInPandas(Own(), "city STRING", "append", "None").collect()


@refused(NO, "UDFRegistration.registerJavaFunction", because=CODE)
def a_java_function(spark: Any) -> Any:
    spark.udf.registerJavaFunction("r_java", "org.example.Function", "int")


@refused(NO, "UDFRegistration.registerJavaUDAF", because=CODE)
def a_java_aggregate(spark: Any) -> Any:
    spark.udf.registerJavaUDAF("r_java", "org.example.Aggregate")


@refused(NO, "Catalog.registerFunction", because=CODE)
def a_function_of_the_catalog(spark: Any) -> Any:
    spark.catalog.registerFunction("r_function", lambda n: n + 1, "long")


@refused(NO, "functions.arrow_udf", because=CODE, since=(4, 1))
def an_arrow_function(spark: Any) -> Any:
    return spark.range(3).select(f.arrow_udf(lambda n: n, "long")("id")).collect()


@refused(NO, "functions.arrow_udtf", because=CODE, since=(4, 1))
def an_arrow_table_function(spark: Any) -> Any:
    class Rows:
        def eval(self, parts: Any) -> Any:
            yield parts

    return f.arrow_udtf(Rows, returnType="n INT")(spark.range(1).asTable()).collect()


@refused(
    NO,
    "TableArg.partitionBy",
    "TableArg.orderBy",
    "TableArg.withSinglePartition",
    "DataFrame.asTable",
    because=CODE,
)
def a_table_as_an_argument(spark: Any) -> Any:
    class Rows:
        def eval(self, row: Any) -> Any:
            yield (row["id"],)

    made = f.udtf(Rows, returnType="n INT")
    argument = spark.range(3).asTable()
    return made(argument.partitionBy("id").orderBy("id")).collect()


@refused("ACCESS_DENIED", "avro.functions.from_avro", "avro.functions.to_avro", because=FORMATS)
def avro(spark: Any) -> Any:
    from pyspark.sql.avro.functions import to_avro

    return spark.range(1).select(to_avro("id")).collect()


@refused(
    "ACCESS_DENIED", "protobuf.functions.from_protobuf", "protobuf.functions.to_protobuf", because=FORMATS
)
def protobuf(spark: Any) -> Any:
    from pyspark.sql.protobuf.functions import to_protobuf

    return spark.range(1).select(to_protobuf(f.struct("id"), "M", None, None, b"")).collect()


@refused(
    "ACCESS_DENIED",
    "functions.input_file_name",
    "functions.input_file_block_start",
    "functions.input_file_block_length",
    because="tells the names of files, hidden rows' among them",
)
def the_name_of_a_file(spark: Any) -> Any:
    return spark.table("people").select(f.input_file_name()).collect()

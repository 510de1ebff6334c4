"""What a client does or refuses by itself, the same with every server: sessions, types, values."""

import datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import since
from spark_connect.connecting import url


def _tried(what: Any) -> Any:
    """The name of what it gives, or of how it fails."""
    try:
        return type(what()).__name__
    except Exception as error:
        return [type(error).__name__, error.getCondition() if hasattr(error, "getCondition") else ""]


@since(4, 1)
def calls_of_a_local_spark(spark: Any) -> Any:
    """They need a Spark in the client's own process, and the client says so."""
    return {
        "sparkContext": _tried(lambda: spark.sparkContext),
        "newSession": _tried(lambda: spark.newSession().range(1)),
        "rdd": _tried(lambda: spark.range(1).rdd),
        "toJSON": _tried(lambda: spark.range(1).toJSON()),
    }


@since(4, 1)
def a_context_of_old(spark: Any) -> Any:
    from pyspark.sql import HiveContext, SQLContext

    return [_tried(lambda: SQLContext(spark)), _tried(lambda: HiveContext(spark))]


@since(4, 1)
def the_active_session(spark: Any) -> Any:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    return [active is not None, type(SparkSession.active()) is type(spark)]


@since(4, 1)
def a_frame_knows_its_session(spark: Any) -> Any:
    return spark.range(1).sparkSession is spark


@since(4, 1)
def parts_of_a_session(spark: Any) -> Any:
    from pyspark.sql.utils import is_remote

    return [type(spark.client).__name__, type(spark.profile).__name__, is_remote()]


@since(4, 1)
def is_this_remote(spark: Any) -> Any:
    from pyspark.sql import is_remote

    return [is_remote(), spark.range(1).count()]


@since(4, 1)
def a_session_as_it_is_built(spark: Any) -> Any:
    from pyspark.sql import SparkSession

    other = (
        SparkSession.builder.remote(url())
        .appName("a client")
        .config("spark.sql.session.timeZone", "Asia/Tokyo")
        .create()
    )
    try:
        return [other.conf.get("spark.sql.session.timeZone"), other is spark, other.range(2).count()]
    finally:
        other.stop()


@since(4, 1)
def a_session_that_is_there_already(spark: Any) -> Any:
    from pyspark.sql import SparkSession

    other = SparkSession.builder.remote(url()).getOrCreate()
    again = SparkSession.builder.remote(url()).getOrCreate()
    return [again is other, again.range(3).count(), type(again) is type(spark)]


@since(4, 1)
def a_master_beside_a_remote(spark: Any) -> Any:
    from pyspark.sql import SparkSession

    told = _tried(lambda: SparkSession.builder.remote(url()).master("local").getOrCreate())
    SparkSession.builder._options.pop("spark.master", None)
    return [told, spark.range(1).count()]


def _typed(spark: Any, kind: Any, value: Any) -> Any:
    from pyspark.sql.types import StructField, StructType

    frame = spark.createDataFrame([(value,), (None,)], StructType([StructField("v", kind)]))
    return [frame.schema, frame.collect()]


@since(4, 1)
def types_of_numbers(spark: Any) -> Any:
    from pyspark.sql import types as t

    kinds = [t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType()]
    return [
        *(_typed(spark, kind, 7) for kind in kinds),
        _typed(spark, t.FloatType(), 1.5),
        _typed(spark, t.DoubleType(), -0.5),
        _typed(spark, t.DecimalType(10, 2), Decimal("1.50")),
    ]


@since(4, 1)
def types_of_texts(spark: Any) -> Any:
    from pyspark.sql import types as t

    return [
        _typed(spark, t.StringType(), "ü"),
        _typed(spark, t.BinaryType(), b"\x00\xff"),
        _typed(spark, t.BooleanType(), True),
        _typed(spark, t.NullType(), None),
        [kind.simpleString() for kind in (t.CharType(3), t.VarcharType(3))],
        spark.range(1).select(f.lit("ab").cast(t.CharType(3)), f.lit("ab").cast(t.VarcharType(3))).collect(),
    ]


@since(4, 1)
def types_of_times(spark: Any) -> Any:
    from pyspark.sql import types as t

    moment = datetime.datetime(2026, 1, 2, 3, 4, 5)
    return [
        _typed(spark, t.DateType(), moment.date()),
        _typed(spark, t.TimestampType(), moment),
        _typed(spark, t.TimestampNTZType(), moment),
        _typed(spark, t.DayTimeIntervalType(), datetime.timedelta(days=1, seconds=2)),
    ]


@since(4, 1)
def types_of_intervals_by_cast(spark: Any) -> Any:
    from pyspark.sql import types as t

    text = f.lit("1-2").cast(t.YearMonthIntervalType())
    interval = t.CalendarIntervalType()
    return [
        spark.range(1).select(text.cast("string").alias("v")).collect(),
        [interval.simpleString(), t.DataType.fromDDL("interval") == interval],
    ]


@since(4, 1)
def types_of_parts(spark: Any) -> Any:
    from pyspark.sql import types as t

    pair = t.StructType().add("a", t.IntegerType()).add(t.StructField("b", t.StringType()))
    return [
        _typed(spark, t.ArrayType(t.IntegerType()), [1, None]),
        _typed(spark, t.MapType(t.StringType(), t.IntegerType()), {"a": 1}),
        _typed(spark, pair, t.Row(a=1, b="x")),
        _typed(spark, pair, t.Row(a=1, b="x").asDict()),
    ]


@since(4, 1)
def variants_in_the_client(spark: Any) -> Any:
    from pyspark.sql import types as t

    value = spark.sql("SELECT parse_json('{\"a\": [1, null]}') AS v")
    seen = value.first().v
    return [value.schema["v"].dataType == t.VariantType(), seen.toPython(), seen.toJson()]


@since(4, 1)
def variants_of_texts(spark: Any) -> Any:
    from pyspark.sql.types import VariantVal

    made = VariantVal.parseJson('{"b": 2.5}')
    return [made.toPython(), spark.range(1).count()]


@since(4, 1)
def times_of_day(spark: Any) -> Any:
    from pyspark.sql import types as t

    frame = spark.range(1).select(f.lit("12:34:56").cast(t.TimeType()).cast("string").alias("v"))
    return [t.TimeType().simpleString(), frame.collect()]


@since(4, 1)
def shapes_in_the_client(spark: Any) -> Any:
    from pyspark.sql import types as t

    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    return [
        [kind.simpleString() for kind in (t.GeometryType(4326), t.GeographyType(4326))],
        [
            (shape.getBytes(), shape.getSrid())
            for shape in (t.Geometry.fromWKB(point, 4326), t.Geography.fromWKB(point, 4326))
        ],
        spark.range(1).count(),
    ]

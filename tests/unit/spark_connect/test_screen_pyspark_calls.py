"""Calls of stock PySpark that do not run code of the caller's pass the screen, whatever they send."""

import contextlib
import datetime
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.connect import functions as F  # noqa: N812
from pyspark.sql.connect import proto
from pyspark.sql.connect.observation import Observation
from pyspark.sql.connect.window import Window
from pyspark.sql.types import IntegerType, StringType, StructType
from screened_pyspark import SCHEMA, Desk, stock_session
from spark_connect_messages import SESSION

from bailiwick.doors.spark_connect import screen
from bailiwick.doors.spark_connect.screen import PlanKind


@dataclass
class Scene:
    """What calls are made on."""

    spark: Any
    df: Any
    other: Any


Call = Callable[[Scene], Any]
NAME = "lake.sales.orders"

FRAMES: dict[str, Call] = {
    "table": lambda on: on.spark.table(NAME),
    "read.table": lambda on: on.spark.read.table(NAME),
    "read.table, snapshot": lambda on: on.spark.read.option("snapshot-id", 7).table(NAME),
    "read.table, format": lambda on: on.spark.read.format("iceberg").table(NAME),
    "read.table, version": lambda on: on.spark.read.option("versionAsOf", "v1").table(NAME),
    "read.table, time": lambda on: on.spark.read.option("timestampAsOf", "2026-01-01").table(NAME),
    "read.table, branch": lambda on: on.spark.read.options(branch="audit").table(NAME),
    "range": lambda on: on.spark.range(1, 10, 2, 4),
    "select": lambda on: on.df.select("id", on.df.region, F.col("amount") * 2),
    "select *": lambda on: on.df.select("*", "customer.*"),
    "selectExpr": lambda on: on.df.selectExpr("id + 1 AS next", "upper(region)"),
    "filter": lambda on: on.df.filter((on.df.id > 1) & ~on.df.region.isNull()),
    "filter text": lambda on: on.df.where("id > (SELECT max(id) FROM lake.a.b)"),
    "withColumn": lambda on: on.df.withColumn("x", F.lit(1)).withColumns({"y": F.lit("a")}),
    "withColumnRenamed": lambda on: on.df.withColumnRenamed("id", "i"),
    "withColumnsRenamed": lambda on: on.df.withColumnsRenamed({"id": "i", "region": "r"}),
    "withMetadata": lambda on: on.df.withMetadata("id", {"unit": "pieces", "deep": {"a": [1]}}),
    "drop": lambda on: on.df.drop("id", on.df.region),
    "toDF": lambda on: on.df.select("id", "region").toDF("a", "b"),
    "to": lambda on: on.df.to(StructType().add("id", IntegerType())),
    "limit, offset": lambda on: on.df.limit(5).offset(2),
    "sort": lambda on: on.df.sort(on.df.id.desc_nulls_last(), "region", ascending=[True, False]),
    "orderBy number": lambda on: on.df.orderBy(1),
    "sortWithinPartitions": lambda on: on.df.sortWithinPartitions("id"),
    "distinct": lambda on: on.df.distinct(),
    "dropDuplicates": lambda on: on.df.dropDuplicates(["id", "region"]),
    "alias": lambda on: on.df.alias("o").select("o.id"),
    "join": lambda on: on.df.join(on.other, "id", "left_anti"),
    "join by columns": lambda on: on.df.join(on.other, on.df.id == on.other.id, "full"),
    "join by several": lambda on: on.df.join(on.other, ["id", "region"]),
    "crossJoin": lambda on: on.df.crossJoin(on.other),
    "lateralJoin": lambda on: on.df.lateralJoin(on.other.where(F.col("id").outer() == F.col("id"))),
    "as of": lambda on: on.df._joinAsOf(on.other, on.df.at, on.other.at, "id", tolerance=F.lit(3)),
    "union": lambda on: on.df.union(on.other).unionAll(on.other),
    "unionByName": lambda on: on.df.unionByName(on.other, allowMissingColumns=True),
    "intersect": lambda on: on.df.intersect(on.other).intersectAll(on.other),
    "except": lambda on: on.df.exceptAll(on.other).subtract(on.other),
    "repartition": lambda on: on.df.repartition(4).coalesce(1),
    "repartition by": lambda on: on.df.repartition(4, "id").repartitionByRange("region"),
    "repartitionById": lambda on: on.df.repartitionById(4, F.col("id").cast("int") % 4),
    "hint": lambda on: on.df.join(on.other.hint("broadcast"), "id").hint("rebalance", 3, "id"),
    "sample": lambda on: on.df.sample(True, 0.5, 3),
    "randomSplit": lambda on: on.df.randomSplit([1.0, 2.0], 7)[0],
    "groupBy": lambda on: on.df.groupBy("region").agg({"amount": "sum"}),
    "groupBy count": lambda on: on.df.groupBy("region", on.df.id % 2).count(),
    "groupBy shorthand": lambda on: on.df.groupBy("region").avg("amount"),
    "agg": lambda on: on.df.agg(F.max("id"), F.count_distinct("region")),
    "rollup": lambda on: on.df.rollup("region", "day").sum("amount"),
    "cube": lambda on: on.df.cube("region", "day").agg(F.grouping_id()),
    "groupingSets": lambda on: on.df.groupingSets([["region"], []], "region").count(),
    "pivot": lambda on: on.df.groupBy("day").pivot("region", ["EU", "US"]).sum("amount"),
    "pivot of all": lambda on: on.df.groupBy("day").pivot("region").sum("amount"),
    "unpivot": lambda on: on.df.unpivot(["id"], ["score"], "what", "value"),
    "melt": lambda on: on.df.melt("id", None, "what", "value"),
    "transpose": lambda on: on.df.select("region", "id").transpose("region"),
    "fillna": lambda on: on.df.fillna(0, ["id"]).na.fill({"region": "x", "score": 1.5}),
    "dropna": lambda on: on.df.dropna("all", 2, ["id"]).na.drop(),
    "replace": lambda on: on.df.replace(["a", "b"], ["c", "d"], "region").na.replace(1, 2),
    "describe": lambda on: on.df.describe("id"),
    "summary": lambda on: on.df.summary("min", "75%"),
    "crosstab": lambda on: on.df.crosstab("region", "day"),
    "withWatermark": lambda on: on.df.withWatermark("at", "1 hour"),
    "freqItems": lambda on: on.df.freqItems(["region"], 0.3),
    "sampleBy": lambda on: on.df.sampleBy("region", {"EU": 0.5}, 1),
    "observe": lambda on: on.df.observe("seen", F.count(F.lit(1)).alias("n")),
    "observation": lambda on: on.df.observe(Observation("told"), F.max("id").alias("m")),
    "window": lambda on: on.df.select(
        F.row_number().over(Window.partitionBy("region").orderBy(F.desc("id"))),
        F.sum("amount").over(Window.partitionBy("id").orderBy("at").rowsBetween(-1, Window.currentRow)),
        F.avg("id").over(Window.partitionBy("id").orderBy("id").rangeBetween(Window.unboundedPreceding, 5)),
    ),
    "time window": lambda on: on.df.groupBy(F.window("at", "1 hour", "10 minutes")).count(),
    "cast": lambda on: on.df.select(
        on.df.id.cast("string"), on.df.id.cast(StringType()), on.df.region.try_cast("int"),
        on.df.id.astype(SCHEMA),
    ),
    "literals": lambda on: on.df.select(
        F.lit(None), F.lit(True), F.lit(1), F.lit(2**40), F.lit(1.5), F.lit("x"), F.lit(b"x"),
        F.lit(decimal.Decimal("1.20")), F.lit(datetime.date(2026, 1, 1)),
        F.lit(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)), F.lit(datetime.timedelta(days=1)),
        F.lit([1, 2]), F.lit(np.float64(1.5)), F.lit(np.array([1, 2])),
    ),
    "case": lambda on: on.df.select(F.when(on.df.id > 1, "a").when(on.df.id < 0, "b").otherwise("c")),
    "strings": lambda on: on.df.filter(
        on.df.region.like("E%") | on.df.region.rlike("^U") | on.df.region.ilike("e") | on.df.day.contains("x")
    ),
    "between, isin": lambda on: on.df.filter(on.df.id.between(1, 2) & on.df.region.isin("EU", "US")),
    "functions of functions": lambda on: on.df.select(
        F.transform("labels", lambda each, at: F.concat(each, at.cast("string"))),
        F.filter("labels", lambda each: each != "x"),
        F.aggregate("labels", F.lit(0), lambda acc, each: acc + F.length(each), lambda acc: acc * 2),
        F.map_filter("facts", lambda key, value: key != value),
        F.zip_with("labels", "labels", lambda a, b: F.concat(b, a)),
    ),
    "parts": lambda on: on.df.select(
        on.df.labels[0], on.df.facts["a"], on.df.customer["name"],
        on.df.customer.getField("city"), on.df.labels.getItem(1),
    ),
    "fields": lambda on: on.df.select(
        on.df.customer.withField("zip", F.lit(1)).dropFields("city").alias("c", metadata={"about": "x"})
    ),
    "explode": lambda on: on.df.select(F.explode("facts").alias("k", "v"), F.posexplode("labels")),
    "colRegex": lambda on: on.df.select(on.df.colRegex("`a.*`")),
    "metadata column": lambda on: on.df.select(on.df.metadataColumn("_spec_id")),
    "json": lambda on: on.df.select(
        F.from_json("region", SCHEMA), F.to_json("customer"), F.get_json_object("region", "$.a"),
        F.from_csv("region", "a INT"), F.schema_of_json(F.lit("{}")),
    ),
    "call_function": lambda on: on.df.select(F.call_function("upper", "region")),
    "expr": lambda on: on.df.select(F.expr("aggregate(labels, 0, (a, e) -> a + length(e))")),
    "scalar subquery": lambda on: on.df.select(on.other.agg(F.max("id")).scalar()),
    "exists": lambda on: on.df.where(on.other.where(F.col("id") == F.col("id").outer()).exists()),
    "in subquery": lambda on: on.df.where(on.df.id.isin(on.other.select("id"))),
    "sql": lambda on: on.spark.sql("SELECT 1"),
    "sql with names": lambda on: on.spark.sql("SELECT :a", {"a": 1}),
    "sql with places": lambda on: on.spark.sql("SELECT ?, ?", [1, F.array(F.lit(2))]),
    "sql over frames": lambda on: on.spark.sql("SELECT * FROM {df} JOIN {o}", df=on.df, o=on.other),
    "sql in a frame": lambda on: on.df.join(on.spark.sql("SELECT 1 AS id"), "id"),
    "tvf": lambda on: on.spark.tvf.explode(F.array(F.lit(1))).join(on.spark.tvf.range(3)),
    "tvf json": lambda on: on.spark.tvf.json_tuple(F.lit("{}"), F.lit("a")),
    "rows": lambda on: on.spark.createDataFrame([(1, "a")], "id INT, name STRING"),
    "rows inferred": lambda on: on.spark.createDataFrame([{"a": 1, "b": [1.5]}]),
    "rows with a schema": lambda on: on.spark.createDataFrame([], SCHEMA),
    "pandas": lambda on: on.spark.createDataFrame(pd.DataFrame({"a": [1, 2], "b": ["x", None]})),
    "arrow": lambda on: on.spark.createDataFrame(pa.table({"a": [1, 2]})),
    "numpy": lambda on: on.spark.createDataFrame(np.zeros((3, 2))),
    "many rows": lambda on: on.spark.createDataFrame(pa.table({"a": range(200_000)})),
    "a chain of 300": lambda on: _chain(on.df, 300),
}  # fmt: skip

ACTIONS: dict[str, Call] = {
    "count": lambda on: on.df.count(),
    "first": lambda on: on.df.first(),
    "head": lambda on: on.df.head(3),
    "take": lambda on: on.df.take(3),
    "tail": lambda on: on.df.tail(3),
    "isEmpty": lambda on: on.df.isEmpty(),
    "toPandas": lambda on: on.df.toPandas(),
    "toArrow": lambda on: on.df.toArrow(),
    "toLocalIterator": lambda on: list(on.df.toLocalIterator()),
    "show": lambda on: on.df.show(5, truncate=False, vertical=True),
    "html": lambda on: on.df._show_string(3),
    "corr": lambda on: on.df.corr("id", "score"),
    "cov": lambda on: on.df.cov("id", "score"),
    "approxQuantile": lambda on: on.df.approxQuantile(["id"], [0.5], 0.1),
    "saveAsTable": lambda on: on.df.write.saveAsTable(NAME),
    "saveAsTable, all": lambda on: on.df.write.format("iceberg")
    .mode("overwrite").partitionBy("region").option("fanout-enabled", "true").saveAsTable(NAME),
    "saveAsTable, buckets": lambda on: on.df.write.bucketBy(4, "id").sortBy("id").saveAsTable(NAME),
    "insertInto": lambda on: on.df.write.insertInto(NAME, overwrite=True),
    "writeTo.create": lambda on: on.df.writeTo(NAME).using("iceberg")
    .tableProperty("format-version", "2").tableProperty("team", "a")
    .partitionedBy(F.partitioning.days("at")).create(),
    "writeTo.append": lambda on: on.df.writeTo(NAME).option("branch", "b").append(),
    "writeTo.replace": lambda on: on.df.writeTo(NAME).createOrReplace(),
    "writeTo.overwrite": lambda on: on.df.writeTo(NAME).overwrite(F.col("region") == "EU"),
    "writeTo.overwritePartitions": lambda on: on.df.writeTo(NAME)
    .option("snapshot-property.by", "me").overwritePartitions(),
    "mergeInto": lambda on: on.df.mergeInto(NAME, F.expr("id = on.other.id"))
    .whenMatched(F.col("id") > 1).update({"region": F.lit("x")}).whenNotMatched().insertAll()
    .whenNotMatchedBySource().delete().withSchemaEvolution().merge(),
    "createTempView": lambda on: on.df.createTempView("v"),
    "createOrReplaceTempView": lambda on: on.df.createOrReplaceTempView("v"),
    "currentDatabase": lambda on: on.spark.catalog.currentDatabase(),
    "setCurrentDatabase": lambda on: on.spark.catalog.setCurrentDatabase("sales"),
    "currentCatalog": lambda on: on.spark.catalog.currentCatalog(),
    "setCurrentCatalog": lambda on: on.spark.catalog.setCurrentCatalog("lake"),
    "listCatalogs": lambda on: on.spark.catalog.listCatalogs("l*"),
    "listDatabases": lambda on: on.spark.catalog.listDatabases("s*"),
    "listTables": lambda on: on.spark.catalog.listTables("sales", "o*"),
    "listFunctions": lambda on: on.spark.catalog.listFunctions(),
    "listColumns": lambda on: on.spark.catalog.listColumns(NAME),
    "getDatabase": lambda on: on.spark.catalog.getDatabase("sales"),
    "getTable": lambda on: on.spark.catalog.getTable(NAME),
    "getFunction": lambda on: on.spark.catalog.getFunction("upper"),
    "databaseExists": lambda on: on.spark.catalog.databaseExists("sales"),
    "tableExists": lambda on: on.spark.catalog.tableExists(NAME),
    "functionExists": lambda on: on.spark.catalog.functionExists("upper"),
    "createTable": lambda on: on.spark.catalog.createTable(NAME, source="iceberg", schema=SCHEMA),
    "dropTempView": lambda on: on.spark.catalog.dropTempView("v"),
    "isCached": lambda on: on.spark.catalog.isCached(NAME),
    "refreshTable": lambda on: on.spark.catalog.refreshTable(NAME),
}  # fmt: skip

ANALYSES: dict[str, Call] = {
    "schema": lambda on: on.df.schema,
    "columns": lambda on: on.df.columns,
    "dtypes": lambda on: on.df.dtypes,
    "explain": lambda on: on.df.explain("cost"),
    "printSchema": lambda on: on.df.printSchema(2),
    "isLocal": lambda on: on.df.isLocal(),
    "isStreaming": lambda on: on.df.isStreaming,
    "sameSemantics": lambda on: on.df.sameSemantics(on.other),
    "semanticHash": lambda on: on.df.semanticHash(),
    "version": lambda on: on.spark.version,
    "types as text": lambda on: on.spark.client._analyze("ddl_parse", ddl_string="a INT"),
    "types as DDL": lambda on: on.spark.client._analyze("json_to_ddl", json_string=SCHEMA.json()),
}

OTHERS: dict[str, Call] = {
    "conf.get": lambda on: on.spark.conf.get("spark.sql.session.timeZone"),
    "conf.get, default": lambda on: on.spark.conf.get("spark.sql.ansi.enabled", "x"),
    "conf.set": lambda on: on.spark.conf.set("spark.sql.session.timeZone", "UTC"),
    "conf.unset": lambda on: on.spark.conf.unset("spark.sql.session.timeZone"),
    "conf.isModifiable": lambda on: on.spark.conf.isModifiable("spark.sql.session.timeZone"),
    "conf.getAll": lambda on: on.spark.conf.getAll,
    "interruptAll": lambda on: on.spark.interruptAll(),
    "interruptTag": lambda on: on.spark.interruptTag("mine"),
    "interruptOperation": lambda on: on.spark.interruptOperation("3f3b8f7e-0000-4000-8000-000000000000"),
}


@pytest.fixture(scope="module")
def stock() -> tuple[Any, Desk]:
    return stock_session()


@pytest.mark.parametrize("name", FRAMES)
def test_frames_are_executed_and_analysed(name: str, stock: tuple[Any, Desk]) -> None:
    desk = _made(FRAMES[name], stock, lambda frame: (_analysed(frame), frame.collect()))
    assert all(plan.text for plan in desk.plans)
    assert desk.plans
    assert desk.analyses


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_are_executed(name: str, stock: tuple[Any, Desk]) -> None:
    assert _made(ACTIONS[name], stock).plans


@pytest.mark.parametrize("name", ANALYSES)
def test_analyses_are_made(name: str, stock: tuple[Any, Desk]) -> None:
    assert _made(ANALYSES[name], stock).analyses


@pytest.mark.parametrize("name", OTHERS)
def test_other_calls_are_answered(name: str, stock: tuple[Any, Desk]) -> None:
    assert _made(OTHERS[name], stock).others


def test_kinds_are_told_apart(stock: tuple[Any, Desk]) -> None:
    _, desk = stock
    wanted = {
        PlanKind.READ: FRAMES["table"],
        PlanKind.SQL_COMMAND: FRAMES["sql"],
        PlanKind.SQL: FRAMES["sql in a frame"],
        PlanKind.CATALOG: ACTIONS["currentDatabase"],
        PlanKind.VIEW: ACTIONS["createTempView"],
        PlanKind.WRITE: ACTIONS["mergeInto"],
    }
    for kind, call in wanted.items():
        _made(call, stock, lambda made: getattr(made, "_to_table", int)())
        assert kind in {plan.kind for plan in desk.plans}
    assert {*wanted, PlanKind.FUNCTION} == set(PlanKind)


def test_a_function_that_is_registered_is_a_kind_of_its_own() -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    request.plan.command.register_function.function_name = "f"
    request.plan.command.register_function.python_udf.command = b"code"
    screened = screen.execute(request.SerializeToString(), may_run_code=True)
    assert (screened.kind, screened.text) == (PlanKind.FUNCTION, "create function f")
    assert not screened.may_write


def test_what_a_plan_names_is_told(stock: tuple[Any, Desk]) -> None:
    spark, desk = stock
    desk.clear()
    frame = spark.table(NAME).join(spark.table("a.`b c`").where("x > 1"), "id").limit(3)
    frame.writeTo("lake.sales.copy").append()
    (written,) = desk.plans
    assert written.names == (NAME, "a.`b c`")
    assert written.contents.targets == ("lake.sales.copy",)
    assert written.contents.expression_texts == ("x > 1",)
    assert written.text == f"write lake.sales.copy: limit(join(read({NAME}), filter(read(a.`b c`))))"
    assert written.may_write
    assert not written.changes_session


def test_a_large_plan_comes_compressed_and_is_seen_through(stock: tuple[Any, Desk]) -> None:
    desk = _made(lambda on: on.df.where("region = '" + "x" * (11 << 20) + "'"), stock, _collected)
    assert desk.plans[-1].plan.HasField("root")
    assert len(desk.plans[-1].contents.expression_texts[0]) > 11 << 20


def _analysed(frame: Any) -> Any:
    client = frame._session.client
    return client.schema(frame._plan.to_proto(client))


def _collected(frame: Any) -> Any:
    return frame.collect()


def _chain(df: Any, length: int) -> Any:
    for number in range(length):
        df = df.withColumn(f"c{number}", F.lit(number))
    return df


def _made(call: Call, stock: tuple[Any, Desk], then: Callable[[Any], Any] = id) -> Desk:
    """What came of a call. Its own errors, over answers that say next to nothing, are not looked at."""
    spark, desk = stock
    scene = Scene(spark, spark.table(NAME), spark.table("lake.sales.other"))
    desk.clear()
    with contextlib.suppress(Exception):
        then(call(scene))
    assert desk.refusals == []
    return desk

"""What PySpark sends for code, paths and the like is refused with a reason, also where a value hides it."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from pyspark.sql.connect import functions as F  # noqa: N812
from pyspark.sql.connect import proto
from pyspark.sql.types import LongType, StructType
from pyspark.util import PythonEvalType
from screened_pyspark import Desk, stock_session
from spark_connect_messages import SESSION, reaching

from bailiwick.doors.spark_connect import screen
from bailiwick.doors.spark_connect.errors import told
from bailiwick.doors.spark_connect.screen import PlanKind
from bailiwick.errors import BailiwickError, Code

Call = Callable[[Any, Any], Any]

CALLS: dict[str, tuple[str, Call]] = {
    "read.parquet": ("data_source", lambda spark, _: spark.read.parquet("/etc").collect()),
    "read.load": ("data_source", lambda spark, _: spark.read.format("iceberg").load("a.b").collect()),
    "read.jdbc": ("data_source", lambda spark, _: spark.read.jdbc("jdbc:x", "t").collect()),
    "read.text": ("data_source", lambda spark, _: spark.read.text("s3://b/x").schema),
    "readStream": ("streaming", lambda spark, _: spark.readStream.table("t").schema),
    "dropDuplicatesWithinWatermark": (
        "streaming",
        lambda _, df: df.dropDuplicatesWithinWatermark(["id"]).collect(),
    ),
    "write.parquet": ("files", lambda _, df: df.write.parquet("/tmp/x")),
    "write.save": ("files", lambda _, df: df.write.format("iceberg").save()),
    "write.jdbc": ("files", lambda _, df: df.write.jdbc("jdbc:x", "t")),
    "write.option path": ("option", lambda _, df: df.write.option("PATH", "/x").saveAsTable("t")),
    "write.format csv": ("table_format", lambda _, df: df.write.format("csv").saveAsTable("t")),
    "writeTo.using": ("table_format", lambda _, df: df.writeTo("t").using("parquet").create()),
    "writeTo.option": ("option", lambda _, df: df.writeTo("t").option("location", "/x").append()),
    "writeTo location": ("option", lambda _, df: df.writeTo("t").tableProperty("Location", "/x").create()),
    "read option": ("option", lambda spark, _: spark.read.option("path", "/x").table("t").collect()),
    "cache": ("cache", lambda _, df: df.cache()),
    "unpersist": ("cache", lambda _, df: df.unpersist()),
    "storageLevel": ("cache", lambda _, df: df.storageLevel),
    "cacheTable": ("cache", lambda spark, _: spark.catalog.cacheTable("t")),
    "clearCache": ("cache", lambda spark, _: spark.catalog.clearCache()),
    "checkpoint": ("checkpoint", lambda _, df: df.checkpoint()),
    "localCheckpoint": ("checkpoint", lambda _, df: df.localCheckpoint()),
    "inputFiles": ("file_names", lambda _, df: df.inputFiles()),
    "createGlobalTempView": ("global_view", lambda _, df: df.createGlobalTempView("v")),
    "dropGlobalTempView": ("global_view", lambda spark, _: spark.catalog.dropGlobalTempView("v")),
    "createTable, path": ("files", lambda spark, _: spark.catalog.createTable("t", path="/x")),
    "createTable, options": ("source_options", lambda spark, _: spark.catalog.createTable("t", sep=",")),
    "recoverPartitions": ("no_such_partitions", lambda spark, _: spark.catalog.recoverPartitions("t")),
    "refreshByPath": ("files", lambda spark, _: spark.catalog.refreshByPath("/x")),
    "reflect": ("reflection", lambda _, df: df.select(F.reflect(F.lit("a"), F.lit("b"))).collect()),
    "java_method": ("reflection", lambda _, df: df.select(F.java_method(F.lit("a"))).collect()),
    "call_function": ("reflection", lambda _, df: df.select(F.call_function("TRY_Reflect")).collect()),
    "addArtifacts": ("artifacts", lambda spark, _: spark.addArtifacts(__file__, pyfile=True)),
    "default of a column": (
        "column_marks",
        lambda _, df: df.withMetadata("id", {"CURRENT_DEFAULT": "f()"}).collect(),
    ),
    "hidden column": ("column_marks", lambda _, df: df.withMetadata("id", {"__metadata_col": "x"}).collect()),
}


@pytest.fixture(scope="module")
def stock() -> tuple[Any, Desk]:
    return stock_session()


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_pyspark_are_refused(name: str, stock: tuple[Any, Desk]) -> None:
    spark, desk = stock
    reason, call = CALLS[name]
    frame = spark.table("t")
    desk.clear()
    with contextlib.suppress(Exception):
        call(spark, frame)
    assert [refusal.details.get("reason") for refusal in desk.refusals[:1]] == [reason]
    assert desk.refusals[0].code is Code.NOT_SUPPORTED


def code_of_the_caller() -> dict[str, Callable[[proto.ExecutePlanRequest], Any]]:
    """What PySpark would need a matching Python on the server for, and so cannot be asked for here."""
    return {
        "udf": lambda request: request.plan.root.project.expressions.add()
        .common_inline_user_defined_function.python_udf,
        "udf in an argument": lambda request: request.plan.root.filter.condition.unresolved_function.arguments
        .add().common_inline_user_defined_function.python_udf,
        "mapInPandas": lambda request: request.plan.root.limit.input.map_partitions.func.python_udf,
        "applyInPandas": lambda request: request.plan.root.group_map.func.python_udf,
        "cogroup": lambda request: request.plan.root.co_group_map.func.python_udf,
        "udtf": lambda request: request.plan.root.common_inline_user_defined_table_function.python_udtf,
        "register": lambda request: request.plan.command.register_function.python_udf,
        "register a udtf": lambda request: request.plan.command.register_table_function.python_udtf,
    }  # fmt: skip


@pytest.mark.parametrize("name", code_of_the_caller())
def test_code_of_the_caller_is_refused(name: str) -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    code_of_the_caller()[name](request).SetInParent()
    with pytest.raises(BailiwickError) as caught:
        screen.execute(request.SerializeToString())
    assert caught.value.details["reason"] == "user_code"


def code_that_nobody_runs() -> dict[str, tuple[str, Callable[[proto.ExecutePlanRequest], Any]]]:
    return {
        "scala": (
            "jvm_code",
            lambda request: request.plan.root.project.expressions.add()
            .common_inline_user_defined_function.scalar_scala_udf,
        ),
        "java": ("jvm_code", lambda request: request.plan.command.register_function.java_udf),
        "aggregator": (
            "jvm_code",
            lambda request: request.plan.root.aggregate.aggregate_expressions.add()
            .typed_aggregate_expression.scalar_scala_udf,
        ),
        "data source": (
            "data_source",
            lambda request: request.plan.command.register_data_source.python_data_source,
        ),
        "state": ("streaming", lambda request: request.plan.root.apply_in_pandas_with_state.func.python_udf),
        "state of groups": ("streaming", lambda request: request.plan.root.group_map.state_schema),
        "files": ("artifacts", lambda request: _with_files(request.plan.root.map_partitions.func.python_udf)),
        "a way to run it that keeps state": (
            "streaming",
            lambda request: _of_state(request.plan.root.map_partitions.func.python_udf),
        ),
    }  # fmt: skip


def _with_files(function: Any) -> Any:
    function.additional_includes.append("/etc/passwd")
    return function


def _of_state(function: Any) -> Any:
    function.eval_type = PythonEvalType.SQL_GROUPED_MAP_PANDAS_UDF_WITH_STATE
    return function


@pytest.mark.parametrize("name", code_that_nobody_runs())
def test_some_code_is_refused_to_those_too_who_may_run_code(name: str) -> None:
    reason, put = code_that_nobody_runs()[name]
    request = proto.ExecutePlanRequest(session_id=SESSION)
    put(request).SetInParent()
    with pytest.raises(BailiwickError) as caught:
        screen.execute(request.SerializeToString(), may_run_code=True)
    assert caught.value.details["reason"] == reason


@pytest.mark.parametrize("name", code_of_the_caller())
def test_code_of_those_who_may_passes_and_is_noted(name: str) -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    code_of_the_caller()[name](request).SetInParent()
    assert screen.execute(request.SerializeToString(), may_run_code=True).contents.has_code


def test_extensions_are_refused_whatever_they_are() -> None:
    hidden = AnyMessage()
    hidden.Pack(proto.Relation(range=proto.Range(end=1)))
    request = proto.ExecutePlanRequest(session_id=SESSION)
    request.plan.root.limit.input.extension.CopyFrom(hidden)
    with pytest.raises(BailiwickError, match=r"Relation\.extension"):
        screen.execute(request.SerializeToString())


UDT = json.dumps({"type": "udt", "class": "a.B", "pyClass": None, "sqlType": "string"})
TYPE_TEXTS = {
    "a class": UDT,
    "a class inside": json.dumps({"type": "struct", "fields": [{"name": "a", "type": json.loads(UDT)}]}),
    "a class in other letters": UDT.replace("udt", "\\u0075dt"),
    "a class named twice": UDT.replace("{", '{"type": "x", ', 1),
    "a class behind space": " \n\t" + UDT,
    "a class before a class": UDT + " x",
    "a default": '{"type":"struct","fields":[{"metadata":{"CURRENT_DEFAULT":"f()"}}]}',
}


def placed(where: str, text: str) -> bytes:
    """A request that has a type as text somewhere."""
    request = proto.ExecutePlanRequest(session_id=SESSION)
    match where:
        case "rows":
            request.plan.root.local_relation.schema = text
        case "cast":
            request.plan.root.project.expressions.add().cast.type_str = text
        case "unparsed":
            request.plan.root.to_schema.schema.unparsed.data_type_string = text
    return bytes(request.SerializeToString())


@pytest.mark.parametrize("where", ["rows", "cast", "unparsed"])
@pytest.mark.parametrize("name", TYPE_TEXTS)
def test_classes_do_not_hide_in_types_that_are_texts(where: str, name: str) -> None:
    with pytest.raises(BailiwickError) as caught:
        screen.execute(placed(where, TYPE_TEXTS[name]))
    assert caught.value.code in (Code.NOT_SUPPORTED, Code.PARSE_ERROR)


def test_types_that_are_texts_pass_otherwise() -> None:
    schema = StructType().add("udt", LongType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})
    for text in ("a INT COMMENT 'udt'", "`{` STRING", schema.json(), '"string"'):
        assert screen.execute(placed("rows", text)).kind is PlanKind.READ


@pytest.mark.parametrize("kind", ["ddl_parse", "json_to_ddl"])
def test_classes_do_not_hide_in_types_that_are_parsed(kind: str) -> None:
    request = proto.AnalyzePlanRequest(session_id=SESSION)
    if kind == "ddl_parse":
        request.ddl_parse.ddl_string = UDT
    else:
        request.json_to_ddl.json_string = UDT
    with pytest.raises(BailiwickError, match="load"):
        screen.analyse(request.SerializeToString())


def rows(**options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pandas(pd.DataFrame({"a": ["x" * 1000] * 1000}))
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (rows(compression="zstd"), Code.INVALID_ARGUMENTS),
        (rows(compression="lz4"), Code.INVALID_ARGUMENTS),
        (rows()[:100], Code.PARSE_ERROR),
        (b"PK nothing of the kind", Code.PARSE_ERROR),
    ],
)
def test_rows_come_as_they_are(data: bytes, code: Code) -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    request.plan.root.local_relation.data = data
    with pytest.raises(BailiwickError) as caught:
        screen.execute(request.SerializeToString())
    assert caught.value.code is code


def test_a_call_of_the_catalog_stands_for_itself() -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    request.plan.root.limit.input.catalog.set_current_database.db_name = "x"
    with pytest.raises(BailiwickError, match="stands for itself"):
        screen.execute(request.SerializeToString())
    analysis = proto.AnalyzePlanRequest(session_id=SESSION)
    analysis.schema.plan.root.catalog.set_current_database.db_name = "x"
    with pytest.raises(BailiwickError, match="stands for itself"):
        screen.analyse(analysis.SerializeToString())


def test_commands_are_not_analysed() -> None:
    analysis = proto.AnalyzePlanRequest(session_id=SESSION)
    analysis.explain.plan.command.sql_command.sql = "DROP TABLE t"
    with pytest.raises(BailiwickError, match="executed, not analysed"):
        screen.analyse(analysis.SerializeToString())


@pytest.mark.parametrize("text", ["", "x", "../../x", "1" * 32, SESSION + "\n", "{" + SESSION + "}"])
def test_ids_are_uuids(text: str) -> None:
    reached = reaching("ReattachExecuteRequest")
    reached.request.session_id = text
    with pytest.raises(BailiwickError) as caught:
        reached.judge()
    assert caught.value.code is Code.INVALID_ARGUMENTS


@pytest.mark.parametrize("tag", ["", "a,b", "x" * 201])
def test_tags_are_as_spark_wants_them_and_short(tag: str) -> None:
    reached = reaching("ExecutePlanRequest")
    reached.request.tags.append(tag)
    with pytest.raises(BailiwickError, match="a tag has"):
        reached.judge()


def test_a_plan_says_nothing_of_who_sent_it() -> None:
    reached = reaching("ExecutePlanRequest")
    reached.request.user_context.user_id = "root"
    reached.request.tags.extend(["a", "b", "a"])
    option = reached.request.request_options.add()
    option.reattach_options.reattachable = True
    screened = reached.judge()
    assert screened.tags == ("a", "b")
    assert screened.reattachable
    assert b"root" not in screened.plan.SerializeToString()
    analysis = proto.AnalyzePlanRequest(session_id=SESSION, user_context=proto.UserContext(user_id="root"))
    analysis.spark_version.SetInParent()
    answer = screen.analyse(analysis.SerializeToString())
    assert (answer.session_id, answer.request.SerializeToString()) == (
        SESSION,
        proto.AnalyzePlanRequest(spark_version=analysis.spark_version).SerializeToString(),
    )


def test_rows_take_the_place_of_a_table() -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    read = request.plan.root.limit.input
    read.common.plan_id = 7
    read.read.named_table.unparsed_identifier = "system.runtime.queries"
    screened = screen.execute(request.SerializeToString())
    (table,) = screened.contents.reads
    table.put(proto.LocalRelation(schema="a INT"), ("system", "runtime", "queries"))
    put = screened.plan.root.limit.input
    assert put.common.plan_id == 7
    assert (put.subquery_alias.alias, list(put.subquery_alias.qualifier)) == (
        "queries",
        ["system", "runtime"],
    )
    assert put.subquery_alias.input.local_relation.schema == "a INT"


def sql_command() -> tuple[proto.ExecutePlanRequest, proto.SqlCommand]:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    request.plan.command.sql_command.SetInParent()
    return request, request.plan.command.sql_command


def test_the_statement_is_the_first_text() -> None:
    request, command = sql_command()
    command.input.with_relations.references.add().sql.query = "SELECT 2"
    command.input.with_relations.root.sql.query = "SELECT * FROM a"
    assert screen.execute(request.SerializeToString()).sql_texts == ("SELECT * FROM a", "SELECT 2")


def test_a_statement_is_told_once() -> None:
    request, command = sql_command()
    command.sql = "SELECT 1"
    assert screen.execute(request.SerializeToString()).text == "SELECT 1"
    command.input.sql.query = "DROP TABLE t"
    with pytest.raises(BailiwickError, match="told once"):
        screen.execute(request.SerializeToString())


def test_an_empty_statement_is_told_as_spark_does() -> None:
    request, command = sql_command()
    command.input.sql.SetInParent()
    with pytest.raises(BailiwickError) as caught:
        screen.execute(request.SerializeToString())
    what = told(caught.value)
    assert (what.condition, what.sqlstate) == ("PARSE_EMPTY_STATEMENT", "42617")
    assert what.classes[0].endswith(".ParseException")


def test_a_statement_does_not_hide_in_a_frame_or_nowhere() -> None:
    request, command = sql_command()
    with pytest.raises(BailiwickError, match="no statement"):
        screen.execute(request.SerializeToString())
    command.input.limit.input.sql.query = "DROP TABLE t"
    with pytest.raises(BailiwickError, match="not a statement"):
        screen.execute(request.SerializeToString())

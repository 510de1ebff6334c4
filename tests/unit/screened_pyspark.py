"""Stock PySpark whose calls end at the screen: what it sends is screened and answered with nearly nothing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.connect import proto
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from bailiwick.doors.spark_connect import screen
from bailiwick.doors.spark_connect.screen import ScreenedAnalysis, ScreenedPlan
from bailiwick.errors import BailiwickError

SCHEMA = (
    StructType()
    .add("id", LongType())
    .add("region", StringType())
    .add("amount", DecimalType(12, 2))
    .add("day", DateType())
    .add("at", TimestampType())
    .add("labels", ArrayType(StringType()))
    .add("facts", MapType(StringType(), IntegerType()))
    .add("customer", StructType().add("name", StringType()).add("city", StringType()))
    .add("raw", BinaryType())
    .add("score", DoubleType())
)
"""Of every frame, whatever it is made of."""

PARSED = StructType().add("id", IntegerType()).add("name", StringType())
"""What every type given as text is taken for."""

SETTINGS = {
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.session.localRelationCacheThreshold": str((1 << 31) - 1),
    "spark.sql.session.localRelationChunkSizeRows": str((1 << 31) - 1),
    "spark.sql.session.localRelationChunkSizeBytes": str((1 << 31) - 1),
    "spark.sql.session.localRelationBatchOfChunksSizeBytes": str((1 << 31) - 1),
    "spark.connect.session.planCompression.threshold": str(10 << 20),
    "spark.connect.session.planCompression.defaultAlgorithm": "ZSTD",
}


@dataclass
class Desk:
    """Takes the place of the client's gRPC stub."""

    session_id: str = ""
    plans: list[ScreenedPlan] = field(default_factory=list)
    analyses: list[ScreenedAnalysis] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    refusals: list[BailiwickError] = field(default_factory=list)

    def clear(self) -> None:
        for kept in (self.plans, self.analyses, self.others, self.refusals):
            kept.clear()

    def ExecutePlan(self, request: proto.ExecutePlanRequest, **_: Any) -> Iterator[Any]:  # noqa: N802
        screened = self._screened(screen.execute, request)
        self.plans.append(screened)
        answer = proto.ExecutePlanResponse(session_id=self.session_id)
        if request.plan.command.HasField("sql_command"):
            answer.sql_command_result.relation.CopyFrom(request.plan.command.sql_command.input)
            yield answer
            return
        answer.arrow_batch.row_count = 1
        answer.arrow_batch.data = _one_row()
        yield answer

    def AnalyzePlan(self, request: proto.AnalyzePlanRequest, **_: Any) -> Any:  # noqa: N802
        screened = self._screened(screen.analyse, request)
        self.analyses.append(screened)
        answer = proto.AnalyzePlanResponse(session_id=self.session_id)
        match screened.kind:
            case "schema":
                answer.schema.schema.CopyFrom(pyspark_types_to_proto_types(SCHEMA))
            case "ddl_parse":
                answer.ddl_parse.parsed.CopyFrom(pyspark_types_to_proto_types(PARSED))
            case kind:
                getattr(answer, kind).SetInParent()
        return answer

    def Config(self, request: proto.ConfigRequest, **_: Any) -> Any:  # noqa: N802
        asked = self._screened(screen.config, request)
        self.others.append(asked)
        operation = asked.operation
        keys = [*operation.get.keys, *operation.get_option.keys]
        keys += [pair.key for pair in operation.get_with_default.pairs]
        pairs = [proto.KeyValue(key=key, value=SETTINGS.get(key, "false")) for key in keys]
        return proto.ConfigResponse(session_id=self.session_id, pairs=pairs)

    def Interrupt(self, request: proto.InterruptRequest, **_: Any) -> Any:  # noqa: N802
        self.others.append(self._screened(screen.interrupt, request))
        return proto.InterruptResponse(session_id=self.session_id)

    def ArtifactStatus(self, request: proto.ArtifactStatusesRequest, **_: Any) -> Any:  # noqa: N802
        self.others.append(self._screened(screen.artifact_statuses, request))
        return proto.ArtifactStatusesResponse(session_id=self.session_id)

    def AddArtifacts(self, requests: Iterator[Any], **_: Any) -> Any:  # noqa: N802
        for request in requests:
            self.others.append(self._screened(screen.add_artifacts, request))
        return proto.AddArtifactsResponse(session_id=self.session_id)

    def CloneSession(self, request: proto.CloneSessionRequest, **_: Any) -> Any:  # noqa: N802
        self.others.append(self._screened(screen.clone_session, request))
        return proto.CloneSessionResponse(session_id=self.session_id, new_session_id=self.session_id)

    def _screened(self, judge: Callable[[Any], Any], request: Any) -> Any:
        try:
            return judge(request.SerializeToString())
        except BailiwickError as error:
            self.refusals.append(error)
            raise


def stock_session() -> tuple[SparkSession, Desk]:
    spark = SparkSession("sc://localhost:1")
    desk = Desk(spark.client._session_id)
    spark.client._stub = desk
    spark.client.disable_reattachable_execute()
    spark.client._artifact_manager._stub = desk
    return spark, desk


def _one_row() -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"value": [1]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())

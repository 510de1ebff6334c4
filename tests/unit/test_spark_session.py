"""One session of Spark, whose server a test plays: what is asked of it, and what becomes of its answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from pyspark.sql.connect import proto

from bailiwick.engines.spark_analysis import ANALYSE_TYPE_URL, analysis_plan, read_analysis
from bailiwick.engines.spark_calls import SparkCalls
from bailiwick.engines.spark_connect import SparkConnectSession
from bailiwick.engines.spark_refusal import SparkRefusal
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import LeaseId, QueryId, SessionId, new_operation_id

FIRST, SECOND, STANDING = LeaseId("L1"), LeaseId("L2"), LeaseId("L9")


class Spark:
    """Operations go on until they are interrupted; before that each answers once, with its progress."""

    def __init__(self) -> None:
        self.asked: dict[str, proto.ExecutePlanRequest] = {}
        self.interrupts: list[proto.InterruptRequest] = []
        self.goes_on = True
        self.error: grpc.aio.AioRpcError | None = None
        self._ends: dict[str, asyncio.Event] = {}

    async def ExecutePlan(self, request: Any, *, metadata: Any) -> AsyncIterator[Any]:  # noqa: N802
        del metadata
        self.asked[request.operation_id] = proto.ExecutePlanRequest.FromString(request.SerializeToString())
        ended = self._ends[request.operation_id] = asyncio.Event()
        answer = proto.ExecutePlanResponse()
        answer.execution_progress.num_inflight_tasks = 1
        yield answer
        if self.error is not None:
            raise self.error
        if self.goes_on:
            await ended.wait()
            raise refused("OPERATION_CANCELED", "HY008")

    async def Interrupt(self, request: Any, *, metadata: Any, timeout: float) -> Any:  # noqa: N802
        del metadata, timeout
        self.interrupts.append(request)
        for operation, ended in self._ends.items():
            if request.operation_id in ("", operation):
                ended.set()
        return proto.InterruptResponse()

    async def FetchErrorDetails(self, request: Any, *, metadata: Any, timeout: float) -> Any:  # noqa: N802
        del metadata, timeout
        assert request.error_id == "e1"
        details = proto.FetchErrorDetailsResponse(root_error_idx=0)
        details.errors.add(
            message="outer", cause_idx=1
        ).spark_throwable.error_class = "TABLE_OR_VIEW_NOT_FOUND"
        details.errors.add(message="inner")
        return details


def refused(error_class: str, sqlstate: str, **metadata: str) -> grpc.aio.AioRpcError:
    info = ErrorInfo(reason="x", metadata={"errorClass": error_class, "sqlState": sqlstate, **metadata})
    detail = AnyMessage()
    detail.Pack(info)
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", Status(details=[detail]).SerializeToString()))
    return grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, grpc.aio.Metadata(), trailing, details="[X] said")


def session_with(spark: Spark) -> SparkConnectSession:
    return SparkConnectSession("handle", SparkCalls(spark, "token", SessionId("s"), user_id="u"))


async def test_what_runs_under_one_lease_is_stopped_by_its_operation_and_the_rest_goes_on() -> None:
    spark = Spark()
    session = session_with(spark)
    leaving, staying = new_operation_id(), new_operation_id()
    first = session.execute_plan(proto.Plan(), operation=leaving, lease=FIRST)
    second = session.execute_plan(proto.Plan(), operation=staying, lease=SECOND)
    async with aclosing(first), aclosing(second):
        await anext(first)
        await anext(second)
        assert not session.is_lease_settled(FIRST)

        assert await session.settle_lease(FIRST, timeout_s=5)

        assert {request.operation_id for request in spark.interrupts} == {leaving}
        assert session.is_lease_settled(FIRST)
        assert not session.is_lease_settled(SECOND)
        assert not session.is_settled
        assert await session.settle(timeout_s=5)


async def test_an_operation_whose_end_nobody_confirmed_taints_its_lease_alone() -> None:
    spark = Spark()
    session = session_with(spark)
    spark.error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())
    lost = session.execute_plan(proto.Plan(), operation=new_operation_id(), lease=FIRST)
    with pytest.raises(Exception, match="UNAVAILABLE"):
        [_ async for _ in lost]
    assert not session.is_lease_settled(FIRST)
    assert session.is_lease_settled(SECOND)
    assert not session.is_settled


async def test_a_plan_gives_every_response_as_it_comes() -> None:
    spark = Spark()
    spark.goes_on = False
    plan = proto.Plan()
    plan.root.sql.query = "SELECT 1"
    responses = session_with(spark).execute_plan(plan, operation=new_operation_id(), lease=FIRST)
    assert [each.WhichOneof("response_type") async for each in responses] == ["execution_progress"]
    [asked] = spark.asked.values()
    assert asked.plan == plan
    assert list(asked.tags) == ["L1"]


async def test_the_guard_is_told_what_an_operation_is_and_a_persons_tags_look_like_none_of_it() -> None:
    spark = Spark()
    spark.goes_on = False
    responses = session_with(spark).execute_plan(
        proto.Plan(),
        operation=new_operation_id(),
        lease=FIRST,
        standing=STANDING,
        principal="ann",
        query_id=QueryId("q1"),
        user_tags=("C", "x_Tag_C"),
        reads_only=True,
    )
    [_ async for _ in responses]
    [asked] = spark.asked.values()
    assert list(asked.tags) == ["L1", "PYW5u", "Qq1", "SL9", "R", "U43", "U785f5461675f43"]


async def test_what_makes_a_view_is_known_by_the_standing_lease_and_stopped_with_its_own() -> None:
    spark = Spark()
    session = session_with(spark)
    making = session.execute_plan(
        proto.Plan(), operation=new_operation_id(), lease=FIRST, standing=STANDING, makes_view=True
    )
    async with aclosing(making):
        await anext(making)
        [asked] = spark.asked.values()
        assert list(asked.tags) == ["L9", "SL9"]
        assert await session.settle_lease(FIRST, timeout_s=5)


@pytest.mark.parametrize(("reads_only", "is_said_again"), [(True, False), (False, True)])
async def test_what_is_current_is_said_again_only_after_a_plan_that_may_have_changed_it(
    reads_only: bool, is_said_again: bool
) -> None:
    spark = Spark()
    spark.goes_on = False
    session = session_with(spark)
    await session.use("lake", ())
    responses = session.execute_plan(
        proto.Plan(), operation=new_operation_id(), lease=FIRST, reads_only=reads_only
    )
    [_ async for _ in responses]
    before = len(spark.asked)
    await session.use("lake", ())
    assert (len(spark.asked) > before) == is_said_again


async def test_a_refusal_of_sparks_is_kept_beside_ours() -> None:
    spark = Spark()
    spark.error = refused("TABLE_OR_VIEW_NOT_FOUND", "42P01", errorId="e1")
    responses = session_with(spark).execute_plan(proto.Plan(), operation=new_operation_id(), lease=FIRST)
    with pytest.raises(SparkRefusal) as caught:
        [_ async for _ in responses]
    assert caught.value.code is Code.TABLE_NOT_FOUND
    answer = caught.value.spark
    assert answer.status is grpc.StatusCode.INTERNAL
    assert answer.message == "[X] said"
    assert answer.metadata["sqlState"] == "42P01"
    assert [error.message for error in answer.errors] == ["outer", "inner"]


def test_an_analysis_travels_inside_a_plan_and_comes_back_as_bytes() -> None:
    request = proto.AnalyzePlanRequest()
    request.ddl_parse.ddl_string = "a INT"
    extension = analysis_plan(request).root.extension
    assert extension.type_url == ANALYSE_TYPE_URL
    assert proto.AnalyzePlanRequest.FromString(extension.value) == request

    answer = proto.AnalyzePlanResponse()
    answer.is_local.is_local = True
    assert read_analysis(answer.SerializeToString()) == answer


@pytest.mark.parametrize("told", ["text", None, b"\xff\xff"])
def test_an_analysis_that_is_none_is_an_error(told: object) -> None:
    with pytest.raises(BailiwickError) as caught:
        read_analysis(told)
    assert caught.value.code is Code.INTERNAL_ERROR

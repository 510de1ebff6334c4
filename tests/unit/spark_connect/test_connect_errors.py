"""Errors as stock PySpark raises them, made by PySpark's own code from what the door sends."""

import json
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from pyspark.errors.exceptions import connect as pyspark_errors
from pyspark.sql.connect import proto

from bailiwick.doors.grpc_errors import METADATA_BYTES_MAX, wire_bytes
from bailiwick.doors.spark_connect import errors
from bailiwick.engines.spark_refusal import SparkAnswer, SparkRefusal
from bailiwick.errors import BailiwickError, Code

Details = proto.FetchErrorDetailsResponse


def sent(error: BailiwickError, **options: Any) -> tuple[Any, Status]:
    status, _, metadata = errors.abort_arguments(errors.told(error, **options), "an-id")
    return status, Status.FromString(dict(metadata)["grpc-status-details-bin"])


def info_of(status: Status) -> ErrorInfo:
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    return info


def raised(error: BailiwickError) -> Any:
    """What a stock client raises."""
    code, status = sent(error)
    details = errors.details_of(errors.told(error))
    return pyspark_errors.convert_exception(info_of(status), status.message, details, False, code)


def of_spark(code: Code, condition: str, message: str, classes: list[str], **parameters: str) -> SparkRefusal:
    member = Details.Error(error_type_hierarchy=classes, message=f"[{condition}] {message}; plan")
    member.spark_throwable.error_class = condition
    member.spark_throwable.message_parameters.update(parameters)
    member.spark_throwable.query_contexts.add(start_index=7, stop_index=9, fragment="abc", call_site="a.b.C")
    member.spark_throwable.query_contexts.add(object_type="VIEW", object_name="v", fragment="hidden")
    member.stack_trace.add(declaring_class="org.apache.Secret", method_name="run")
    answer = SparkAnswer(grpc.StatusCode.INTERNAL, message, {"errorClass": condition}, (member,))
    return SparkRefusal(
        BailiwickError(code, message, sqlstate="42P01", details={"condition": condition}), answer
    )


ANALYSIS = ["org.apache.spark.sql.AnalysisException", "java.lang.Exception"]


def test_an_error_of_sparks_stays_what_it_was() -> None:
    error = of_spark(
        Code.TABLE_NOT_FOUND,
        "TABLE_OR_VIEW_NOT_FOUND",
        "The table or view `x` cannot be found.",
        ["org.apache.spark.sql.catalyst.ExtendedAnalysisException", *ANALYSIS],
        relationName="`x`",
    )
    exception = raised(error)
    assert isinstance(exception, pyspark_errors.AnalysisException)
    assert exception.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert exception.getSqlState() == "42P01"
    assert exception.getMessageParameters() == {"relationName": "`x`"}
    assert str(exception).startswith("[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found.")
    (context,) = exception.getQueryContext()
    assert (context.startIndex(), context.stopIndex(), context.fragment()) == (7, 9, "abc")


def test_no_stack_no_call_site_and_no_text_of_a_view_is_told() -> None:
    error = of_spark(Code.SEMANTIC_ERROR, "SOME.CONDITION", "Something.", ANALYSIS)
    details = errors.details_of(errors.told(error)).SerializeToString()
    for hidden in (b"Secret", b"a.b.C", b"hidden", b"plan"):
        assert hidden not in details


def test_parameters_that_name_places_are_scrubbed() -> None:
    error = of_spark(
        Code.SEMANTIC_ERROR, "PATH_NOT_FOUND", "No.", ANALYSIS, path="file:/var/lib/lake/x", a="b"
    )
    told = errors.told(error)
    assert "/var/lib" not in told.parameters["path"]
    assert told.parameters["a"] == "b"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Code.SYNTAX_ERROR, pyspark_errors.ParseException),
        (Code.PARSE_ERROR, pyspark_errors.InvalidPlanInput),
        (Code.SEMANTIC_ERROR, pyspark_errors.AnalysisException),
        (Code.ACCESS_DENIED, pyspark_errors.AnalysisException),
        (Code.NOT_SUPPORTED, pyspark_errors.UnsupportedOperationException),
        (Code.INVALID_ARGUMENTS, pyspark_errors.IllegalArgumentException),
        (Code.DIVISION_BY_ZERO, pyspark_errors.ArithmeticException),
        (Code.EXECUTION_FAILED, pyspark_errors.SparkException),
        (Code.QUERY_TIMEOUT, pyspark_errors.SparkException),
        (Code.RESOURCE_EXHAUSTED, pyspark_errors.SparkException),
        (Code.INTERNAL_ERROR, pyspark_errors.SparkException),
    ],
)
def test_an_error_of_ours_is_raised_as_a_fitting_exception(code: Code, kind: Any) -> None:
    exception = raised(BailiwickError(code, "This happened."))
    assert isinstance(exception, kind)
    assert exception.getCondition() == f"BAILIWICK_{code}"
    assert "This happened." in str(exception)


@pytest.mark.parametrize("code", list(Code))
def test_every_code_can_be_told(code: Code) -> None:
    exception = raised(BailiwickError(code, "Half a character: \ud800"))
    assert isinstance(exception, pyspark_errors.SparkConnectException)


def test_a_cancelled_operation_is_told_as_spark_tells_it() -> None:
    exception = raised(BailiwickError(Code.QUERY_CANCELLED, "The query was cancelled by ann."))
    assert exception.getCondition() == "OPERATION_CANCELED"
    assert exception.getSqlState() == "HY008"


def test_who_may_have_changed_something_is_told_to_look() -> None:
    exception = raised(BailiwickError(Code.EXECUTION_FAILED, "The engine was lost.").outcome_unknown())
    assert "The engine was lost. It may have been carried out all the same" in str(exception)
    assert exception.getMessageParameters()["outcome"] == "unknown"


def test_clients_look_for_unknown_operations_in_the_message() -> None:
    _, status = sent(errors.operation_not_found("o"))
    assert "INVALID_HANDLE.OPERATION_NOT_FOUND" in status.message


def test_a_changed_session_closes_the_client() -> None:
    _, status = sent(errors.session_changed("s", "It ended."))
    assert info_of(status).metadata["errorClass"] == "INVALID_HANDLE.SESSION_CHANGED"


def retries(error: BailiwickError, **options: Any) -> bool:
    code, status = sent(error, **options)
    return code is grpc.StatusCode.UNAVAILABLE or any(
        each.Is(RetryInfo.DESCRIPTOR) for each in status.details
    )


def test_clients_are_told_to_come_back_only_where_that_helps() -> None:
    full = BailiwickError(Code.RESOURCE_EXHAUSTED, "Full.", retry_after_s=2.0)
    assert retries(full)
    assert not retries(full, may_retry=False)
    assert not retries(BailiwickError(Code.RESOURCE_EXHAUSTED, "Too big.", retryable=False))
    assert retries(BailiwickError(Code.CIRCUIT_BREAKER_OPEN, "Soon.", retry_after_s=1.0))
    assert not retries(BailiwickError(Code.CIRCUIT_BREAKER_OPEN, "Never.", retryable=False))
    assert not retries(BailiwickError(Code.STORAGE_ERROR, "Broken."))
    assert not retries(
        BailiwickError(Code.EXECUTION_FAILED, "x", retryable=True, retry_after_s=1).outcome_unknown()
    )


def test_everything_fits_into_the_metadata_that_clients_accept() -> None:
    error = of_spark(Code.SEMANTIC_ERROR, "LONG", "ü" * 10_000, ANALYSIS, a="x" * 10_000)
    _, message, metadata = errors.abort_arguments(errors.told(error), "an-id")
    assert wire_bytes(message, metadata) <= METADATA_BYTES_MAX
    info = info_of(Status.FromString(dict(metadata)["grpc-status-details-bin"]))
    assert "messageParameters" not in info.metadata
    assert json.loads(info.metadata["classes"])

"""What a gRPC client is told, and what only the log is."""

import asyncio
import io
import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
import structlog
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.doors.grpc_errors import METADATA_BYTES_MAX, TrailingMetadata, answering, render
from bailiwick.errors import MEANINGS, BailiwickError, Code, Position
from bailiwick.telemetry import logs
from bailiwick.telemetry.config import LoggingConfig


class EndedError(Exception):
    """What our context raises where grpc's raises AbortError."""


class RecordingContext:
    def __init__(self) -> None:
        self.answer: tuple[grpc.StatusCode, str, TrailingMetadata] | None = None

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: TrailingMetadata = ()
    ) -> None:
        self.answer = (code, details, trailing_metadata)
        raise EndedError


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs.configure(LoggingConfig(format="json"), stream=stream)
    yield stream
    structlog.reset_defaults()


def details_of(metadata: TrailingMetadata) -> tuple[Status, ErrorInfo, RetryInfo | None]:
    packed = dict(metadata)["grpc-status-details-bin"]
    assert isinstance(packed, bytes)
    status, info, retry = Status.FromString(packed), ErrorInfo(), RetryInfo()
    assert status.details[0].Unpack(info)
    has_retry = len(status.details) > 1 and status.details[1].Unpack(retry)
    return status, info, retry if has_retry else None


def test_every_fact_of_an_error_reaches_the_client_twice() -> None:
    error = BailiwickError(
        Code.COLUMN_NOT_FOUND,
        "no column `x`",
        position=Position(3, 8),
        details={"condition": "UNRESOLVED_COLUMN"},
        query_id="q1",
    )
    code, text, metadata = render(error)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text == "COLUMN_NOT_FOUND: no column `x` (query q1)"
    plain = {key: value for key, value in metadata if isinstance(value, str)}
    assert plain == {
        "bailiwick-error-code": "COLUMN_NOT_FOUND",
        "bailiwick-sqlstate": "42703",
        "bailiwick-retryable": "false",
        "bailiwick-query-id": "q1",
    }
    status, info, retry = details_of(metadata)
    assert (status.code, status.message, retry) == (code.value[0], text, None)
    assert (info.reason, info.domain) == ("COLUMN_NOT_FOUND", "bailiwick")
    assert dict(info.metadata) == {
        "sqlstate": "42703",
        "retryable": "false",
        "query_id": "q1",
        "line": "3",
        "column": "8",
        "condition": "UNRESOLVED_COLUMN",
    }


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_a_status_that_grpc_knows(code: Code) -> None:
    status, _, metadata = render(BailiwickError(code, "x"))
    assert status.name == MEANINGS[code].grpc
    assert dict(metadata)["bailiwick-error-code"] == code.value


def test_when_to_come_back_is_told_in_whole_seconds_and_exactly() -> None:
    error = BailiwickError(Code.RESOURCE_EXHAUSTED, "full", retry_after_s=1.2)
    _, _, metadata = render(error)
    _, _, retry = details_of(metadata)
    assert dict(metadata)["retry-after"] == "2"
    assert retry is not None
    assert retry.retry_delay.ToMilliseconds() == 1200


def test_nobody_is_told_to_come_back_for_nothing() -> None:
    error = BailiwickError(Code.RESOURCE_EXHAUSTED, "too long", retry_after_s=1.2, retryable=False)
    assert "retry-after" not in dict(render(error)[2])


@given(message=st.text(max_size=30_000), detail=st.text(max_size=3_000), query_id=st.text(max_size=40))
def test_an_answer_always_fits_into_what_clients_accept(message: str, detail: str, query_id: str) -> None:
    details = {f"detail{number}": detail for number in range(20)}
    error = BailiwickError(Code.SEMANTIC_ERROR, message, details=details, query_id=query_id)
    _, text, metadata = render(error)
    sizes = [len(key) + len(value) * (4 / 3 if isinstance(value, bytes) else 1) for key, value in metadata]
    assert sum(sizes) + len(text) <= METADATA_BYTES_MAX
    for _key, value in metadata:
        assert isinstance(value, bytes) or (value.isascii() and value.isprintable())


def test_text_that_is_not_valid_unicode_does_not_break_the_answer() -> None:
    error = BailiwickError(Code.SEMANTIC_ERROR, "a\ud800b", details={"x": "\udfff"})
    _, text, metadata = render(error)
    assert text.encode("utf-8")
    assert details_of(metadata)[1].metadata["x"]


def test_what_the_house_must_keep_is_scrubbed_once_more_at_the_door() -> None:
    _, text, _ = render(BailiwickError(Code.EXECUTION_FAILED, "lost 10.1.2.3:7077 while reading s3://b/k"))
    assert "10.1.2.3" not in text
    assert "s3://" not in text


async def test_an_error_of_ours_ends_the_call_with_its_rendering(log: io.StringIO) -> None:
    context = RecordingContext()
    with pytest.raises(EndedError):
        async with answering(context, query_id="q7"):
            raise BailiwickError(Code.TABLE_NOT_FOUND, "no table t", cause_text="the whole story")
    assert context.answer is not None
    assert context.answer[:2] == (grpc.StatusCode.NOT_FOUND, "TABLE_NOT_FOUND: no table t (query q7)")
    line = json.loads(log.getvalue())
    assert (line["query_id"], line["cause"], line["code"]) == ("q7", "the whole story", "TABLE_NOT_FOUND")


async def test_an_error_that_is_not_ours_tells_the_client_nothing_and_the_log_everything(
    log: io.StringIO,
) -> None:
    context = RecordingContext()
    with pytest.raises(EndedError):
        async with answering(context, query_id="q8"):
            raise KeyError("internal_table_of_secrets")
    assert context.answer is not None
    status, text, metadata = context.answer
    assert status is grpc.StatusCode.INTERNAL
    assert "internal_table" not in text + str(metadata)
    assert "KeyError: 'internal_table_of_secrets'" in json.loads(log.getvalue())["exception"]


async def test_an_error_of_ours_is_found_inside_a_task_group(log: io.StringIO) -> None:
    async def fail() -> None:
        raise BailiwickError(Code.DIVISION_BY_ZERO, "x/0")

    context = RecordingContext()
    with pytest.raises(EndedError):
        async with answering(context), asyncio.TaskGroup() as group:
            group.create_task(fail())
    assert context.answer is not None
    assert context.answer[1] == "DIVISION_BY_ZERO: x/0"


async def test_a_cancelled_call_is_left_alone(log: io.StringIO) -> None:
    context = RecordingContext()
    with pytest.raises(asyncio.CancelledError):
        async with answering(context):
            raise asyncio.CancelledError
    assert context.answer is None


async def test_a_real_client_reads_all_of_it(log: io.StringIO) -> None:
    async def fail(_request: bytes, context: Any) -> bytes:
        async with answering(context):
            raise BailiwickError(Code.RESOURCE_EXHAUSTED, "später " * 2000, retry_after_s=3, query_id="q9")

    handlers = {"Fail": grpc.unary_unary_rpc_method_handler(fail)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary("/test.Service/Fail")(b"", timeout=10)
    finally:
        await server.stop(None)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    metadata = dict(caught.value.trailing_metadata() or ())
    assert (metadata["bailiwick-query-id"], metadata["retry-after"]) == ("q9", "3")
    assert "später" in str(caught.value.details())

"""However large, deep or numerous it is, a request ends in a typed error soon and within bounds of memory."""

import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest
from hostile_requests import MIB, ROOT, compressed, delimited, nested, request_of, zstd
from pyspark.sql.connect import proto
from spark_connect_messages import SESSION

from bailiwick.doors.spark_connect import screen
from bailiwick.doors.spark_connect.unpacking import BOUNDS, Bounds, decompressed, parse
from bailiwick.errors import BailiwickError, Code


def peak_bytes() -> int:
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def failure(request: bytes, bounds: Bounds = BOUNDS) -> BailiwickError:
    with pytest.raises(BailiwickError) as caught:
        screen.execute(request, bounds)
    return caught.value


def test_half_a_gigabyte_that_comes_small_is_not_unpacked() -> None:
    bomb = compressed(zstd(512))
    assert len(bomb) < MIB
    before = peak_bytes()
    error = failure(bomb)
    assert error.code is Code.RESOURCE_EXHAUSTED
    assert not error.retryable
    assert error.details["limit"] == "plan_bytes_max"
    assert peak_bytes() - before < 2 * BOUNDS.plan_bytes_max


def test_many_of_them_at_once_take_the_room_of_one() -> None:
    bomb = compressed(zstd(512))
    failure(bomb)
    before = peak_bytes()
    with ThreadPoolExecutor(8) as threads:
        errors = list(threads.map(failure, [bomb] * 16))
    assert {error.code for error in errors} == {Code.RESOURCE_EXHAUSTED}
    assert peak_bytes() - before < 2 * BOUNDS.plan_bytes_max


def test_several_frames_count_together() -> None:
    with pytest.raises(BailiwickError) as caught:
        decompressed(zstd(1) * 3, 2 * MIB)
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    assert len(decompressed(zstd(1) * 2, 2 * MIB)) == 2 * MIB


@pytest.mark.parametrize("data", [b"", b"nothing", zstd(1)[:-3], zstd(1) + b"x"])
def test_what_is_not_zstd_is_a_mistake(data: bytes) -> None:
    assert failure(compressed(data)).code is Code.PARSE_ERROR


def test_compressed_plans_are_seen_through() -> None:
    refused = proto.Relation()
    refused.limit.input.map_partitions.SetInParent()
    data = zstd(1, refused.SerializeToString())
    assert failure(compressed(data)).details["kind"] == "Relation.map_partitions"
    command = proto.Command()
    command.register_function.function_name = "f"
    data = zstd(1, command.SerializeToString())
    kind = proto.Plan.CompressedOperation.OP_TYPE_COMMAND
    assert failure(compressed(data, kind)).details["kind"] == "Command.register_function"


@pytest.mark.parametrize("places", [("schema",), ("explain",), ("same_semantics", "other_plan")])
def test_compressed_plans_are_seen_through_when_they_are_analysed(places: tuple[str, ...]) -> None:
    refused = proto.Relation()
    refused.limit.input.map_partitions.SetInParent()
    request = proto.AnalyzePlanRequest(session_id=SESSION)
    asked = getattr(request, places[0])
    packed = proto.ExecutePlanRequest.FromString(compressed(zstd(1, refused.SerializeToString())))
    getattr(asked, places[-1] if len(places) > 1 else "plan").CopyFrom(packed.plan)
    with pytest.raises(BailiwickError) as caught:
        screen.analyse(request.SerializeToString())
    assert caught.value.details["kind"] == "Relation.map_partitions"


def test_a_compressed_plan_must_say_what_it_is() -> None:
    data = zstd(1, nested(1))
    unsaid = proto.Plan.CompressedOperation.OP_TYPE_UNSPECIFIED
    assert failure(compressed(data, unsaid)).code is Code.PARSE_ERROR
    request = proto.ExecutePlanRequest.FromString(compressed(data))
    request.plan.compressed_operation.compression_codec = 0
    assert failure(request.SerializeToString()).code is Code.NOT_SUPPORTED


@pytest.mark.parametrize("levels", [10, 49, 60, 490])
def test_chains_of_calls_pass_far_beyond_what_protobuf_parses_by_itself(levels: int) -> None:
    screened = screen.execute(request_of(nested(levels)))
    assert screened.plan.SerializeToString() == delimited(ROOT, nested(levels))
    packed = screen.execute(compressed(zstd(1, nested(levels))))
    assert packed.plan == screened.plan


@pytest.mark.parametrize("levels", [500, 10_000])
def test_plans_nested_too_deeply_are_refused(levels: int) -> None:
    for request in (request_of(nested(levels)), compressed(zstd(1, nested(levels)))):
        error = failure(request)
        assert error.code is Code.RESOURCE_EXHAUSTED
        assert error.details == {"reason": "too_complex", "limit": "depth_max"}


def test_expressions_nested_too_deeply_are_refused() -> None:
    expression = proto.Expression.DESCRIPTOR.fields_by_name["unresolved_function"].number
    arguments = proto.Expression.UnresolvedFunction.DESCRIPTOR.fields_by_name["arguments"].number
    data = b""
    for _ in range(10_000):
        data = delimited(expression, delimited(arguments, data))
    filtered = proto.Relation.DESCRIPTOR.fields_by_name["filter"].number
    condition = proto.Filter.DESCRIPTOR.fields_by_name["condition"].number
    error = failure(request_of(delimited(filtered, delimited(condition, data))))
    assert error.details["limit"] == "depth_max"


def test_groups_nested_without_end_are_a_mistake() -> None:
    """They are no part of Spark Connect, and protobuf goes down into them although it does not know them."""
    groups = b"\xa3\x06" * 50_000 + b"\xa4\x06" * 50_000
    assert failure(request_of(nested(60)) + groups).code is Code.PARSE_ERROR
    assert failure(groups).code is Code.PARSE_ERROR


def test_other_threads_parse_no_deeper_while_a_deep_plan_is_parsed() -> None:
    """How deep protobuf goes is set for the whole process, and only while no one else parses."""
    deep, outcomes = request_of(nested(400)), []

    def parse_often() -> None:
        for _ in range(50):
            outcomes.append(parse(proto.ExecutePlanRequest, deep).plan.root.HasField("limit"))

    threads = [Thread(target=parse_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [True] * 200
    with pytest.raises(Exception, match="MaxDepth"):
        proto.ExecutePlanRequest.FromString(deep)


def test_a_plan_has_a_bounded_number_of_parts() -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    for number in range(1000):
        request.plan.root.project.expressions.add().literal.integer = number
    data = request.SerializeToString()
    assert screen.execute(data, Bounds(messages_max=2100)).kind == "read"
    error = failure(data, Bounds(messages_max=2000))
    assert error.details["limit"] == "messages_max"


def test_a_request_of_many_parts_is_not_even_parsed() -> None:
    """Two bytes of a request can be a message, which takes many more in memory."""
    project = proto.Relation.DESCRIPTOR.fields_by_name["project"].number
    expressions = proto.Project.DESCRIPTOR.fields_by_name["expressions"].number
    data = request_of(delimited(project, delimited(expressions, b"") * (8 * MIB)))
    before, begun = peak_bytes(), time.monotonic()
    assert failure(data).details["limit"] == "messages_max"
    assert peak_bytes() - before < 64 * MIB
    assert time.monotonic() - begun < 10


def test_a_request_of_many_fields_is_not_even_parsed() -> None:
    tags = proto.ExecutePlanRequest.DESCRIPTOR.fields_by_name["tags"].number
    data = delimited(tags, b"") * (8 * MIB)
    before = peak_bytes()
    assert failure(data).details["limit"] == "fields_max"
    assert peak_bytes() - before < 64 * MIB


def test_a_request_has_a_bounded_size() -> None:
    assert failure(bytes(101), Bounds(request_bytes_max=100)).details["limit"] == "request_bytes_max"


@pytest.mark.parametrize(
    ("place", "number", "most"),
    [
        ("repartition.num_partitions", 100_001, 100_000),
        ("range.num_partitions", 100_001, 100_000),
        ("show_string.num_rows", 100_001, 100_000),
        ("tail.limit", 1_000_001, 1_000_000),
    ],
)
def test_numbers_that_the_engine_would_make_room_for_are_bounded(place: str, number: int, most: int) -> None:
    kind, field = place.split(".")
    for value in (most, number):
        request = proto.ExecutePlanRequest(session_id=SESSION)
        setattr(getattr(request.plan.root, kind), field, value)
        if value == most:
            screen.execute(request.SerializeToString())
        else:
            assert failure(request.SerializeToString()).code is Code.RESOURCE_EXHAUSTED


def test_json_without_end_is_a_mistake() -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    request.plan.root.local_relation.schema = "[" * 100_000
    assert failure(request.SerializeToString()).code is Code.PARSE_ERROR

"""Whatever bob sends to the port of Spark Connect, he gets a typed error, and ann works on undisturbed."""

import random
import socket
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from hostile_requests import compressed, grown, mutated, nested, request_of, seeds, zstd
from pyspark.sql.connect import proto

from bailiwick.testing.asking import ENDLESS, in_background, running_queries, wait_until
from faults.connect_door.house import Door
from faults.connect_door.raw import METHODS, SERVICE, Ended, RawConnect, raw_connect, row_counts, sql, table
from faults.connect_door.unharmed import Unharmed, unharmed

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(500)]

SEED = 20_261_116
AT_ONCE = 4
ANSWER_S = 20.0
TYPED = frozenset(
    {
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


@pytest.fixture(scope="module")
def peace(door: Door) -> Iterator[Unharmed]:
    with unharmed(door) as made:
        yield made


@pytest.fixture(autouse=True)
def _ann_works_on(peace: Unharmed) -> Iterator[None]:
    yield
    peace.check()


@pytest.fixture
def bob(door: Door) -> Iterator[RawConnect]:
    with raw_connect(door.port, door.tokens["bob"]) as client:
        yield client


def check_typed(peace: Unharmed, end: Ended) -> None:
    """An answer, or an error that a client can read; never one of the gateway's own failing."""
    if end.status is not grpc.StatusCode.OK:
        assert end.status in TYPED, end
        assert end.condition, end
        assert end.condition != "BAILIWICK_INTERNAL_ERROR", end
    peace.check_words(end)


@pytest.mark.parametrize(
    "sent",
    [
        random.Random(SEED).randbytes(10_000),
        b"GET /spark.connect.SparkConnectService/ExecutePlan HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + random.Random(SEED).randbytes(10_000),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" * 10_000,
    ],
    ids=["noise", "HTTP/1", "TLS", "HTTP/2 and noise", "settings without end"],
)
def test_what_is_no_call_is_let_go(door: Door, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", door.port), ANSWER_S) as line:
        try:
            line.sendall(sent)
            line.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: line.recv(65_536), b""))
        except OSError:
            answer = b""  # It was let go before it had said everything.
    assert b"spark" not in answer.lower()


def test_calls_that_there_are_not_are_told_so(peace: Unharmed, bob: RawConnect) -> None:
    unknown = "BAILIWICK_NOT_SUPPORTED"
    for service, method, condition in (
        (SERVICE, "Nothing", unknown),
        (SERVICE, "executePlan", unknown),
        (SERVICE, "x" * 4_000, unknown),
        (f"{SERVICE}/..", "ExecutePlan", unknown),
        ("spark.connect.Nothing", "ExecutePlan", ""),
        ("", "", ""),
    ):
        end = bob.send(method, b"", service)
        assert (end.status, end.condition) == (grpc.StatusCode.UNIMPLEMENTED, condition)
        peace.check_words(end)


def test_nobody_is_let_in_by_what_the_message_says(door: Door, peace: Unharmed) -> None:
    with raw_connect(door.port, "", peace.ann.session_id) as nobody:
        for kind in METHODS:
            request = getattr(proto, kind)(session_id=peace.ann.session_id)
            request.user_context.user_id = "ann"
            end = nobody.send(METHODS[kind], request.SerializeToString())
            assert end.status is grpc.StatusCode.UNAUTHENTICATED, (kind, end)
            peace.check_words(end)


@pytest.mark.full
@pytest.mark.parametrize("count", [1_000, 10_000])
def test_requests_broken_at_random_end_in_typed_errors(
    peace: Unharmed, bob: RawConnect, count: int, record_property: Any
) -> None:
    chance = random.Random(f"{SEED} {count}")
    sent = list(broken_requests(chance, count))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        ends = list(threads.map(lambda request: bob.send(*request), sent))
    for end in ends:
        check_typed(peace, end)
    met = Counter(end.condition or "answered" for end in ends)
    record_property("ends", dict(met))
    # They are of use only if every call was met, and some came as far as the engine.
    assert {method for method, _ in sent} == set(METHODS.values())
    assert min(met["BAILIWICK_PARSE_ERROR"], met["BAILIWICK_NOT_SUPPORTED"]) > count // 50
    assert met["answered"] > count // 200


def broken_requests(chance: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    """By turns broken in their bytes and, still readable, in their sense. Operations have their own names."""
    by_call: dict[str, list[Any]] = {}
    for request in (*seeds(chance), proto.AddArtifactsRequest(), proto.CloneSessionRequest()):
        by_call.setdefault(METHODS[request.DESCRIPTOR.name], []).append(request)
    for number in range(count):
        request = grown(chance) if number % 2 else chance.choice(by_call[chance.choice(list(by_call))])
        method = METHODS[request.DESCRIPTOR.name]
        if method == "ExecutePlan":
            request.operation_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        data = request.SerializeToString()
        yield method, data if number % 2 else mutated(data, chance)


@pytest.mark.parametrize(
    "sent",
    [
        compressed(zstd(512)),
        request_of(nested(10_000)),
        compressed(zstd(1, nested(10_000))),
    ],
    ids=["half a gigabyte", "ten thousand deep", "deep and compressed"],
)
def test_what_would_burst_is_refused_as_often_as_it_comes(
    peace: Unharmed, bob: RawConnect, sent: bytes
) -> None:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        ends = list(threads.map(lambda _: bob.send("ExecutePlan", sent), range(3 * AT_ONCE)))
    for end in ends:
        check_typed(peace, end)
        assert end.condition == "BAILIWICK_RESOURCE_EXHAUSTED", end


def test_anns_names_open_nothing_to_bob(door: Door, peace: Unharmed) -> None:
    """Session, operation, tag, error and what the server calls the session: all of them, said by bob."""
    ann, operation, tag = peace.ann, str(uuid.uuid4()), "anns"
    refused = ann.run(table("faults.nothing"))
    assert refused.error_id
    running = ann.request(proto.ExecutePlanRequest, plan=sql(ENDLESS), operation_id=operation, tags=[tag])
    running.request_options.add().reattach_options.reattachable = True
    with raw_connect(door.port, door.tokens["bob"], ann.session_id) as bob:
        call = ann.begin("ExecutePlan", running.SerializeToString())
        wait_until("running", lambda: running_queries(door.gateway, "CROSS JOIN"))
        try:
            try_everything(bob, operation, tag, refused.error_id)
            assert running_queries(door.gateway, "CROSS JOIN")
        finally:
            every = proto.InterruptRequest.INTERRUPT_TYPE_ALL
            assert ann.call(proto.InterruptRequest, interrupt_type=every).answers
            with in_background(lambda: list(call)) as reading:
                assert isinstance(reading.exception(ANSWER_S), grpc.RpcError)
    told = ann.call(proto.FetchErrorDetailsRequest, error_id=refused.error_id)
    assert b"TABLE_OR_VIEW_NOT_FOUND" in told.answers[0]


def try_everything(bob: RawConnect, operation: str, tag: str, error_id: str) -> None:
    interrupt, release, reattach = (
        proto.InterruptRequest,
        proto.ReleaseExecuteRequest,
        proto.ReattachExecuteRequest,
    )
    assert bob.call(reattach, operation_id=operation).condition == "INVALID_HANDLE.SESSION_CHANGED"
    assert bob.run(table("mine")).condition == "TABLE_OR_VIEW_NOT_FOUND"
    assert bob.call(reattach, operation_id=operation).condition == "INVALID_HANDLE.OPERATION_NOT_FOUND"
    for how in (
        {"interrupt_type": interrupt.INTERRUPT_TYPE_ALL},
        {"interrupt_type": interrupt.INTERRUPT_TYPE_TAG, "operation_tag": tag},
        {"interrupt_type": interrupt.INTERRUPT_TYPE_OPERATION_ID, "operation_id": operation},
    ):
        (answer,) = bob.call(interrupt, **how).answers
        assert not proto.InterruptResponse.FromString(answer).interrupted_ids
    assert bob.call(release, operation_id=operation, release_all=release.ReleaseAll()).answers
    (details,) = bob.call(proto.FetchErrorDetailsRequest, error_id=error_id).answers
    assert not proto.FetchErrorDetailsResponse.FromString(details).errors
    who = bob.request(proto.ExecutePlanRequest, plan=sql("SELECT 1 WHERE current_user() = 'bob'"))
    who.user_context.user_id = who.user_context.user_name = "ann"
    assert row_counts(bob.send("ExecutePlan", who.SerializeToString())) == 1
    assert bob.call(proto.ReleaseSessionRequest).answers


KEYS = (
    "spark.sql.extensions",
    "spark.sql.Extensions",
    "SPARK.SQL.EXTENSIONS",
    " spark.sql.extensions",
    "spark.sql.extensions ",
    "spark.sql.shuffle.partitions\x00",
    "spark.sql.shuffle.partitions.x",
    "spark.sql.catalog.lake",
    "spark.sql.catalog.lake.token",
    "spark.sql.catalog.other",
    "spark.sql.defaultCatalog",
    "spark.sql.redaction.options.regex",
    "spark.redaction.regex",
    "spark.sql.variable.substitute",
    "spark.sql.ansi.enabled",
    "spark.hadoop.fs.s3a.secret.key",
    "spark.connect.authenticate.token",
    "spark.driver.extraJavaOptions",
    "spark.sql.warehouse.dir",
    "",
    "x" * 10_000,
)


def test_settings_are_neither_set_nor_told_by_any_spelling(peace: Unharmed, bob: RawConnect) -> None:
    for key in KEYS:
        operation = proto.ConfigRequest.Operation()
        operation.set.pairs.add(key=key, value="x")
        end = bob.call(proto.ConfigRequest, operation=operation)
        check_typed(peace, end)
        assert end.condition in ("CANNOT_MODIFY_CONFIG", "BAILIWICK_INVALID_ARGUMENTS"), (key, end)
        asked = proto.ConfigRequest.Operation()
        asked.get_with_default.pairs.add(key=key, value="the default")
        end = bob.call(proto.ConfigRequest, operation=asked)
        check_typed(peace, end)
        told = [pair.value for each in end.answers for pair in proto.ConfigResponse.FromString(each).pairs]
        assert set(told) <= {"the default", "true", "false", "lake"}, (key, told)


def test_no_prefix_tells_what_is_hidden(door: Door, peace: Unharmed, bob: RawConnect) -> None:
    for prefix in ("", "spark.", "spark.sql.catalog", "spark.sql.catalog.lake.", "spark.bailiwick", "SPARK"):
        operation = proto.ConfigRequest.Operation()
        operation.get_all.prefix = prefix
        (answer,) = bob.call(proto.ConfigRequest, operation=operation).answers
        told = str(proto.ConfigResponse.FromString(answer))
        for hidden in ("catalog.lake", "token", "bailiwick", str(door.gateway.data_dir), "://"):
            assert hidden not in told, (prefix, hidden)
        peace.check_words(Ended(words=told))

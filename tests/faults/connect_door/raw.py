"""Spark Connect by hand: whatever bytes under whatever names, and all that was said in return."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from pyspark.sql.connect import proto

SERVICE = "spark.connect.SparkConnectService"
TIMEOUT_S = 60.0
METHODS = {
    "ExecutePlanRequest": "ExecutePlan",
    "AnalyzePlanRequest": "AnalyzePlan",
    "ConfigRequest": "Config",
    "InterruptRequest": "Interrupt",
    "ReattachExecuteRequest": "ReattachExecute",
    "ReleaseExecuteRequest": "ReleaseExecute",
    "ReleaseSessionRequest": "ReleaseSession",
    "FetchErrorDetailsRequest": "FetchErrorDetails",
    "ArtifactStatusesRequest": "ArtifactStatus",
    "AddArtifactsRequest": "AddArtifacts",
    "CloneSessionRequest": "CloneSession",
}
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended: with answers, or with a status, the condition that clients read, and all words."""

    status: grpc.StatusCode = grpc.StatusCode.OK
    condition: str = ""
    words: str = ""
    error_id: str = ""
    answers: tuple[bytes, ...] = ()


@dataclass(slots=True)
class RawConnect:
    """One connection of one user, with a session of its own unless another one's is named."""

    channel: Any
    token: str = field(repr=False)
    session_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),)

    def begin(self, method: str, data: bytes, service: str = SERVICE) -> Any:
        """The call itself. Every method answers as a stream; artifacts also come as one."""
        path, given = f"/{service}/{method}", {"metadata": self.metadata, "timeout": TIMEOUT_S}
        if method == "AddArtifacts":
            return self.channel.stream_stream(path)(iter([data, data]), **given)
        return self.channel.unary_stream(path)(data, **given)

    def send(self, method: str, data: bytes, service: str = SERVICE) -> Ended:
        try:
            return Ended(answers=tuple(self.begin(method, data, service)))
        except grpc.RpcError as error:
            return ended(error)

    def call(self, kind: Any, **fields: Any) -> Ended:
        """A request of that kind, as one of this session."""
        return self.send(METHODS[kind.DESCRIPTOR.name], self.request(kind, **fields).SerializeToString())

    def request(self, kind: Any, **fields: Any) -> Any:
        return kind(**{"session_id": self.session_id, **fields})

    def run(self, plan: Any, **fields: Any) -> Ended:
        return self.call(proto.ExecutePlanRequest, plan=plan, **fields)


def ended(error: Any) -> Ended:
    metadata = dict(error.trailing_metadata() or ())
    status, info = Status.FromString(metadata.pop("grpc-status-details-bin", b"")), ErrorInfo()
    for detail in status.details:
        detail.Unpack(info)
    told = dict(info.metadata)
    words = "\n".join((str(error.details()), status.message, info.reason, str(told), str(metadata)))
    return Ended(error.code(), told.get("errorClass", ""), words, told.get("errorId", ""))


@contextmanager
def raw_connect(port: int, token: str, session_id: str | None = None) -> Iterator[RawConnect]:
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        yield RawConnect(channel, token, session_id or str(uuid.uuid4()))


def sql(text: str) -> Any:
    plan = proto.Plan()
    plan.root.sql.query = text
    return plan


def table(name: str) -> Any:
    plan = proto.Plan()
    plan.root.read.named_table.unparsed_identifier = name
    return plan


def view(name: str, of: Any) -> Any:
    plan = proto.Plan()
    plan.command.create_dataframe_view.name = name
    plan.command.create_dataframe_view.input.CopyFrom(of.root)
    return plan


def row_counts(end: Ended) -> int:
    """Of all batches together."""
    answers = [proto.ExecutePlanResponse.FromString(answer) for answer in end.answers]
    return sum(answer.arrow_batch.row_count for answer in answers)

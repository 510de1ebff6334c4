"""A Flight SQL client that sends whatever bytes it is told to: for what no real driver would do.

It knows the wire's envelopes and nothing else. Errors come as `Refused`, with our code.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql

SERVICE = "arrow.flight.protocol.FlightService"
TIMEOUT_S = 60.0
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Otherwise channels to one address share a connection.
    ("grpc.use_local_subchannel_pool", 1),
)
_STREAMS_IN = frozenset({"Handshake", "DoPut", "DoExchange"})


class Refused(Exception):  # noqa: N818 - what happened to the call, in one word
    """A call ended in an error: `code` is ours, or empty if the error was not."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.details())
        self.status: grpc.StatusCode = error.code()
        self.code = str(dict(error.trailing_metadata() or ()).get("bailiwick-error-code", ""))


@dataclass(slots=True)
class RawFlight:
    """One connection. `metadata` goes along with every call."""

    channel: Any
    metadata: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    """What the last answer began with."""

    def call(self, method: str, *messages: bytes) -> list[bytes]:
        """All messages of the answer."""
        call = self.begin(method, iter(messages))
        try:
            answers = list(call)
            self.headers = dict(call.initial_metadata() or ())
        except grpc.RpcError as error:
            raise Refused(error) from error
        return answers

    def begin(self, method: str, messages: Iterable[bytes]) -> Any:
        """The call itself, for those who mean to leave it. Every method answers as a stream."""
        path, given = f"/{SERVICE}/{method}", {"metadata": self.metadata, "timeout": TIMEOUT_S}
        if method in _STREAMS_IN:
            return self.channel.stream_stream(path)(iter(messages), **given)
        return self.channel.unary_stream(path)(next(iter(messages)), **given)

    def info(self, command: Message) -> flight.FlightInfo:
        return flight.FlightInfo.FromString(self.call("GetFlightInfo", descriptor(command))[0])

    def ticket(self, text: str) -> bytes:
        """A ticket for this statement, ready to be sent to DoGet."""
        endpoint = self.info(sql.CommandStatementQuery(query=text)).endpoint[0]
        return endpoint.ticket.SerializeToString()

    def poll(self, request: bytes) -> flight.PollInfo:
        return flight.PollInfo.FromString(self.call("PollFlightInfo", request)[0])

    def prepare(self, text: str) -> bytes:
        body = packed(sql.ActionCreatePreparedStatementRequest(query=text))
        made = sql.ActionCreatePreparedStatementResult()
        AnyMessage.FromString(self.act("CreatePreparedStatement", body)).Unpack(made)
        handle: bytes = made.prepared_statement_handle
        return handle

    def bind(self, handle: bytes, table: pa.Table) -> bytes:
        """The handle that carries these parameters."""
        command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
        answer = flight.PutResult.FromString(self.call("DoPut", *put(command, table))[0])
        bound = sql.DoPutPreparedStatementResult.FromString(answer.app_metadata)
        return bytes(bound.prepared_statement_handle)

    def act(self, name: str, body: bytes = b"") -> bytes:
        results = self.call("DoAction", flight.Action(type=name, body=body).SerializeToString())
        return bytes(flight.Result.FromString(results[0]).body) if results else b""

    def run_prepared(self, handle: bytes) -> pa.Table:
        info = self.info(sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))
        return self.fetch(info.endpoint[0].ticket.SerializeToString())

    def fetch(self, ticket: bytes) -> pa.Table:
        return table_of(self.call("DoGet", ticket))


@contextmanager
def raw_flight(
    address: str, *, token: str | None = None, basic: tuple[str, str] | None = None
) -> Iterator[RawFlight]:
    """A connection of its own, signed in if a token or a name and password are given."""
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        client = RawFlight(channel)
        if basic is not None:
            token = sign_in(client, *basic)
        if token is not None:
            client.metadata = (("authorization", f"Bearer {token}"),)
        yield client


def sign_in(client: RawFlight, name: str, password: str) -> str:
    """A Handshake: the session's token."""
    payload = flight.BasicAuth(username=name, password=password).SerializeToString()
    request = flight.HandshakeRequest(payload=payload).SerializeToString()
    return flight.HandshakeResponse.FromString(client.call("Handshake", request)[0]).payload.decode()


def packed(message: Message) -> bytes:
    envelope = AnyMessage()
    envelope.Pack(message)
    return envelope.SerializeToString()


def descriptor(command: Message | bytes) -> bytes:
    cmd = command if isinstance(command, bytes) else packed(command)
    return flight.FlightDescriptor(type=flight.FlightDescriptor.CMD, cmd=cmd).SerializeToString()


def put(command: Message, table: pa.Table) -> list[bytes]:
    """The messages of a DoPut: the command with the schema, then the rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = [
        flight.FlightData(
            data_header=each.metadata.to_pybytes(), data_body=each.body.to_pybytes() if each.body else b""
        )
        for each in pa.ipc.MessageReader.open_stream(sink.getvalue())
    ]
    data[0].flight_descriptor.ParseFromString(descriptor(command))
    return [each.SerializeToString() for each in data]


def table_of(messages: Iterable[bytes]) -> pa.Table:
    """What a DoGet answered."""
    stream = bytearray()
    for message in messages:
        data = flight.FlightData.FromString(message)
        stream += b"\xff\xff\xff\xff" + len(data.data_header).to_bytes(4, "little")
        stream += data.data_header + data.data_body
    with pa.ipc.open_stream(bytes(stream)) as reader:
        return reader.read_all()

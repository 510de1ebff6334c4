"""A small Flight SQL client on grpc.aio: sign in, run a statement, read Arrow.

It speaks what our gateway speaks, for our own commands; programs use a driver. Leaving an `execute` early
ends the query on the gateway.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.client.address import Address
from bailiwick.client.channel_security import secure
from bailiwick.client.credentials import Credentials, Password, Token
from bailiwick.client.encryption import Encryption
from bailiwick.client.errors import QueryFailed
from bailiwick.client.statuses import QUERY_ID_HEADER, from_grpc

_SERVICE = "/arrow.flight.protocol.FlightService/"
_LOGIN_TIMEOUT_S = 30.0
_FAREWELL_TIMEOUT_S = 2.0
NO_HEADERS: Mapping[str, str] = {}
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
)


class Answer:
    """One statement's answer: its schema, its id, and its batches as they come."""

    def __init__(
        self,
        schema: pa.Schema,
        query_id: str | None,
        total_records: int,
        stream: Any,
        address: Address,
        fallback: str | None = None,
    ) -> None:
        self.fallback = fallback
        """The gateway's own engine, where that took what was meant for others."""
        self.schema = schema
        self.query_id = query_id
        self.total_records = total_records
        self._stream = stream
        self._address = address

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        try:
            while (message := await self._stream.read()) is not grpc.aio.EOF:
                yield _read_batch(message, self.schema)
        except grpc.aio.AioRpcError as error:
            raise from_grpc(error, self._address) from error

    async def table(self) -> pa.Table:
        """All of it, in memory."""
        return pa.Table.from_batches([batch async for batch in self.batches()], schema=self.schema)


class FlightClient:
    """Use it as `async with FlightClient(address, credentials) as client`.

    The address says whether TLS is spoken; `encryption` says how, and that it is.
    """

    def __init__(
        self, address: Address, credentials: Credentials, encryption: Encryption | None = None
    ) -> None:
        if encryption is None and address.is_encrypted:
            encryption = Encryption()
        self._address = replace(address, is_encrypted=encryption is not None)
        self._credentials = credentials
        self._encryption = encryption
        self._channel: Any = None
        self._metadata: tuple[tuple[str, str], ...] = ()

    async def __aenter__(self) -> "FlightClient":
        self._channel = await self._open_channel()
        try:
            await self.login()
        except BaseException:
            await self._channel.close()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        try:
            await self._close_session()
        finally:
            await self._channel.close()

    async def _open_channel(self) -> Any:
        target = str(self._address)
        if self._encryption is None:
            return grpc.aio.insecure_channel(target, options=_OPTIONS)
        security = await asyncio.to_thread(secure, self._encryption, self._address)
        return grpc.aio.secure_channel(target, security.credentials, options=(*_OPTIONS, *security.options))

    async def _close_session(self) -> None:
        """Tell the gateway that we go. One that does not hear it forgets us after a while."""
        action = flight.Action(type="CloseSession", body=flight.CloseSessionRequest().SerializeToString())
        call = self._channel.unary_stream(_SERVICE + "DoAction")(
            action.SerializeToString(), metadata=self._metadata, timeout=_FAREWELL_TIMEOUT_S
        )
        with suppress(grpc.aio.AioRpcError):
            async for _ in call:
                pass

    async def login(self) -> None:
        """Trade the password for a token, or take the token as it is. Unreachable if nobody answers."""
        match self._credentials:
            case Token(token):
                self._metadata = (("authorization", f"Bearer {token}"),)
            case Password(name, password):
                encoded = base64.b64encode(f"{name}:{password}".encode()).decode()
                # A stream of one message: given an iterator, grpc.aio takes a refused connection for
                # a cancellation of ours.
                call = self._channel.unary_stream(_SERVICE + "Handshake")(
                    flight.HandshakeRequest().SerializeToString(),
                    metadata=(("authorization", f"Basic {encoded}"),),
                    timeout=_LOGIN_TIMEOUT_S,
                )
                self._metadata = (("authorization", await self._granted(call)),)

    async def _granted(self, call: Any) -> str:
        try:
            async for _ in call:
                pass
            headers = dict(await call.initial_metadata())
        except grpc.aio.AioRpcError as error:
            raise from_grpc(error, self._address) from error
        token = headers.get("authorization")
        if not isinstance(token, str):
            raise QueryFailed("INTERNAL_ERROR", "the gateway gave no token")
        return token

    @asynccontextmanager
    async def execute(self, statement: str) -> AsyncIterator[Answer]:
        """Run `statement`. The schema is known on entering; leaving early ends the query."""
        started = self.start(statement)
        try:
            info = await started.info()
            async with self.fetch(info) as answer:
                yield answer
        finally:
            started.cancel()

    def start(self, statement: str, headers: Mapping[str, str] = NO_HEADERS) -> "Started":
        """Ask for the statement. A change runs now, a read when it is fetched. `headers` go with it alone."""
        command = _packed(sql.CommandStatementQuery(query=statement))
        descriptor = flight.FlightDescriptor(type=flight.FlightDescriptor.CMD, cmd=command)
        # Called as a stream of one answer: then grpc.aio shows the headers before the answer is there.
        call = self._channel.unary_stream(_SERVICE + "GetFlightInfo")(
            descriptor.SerializeToString(), metadata=(*self._metadata, *headers.items())
        )
        return Started(call, self._address, self._adopt)

    def _adopt(self, headers: Mapping[str, object]) -> None:
        """Sign the next calls as the gateway says: it may bind them to a session that way."""
        token = headers.get("authorization")
        if isinstance(token, str):
            self._metadata = (("authorization", token),)

    @asynccontextmanager
    async def fetch(self, info: flight.FlightInfo) -> AsyncIterator[Answer]:
        """Read what was promised."""
        ticket = info.endpoint[0].ticket.SerializeToString()
        stream = self._channel.unary_stream(_SERVICE + "DoGet")(ticket, metadata=self._metadata)
        try:
            first = await stream.read()
            if first is grpc.aio.EOF:
                raise QueryFailed("INTERNAL_ERROR", "the answer has no schema")
            query_id = announced_id(info) or dict(await stream.initial_metadata()).get(QUERY_ID_HEADER)
            told = flight.FlightData.FromString(first).app_metadata
            yield Answer(
                _read_schema(first), query_id, info.total_records, stream, self._address, _fallback(told)
            )
        except grpc.aio.AioRpcError as error:
            raise from_grpc(error, self._address) from error
        finally:
            stream.cancel()


class Started:
    """A statement on its way."""

    def __init__(self, call: Any, address: Address, adopt: Callable[[Mapping[str, object]], None]) -> None:
        self._call = call
        self._address = address
        self._adopt = adopt

    async def query_id(self) -> str | None:
        """The id under which a change runs, as soon as the gateway tells; None if it tells none."""
        try:
            found = dict(await self._call.initial_metadata()).get(QUERY_ID_HEADER)
        except grpc.aio.AioRpcError:
            return None
        return found if isinstance(found, str) else None

    async def info(self) -> flight.FlightInfo:
        try:
            answer = await self._call.read()
            self._adopt(dict(await self._call.initial_metadata()))
        except grpc.aio.AioRpcError as error:
            raise from_grpc(error, self._address) from error
        if answer is grpc.aio.EOF:
            raise QueryFailed("INTERNAL_ERROR", "the gateway gave no answer")
        return flight.FlightInfo.FromString(answer)

    def cancel(self) -> None:
        self._call.cancel()


def announced_id(info: flight.FlightInfo) -> str | None:
    """The query id that a FlightInfo carries."""
    found = _told(info.app_metadata).get("query_id")
    return found if isinstance(found, str) else None


def _fallback(app_metadata: bytes) -> str | None:
    told = _told(app_metadata)
    node_id = told.get("ran_on")
    return node_id if told.get("is_fallback") is True and isinstance(node_id, str) else None


def _told(app_metadata: bytes) -> dict[str, object]:
    """What the gateway says of a query, beside its schema."""
    try:
        told = json.loads(app_metadata)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _packed(message: Message) -> bytes:
    type_url = f"type.googleapis.com/{message.DESCRIPTOR.full_name}"
    return AnyMessage(type_url=type_url, value=message.SerializeToString()).SerializeToString()


def _read_schema(message: bytes) -> pa.Schema:
    return pa.ipc.read_schema(_ipc_message(flight.FlightData.FromString(message)))


def _read_batch(message: bytes, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(_ipc_message(flight.FlightData.FromString(message)), schema)


def _ipc_message(data: flight.FlightData) -> pa.Message:
    header = data.data_header
    prefix = b"\xff\xff\xff\xff" + len(header).to_bytes(4, "little")
    return pa.ipc.read_message(pa.py_buffer(b"".join((prefix, header, data.data_body))))

"""Spark Connect's calls on grpc.aio, found by name, as raw bytes both ways.

Every call is authenticated before its message is read; what the message says of who calls counts for nothing.
Failures are told as Spark's own server tells them (`errors.py`).
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import grpc
from pyspark.sql.connect import proto

from bailiwick.doors.grpc_credentials import (
    AUTHORIZATION,
    Context,
    authorization,
    failed,
    on_behalf_of,
    peer_of,
    place_of,
)
from bailiwick.doors.grpc_errors import as_our_error
from bailiwick.doors.spark_connect import screen
from bailiwick.doors.spark_connect.door import Caller, SparkConnectDoor
from bailiwick.doors.spark_connect.errors import abort_arguments, told
from bailiwick.doors.spark_connect.operations import Operation
from bailiwick.doors.spark_connect.receiving import Receiving
from bailiwick.doors.spark_connect.session import Session
from bailiwick.doors.spark_connect.values import ROWS_NAME
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import Authenticator
from bailiwick.telemetry.logs import logger
from bailiwick.telemetry.scrub import bounded

SERVICE: Final = "spark.connect.SparkConnectService"
_PREFIX: Final = f"/{SERVICE}/"
CREDENTIAL_HEADERS: Final = (AUTHORIZATION, "authentication")
"""The second is what some JVM clients call it."""

SENT_WITHIN_S: Final = 60.0
"""So long the next piece of what a client sends is waited for."""

Requests = AsyncIterator[bytes]
Handler = Callable[["Call", Any], Awaitable[bytes | None]]
_log = logger(__name__)


class Call:
    """One call: who makes it, and, as soon as that is known, in which session."""

    def __init__(self, context: Context, caller: Caller) -> None:
        self.context = context
        self.caller = caller
        self.session: Session | None = None
        self.may_retry = True

    def enter(self, session: Session) -> Session:
        self.session = session
        session.in_use += 1
        return session

    def leave(self) -> None:
        if self.session is not None:
            self.session.in_use -= 1


class SparkConnectService(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, door: SparkConnectDoor, authenticator: Authenticator) -> None:
        self._door = door
        self._authenticator = authenticator
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        self._handlers = {
            f"{_PREFIX}{name}": make(self._answered(behaviour), None, None)
            for name, make, behaviour in (
                ("ExecutePlan", stream, self._execute),
                ("ReattachExecute", stream, self._reattach),
                ("ReleaseExecute", unary, self._release),
                ("AnalyzePlan", unary, self._analyse),
                ("Config", unary, self._config),
                ("Interrupt", unary, self._interrupt),
                ("ReleaseSession", unary, self._release_session),
                ("FetchErrorDetails", unary, self._fetch_error_details),
                ("ArtifactStatus", unary, self._artifact_status),
                ("AddArtifacts", grpc.stream_unary_rpc_method_handler, self._add_artifacts),
                ("CloneSession", unary, self._clone),
            )
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        method = handler_call_details.method
        if method in self._handlers or not method.startswith(_PREFIX):
            return self._handlers.get(method)
        # On the wire the other kinds of calls are streams that end early.
        unknown = partial(_unknown, bounded(method.removeprefix(_PREFIX), 80))
        return grpc.stream_stream_rpc_method_handler(self._answered(unknown), None, None)

    async def drain(self, timeout_s: float) -> None:
        """See `SparkConnectDoor.drain`. Calls are answered meanwhile."""
        await self._door.drain(timeout_s)

    async def _execute(self, call: Call, request: bytes) -> None:
        screened = await self._door.screened_plan(call.caller, request)
        session = call.enter(
            self._door.session(call.caller, screened.session_id, screened.observed_session_id)
        )
        operation = self._door.execute(call.caller, session, screened, request)
        await self._send(call, session, operation, None)

    async def _reattach(self, call: Call, request: bytes) -> None:
        message = screen.reattach(request)
        session = self._known(call, message)
        operation = self._door.reattached(session, message.operation_id)
        after = message.last_response_id if message.HasField("last_response_id") else None
        await self._send(call, session, operation, after)

    async def _send(self, call: Call, session: Session, operation: Operation, after: str | None) -> None:
        try:
            # Left at once when the client leaves: who waits for it to come back counts from then.
            async with aclosing(self._door.responses(session, operation, after)) as responses:
                async for response in responses:
                    await call.context.write(response)
        except BailiwickError as error:
            call.may_retry = self._door.failed(session, operation, error)
            raise

    async def _release(self, call: Call, request: bytes) -> bytes:
        """Clients let go of operations late, and behind their own backs: what is gone is fine."""
        message = screen.release(request)
        response = proto.ReleaseExecuteResponse(operation_id=message.operation_id)
        try:
            session = self._known(call, message)
        except BailiwickError:
            response.session_id = message.session_id
            return bytes(response.SerializeToString())
        self._door.release(session, message)
        return _signed(response, session)

    async def _analyse(self, call: Call, request: bytes) -> bytes:
        screened = await self._door.screened_analysis(call.caller, request)
        session = call.enter(
            self._door.session(call.caller, screened.session_id, screened.observed_session_id)
        )
        return _signed(await self._door.analyse(call.caller, session, screened), session)

    async def _config(self, call: Call, request: bytes) -> bytes:
        message = screen.config(request)
        session = self._found(call, message)
        return _signed(await self._door.configure(call.caller, session, message.operation), session)

    async def _interrupt(self, call: Call, request: bytes) -> bytes:
        message = screen.interrupt(request)
        session = self._found(call, message)
        ended = await self._door.interrupt(call.caller, session, message)
        return _signed(proto.InterruptResponse(interrupted_ids=ended), session)

    async def _release_session(self, call: Call, request: bytes) -> bytes:
        message = screen.release_session(request)
        server_side_id = await self._door.sessions.release(
            call.caller.principal, message.session_id, allow_reconnect=message.allow_reconnect
        )
        response = proto.ReleaseSessionResponse(session_id=message.session_id)
        response.server_side_session_id = server_side_id
        return bytes(response.SerializeToString())

    async def _fetch_error_details(self, call: Call, request: bytes) -> bytes:
        message = screen.fetch_error_details(request)
        session = self._known(call, message)
        details = session.error_details(message.error_id)
        return _signed(proto.FetchErrorDetailsResponse() if details is None else details, session)

    async def _artifact_status(self, call: Call, request: bytes) -> bytes:
        """Nothing is kept but rows."""
        message = screen.artifact_statuses(request)
        session = self._found(call, message)
        response = proto.ArtifactStatusesResponse()
        for name in message.names:
            known = ROWS_NAME.fullmatch(name)
            response.statuses[name].exists = known is not None and known[1] in session.brought_rows
        return _signed(response, session)

    async def _add_artifacts(self, call: Call, requests: Requests) -> bytes:
        receiving: Receiving | None = None
        try:
            while (request := await _next(requests)) is not None:
                message = await self._door.screened_artifacts(request)
                session = call.session or self._found(call, message)
                if message.session_id != session.id:
                    raise BailiwickError(Code.INVALID_ARGUMENTS, "The artifacts are for different sessions.")
                receiving = receiving or Receiving(session.brought_rows)
                await receiving.take(message)
            if call.session is None or receiving is None:
                raise BailiwickError(Code.INVALID_ARGUMENTS, "The call came without an artifact.")
            return _signed(proto.AddArtifactsResponse(artifacts=receiving.summaries()), call.session)
        finally:
            if receiving is not None:
                receiving.close()

    async def _clone(self, call: Call, request: bytes) -> bytes:
        message = screen.clone_session(request)
        session = self._found(call, message)
        clone = self._door.clone(call.caller, session, message.new_session_id or str(uuid.uuid4()))
        response = proto.CloneSessionResponse(
            new_session_id=clone.id, new_server_side_session_id=clone.server_side_id
        )
        return _signed(response, session)

    def _found(self, call: Call, message: Any) -> Session:
        observed = message.client_observed_server_side_session_id
        return call.enter(self._door.session(call.caller, message.session_id, observed))

    def _known(self, call: Call, message: Any) -> Session:
        observed = message.client_observed_server_side_session_id
        sessions = self._door.sessions
        return call.enter(sessions.known(call.caller.principal, message.session_id, observed))

    async def _caller(self, context: Context) -> Caller:
        scheme, credential = authorization(context, CREDENTIAL_HEADERS)
        if scheme != "bearer":
            raise failed("This door takes tokens only: get one by CREATE TOKEN, or `bailiwick token create`.")
        peer = peer_of(context)
        actor = await self._authenticator.authenticate_bearer(credential, peer=peer)
        subject = on_behalf_of(context)
        principal = actor if subject is None else self._authenticator.act_for(actor, subject)
        return Caller(principal, place_of(peer))

    def _answered(self, behaviour: Handler) -> Callable[[Any, Context], Awaitable[bytes | None]]:
        """The same for an authenticated call, with our errors as Spark's statuses."""

        async def handle(request: Any, context: Context) -> bytes | None:
            call: Call | None = None
            try:
                call = Call(context, await self._caller(context))
                return await behaviour(call, request)
            except grpc.aio.AbortError:
                raise
            except Exception as failure:
                await _abort(context, call, failure)
                raise
            finally:
                if call is not None:
                    call.leave()

        return handle


async def _unknown(name: str, _call: Call, _requests: Requests) -> None:
    raise BailiwickError(
        Code.NOT_SUPPORTED, f"The call {name} is not one of Spark Connect 4.1. Use PySpark 4.0 or 4.1."
    )


async def _next(requests: Requests) -> bytes | None:
    """What a client sends next. None after the last, QUERY_TIMEOUT if it holds its place for nothing."""
    try:
        async with asyncio.timeout(SENT_WITHIN_S):
            return await anext(requests, None)
    except TimeoutError as error:
        raise BailiwickError(
            Code.QUERY_TIMEOUT, f"Nothing came for {SENT_WITHIN_S:g} s. Send the rows again.", retryable=False
        ) from error


async def _abort(context: Context, call: Call | None, failure: Exception) -> None:
    error = as_our_error(failure)
    said = {
        "code": error.code.value,
        "message": error.message,
        "cause": error.cause_text,
        "query_id": error.query_id,
    }
    log = _log.error if error.code is Code.INTERNAL_ERROR else _log.info
    log("call_failed", exc_info=failure if error is not failure else None, **said)
    what = told(error, may_retry=call is None or call.may_retry)
    session = None if call is None else call.session
    error_id = session.keep_error(what) if session is not None and what.has_details else None
    await context.abort(*abort_arguments(what, error_id))


def _signed(response: Any, session: Session) -> bytes:
    response.session_id = session.id
    response.server_side_session_id = session.server_side_id
    return bytes(response.SerializeToString())

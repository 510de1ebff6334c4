"""The Iceberg REST catalog that engines talk to, as an ASGI application.

Only engines: a call needs the engine's own credential, the handle of a session of ours in that engine and
that session's current lease; people's tokens mean nothing here. Every query loads its tables through this, so
the way from the socket to bytes in memory is kept short: no framework, no parsing of what is only passed on.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bailiwick.catalog import calls, wire
from bailiwick.catalog.call import Answer, Call, Decided
from bailiwick.catalog.calls import Calls
from bailiwick.catalog.refusals import (
    BadRequestError,
    CatalogError,
    ForbiddenError,
    NoSuchTableError,
    NotAuthorizedError,
    TooLargeError,
)
from bailiwick.catalog.routes import Route, Target, fields_of, target_of
from bailiwick.clock import Clock, monotonic
from bailiwick.engines.life_keys import EMBEDDED, LifeKeys, is_handle_of
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId
from bailiwick.names import TableName
from bailiwick.policy.access import Access
from bailiwick.policy.stamp import POLICY_HEADER
from bailiwick.telemetry.logs import logger

BODY_BYTES_MAX = 16 << 20
PATH_LENGTH_MAX = 32 << 10

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_POLICY_HEADER = POLICY_HEADER.lower().encode()
_JSON = (b"content-type", b"application/json")
_BEARER = "Bearer "


class Leases(Protocol):
    """Who works in an engine's session now. Called from several threads."""

    def holder(self, session_handle: str, lease_id: LeaseId, /) -> Access | None:
        """What the one whose lease this is may do, if it is the session's current one."""


@dataclass(frozen=True, slots=True)
class CommitSeen:
    """A snapshot came to be under a lease. `summary` is what its writer says of it, counts of rows too."""

    lease: LeaseId
    table: TableName
    summary: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CallDecided:
    """What was decided on the way to an answer, and how it ended."""

    lease: LeaseId
    principal: Principal
    route: str
    status: int
    decided: tuple[Decided, ...]
    policy_version: int
    message: str | None = None
    """What a refusal says."""
    idempotency_key: str | None = None
    """By which SHOW COMMIT knows it, if it changes something."""


class Observer(Protocol):
    """Told what the facade did. Called on its event loop: must not block."""

    def answered(self, *, route: str, status: int, seconds: float, lease: LeaseId) -> None:
        """`lease` is what an engine named, be it in force or not; empty if it was no engine that called."""

    def commit_seen(self, seen: CommitSeen) -> None: ...

    def decided(self, decided: CallDecided) -> None: ...


Joined = Callable[[str], LifeKeys | None]
"""The life of an engine whose credential this is, if there is one. Called from several threads."""


def nobody_joined(_credential: str) -> LifeKeys | None:
    return None


class Facade:
    """`executor` does whatever blocks. `observer` is optional.

    `engine_credential` is that of the gateway's own engine, `joined` knows those of the others.
    """

    def __init__(
        self,
        catalog_calls: Calls,
        leases: Leases,
        engine_credential: str,
        executor: Executor,
        *,
        joined: Joined = nobody_joined,
        observer: Observer | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self._calls = catalog_calls
        self._leases = leases
        self._authorization = f"{_BEARER}{engine_credential}".encode()
        self._joined = joined
        self._executor = executor
        self._observer = observer
        self._clock = clock
        self._log = logger(__name__)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began_at = self._clock()
        route, lease = "unknown", LeaseId("")
        try:
            engine = self._engine(scope)
            lease = _lease(scope)
            target = _target(scope)
            route = target.route.value
            if target.route is Route.CONFIG:
                answer = calls.CONFIG
            else:
                answer = await self._answered(self._call(target, scope, engine), scope, receive)
        except CatalogError as error:
            answer = self._refusal(error)
        except Exception:
            self._log.exception("facade_failed", route=route)
            answer = self._refusal(CatalogError("the catalog could not do this"))
        await _send(send, answer, with_body=scope["method"] != "HEAD")
        if self._observer is not None:
            with self._logged_only():
                seconds = self._clock() - began_at
                self._observer.answered(route=route, status=answer.status, seconds=seconds, lease=lease)

    def _engine(self, scope: Scope) -> LifeKeys | None:
        """Which engine calls; None is the gateway's own. Raises NotAuthorizedError."""
        given = _header(scope, b"authorization")
        if hmac.compare_digest(given, self._authorization):
            return None
        text = given.decode("latin-1")
        engine = self._joined(text.removeprefix(_BEARER)) if text.startswith(_BEARER) else None
        if engine is None:
            raise NotAuthorizedError("the credential is not an engine's")
        return engine

    def _call(self, target: Target, scope: Scope, engine: LifeKeys | None) -> Call:
        """The call but for its body, of whoever holds the session's lease. Raises ForbiddenError."""
        session = _header(scope, b"x-bailiwick-session").decode("latin-1")
        lease = _lease(scope)
        if not is_handle_of(session, EMBEDDED if engine is None else engine.life):
            raise ForbiddenError("the session is not one of this engine")
        access = self._holder(session, lease)

        def fence() -> None:
            if self._holder(session, lease) != access:
                raise ForbiddenError("the lease has passed to somebody else")

        return Call(
            target,
            access,
            fence,
            fields_of(scope["query_string"]),
            lease=lease,
            policy_stamp=_header(scope, _POLICY_HEADER).decode("latin-1"),
            idempotency_key=_header(scope, b"idempotency-key").decode("latin-1"),
            stamp_key=None if engine is None else engine.stamp_key,
        )

    async def _answered(self, call: Call, scope: Scope, receive: Receive) -> Answer:
        try:
            answer = await self._done(call, scope, receive)
        except CatalogError as error:
            self._tell_decided(call, error.status, error.message)
            raise
        self._tell_decided(call, answer.status)
        return answer

    async def _done(self, call: Call, scope: Scope, receive: Receive) -> Answer:
        if call.target.route.reads:
            answer = self._calls.read(call)
            return answer if answer is not None else await self._in_thread(self._calls.read_blocking, call)
        if call.policy_stamp:
            raise ForbiddenError("the rules of a table change nothing")
        call = replace(call, body=await _body(scope, receive))
        answer = await self._in_thread(self._calls.change, call)
        self._tell(LeaseId(call.lease), answer)
        return answer

    def _holder(self, session: str, lease: LeaseId) -> Access:
        access = self._leases.holder(session, lease)
        if access is None:
            raise ForbiddenError("the lease of this session has ended")
        return access

    async def _in_thread(self, function: Callable[[Call], Answer], call: Call) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, call)

    def _tell(self, lease: LeaseId, answer: Answer) -> None:
        if self._observer is not None:
            for table, summary in answer.committed:
                with self._logged_only():
                    self._observer.commit_seen(CommitSeen(lease, table, summary))

    def _tell_decided(self, call: Call, status: int, message: str | None = None) -> None:
        if self._observer is not None and call.decided:
            told = CallDecided(
                LeaseId(call.lease),
                call.principal,
                call.target.route.value,
                status,
                tuple(call.decided),
                call.access.version,
                message,
                call.idempotency_key or None,
            )
            with self._logged_only():
                self._observer.decided(told)

    @contextmanager
    def _logged_only(self) -> Iterator[None]:
        """Whatever an observer does: what was committed is committed, and the engine is told so."""
        try:
            yield
        except Exception:
            self._log.exception("observer_failed")

    def _refusal(self, error: CatalogError) -> Answer:
        if error.status >= 500:
            self._log.error("facade_failed", reason=error.message, cause=error.cause_text)
        return Answer(error.status, wire.error_body(error))


def _target(scope: Scope) -> Target:
    raw_path: bytes = scope.get("raw_path") or b""
    if len(raw_path) > PATH_LENGTH_MAX:
        raise NoSuchTableError("Table does not exist: its name is too long")
    if not raw_path.isascii():
        raise BadRequestError("the path is malformed")
    return target_of(scope["method"], raw_path.decode("ascii"))


def _lease(scope: Scope) -> LeaseId:
    return LeaseId(_header(scope, b"x-bailiwick-lease").decode("latin-1"))


def _header(scope: Scope, name: bytes) -> bytes:
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


async def _body(scope: Scope, receive: Receive) -> bytes:
    """All of it, if it is not too long. Raises TooLargeError before reading what says so itself."""
    declared = _header(scope, b"content-length")
    if declared.isdigit() and int(declared) > BODY_BYTES_MAX:
        raise TooLargeError(f"a request has at most {BODY_BYTES_MAX} bytes")
    chunks: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BadRequestError("the engine went away")
        chunks.append(message.get("body", b""))
        length += len(chunks[-1])
        if length > BODY_BYTES_MAX:
            raise TooLargeError(f"a request has at most {BODY_BYTES_MAX} bytes")
        if not message.get("more_body", False):
            return b"".join(chunks)


async def _send(send: Send, answer: Answer, *, with_body: bool) -> None:
    body = answer.body if with_body else b""
    headers = [] if answer.status == 204 else [(b"content-length", str(len(body)).encode())]
    if body:
        headers.append(_JSON)
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""Where keepers speak: heartbeats of their engines, and the end of an engine's life.

A keeper shows a service token. People's tokens mean nothing here, and no answer holds more than the keeper
needs: no policy, no name of a person, nothing of other engines.

Whoever may run code on an engine can read what its keeper can, the token too. So keepers of such engines have
tokens of their own, and those are good for engines of that class alone.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bailiwick.doors.listening import is_loopback
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.registry import END_REASONS, Called, EndReason, Registry
from bailiwick.fleet.report import BODY_BYTES_MAX, TRUSTED, Report
from bailiwick.identity.service_tokens import ServiceTokens
from bailiwick.ids import NodeId
from bailiwick.telemetry.logs import logger

HEARTBEAT_PATH: Final = "/internal/v1/engines/heartbeat"
ENDED_PATH: Final = "/internal/v1/engines/ended"
LINK_HEADER: Final = "x-bailiwick-link"
CATALOG_HEADER: Final = "x-bailiwick-catalog"
_TEXT_MAX: Final = 512
_ENDED_KEYS: Final = frozenset({"node_id", "life", "reason"})
_OTHER_TOKEN: Final = (
    f"An engine of the class `{TRUSTED}` joins with a token of fleet.trusted_token_file, and no other engine "
    "does."
)

_log = logger(__name__)


class TokenKind(StrEnum):
    """Which engines a service token is good for."""

    GENERAL = "general"
    TRUSTED = "trusted"
    """Those that run code of users, and no others."""


@dataclass(frozen=True, slots=True)
class KeeperTokens:
    """The tokens of all keepers. None: no engine of that kind can join."""

    general: ServiceTokens | None
    trusted: ServiceTokens | None = None

    def kind(self, authorization: str) -> TokenKind | None:
        """Of the token in this value of an `Authorization` header; None if nobody gave it out.

        Blocks on the disk.
        """
        # A token in both files is one that users' code can read.
        if self.trusted is not None and self.trusted.accepts(authorization):
            return TokenKind.TRUSTED
        if self.general is not None and self.general.accepts(authorization):
            return TokenKind.GENERAL
        return None


_Handler = Callable[[Request, TokenKind], Awaitable[Response]]


def engine_routes(registry: Registry, tokens: KeeperTokens) -> list[Route]:
    """The routes that keepers call. Mount them on the HTTP port."""

    async def heartbeat(request: Request, kind: TokenKind) -> Response:
        report = Report.parse(await _body(request))
        _check_class(report, kind)
        answer = registry.heartbeat(report, _called(request))
        return JSONResponse(
            {
                "accepted": True,
                "catalog_uri": answer.catalog_uri,
                "interval_s": answer.interval_s,
                "drain": answer.is_drain_asked,
                "in_use": answer.in_use,
            }
        )

    async def ended(request: Request, _kind: TokenKind) -> Response:
        node_id, life, reason = _ended(await _body(request))
        registry.ended(node_id, life, reason)
        return JSONResponse({"accepted": True})

    return [
        Route(HEARTBEAT_PATH, _guarded(heartbeat, tokens), methods=["POST"]),
        Route(ENDED_PATH, _guarded(ended, tokens), methods=["POST"]),
    ]


def _guarded(handler: _Handler, tokens: KeeperTokens) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            _check_private(request)
            return await handler(request, await _token_kind(request, tokens))
        except BailiwickError as error:
            return JSONResponse({"code": error.code, "message": error.message}, status_code=error.http)
        except Exception:
            _log.exception("engine_call_failed", path=request.url.path)
            return JSONResponse(
                {
                    "code": Code.INTERNAL_ERROR,
                    "message": "The gateway could not take this; its log says why.",
                },
                status_code=500,
            )

    return answer


def _check_private(request: Request) -> None:
    """What a keeper sends opens its engine. It must not have crossed a wire in the clear."""
    if request.url.scheme != "https" and not _peer_is_loopback(request):
        raise BailiwickError(
            Code.ACCESS_DENIED, "A keeper on another machine calls by HTTPS: give the gateway a certificate."
        )


async def _token_kind(request: Request, tokens: KeeperTokens) -> TokenKind:
    kind = await asyncio.to_thread(tokens.kind, request.headers.get("authorization", ""))
    if kind is None:
        raise BailiwickError(
            Code.AUTHENTICATION_FAILED,
            "The service token is missing or is not one that this gateway accepts.",
        )
    return kind


def _check_class(report: Report, kind: TokenKind) -> None:
    if (report.engine_class == TRUSTED) is not (kind is TokenKind.TRUSTED):
        _log.warning("engine_refused", node_id=report.node_id, reason=_OTHER_TOKEN)
        raise BailiwickError(Code.ACCESS_DENIED, _OTHER_TOKEN, details={"reason": "engine_refused"})


def _peer_is_loopback(request: Request) -> bool:
    return request.client is not None and is_loopback(request.client.host)


def _called(request: Request) -> Called:
    return Called(
        peer_is_loopback=_peer_is_loopback(request),
        link=request.headers.get(LINK_HEADER, "")[:_TEXT_MAX],
        catalog_uri=request.headers.get(CATALOG_HEADER, "")[:_TEXT_MAX],
    )


async def _body(request: Request) -> bytes:
    chunks: list[bytes] = []
    length = 0
    async for chunk in request.stream():
        length += len(chunk)
        if length > BODY_BYTES_MAX:
            raise _wrong(f"at most {BODY_BYTES_MAX} bytes are read")
        chunks.append(chunk)
    return b"".join(chunks)


def _ended(body: bytes) -> tuple[NodeId, str, EndReason]:
    try:
        told: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise _wrong("it must be a JSON object") from None
    if not isinstance(told, dict) or told.keys() != _ENDED_KEYS:
        raise _wrong(f"it must have just the keys {', '.join(sorted(_ENDED_KEYS))}")
    node_id, life = told["node_id"], told["life"]
    if not all(isinstance(text, str) and 0 < len(text) <= _TEXT_MAX for text in (node_id, life)):
        raise _wrong(f"node_id and life must be texts of at most {_TEXT_MAX} characters")
    for reason in END_REASONS:
        if told["reason"] == reason:
            return NodeId(node_id), life, reason
    raise _wrong(f"reason must be one of {', '.join(END_REASONS)}")


def _wrong(what: str) -> BailiwickError:
    return BailiwickError(Code.INVALID_ARGUMENTS, f"The keeper's message is wrong: {what}.")

"""Where keepers speak: heartbeats of their engines, and the end of an engine's life.

A keeper shows a service token. People's tokens mean nothing here, and no answer holds more than the keeper
needs: no policy, no name of a person, nothing of other engines.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bailiwick.doors.listening import is_loopback
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.registry import END_REASONS, Called, EndReason, Registry
from bailiwick.fleet.report import BODY_BYTES_MAX, Report
from bailiwick.identity.service_tokens import ServiceTokens
from bailiwick.ids import NodeId
from bailiwick.telemetry.logs import logger

HEARTBEAT_PATH: Final = "/internal/v1/engines/heartbeat"
ENDED_PATH: Final = "/internal/v1/engines/ended"
LINK_HEADER: Final = "x-bailiwick-link"
CATALOG_HEADER: Final = "x-bailiwick-catalog"
_TEXT_MAX: Final = 512
_ENDED_KEYS: Final = frozenset({"node_id", "life", "reason"})

_log = logger(__name__)

_Handler = Callable[[Request], Awaitable[Response]]


def engine_routes(registry: Registry, tokens: ServiceTokens) -> list[Route]:
    """The routes that keepers call. Mount them on the HTTP port."""

    async def heartbeat(request: Request) -> Response:
        report = Report.parse(await _body(request))
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

    async def ended(request: Request) -> Response:
        node_id, life, reason = _ended(await _body(request))
        registry.ended(node_id, life, reason)
        return JSONResponse({"accepted": True})

    return [
        Route(HEARTBEAT_PATH, _guarded(heartbeat, tokens), methods=["POST"]),
        Route(ENDED_PATH, _guarded(ended, tokens), methods=["POST"]),
    ]


def _guarded(handler: _Handler, tokens: ServiceTokens) -> _Handler:
    async def answer(request: Request) -> Response:
        try:
            _check_private(request)
            await _check_token(request, tokens)
            return await handler(request)
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


async def _check_token(request: Request, tokens: ServiceTokens) -> None:
    if not await asyncio.to_thread(tokens.accepts, request.headers.get("authorization", "")):
        raise BailiwickError(
            Code.AUTHENTICATION_FAILED,
            "The service token is missing or is not one that this gateway accepts.",
        )


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

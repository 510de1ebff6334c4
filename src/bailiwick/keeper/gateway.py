"""The keeper's calls to its gateway: a report every few seconds, and word when a life of its engine ends.

Each call is a connection of its own, with the token and the certificates as their files hold them then. It
runs in a thread, so that a gateway that hangs delays nothing but the next report.
"""

import asyncio
import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any, Final

from bailiwick.doors.http.engines import CATALOG_HEADER, ENDED_PATH, HEARTBEAT_PATH, LINK_HEADER
from bailiwick.fleet.link import MUTUAL_TLS, PLAIN
from bailiwick.fleet.registry import EndReason
from bailiwick.fleet.report import Report
from bailiwick.identity.service_tokens import ServiceTokens
from bailiwick.ids import NodeId
from bailiwick.keeper.config import GatewayUrl, KeeperFiles

CALL_TIMEOUT_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 * 1024
MESSAGE_LENGTH_MAX: Final = 1000
INTERVAL_MIN_S: Final = 0.1
INTERVAL_MAX_S: Final = 60.0


class GatewayRefusedError(Exception):
    """The gateway answered, and said no. The message is its sentence."""


class GatewayUnreachableError(Exception):
    """Nobody answered, or what answered is no gateway. The message says which, without a secret."""


@dataclass(frozen=True, slots=True)
class Answered:
    catalog_uri: str
    interval_s: float
    drain: bool
    in_use: int


class GatewayCalls:
    """Speaks to one gateway."""

    def __init__(self, url: GatewayUrl, tokens: ServiceTokens, files: KeeperFiles | None) -> None:
        self._url = url
        self._tokens = tokens
        self._files = files

    async def heartbeat(self, report: Report, catalog_uri: str) -> Answered:
        """Tell how the engine is. Raises GatewayRefusedError or GatewayUnreachableError."""
        return _answered(await self._post(HEARTBEAT_PATH, report.encode(), {CATALOG_HEADER: catalog_uri}))

    async def ended(self, node_id: NodeId, life: str, reason: EndReason) -> None:
        """Tell that a life is over. Raises as `heartbeat`."""
        told = {"node_id": node_id, "life": life, "reason": reason}
        await self._post(ENDED_PATH, json.dumps(told).encode(), {})

    async def _post(self, path: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        return await asyncio.to_thread(self._call, path, body, headers)

    def _call(self, path: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        sent = {
            "Authorization": f"Bearer {self._tokens.to_send().reveal()}",
            "Content-Type": "application/json",
            LINK_HEADER: PLAIN if self._files is None else MUTUAL_TLS,
            **headers,
        }
        connection = self._connection()
        try:
            connection.request("POST", path, body, sent)
            response = connection.getresponse()
            content = response.read(ANSWER_BYTES_MAX + 1)
        except ssl.SSLCertVerificationError as error:
            raise GatewayUnreachableError(
                f"its certificate is not to be believed: {error.verify_message}"
            ) from error
        except ssl.SSLError as error:
            raise GatewayUnreachableError(f"TLS failed: {error.reason}") from error
        except OSError as error:
            raise GatewayUnreachableError(error.strerror or "no answer in time") from error
        except http.client.HTTPException as error:
            raise GatewayUnreachableError("what answers there does not speak HTTP as we do") from error
        finally:
            connection.close()
        return _told(response.status, content)

    def _connection(self) -> http.client.HTTPConnection:
        if not self._url.is_encrypted:
            return http.client.HTTPConnection(self._url.host, self._url.port, timeout=CALL_TIMEOUT_S)
        return http.client.HTTPSConnection(
            self._url.host, self._url.port, timeout=CALL_TIMEOUT_S, context=self._context()
        )

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._files.authority if self._files else None)
            if self._files is not None:
                context.load_cert_chain(self._files.certificate, self._files.key)
        except (OSError, ssl.SSLError) as error:
            raise GatewayUnreachableError(f"the keeper's own certificates cannot be used: {error}") from error
        return context


def _told(status: int, content: bytes) -> dict[str, Any]:
    try:
        told = json.loads(content) if len(content) <= ANSWER_BYTES_MAX else None
    except (ValueError, RecursionError):
        told = None
    if status == 200 and isinstance(told, dict) and told.get("accepted") is True:
        return told
    if 400 <= status < 500 and isinstance(told, dict) and isinstance(told.get("message"), str):
        raise GatewayRefusedError(told["message"][:MESSAGE_LENGTH_MAX])
    raise GatewayUnreachableError(f"what answers there is no gateway that takes engines (HTTP {status})")


def _answered(told: dict[str, Any]) -> Answered:
    match told:
        case {
            "catalog_uri": str(uri),
            "interval_s": int() | float() as interval_s,
            "drain": bool(drain),
            "in_use": int(in_use),
        } if uri.startswith(("http://127.0.0.1:", "https://")):
            return Answered(uri, min(max(float(interval_s), INTERVAL_MIN_S), INTERVAL_MAX_S), drain, in_use)
    raise GatewayUnreachableError("the gateway's answer is not understood: are the versions the same?")

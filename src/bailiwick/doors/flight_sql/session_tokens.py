"""Tokens that carry a session: what a client shows instead of the credential it first came with.

A token is sealed and holds a session's id, whose it is, a fingerprint of what it stands for, when it was
made, and by which gateway. It stands for a credential and, where its holder acts for somebody else, for whom.
Neither is in it: they stay here, in memory, and are checked anew on every call, so a token ends with its
credential, and with the right to act for somebody, at once. After a restart nothing is known of it: one signs
in again.
"""

import base64
import binascii
import hashlib
import hmac
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from bailiwick.clock import Clock
from bailiwick.errors import BailiwickError
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.ids import GatewayId
from bailiwick.queries.client_sessions import ClientSessionId, expired
from bailiwick.secrets import Secret

PREFIX = "bws_"
PURPOSE = "session"
TOKEN_CHARS_MAX = 512
STANDINGS_MAX = 20_000

_FIELDS = struct.Struct(">16s32s32sd")


@dataclass(frozen=True, slots=True)
class SessionToken:
    session_id: ClientSessionId = field(repr=False)
    owner: bytes = field(repr=False)
    fingerprint: bytes = field(repr=False)
    issued_at: float
    gateway: GatewayId | None = None
    """Who keeps the session; None where there is one gateway only."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a token stands for: a credential, and on whose behalf it is shown, if on anybody's."""

    credential: Secret
    subject: str | None = None

    @property
    def fingerprint(self) -> bytes:
        credential = self.credential.reveal()
        # The length comes first, so that no credential and subject read like another credential and subject.
        text = f"{len(credential)}:{credential}:{self.subject or ''}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class SessionTokens:
    """Makes tokens, and knows its own again. They live for twice the time that a session may be idle."""

    def __init__(
        self,
        seal: Seal,
        *,
        idle_s: float,
        now: Clock,
        gateway: Callable[[], GatewayId | None] = lambda: None,
    ) -> None:
        self._seal = seal
        self._gateway = gateway
        self._idle_s = idle_s
        self._now = now
        self._standings: OrderedDict[bytes, Standing] = OrderedDict()

    def issue(self, session_id: ClientSessionId, principal: Principal, standing: Standing) -> str:
        """A token for this session of `principal`, good as long as what it stands for is."""
        issued_at = self._now()
        fingerprint = self._remember(standing)
        fields = _FIELDS.pack(bytes.fromhex(session_id), _owner(principal), fingerprint, issued_at)
        payload = fields + (self._gateway() or "").encode()
        sealed = self._seal.seal(PURPOSE, payload, expires_at=issued_at + 2 * self._idle_s)
        return PREFIX + base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def read(self, text: str) -> SessionToken | None:
        """The token, if it is one of ours; None for any other text. SESSION_EXPIRED if its time is over."""
        if not text.startswith(PREFIX) or len(text) > TOKEN_CHARS_MAX:
            return None
        body = text.removeprefix(PREFIX)
        try:
            sealed = base64.b64decode(
                body.replace("=", "!") + "=" * (-len(body) % 4), altchars=b"-_", validate=True
            )
            payload = self._seal.open(PURPOSE, sealed, self._now())
        except (binascii.Error, ValueError):
            return None
        except BailiwickError as error:
            if error.details.get("reason") == "expired":
                raise expired() from None
            return None
        session_id, owner, fingerprint, issued_at = _FIELDS.unpack_from(payload)
        gateway = GatewayId(payload[_FIELDS.size :].decode())
        return SessionToken(ClientSessionId(session_id.hex()), owner, fingerprint, issued_at, gateway or None)

    def standing(self, token: SessionToken) -> Standing:
        """What the token stands for, to be checked anew. SESSION_EXPIRED if nothing is known of it."""
        standing = self._standings.get(token.fingerprint)
        if standing is None:
            raise expired()
        self._standings.move_to_end(token.fingerprint)
        return standing

    def check_owner(self, token: SessionToken, principal: Principal) -> None:
        """Another's token is refused as one that has ended, so that trying teaches nothing."""
        if not hmac.compare_digest(token.owner, _owner(principal)):
            raise expired()

    def is_due(self, token: SessionToken) -> bool:
        """Whether it is time for a new one. A client that comes often enough is never without."""
        return self._now() - token.issued_at > self._idle_s / 2

    def _remember(self, standing: Standing) -> bytes:
        fingerprint = standing.fingerprint
        self._standings[fingerprint] = standing
        self._standings.move_to_end(fingerprint)
        if len(self._standings) > STANDINGS_MAX:
            self._standings.popitem(last=False)
        return fingerprint


def _owner(principal: Principal) -> bytes:
    names = (principal.tenant, principal.name, principal.actor or "")
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).digest()

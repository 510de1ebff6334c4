"""Signed tokens: what a password is exchanged for, short-lived and not stored.

A token says who and until when. It does not say what they may do: roles come from the user as they are now,
and a token whose `gen` is no longer the user's ends at once, whatever its signature says.
The signature is checked once a token; after that its claims come from memory.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import jwt

from bailiwick.clock import Clock, wall
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import BearerCheck, FailureKind, RejectedToken
from bailiwick.identity.principal import Principal
from bailiwick.identity.users import UserStore

ALGORITHM = "HS256"
ISSUER = "bailiwick"
TOKEN_CHARS_MAX = 2048
VERIFIED_MAX = 10_000

_HEADERS = {"typ": "bailiwick+jwt"}
# Our header is always the same text, so a token of ours begins with it. One with any other header (another
# algorithm, `none`, a key id) is not of this kind.
_PREFIX = jwt.encode({}, bytes(32), algorithm=ALGORITHM, headers=_HEADERS).partition(".")[0] + "."
_CLAIMS = ["sub", "tenant", "gen", "iat", "exp", "jti", "iss", "aud"]


@dataclass(frozen=True, slots=True)
class _Claims:
    user: str
    generation: int
    expires_at: float


class SignedTokens(BearerCheck):
    def __init__(self, key: bytes, users: UserStore, *, life_s: float, now: Clock = wall) -> None:
        self._key = key
        self._users = users
        self._life_s = life_s
        self._now = now
        self._verified: OrderedDict[str, _Claims] = OrderedDict()

    def issue(self, principal: Principal) -> str:
        """A token for a user that is there and not disabled; else AUTHENTICATION_FAILED."""
        if principal.is_acted_for:
            raise ValueError("a token would outlast the right to act for its user")
        user = self._users.find(principal.name)
        if user is None or user.disabled:
            raise BailiwickError(Code.AUTHENTICATION_FAILED, "The user cannot sign in any more.")
        issued_at = self._now()
        claims = {
            "sub": user.name,
            "tenant": user.tenant,
            "gen": user.generation,
            "iat": int(issued_at),
            "exp": issued_at + self._life_s,
            "jti": secrets.token_hex(8),
            "iss": ISSUER,
            "aud": ISSUER,
        }
        return jwt.encode(claims, self._key, algorithm=ALGORITHM, headers=_HEADERS)

    def recognises(self, token: str) -> bool:
        return token.startswith(_PREFIX)

    async def verify(self, token: str) -> Principal:
        claims = self._verified.get(token)
        if claims is None:
            claims = self._checked(token)
            self._remember(token, claims)
        else:
            self._verified.move_to_end(token)
        user = self._users.find(claims.user)
        if self._now() >= claims.expires_at or user is None or user.disabled:
            raise RejectedToken(FailureKind.EXPIRED, proven=True)
        if user.generation != claims.generation:
            raise RejectedToken(FailureKind.EXPIRED, proven=True)
        return user.principal

    def _checked(self, token: str) -> _Claims:
        if len(token) > TOKEN_CHARS_MAX:
            raise RejectedToken(FailureKind.SIGNED_TOKEN)
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key,
                algorithms=[ALGORITHM],
                issuer=ISSUER,
                audience=ISSUER,
                # Times are ours to compare: against the clock we were handed, and on every call.
                options={"require": _CLAIMS, "verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
        except (jwt.InvalidTokenError, ValueError) as error:
            raise RejectedToken(FailureKind.SIGNED_TOKEN) from error
        return _Claims(str(claims["sub"]), int(claims["gen"]), float(claims["exp"]))

    def _remember(self, token: str, claims: _Claims) -> None:
        self._verified[token] = claims
        if len(self._verified) > VERIFIED_MAX:
            self._verified.popitem(last=False)

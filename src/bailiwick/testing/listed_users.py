"""An authenticator that knows a fixed list of users, for testing doors without a database."""

import secrets
from dataclasses import replace

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import NOBODY, Authenticator, Peer
from bailiwick.identity.impersonation import not_allowed
from bailiwick.identity.principal import Principal


class ListedUsers(Authenticator):
    def __init__(
        self, users: dict[str, tuple[str, Principal]], *, acting_for: frozenset[tuple[str, str]] = frozenset()
    ) -> None:
        """`acting_for` lists who may act for whom, by name."""
        self._users = users
        self.acting_for = acting_for
        self._tokens: dict[str, Principal] = {}
        self._expired: set[str] = set()
        self.peers: list[Peer] = []

    async def authenticate_basic(self, name: str, password: str, *, peer: Peer = NOBODY) -> Principal:
        self.peers.append(peer)
        expected, principal = self._users.get(name, ("", None))
        if principal is None or expected != password:
            raise BailiwickError(Code.AUTHENTICATION_FAILED, "Wrong user or password.")
        return principal

    async def authenticate_bearer(self, token: str, *, peer: Peer = NOBODY) -> Principal:
        self.peers.append(peer)
        if token in self._expired:
            raise BailiwickError(Code.SESSION_EXPIRED, "Sign in again.")
        principal = self._tokens.get(token)
        if principal is None:
            raise BailiwickError(Code.AUTHENTICATION_FAILED, "The token is not valid.")
        return principal

    def act_for(self, actor: Principal, subject_name: str) -> Principal:
        if (actor.name, subject_name) not in self.acting_for:
            raise not_allowed(actor)
        return replace(self._users[subject_name][1], actor=actor.name)

    def issue(self, principal: Principal) -> str:
        token = secrets.token_urlsafe(24)
        self._tokens[token] = principal
        return token

    def expire(self, token: str) -> None:
        self._expired.add(token)

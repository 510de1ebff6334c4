"""Nobody is let in on what another gateway has changed since: a token revoked there is refused here.

It stands before the authenticator that decides, where several gateways share a database; see
`database/changes.py` for how old what is known may be. Who cannot know refuses (CATALOG_UNAVAILABLE).
"""

from collections.abc import Awaitable, Callable

from bailiwick.identity.authenticator import NOBODY, Authenticator, Peer
from bailiwick.identity.principal import Principal


class FreshAuthenticator(Authenticator):
    """`act_for` and `issue` are for callers who have just been authenticated: they are fresh enough."""

    def __init__(self, inner: Authenticator, ensure_fresh: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._ensure_fresh = ensure_fresh

    async def authenticate_basic(self, name: str, password: str, *, peer: Peer = NOBODY) -> Principal:
        await self._ensure_fresh()
        return await self._inner.authenticate_basic(name, password, peer=peer)

    async def authenticate_bearer(self, token: str, *, peer: Peer = NOBODY) -> Principal:
        await self._ensure_fresh()
        return await self._inner.authenticate_bearer(token, peer=peer)

    def act_for(self, actor: Principal, subject_name: str) -> Principal:
        return self._inner.act_for(actor, subject_name)

    def issue(self, principal: Principal) -> str:
        return self._inner.issue(principal)

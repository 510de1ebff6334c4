"""Puts on record who came in by a password, who was turned away, and who was not let act for another.

It stands before the chain that decides, and changes no answer. A good token is not recorded: it is shown with
every call, and what is done with it is recorded with who did it, on whose behalf. Failures are made by people
whom nobody knows, so there is a limit to how many of them are written one by one; the others are counted.
"""

from typing import Final, Protocol

from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.clock import Clock, wall
from bailiwick.errors import BailiwickError
from bailiwick.identity.authenticator import NOBODY, Authenticator, Peer
from bailiwick.identity.principal import Principal
from bailiwick.identity.users import NAME_CHARS_MAX

FAILURES_PER_S: Final = 1.0
FAILURES_AT_ONCE_MAX: Final = 60.0
UNKNOWN: Final = "unknown"
"""In whose name, where nobody has said one."""


class Log(Protocol):
    """The audit log, as far as signing in needs it."""

    def note(self, entry: AuditEntry) -> None: ...


class AuditedAuthenticator(Authenticator):
    def __init__(self, inner: Authenticator, log: Log, *, now: Clock = wall) -> None:
        self._inner = inner
        self._log = log
        self._now = now
        self._room = FAILURES_AT_ONCE_MAX
        self._looked_at = now()
        self._unwritten = 0

    async def authenticate_basic(self, name: str, password: str, *, peer: Peer = NOBODY) -> Principal:
        try:
            principal = await self._inner.authenticate_basic(name, password, peer=peer)
        except BailiwickError as error:
            self._failed(Kind.SIGN_IN, name[:NAME_CHARS_MAX], f"password from {_shown(peer)}", error)
            raise
        what = f"password from {_shown(peer)}"
        self._log.note(
            AuditEntry(
                self._now(), Kind.SIGN_IN, principal.name, what, Outcome.ALLOWED, tenant=principal.tenant
            )
        )
        return principal

    async def authenticate_bearer(self, token: str, *, peer: Peer = NOBODY) -> Principal:
        try:
            return await self._inner.authenticate_bearer(token, peer=peer)
        except BailiwickError as error:
            self._failed(Kind.SIGN_IN, UNKNOWN, f"token from {_shown(peer)}", error)
            raise

    def act_for(self, actor: Principal, subject_name: str) -> Principal:
        try:
            return self._inner.act_for(actor, subject_name)
        except BailiwickError as error:
            subject = subject_name[:NAME_CHARS_MAX]
            self._failed(Kind.IMPERSONATION, subject, "act on behalf of", error, actor=actor)
            raise

    def issue(self, principal: Principal) -> str:
        return self._inner.issue(principal)

    def _failed(
        self, kind: Kind, name: str, what: str, error: BailiwickError, *, actor: Principal | None = None
    ) -> None:
        now = self._now()
        self._room = min(FAILURES_AT_ONCE_MAX, self._room + max(0.0, now - self._looked_at) * FAILURES_PER_S)
        self._looked_at = now
        if self._room < 1.0:
            self._unwritten += 1
            return
        self._room -= 1.0
        unwritten, self._unwritten = self._unwritten, 0
        self._log.note(
            AuditEntry(
                now,
                kind,
                name,
                f"{what}; {unwritten} failures before it were not written one by one" if unwritten else what,
                Outcome.REFUSED,
                actor=None if actor is None else actor.name,
                tenant=None if actor is None else actor.tenant,
                code=error.code.value,
            )
        )


def _shown(peer: Peer) -> str:
    return peer.network or "somewhere"

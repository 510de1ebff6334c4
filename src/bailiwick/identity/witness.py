"""What audit is told of signing in: who came in by password, and who was refused to act for somebody else.

Failed passwords are counted, not written down: whoever has no account must not be able to fill the log.
"""

from collections.abc import Callable

from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.clock import Clock, wall
from bailiwick.errors import Code
from bailiwick.identity.principal import Principal

Note = Callable[[AuditEntry], None]
"""Keep an entry soon. Never waits, never raises."""


class Witness:
    def __init__(self, note: Note | None = None, *, now: Clock = wall) -> None:
        """Without `note` nothing is written down."""
        self._note = note
        self._now = now

    def signed_in(self, principal: Principal) -> None:
        self._tell(principal, Kind.SIGN_IN, "sign in by password", Outcome.ALLOWED)

    def refused_to_act(self, actor: Principal, subject_name: str) -> None:
        """The subject is as it was sent: there may be no such user."""
        self._tell(actor, Kind.IMPERSONATION, f"act on behalf of {subject_name!r}", Outcome.REFUSED)

    def _tell(self, principal: Principal, kind: Kind, what: str, outcome: Outcome) -> None:
        if self._note is None:
            return
        code = Code.ACCESS_DENIED.value if outcome is Outcome.REFUSED else None
        self._note(
            AuditEntry(
                at=self._now(),
                kind=kind,
                principal=principal.name,
                what=what,
                outcome=outcome,
                tenant=principal.tenant,
                code=code,
            )
        )

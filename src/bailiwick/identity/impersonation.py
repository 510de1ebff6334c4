"""Acting on behalf of somebody else: how it is asked for, and the port to the rules that allow it.

A rule says who may act for whom (`GRANT IMPERSONATE ON USER bob TO USER svc`); without one nobody may, an
admin included. Whether a rule is enough is for `people.py` to say: some subjects are out of reach of any.
"""

from typing import Protocol

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal

ON_BEHALF_OF_HEADER = "x-bailiwick-on-behalf-of"
"""Names the subject, on every call of every door: gRPC metadata, or an HTTP header in any case."""


class Impersonations(Protocol):
    """The rules about who may act for whom."""

    def allows(self, actor: Principal, subject_name: str, subject_roles: frozenset[str]) -> bool:
        """Whether a rule of now lets `actor` act for this subject. Asked on every call; never waits."""


def not_allowed(actor: Principal) -> BailiwickError:
    """The same words for a subject that is unknown, disabled or out of reach: trying teaches nothing."""
    return BailiwickError(
        Code.ACCESS_DENIED,
        f"{actor.name} may not act on behalf of that user. An administrator can allow it: "
        "GRANT IMPERSONATE ON USER … TO USER ….",
        details={"reason": "impersonation"},
    )

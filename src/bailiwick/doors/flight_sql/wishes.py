"""What a client says with a call about the statement in it: by headers, as Flight SQL has no words for it.

`idempotency-key` names the statement, so that sending it again does not run it again; `bailiwick-placement`
says where it may run. What a session says holds where a call says nothing.
"""

from dataclasses import dataclass, replace
from typing import Final

from bailiwick.doors.grpc_credentials import Context
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.placement import Placement
from bailiwick.queries.client_sessions import SessionSettings
from bailiwick.queries.statement import SubmissionKey
from bailiwick.queries.submissions import checked_key

IDEMPOTENCY_KEY_HEADER: Final = "idempotency-key"
PLACEMENT_HEADER: Final = "bailiwick-placement"


@dataclass(frozen=True, slots=True)
class Wishes:
    key: SubmissionKey | None = None
    placement: Placement | None = None

    def over(self, settings: SessionSettings) -> SessionSettings:
        """A session's settings, for the statement of this call."""
        return settings if self.placement is None else replace(settings, placement=self.placement)


NO_WISHES: Final = Wishes()


def wishes_of(context: Context) -> Wishes:
    """INVALID_ARGUMENTS for what is no such thing, and for several of one kind."""
    key, placement = _only(context, IDEMPOTENCY_KEY_HEADER), _only(context, PLACEMENT_HEADER)
    if key is None and placement is None:
        return NO_WISHES
    return Wishes(
        None if key is None else checked_key(key),
        None if placement is None else checked_placement(placement),
    )


def checked_placement(text: str) -> Placement:
    """
    >>> checked_placement("prefer")
    <Placement.PREFER: 'prefer'>
    """
    try:
        return Placement(text)
    except ValueError:
        known = ", ".join(Placement)
        raise BailiwickError(
            Code.INVALID_ARGUMENTS, f"A placement is one of {known}.", details={"reason": "placement"}
        ) from None


def _only(context: Context, name: str) -> str | None:
    values = [value for key, value in context.invocation_metadata() or () if key == name]
    if not values:
        return None
    if len(values) > 1 or not isinstance(values[0], str):
        raise BailiwickError(Code.INVALID_ARGUMENTS, f"The header {name} must be there once, as text.")
    return values[0]

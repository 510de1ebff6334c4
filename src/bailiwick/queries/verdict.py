"""May this principal run this statement? Decided from what Spark says the statement is.

Pure. Until policies exist, roles and kinds are all there is: an allow-list, with reasons. It is the first
of two checks: the catalog refuses changes by readers, too, whatever was decided here.
"""

from dataclasses import dataclass
from typing import assert_never

from bailiwick.engines.description import Description, Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal

CATALOGS = frozenset({"lake"})
"""The catalogs that are open to everyone with a role."""


@dataclass(frozen=True, slots=True)
class Refusal:
    code: Code
    reason: str
    """A stable word for programs."""
    because: str
    """A sentence for people."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Allowed, unless there is a refusal."""

    because: tuple[Refusal, ...] = ()

    @property
    def allowed(self) -> bool:
        return not self.because

    def enforce(self) -> None:
        """Raise what the caller is told, if there is anything to tell."""
        if self.because:
            first = self.because[0]
            raise BailiwickError(
                first.code,
                " ".join(refusal.because for refusal in self.because),
                details={"reason": ",".join(refusal.reason for refusal in self.because)},
            )


def may_ask(principal: Principal) -> Verdict:
    """Whether they may ask anything at all. Needs no engine, so it comes first."""
    if principal.may_read:
        return Verdict()
    because = f"{principal.name} has none of the roles reader, writer, admin."
    return Verdict((Refusal(Code.ACCESS_DENIED, "no_role", because),))


def decide(principal: Principal, description: Description) -> Verdict:
    """Whether `principal` may run what `description` describes, and if not, every reason why."""
    refusals = [*_refusals_of_kind(principal, description)]
    if not principal.is_admin:
        refusals += _refusals_of_names(description)
    return Verdict((*may_ask(principal).because, *refusals))


def _refusals_of_kind(principal: Principal, description: Description) -> list[Refusal]:
    match description.kind:
        case Kind.READ | Kind.SHOWS:
            return []
        case Kind.CHANGE if principal.may_write:
            return []
        case Kind.CHANGE:
            because = f"{description.command} changes something, and {principal.name} may only read."
            return [Refusal(Code.ACCESS_DENIED, "read_only", because)]
        case Kind.SESSION:
            because = (
                f"{description.command} would leave something behind in its session, and sessions are shared "
                "here: each statement must stand for itself. What may be set for one's own session (schema, "
                "time zone, quoting, timeout) is a session option; USE and SET TIME ZONE set it, too."
            )
            return [Refusal(Code.NOT_SUPPORTED, "session_state", because)]
    assert_never(description.kind)


def _refusals_of_names(description: Description) -> list[Refusal]:
    refusals = []
    if others := sorted(description.catalogs - CATALOGS):
        because = f"Only the catalog lake may be used, not {', '.join(others)}."
        refusals.append(Refusal(Code.ACCESS_DENIED, "catalog", because))
    if description.command.lower().startswith("call"):
        because = "CALL is for administrators."
        refusals.append(Refusal(Code.ACCESS_DENIED, "procedure", because))
    if description.dynamic_names:
        because = "Names that are computed (IDENTIFIER, EXECUTE IMMEDIATE) are for administrators."
        refusals.append(Refusal(Code.ACCESS_DENIED, "dynamic_names", because))
    return refusals

"""May this principal run this statement? Decided from what Spark says the statement is.

Pure, and the first of several checks: it refuses what no policy could allow on a shared session. Which
tables, rows and columns are reached is decided by `policy.decide`, with each table that Spark loads.
"""

from dataclasses import dataclass
from typing import assert_never

from bailiwick.engines.description import Description, Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal

CATALOGS = frozenset({"lake"})
"""The catalogs that statements may name."""


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
    if principal.roles:
        return Verdict()
    because = f"{principal.name} has no role. An administrator can give one: GRANT ROLE … TO USER …."
    return Verdict((Refusal(Code.ACCESS_DENIED, "no_role", because),))


def decide(principal: Principal, description: Description) -> Verdict:
    """Whether `principal` may run what `description` describes, and if not, every reason why."""
    refusals = _refusals_of_kind(description)
    if not principal.is_admin:
        refusals += _refusals_of_names(description)
    return Verdict((*may_ask(principal).because, *refusals))


def _refusals_of_kind(description: Description) -> list[Refusal]:
    match description.kind:
        case Kind.READ | Kind.SHOWS | Kind.CHANGE | Kind.OWN:
            return []
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
    return refusals

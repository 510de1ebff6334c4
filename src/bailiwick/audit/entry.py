"""What is written down of one thing that happened. A value: where it is kept is for `log.py` to say.

An entry says who asked for what, on whose behalf, which tables and rules took part, and how it ended. It
holds no data and no secrets: texts are searched for what opens a door, and cut. Every size in it is bounded,
so that nobody can fill the log by one statement.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, Self

from bailiwick.telemetry.scrub import scrub_secrets

WHAT_CHARS_MAX: Final = 8_192
NAME_CHARS_MAX: Final = 1_024
NAMES_MAX: Final = 100
"""Longer lists are cut, and end with how many are missing."""


class Kind(StrEnum):
    QUERY = "query"
    """A statement, whoever answered it."""
    POLICY = "policy"
    """A change of roles, grants, filters, masks or tags."""
    ADMINISTRATION = "administration"
    """A change of users, passwords or tokens, or somebody else's query cancelled."""
    COMMIT = "commit"
    """A change of the catalog: what an engine committed, or was refused."""
    SIGN_IN = "sign_in"
    IMPERSONATION = "impersonation"
    """Somebody acted, or was refused to act, on behalf of somebody else."""
    GAP = "gap"
    """The log itself: entries could not be kept, or were found to be missing."""


class Outcome(StrEnum):
    BEGUN = "begun"
    """A change is about to start; how it ended is another entry, or nobody knows."""
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    """By policy, by role, or because it cannot be done here."""
    ALLOWED = "allowed"
    UNKNOWN = "unknown"
    """It broke off, and may have happened all the same."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    at: float
    """Seconds since the epoch; kept to the microsecond."""
    kind: Kind
    principal: str
    """In whose name it was done, as far as that was proved."""
    what: str
    """The statement, or the act in a few words, as it may be kept."""
    outcome: Outcome
    actor: str | None = None
    """Who really signed in, where that is somebody else."""
    tenant: str | None = None
    door: str | None = None
    query_id: str | None = None
    tables_read: tuple[str, ...] = ()
    """Full names, as one writes them in SQL."""
    tables_written: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """What policy added to it: `row_filter eu_only on lake.sales.orders`."""
    policy_version: int | None = None
    """The version of the policy that it was decided by."""
    code: str | None = None
    """The error code it ended with."""
    rows: int | None = None

    def object(self) -> dict[str, Any]:
        """As JSON has it: bounded, without secrets, without what is not known. Numbers are whole."""
        known: dict[str, Any] = {
            "at_us": round(self.at * 1_000_000),
            "kind": self.kind.value,
            "principal": _cut(self.principal, NAME_CHARS_MAX),
            "what": kept_text(self.what),
            "outcome": self.outcome.value,
        }
        for name in ("actor", "tenant", "door", "query_id", "code"):
            if (text := getattr(self, name)) is not None:
                known[name] = _cut(text, NAME_CHARS_MAX)
        for name in ("tables_read", "tables_written", "rules"):
            if names := getattr(self, name):
                known[name] = _bounded(names)
        for name in ("policy_version", "rows"):
            if (number := getattr(self, name)) is not None:
                known[name] = int(number)
        return known

    @classmethod
    def from_object(cls, told: dict[str, Any]) -> Self:
        """An entry again, as it was kept. Raises ValueError for what is none, or has parts we do not know."""
        rest = dict(told)
        try:
            at = int(rest.pop("at_us")) / 1_000_000
            kind, outcome = Kind(rest.pop("kind")), Outcome(rest.pop("outcome"))
            principal, what = str(rest.pop("principal")), str(rest.pop("what"))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an audit entry: {error}") from None
        if unknown := rest.keys() - _OPTIONAL:
            raise ValueError(f"not known in an audit entry: {', '.join(sorted(unknown))}")
        parts: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in rest.items()
        }
        return cls(at, kind, principal, what, outcome, **parts)


_REQUIRED: Final = frozenset({"at", "kind", "principal", "what", "outcome"})
_OPTIONAL: Final = frozenset(field.name for field in fields(AuditEntry)) - _REQUIRED


def kept_text(text: str) -> str:
    """`text` without secrets, and not too long.

    >>> kept_text("password = 'x'")
    'password = <secret>'
    """
    # Cut last: half of a secret is not recognised as one. How much is searched is bounded all the same.
    return _cut(scrub_secrets(text[: 2 * WHAT_CHARS_MAX]), WHAT_CHARS_MAX, whole=len(text))


def _cut(text: str, chars_max: int, *, whole: int | None = None) -> str:
    # Half of a surrogate pair is no text: neither a file nor a database would take it.
    text = text.encode(errors="replace").decode()
    length = max(len(text), whole or 0)
    if len(text) <= chars_max and length <= 2 * WHAT_CHARS_MAX:
        return text
    return f"{text[:chars_max]}… ({length} characters)"


def _bounded(names: tuple[str, ...]) -> list[str]:
    shown = [_cut(name, NAME_CHARS_MAX) for name in names[:NAMES_MAX]]
    missing = len(names) - len(shown)
    return [*shown, f"… and {missing} more"] if missing else shown

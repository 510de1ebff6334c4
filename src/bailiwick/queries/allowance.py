"""What a principal's roles allow its queries: how long they may take, and where they may run. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from bailiwick.fleet.placement import Placement, effective
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.statement import Statement


@dataclass(frozen=True, slots=True)
class Allowance:
    timeout_s: float
    """Of a query that names no deadline."""
    timeout_max_s: float

    def deadline_s(self, wanted_s: float | None) -> float:
        """How long a query may take that wants so long. More than is allowed is cut."""
        return min(self.timeout_s if wanted_s is None else wanted_s, self.timeout_max_s)


def allowance(limits: LimitsConfig, roles: Collection[str]) -> Allowance:
    """The most generous of what these roles say; where none of them says anything, what holds for everybody.

    >>> table = {"analyst": {"timeout_s": 60, "timeout_max_s": 600}, "etl": {"timeout_max_s": 7200}}
    >>> limits = LimitsConfig.model_validate({"roles": table})
    >>> allowance(limits, {"reader"})
    Allowance(timeout_s=300.0, timeout_max_s=3600.0)
    >>> allowance(limits, {"reader", "analyst"})
    Allowance(timeout_s=60.0, timeout_max_s=600.0)
    >>> allowance(limits, {"analyst", "etl"})
    Allowance(timeout_s=60.0, timeout_max_s=7200.0)
    """
    listed = [limits.roles[role] for role in roles if role in limits.roles]
    defaults_s = [role.timeout_s for role in listed if role.timeout_s is not None]
    longest_s = [role.timeout_max_s for role in listed if role.timeout_max_s is not None]
    return Allowance(max(defaults_s, default=limits.timeout_s), max(longest_s, default=limits.timeout_max_s))


def placement(
    limits: LimitsConfig, statement: Statement, *, server: Placement | None, has_remote_configured: bool
) -> Placement:
    """Where the statement may run: its own word, else the strictest of its principal's roles', else the
    server's."""
    roles = [limits.roles[role].placement for role in statement.principal.roles if role in limits.roles]
    return effective(
        has_remote_configured=has_remote_configured,
        server=server,
        roles=[role for role in roles if role is not None],
        query=statement.placement,
    )

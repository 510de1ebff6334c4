"""Whose queries and sessions one may see, and whose queries one may end.

Pure. Everybody has their own. Beyond that: an operator has those of its tenant, an auditor sees those of all
tenants and ends none, an admin has all. What one may not see does not exist: say so in the same words.

What was done on behalf of somebody is theirs, as if they had done it themselves.
"""

from collections.abc import Collection
from dataclasses import dataclass

from bailiwick.identity.principal import OPERATOR, Principal


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose things: those of the tenant, of the name, of both. None stands for any."""

    tenant: str | None = None
    name: str | None = None

    def covers(self, owner: str, tenant: str) -> bool:
        """Whether the things of `owner`, who was in `tenant` then, are among them.

        >>> Whose(tenant="acme").covers("ann", "acme")
        True
        >>> Whose("acme", "bob").covers("ann", "acme")
        False
        """
        return self.tenant in (None, tenant) and self.name in (None, owner)


EVERYONES = Whose()


def seen_by(principal: Principal) -> Whose:
    """Whose queries and sessions this principal may see."""
    if principal.may_see_all_queries:
        return EVERYONES
    return _own_or_tenants(principal)


def ended_by(principal: Principal) -> Whose:
    """Whose queries this principal may end."""
    if principal.is_admin:
        return EVERYONES
    return _own_or_tenants(principal)


def may_see(principal: Principal, owner: str, tenant: str) -> bool:
    """Whether `principal` may see what `owner` of `tenant` runs or ran."""
    return seen_by(principal).covers(owner, tenant)


def may_cancel(principal: Principal, owner: str, tenant: str) -> bool:
    """Whether `principal` may end what `owner` of `tenant` runs."""
    return ended_by(principal).covers(owner, tenant)


def may_run_code(principal: Principal, roles: Collection[str]) -> bool:
    """Whether code of `principal` may run in an engine, where those with one of `roles` may.

    Never on behalf of somebody: code goes on where the right to act for them has ended.
    """
    return not principal.is_acted_for and not principal.roles.isdisjoint(roles)


def _own_or_tenants(principal: Principal) -> Whose:
    is_operator = OPERATOR in principal.roles
    return Whose(principal.tenant, None if is_operator else principal.name)

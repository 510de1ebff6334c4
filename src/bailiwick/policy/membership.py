"""Which roles somebody holds, and for whom they may act.

Roles hold roles: what is given to a role reaches all who hold it, directly or through others. Definitions
that run in a circle are refused (`validation.py`); here a circle would only end early.
"""

from bailiwick.identity.principal import Principal
from bailiwick.policy.model import Grantee, Impersonation, Policies
from bailiwick.policy.standing import Standing


def effective_roles(policies: Policies, user: str, given: frozenset[str]) -> frozenset[str]:
    """The roles given to `user`, those that name the user as a member, and all that follow from these."""
    found = set(given)
    waiting = [Grantee.user(user), *map(Grantee.role, given)]
    while waiting:
        for role in policies.roles_with(waiting.pop()):
            if role not in found:
                found.add(role)
                waiting.append(Grantee.role(role))
    return frozenset(found)


def may_act_as(who: Principal, whom: Principal, policies: Policies) -> bool:
    """Whether a rule lets `who` act on behalf of `whom`, both with their effective roles.

    Nobody who acts for somebody already may go on to a third. A rule that names a role lets only admins act
    for an admin: others must be let by the user's name.
    """
    if who.actor is not None:
        return False
    actor = Standing.of(who)
    is_by_role_enough = who.is_admin or not whom.is_admin
    return any(
        rule.who in actor.grantees and _reaches(rule, whom, is_by_role_enough)
        for rule in policies.impersonations
    )


def _reaches(rule: Impersonation, whom: Principal, is_by_role_enough: bool) -> bool:
    if rule.as_whom == Grantee.user(whom.name):
        return True
    return is_by_role_enough and rule.as_whom in map(Grantee.role, whom.roles)

"""What becomes of the policy when a user goes: what they were given is taken back.

Names are used again. Whoever gets the name next must not find the grants, roles and exemptions of somebody
else. Filters and masks that are made for the name stay: they only ever show less.
"""

from dataclasses import replace

from bailiwick.identity.principal import Principal
from bailiwick.policy import changes
from bailiwick.policy.model import Grantee, Policies
from bailiwick.policy.store import PolicyStore


async def forget_user(store: PolicyStore, name: str, by: Principal) -> None:
    """Take back all that the user was given. Nothing happens, and nothing is noted, if that is nothing."""
    wishes = without_user(store.current, name)
    if wishes:
        await store.change(wishes, by)


def without_user(policies: Policies, name: str) -> tuple[changes.Wish, ...]:
    """What is to be changed so that nothing is given to this name any more, nor to others because of it."""
    user = Grantee.user(name)
    here = frozenset({user})
    return (
        *(changes.RemoveMembers(role, here) for role in policies.roles_with(user)),
        *(
            changes.RemoveGrants(here, grant.on, frozenset({grant.privilege}), is_exact=True)
            for grant in policies.grants
            if grant.to == user
        ),
        *(
            changes.RemoveImpersonation(rule)
            for rule in policies.impersonations
            if user in (rule.who, rule.as_whom)
        ),
        *(
            changes.AddFilter(replace(each, exempt=each.exempt - here), or_replace=True)
            for each in policies.filters
            if user in each.exempt
        ),
        *(
            changes.AddMask(replace(each, exempt=each.exempt - here), or_replace=True)
            for each in policies.masks
            if user in each.exempt
        ),
    )

"""Users as principals: with all the roles they have now, and acted for by others where a rule allows it.

It proves nothing: who calls has been proved before. It keeps nothing either, so a role that is granted or a
rule that is taken back holds from the next call on.
"""

from collections.abc import Callable
from dataclasses import replace

from bailiwick.identity.impersonation import Impersonations, not_allowed
from bailiwick.identity.principal import BUILT_IN_ROLES, Principal
from bailiwick.identity.users import User, UserStore

RoleExpansion = Callable[[str, frozenset[str]], frozenset[str]]
"""A user's name and the roles given to them → all roles that they have. Asked on every call; never waits."""


def as_given(_name: str, roles: frozenset[str]) -> frozenset[str]:
    """No role brings another."""
    return roles


class People:
    def __init__(
        self,
        users: UserStore,
        *,
        expand: RoleExpansion = as_given,
        impersonations: Impersonations | None = None,
    ) -> None:
        """Without `impersonations` there is no rule, and everyone acts for themselves."""
        self._users = users
        self._expand = expand
        self._impersonations = impersonations

    def find(self, name: str) -> Principal | None:
        """The user as they would be when signed in, also one who is disabled; None if there is none."""
        user = self._users.find(name)
        return None if user is None else self.with_all_roles(user.principal)

    def with_all_roles(self, principal: Principal) -> Principal:
        """The same one, with the roles that come with those that were given to them.

        Built-in ones never do: whoever looks at the list of users sees every admin there is.
        """
        expanded = self._expand(principal.name, principal.roles)
        return replace(principal, roles=principal.roles | (expanded - BUILT_IN_ROLES))

    def acted_for(self, actor: Principal, subject_name: str) -> Principal:
        """The subject, with `actor` acting for them. ACCESS_DENIED where that is not allowed.

        Everyone may name themselves, which changes nothing. Nobody acts for others while being acted for.
        """
        if subject_name == actor.name and not actor.is_acted_for:
            return actor
        user = self._users.find(subject_name)
        if user is None or user.disabled or actor.is_acted_for or not self._allows(actor, user):
            raise not_allowed(actor)
        return replace(self.with_all_roles(user.principal), actor=actor.name)

    def _allows(self, actor: Principal, user: User) -> bool:
        """A rule for a role takes in whoever has it: so it never reaches admins, nor another tenant's users,
        unless the actor is an admin and could be any of them anyway."""
        subject = self.with_all_roles(user.principal)
        is_out_of_reach = subject.is_admin or subject.tenant != actor.tenant
        if self._impersonations is None or (is_out_of_reach and not actor.is_admin):
            return False
        return self._impersonations.allows(actor, subject.name, subject.roles)

"""What a principal is to the rules: the grantees whose grants are theirs and whose filters apply to them."""

from dataclasses import dataclass
from typing import Protocol, Self

from bailiwick.identity.principal import Principal
from bailiwick.policy.model import Grantee


class Rule(Protocol):
    """What applies to some and exempts others."""

    @property
    def applies_to(self) -> frozenset[Grantee]: ...

    @property
    def exempt(self) -> frozenset[Grantee]: ...


@dataclass(frozen=True, slots=True)
class Standing:
    principal: Principal
    grantees: frozenset[Grantee]
    texts: tuple[str, ...]
    """The same as the indexes have them, in a stable order."""

    @classmethod
    def of(cls, principal: Principal) -> Self:
        grantees = [Grantee.user(principal.name), *map(Grantee.role, sorted(principal.roles))]
        return cls(principal, frozenset(grantees), tuple(map(str, grantees)))

    def is_met_by(self, rule: Rule) -> bool:
        """Whether `rule` is for this principal. One exemption outweighs any number of reasons."""
        return not self.grantees.isdisjoint(rule.applies_to) and self.grantees.isdisjoint(rule.exempt)

    def reason(self, rule: Rule) -> str:
        """As whom the rule meets or spares this principal."""
        if spared := self.grantees & rule.exempt:
            return f"{min(spared)} is exempt"
        if met := self.grantees & rule.applies_to:
            return f"it is for {min(met)}"
        return f"it is for others than {Grantee.user(self.principal.name)}"

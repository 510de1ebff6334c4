"""How policies are found quickly: a table load asks for the rules of one table among thousands.

Made once for each version of the policies, then only read. It knows what matches by uuid and what by name; it
does not know what follows from a match.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from bailiwick.names import Namespace, TableName

if TYPE_CHECKING:
    from bailiwick.policy.model import (
        ColumnTags,
        Grant,
        Grantee,
        Key,
        Mask,
        Policies,
        Privilege,
        Role,
        RowFilter,
        Securable,
    )

NOBODY: "Mapping[str, frozenset[Privilege]]" = {}


class _OnTable(Protocol):
    @property
    def on(self) -> "Securable | None": ...


Rule = TypeVar("Rule", bound=_OnTable)


class ByTable(Generic[Rule]):
    """Rules by the uuid and by the name of their table."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_uuid: dict[str, dict[int, Rule]] = {}
        self._by_name: dict[tuple[str, TableName], dict[int, Rule]] = {}
        for number, rule in enumerate(rules):
            if rule.on is None:
                continue
            by_name = self._by_name.setdefault((rule.on.catalog, rule.on.table_name), {})
            by_name[number] = rule
            if rule.on.uuid is not None:
                self._by_uuid.setdefault(rule.on.uuid, {})[number] = rule

    def matching(self, catalog: str, names: Iterable[TableName], uuid: str | None) -> tuple[Rule, ...]:
        """Those of this uuid or one of these names, each once, always in the same order."""
        found: dict[int, Rule] = {}
        if uuid is not None:
            found.update(self._by_uuid.get(uuid, {}))
        for name in names:
            found.update(self._by_name.get((catalog, name), {}))
        return tuple(found[number] for number in sorted(found))


class Index:
    """Everything that `Policies` looks up by something else than its place in a list."""

    def __init__(self, policies: "Policies") -> None:
        self.roles: dict[str, Role] = {role.name: role for role in policies.roles}
        self.memberships: dict[Grantee, tuple[str, ...]] = _memberships(policies.roles)
        self.by_key: dict[Key, dict[str, frozenset[Privilege]]] = {}
        self.by_uuid: dict[str, dict[str, frozenset[Privilege]]] = {}
        self.footholds: dict[str, frozenset[tuple[str, Namespace]]] = _footholds(policies.grants)
        self.filters: ByTable[RowFilter] = ByTable(policies.filters)
        self.masks: ByTable[Mask] = ByTable(policies.masks)
        self.tags: ByTable[ColumnTags] = ByTable(policies.tags)
        self.tag_masks: dict[str, tuple[Mask, ...]] = {}
        for grant in policies.grants:
            self._add(grant)
        for mask in policies.masks:
            if mask.tag is not None:
                self.tag_masks[mask.tag] = (*self.tag_masks.get(mask.tag, ()), mask)

    def _add(self, grant: "Grant") -> None:
        if grant.on.uuid is not None:
            granted = self.by_uuid.setdefault(grant.on.uuid, {})
        else:
            granted = self.by_key.setdefault(grant.on.key, {})
        to = str(grant.to)
        granted[to] = granted.get(to, frozenset()) | {grant.privilege}


def _memberships(roles: "Iterable[Role]") -> "dict[Grantee, tuple[str, ...]]":
    memberships: dict[Grantee, tuple[str, ...]] = {}
    for role in roles:
        for member in role.members:
            memberships[member] = (*memberships.get(member, ()), role.name)
    return memberships


def _footholds(grants: "Iterable[Grant]") -> dict[str, frozenset[tuple[str, Namespace]]]:
    found: dict[str, set[tuple[str, Namespace]]] = {}
    for grant in grants:
        places = found.setdefault(str(grant.to), set())
        namespace = grant.on.namespace or ()
        places.update((grant.on.catalog, namespace[:depth]) for depth in range(len(namespace) + 1))
    return {grantee: frozenset(places) for grantee, places in found.items()}

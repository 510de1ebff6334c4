"""Policies while somebody changes them: each wish in turn, then made into the next policies at once.

Pure. It refuses what refers to something that is not there, or there already; whether the outcome makes sense
is for `validation.py`.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, TypeVar, assert_never

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy import changes as c
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


def applied(policies: Policies, wishes: Iterable[c.Wish]) -> Policies:
    """The policies after all of `wishes`, in their order, still under the old version."""
    draft = _Draft(policies)
    for wish in wishes:
        draft.apply(wish)
    return draft.finished()


def granted(to: Grantee, on: Securable, privilege: Privilege, *, by_creation: bool = False) -> Grant:
    """A grant. Its id follows from what it says, so that saying it twice makes one."""
    said = "\x1e".join((str(to), on.scope, str(on), on.uuid or "", privilege))
    return Grant(hashlib.sha256(said.encode()).hexdigest()[:16], to, on, privilege, by_creation)


def is_same_table(one: Securable, other: Securable) -> bool:
    """By name or by uuid."""
    return one.key == other.key or (one.uuid is not None and one.uuid == other.uuid)


class _OnTable(Protocol):
    @property
    def on(self) -> Securable | None: ...


class _Named(_OnTable, Protocol):
    @property
    def name(self) -> str: ...


OnTable = TypeVar("OnTable", bound=_OnTable)
Named = TypeVar("Named", bound=_Named)
_GrantKey = tuple[str, Key, str | None, Privilege]


class _Draft:
    def __init__(self, policies: Policies) -> None:
        self._before = policies
        self._roles = {role.name: role for role in policies.roles}
        self._grants: dict[_GrantKey, Grant] = {_key(grant): grant for grant in policies.grants}
        self._filters = list(policies.filters)
        self._masks = list(policies.masks)
        self._tags = list(policies.tags)
        self._impersonations = set(policies.impersonations)

    def finished(self) -> Policies:
        return Policies(
            self._before.version,
            tuple(self._roles.values()),
            tuple(self._grants.values()),
            tuple(self._filters),
            tuple(self._masks),
            tuple(self._tags),
            tuple(self._impersonations),
        )

    def apply(self, wish: c.Wish) -> None:
        match wish:
            case c.AddRole() | c.RemoveRole() | c.AddMembers() | c.RemoveMembers():
                self._apply_to_roles(wish)
            case c.AddGrants(to, on, privileges):
                for grant in (granted(each, on, privilege) for each in to for privilege in privileges):
                    self._grants.setdefault(_key(grant), grant)
            case c.RemoveGrants():
                self._remove_grants(wish)
            case c.AddFilter(filter_, or_replace):
                self._filters = _added(self._filters, filter_, or_replace, "Row filter")
            case c.RemoveFilter(name, on):
                self._filters = _without(self._filters, name, on, "row filter")
            case c.AddMask(mask, or_replace):
                self._masks = _added(self._masks, mask, or_replace, "Mask")
            case c.RemoveMask(name, on):
                self._masks = _without(self._masks, name, on, "mask")
            case c.AddTags(tags):
                self._add_tags(tags)
            case c.RemoveTags(tags):
                self._remove_tags(tags)
            case c.AddImpersonation(rule):
                self._impersonations.add(rule)
            case c.RemoveImpersonation(rule):
                if rule not in self._impersonations:
                    raise _missing("rule", f"{rule.who} may not act on behalf of {rule.as_whom}.")
                self._impersonations.discard(rule)
            case c.ClearRules(on):
                self._clear(on)
            case _:
                assert_never(wish)

    def _apply_to_roles(self, wish: c.AddRole | c.RemoveRole | c.AddMembers | c.RemoveMembers) -> None:
        match wish:
            case c.AddRole(name):
                if name in self._roles:
                    raise _duplicate("role", f"Role '{name}' exists already.")
                self._roles[name] = Role(name)
            case c.RemoveRole(name):
                self._remove_role(name)
            case c.AddMembers(name, members):
                role = self._role(name)
                self._roles[name] = replace(role, members=role.members | members)
            case c.RemoveMembers(name, members):
                role = self._role(name)
                if not role.members & members:
                    raise _missing("role", f"{min(map(str, members))} was not granted role '{name}'.")
                self._roles[name] = replace(role, members=role.members - members)

    def _role(self, name: str) -> Role:
        if name not in self._roles:
            raise _missing("role", f"There is no role '{name}'.")
        return self._roles[name]

    def _remove_role(self, name: str) -> None:
        self._role(name)
        gone = Grantee.role(name)
        del self._roles[name]
        for role in self._roles.values():
            self._roles[role.name] = replace(role, members=role.members - {gone})
        self._grants = {key: grant for key, grant in self._grants.items() if grant.to != gone}

    def _remove_grants(self, wish: c.RemoveGrants) -> None:
        def is_meant(grant: Grant) -> bool:
            is_there = grant.on == wish.on if wish.is_exact else is_same_table(grant.on, wish.on)
            return is_there and grant.to in wish.to and grant.privilege in wish.privileges

        left = {key: grant for key, grant in self._grants.items() if not is_meant(grant)}
        if len(left) == len(self._grants):
            who, what = min(map(str, wish.to)), ", ".join(sorted(wish.privileges))
            raise _missing("grant", f"{who} was not granted {what} on {wish.on.scope} {wish.on}.")
        self._grants = left

    def _add_tags(self, tags: ColumnTags) -> None:
        same = [each for each in self._tags if _is_same_column(each, tags)]
        all_tags = tags.tags.union(*(each.tags for each in same))
        self._tags = [each for each in self._tags if each not in same]
        self._tags.append(replace(tags, tags=all_tags))

    def _remove_tags(self, tags: ColumnTags) -> None:
        left: list[ColumnTags] = []
        for each in self._tags:
            less = each.tags - tags.tags if _is_same_column(each, tags) else each.tags
            if less:
                left.append(replace(each, tags=less))
        if left == self._tags:
            named = ", ".join(sorted(tags.tags))
            raise _missing("tag", f"Column {tags.column.name} of table {tags.on} has no tag {named}.")
        self._tags = left

    def _clear(self, on: Securable) -> None:
        before = len(self._filters) + len(self._masks) + len(self._tags)
        self._filters = [each for each in self._filters if not is_same_table(each.on, on)]
        self._masks = [each for each in self._masks if each.on is None or not is_same_table(each.on, on)]
        self._tags = [each for each in self._tags if not is_same_table(each.on, on)]
        if before == len(self._filters) + len(self._masks) + len(self._tags):
            raise _missing("rule", f"There are no rules on table {on}.")


def _key(grant: Grant) -> _GrantKey:
    return (str(grant.to), grant.on.key, grant.on.uuid, grant.privilege)


def _added(rules: list[Named], rule: Named, or_replace: bool, kind: str) -> list[Named]:
    others = [each for each in rules if not _is_named(each, rule.name, rule.on)]
    if len(others) < len(rules) and not or_replace:
        raise _duplicate(kind.lower(), f"{kind} '{rule.name}' exists already. CREATE OR REPLACE changes it.")
    return [*others, rule]


def _without(rules: list[Named], name: str, on: Securable | None, kind: str) -> list[Named]:
    others = [each for each in rules if not _is_named(each, name, on)]
    if len(others) == len(rules):
        where = f"on table {on}" if on is not None else "on a tag"
        raise _missing(kind, f"There is no {kind} '{name}' {where}.")
    return others


def _is_named(rule: RowFilter | Mask | _Named, name: str, on: Securable | None) -> bool:
    if rule.name != name:
        return False
    return rule.on is on if rule.on is None or on is None else is_same_table(rule.on, on)


def _is_same_column(one: ColumnTags, other: ColumnTags) -> bool:
    if not is_same_table(one.on, other.on):
        return False
    same_id = one.column.field_id is not None and one.column.field_id == other.column.field_id
    is_one_table = one.on.uuid is not None and one.on.uuid == other.on.uuid
    return (same_id and is_one_table) or one.column.name.lower() == other.column.name.lower()


def _missing(kind: str, message: str) -> BailiwickError:
    details = {"reason": "unknown", "kind": kind}
    return BailiwickError(Code.INVALID_ARGUMENTS, message, sqlstate="42704", details=details)


def _duplicate(kind: str, message: str) -> BailiwickError:
    details = {"reason": "duplicate", "kind": kind}
    return BailiwickError(Code.INVALID_ARGUMENTS, message, sqlstate="42710", details=details)

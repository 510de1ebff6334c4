"""The whole policy as one file: what a file would change, and the file that says what holds.

A file is the whole policy: what it does not say goes, except that who created something owns it until
somebody revokes that. Applying it a second time changes nothing. Nothing is bound here: `definitions.py`
binds a file's rules as it binds those of statements.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from bailiwick.policy import actions, file_reading, file_writing
from bailiwick.policy import changes as c
from bailiwick.policy.model import (
    ColumnTags,
    Grant,
    Grantee,
    Impersonation,
    Key,
    Mask,
    Policies,
    Privilege,
    Role,
    RowFilter,
    Scope,
    Securable,
)

UuidOf = Callable[[Securable], str | None]
"""The uuid of the table that has this name now."""


def rendered(policies: Policies) -> str:
    """A file that says what holds."""
    return file_writing.written(policies)


def planned(text: str, policies: Policies, uuid_of: UuidOf | None = None) -> list[c.Wish]:
    """What is to be changed so that the policies are what the file says. Refuses a file that makes no sense.

    What is to be added is bound to nothing yet. With `uuid_of`, a grant bound to a table that has gone is
    made anew for the one that has its name now.
    """
    wanted = file_reading.read(text)
    new_roles, old_roles = _roles(wanted.roles, policies.roles)
    return [
        *new_roles,
        *_grants(wanted.grants, policies.grants, uuid_of),
        *_filters(wanted.filters, policies.filters),
        *_masks(wanted.masks, policies.masks),
        *_tags(wanted.tags, policies.tags),
        *_impersonations(wanted.impersonations, policies.impersonations),
        # Last: what is dropped with a role is named above.
        *old_roles,
    ]


def _roles(wanted: tuple[Role, ...], found: tuple[Role, ...]) -> tuple[list[c.Wish], list[c.Wish]]:
    before = {role.name: role.members for role in found}
    after = {role.name: role.members for role in wanted}
    new: list[c.Wish] = [c.AddRole(name) for name in after if name not in before]
    for name, members in after.items():
        if added := members - before.get(name, frozenset()):
            new.append(c.AddMembers(name, added))
        if removed := before.get(name, frozenset()) - members:
            new.append(c.RemoveMembers(name, removed))
    return new, [c.RemoveRole(name) for name in before if name not in after]


_GrantKey = tuple[str, Key, Privilege]


def _grants(wanted: tuple[Grant, ...], found: tuple[Grant, ...], uuid_of: UuidOf | None) -> Iterator[c.Wish]:
    after = {_grant_key(grant): grant for grant in wanted}
    holding = [grant for grant in found if not _is_stale(grant, uuid_of)]
    before = {_grant_key(grant) for grant in holding}
    stale = [grant for grant in found if grant not in holding and not grant.by_creation]
    gone = [grant for grant in holding if not grant.by_creation and _grant_key(grant) not in after]
    for to, on, privileges in _together((*gone, *stale)):
        yield c.RemoveGrants(to, on, privileges, is_exact=True)
    for to, on, privileges in _together(grant for key, grant in after.items() if key not in before):
        yield c.AddGrants(to, on, privileges)


def _is_stale(grant: Grant, uuid_of: UuidOf | None) -> bool:
    if uuid_of is None or grant.on.scope is not Scope.TABLE or grant.on.uuid is None:
        return False
    return uuid_of(replace(grant.on, uuid=None)) not in (None, grant.on.uuid)


def _grant_key(grant: Grant) -> _GrantKey:
    return (str(grant.to), grant.on.key, grant.privilege)


def _together(
    grants: Iterable[Grant],
) -> Iterator[tuple[frozenset[Grantee], Securable, frozenset[Privilege]]]:
    """Those who get the same on the same at once, so that there is one sentence for it."""
    by_grantee: dict[tuple[Securable, Grantee], set[Privilege]] = {}
    for grant in grants:
        by_grantee.setdefault((grant.on, grant.to), set()).add(grant.privilege)
    same: dict[tuple[Securable, frozenset[Privilege]], set[Grantee]] = {}
    for (on, to), privileges in by_grantee.items():
        same.setdefault((on, frozenset(privileges)), set()).add(to)
    for (on, shared), grantees in same.items():
        yield frozenset(grantees), on, shared


def _filters(wanted: tuple[RowFilter, ...], found: tuple[RowFilter, ...]) -> Iterator[c.Wish]:
    gone, changed, new = _compared(wanted, found, lambda rule: (rule.on.key, rule.name), _filter_said)
    yield from (c.RemoveFilter(rule.name, rule.on) for rule in gone)
    yield from (c.AddFilter(rule, or_replace=True) for rule in changed)
    yield from (c.AddFilter(rule) for rule in new)


def _filter_said(rule: RowFilter) -> Hashable:
    return (rule.applies_to, rule.exempt, rule.using)


def _masks(wanted: tuple[Mask, ...], found: tuple[Mask, ...]) -> Iterator[c.Wish]:
    gone, changed, new = _compared(
        wanted, found, lambda mask: (mask.on and mask.on.key, mask.name), _mask_said
    )
    yield from (c.RemoveMask(mask.name, mask.on, mask.tag) for mask in gone)
    yield from (c.AddMask(mask, or_replace=True) for mask in changed)
    yield from (c.AddMask(mask) for mask in new)


def _mask_said(mask: Mask) -> Hashable:
    column = mask.column and mask.column.name.lower()
    action = mask.action and actions.standard_name(mask.action)
    return (column, mask.tag, mask.applies_to, mask.exempt, mask.using, action, mask.priority)


def _tags(wanted: tuple[ColumnTags, ...], found: tuple[ColumnTags, ...]) -> Iterator[c.Wish]:
    before = {_column_key(tagged): tagged for tagged in found}
    after = {_column_key(tagged): tagged for tagged in wanted}
    for key, tagged in before.items():
        if gone := tagged.tags - (after[key].tags if key in after else frozenset()):
            yield c.RemoveTags(replace(tagged, tags=gone))
    for key, tagged in after.items():
        if new := tagged.tags - (before[key].tags if key in before else frozenset()):
            yield c.AddTags(replace(tagged, tags=new))


def _column_key(tagged: ColumnTags) -> Hashable:
    return (tagged.on.key, tagged.column.name.lower())


def _impersonations(wanted: tuple[Impersonation, ...], found: tuple[Impersonation, ...]) -> Iterator[c.Wish]:
    yield from (c.RemoveImpersonation(rule) for rule in found if rule not in wanted)
    yield from (c.AddImpersonation(rule) for rule in wanted if rule not in found)


Rule = TypeVar("Rule", RowFilter, Mask)


def _compared(
    wanted: tuple[Rule, ...],
    found: tuple[Rule, ...],
    identity: Callable[[Rule], Hashable],
    said: Callable[[Rule], Hashable],
) -> tuple[list[Rule], list[Rule], list[Rule]]:
    """What is to go, to be replaced, and to be added."""
    before = {identity(rule): rule for rule in found}
    after = {identity(rule): rule for rule in wanted}
    gone = [rule for key, rule in before.items() if key not in after]
    changed = [rule for key, rule in after.items() if key in before and said(rule) != said(before[key])]
    return gone, changed, [rule for key, rule in after.items() if key not in before]

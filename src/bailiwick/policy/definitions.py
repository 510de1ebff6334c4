"""From a command to the changes it means: names completed and bound, expressions checked.

It reads the catalog and asks Spark; it changes nothing. That the asker may is checked for what stands on an
object of theirs; all else was checked before (`administration.py`).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import BUILT_IN_ROLES
from bailiwick.policy import changes as change
from bailiwick.policy import commands as command
from bailiwick.policy.access import Access
from bailiwick.policy.binding import (
    Names,
    TableFacts,
    bound,
    column_of,
    no_such,
    require_kind,
    require_own,
)
from bailiwick.policy.commands import ObjectName, Parts
from bailiwick.policy.decision import Column, Table, TableKind
from bailiwick.policy.model import (
    ALL_PRIVILEGES,
    TABLE_PRIVILEGES,
    BoundColumn,
    ColumnTags,
    Impersonation,
    Mask,
    Policies,
    Privilege,
    RowFilter,
    Scope,
    Securable,
)
from bailiwick.policy.rule_checks import RuleChecks

Wishes = tuple[change.Wish, ...]


@dataclass(frozen=True, slots=True)
class Definitions:
    facts: TableFacts
    checks: RuleChecks

    async def wishes(self, asked: command.Change, access: Access, names: Names) -> Wishes:
        """What is to be changed; nothing where IF [NOT] EXISTS says so. Raises what the asker is told."""
        match asked:
            case command.CreateRole() | command.DropRole():
                return _role(asked, access.policies)
            case command.GrantRole(role, to):
                _refuse_built_in(role)
                return (change.AddMembers(role, frozenset(to)),)
            case command.RevokeRole(role, by):
                _refuse_built_in(role)
                return (change.RemoveMembers(role, frozenset(by)),)
            case command.GrantImpersonation(as_whom, to):
                return tuple(change.AddImpersonation(Impersonation(who, as_whom)) for who in to)
            case command.RevokeImpersonation(as_whom, by):
                return tuple(change.RemoveImpersonation(Impersonation(who, as_whom)) for who in by)
            case command.GrantPrivileges(privileges, on, to):
                securable = await self._owned(on, access, names)
                return (change.AddGrants(frozenset(to), securable, _meaningful(privileges, securable)),)
            case command.RevokePrivileges(privileges, on, by):
                securable = await self._revocable(on, access, names)
                return (change.RemoveGrants(frozenset(by), securable, privileges),)
            case _:
                return await self._rule_wishes(asked, access.policies, names)

    async def place(self, parts: Parts, names: Names) -> Securable:
        """What rules on a table of this name stand on, whether or not there is one now."""
        catalog, name = names.table(parts)
        table = await asyncio.to_thread(self.facts.find, catalog, name)
        return Securable.table(catalog, name) if table is None else bound(table)

    async def require(self, parts: Parts, names: Names) -> Table:
        """A table that is there."""
        catalog, name = names.table(parts)
        table = await asyncio.to_thread(self.facts.find, catalog, name)
        if table is None:
            raise no_such(catalog, name)
        refuse_view(table)
        return table

    async def visible(
        self, on: ObjectName, access: Access, names: Names, *, sees_all: bool = False
    ) -> tuple[Securable, Table | None]:
        """The object, bound. What is missing and what the asker may not see are refused alike."""
        securable = names.securable(on)
        if securable.scope is not Scope.TABLE:
            return securable, None
        name = securable.table_name
        table = await asyncio.to_thread(self.facts.find, securable.catalog, name)
        if table is None or not (sees_all or access.sees_table(table.catalog, table.name, table.uuid)):
            raise no_such(securable.catalog, name, on.kind)
        require_kind(table, on.kind)
        return bound(table), table

    async def _owned(self, on: ObjectName, access: Access, names: Names) -> Securable:
        securable, table = await self.visible(on, access, names)
        require_own(access, securable, table)
        return securable

    async def _revocable(self, on: ObjectName, access: Access, names: Names) -> Securable:
        """Admins may also take back what a file granted on a table that is not there yet."""
        securable = names.securable(on)
        if not access.principal.is_admin or securable.scope is not Scope.TABLE:
            return await self._owned(on, access, names)
        return await self.place(on.parts, names)

    async def _rule_wishes(
        self,
        asked: command.CreateRowFilter
        | command.CreateMask
        | command.DropRowFilter
        | command.DropMask
        | command.SetTags
        | command.UnsetTags
        | command.ClearPolicy,
        policies: Policies,
        names: Names,
    ) -> Wishes:
        match asked:
            case command.CreateRowFilter():
                return (change.AddFilter(await self._row_filter(asked, names), asked.or_replace),)
            case command.CreateMask():
                return (change.AddMask(await self._mask(asked, policies, names), asked.or_replace),)
            case command.DropRowFilter(name, parts, if_exists):
                on = await self.place(parts, names)
                found = policies.filters_on(on.catalog, (on.table_name,), on.uuid)
                is_there = name in {each.name for each in found}
                return (change.RemoveFilter(name, on),) if is_there or not if_exists else ()
            case command.DropMask():
                return await self._drop_mask(asked, policies, names)
            case command.SetTags():
                return (change.AddTags(await self._tags(asked, policies, names)),)
            case command.UnsetTags():
                return (change.RemoveTags(await self._unset_tags(asked, names)),)
            case command.ClearPolicy(parts):
                return (change.ClearRules(await self.place(parts, names)),)

    async def _drop_mask(self, asked: command.DropMask, policies: Policies, names: Names) -> Wishes:
        if asked.table is None:
            on, found = None, policies.tag_masks(asked.tag or "")
        else:
            on = await self.place(asked.table, names)
            found = policies.masks_on(on.catalog, (on.table_name,), on.uuid)
        if asked.if_exists and asked.name not in {each.name for each in found}:
            return ()
        return (change.RemoveMask(asked.name, on, asked.tag),)

    async def _row_filter(self, asked: command.CreateRowFilter, names: Names) -> RowFilter:
        table = await self.require(asked.table, names)
        rule = RowFilter(asked.name, bound(table), asked.applies_to, asked.exempt, asked.using)
        return await self.checks.filter(rule, table)

    async def _mask(self, asked: command.CreateMask, policies: Policies, names: Names) -> Mask:
        column = None if asked.column is None else BoundColumn(".".join(asked.column))
        mask = Mask(
            asked.name,
            None,
            column,
            asked.tag,
            asked.applies_to,
            asked.exempt,
            asked.using,
            asked.action,
            asked.priority,
        )
        if asked.table is not None:
            return await self.checks.mask(mask, await self.require(asked.table, names))
        tagged = await asyncio.to_thread(tagged_columns, self.facts, asked.tag or "", policies.tags)
        return await self.checks.tag_mask(mask, tagged)

    async def _tags(self, asked: command.SetTags, policies: Policies, names: Names) -> ColumnTags:
        table = await self.require(asked.table, names)
        column = column_of(table, ".".join(asked.column))
        for tag in sorted(asked.tags):
            for mask in policies.tag_masks(tag):
                await self.checks.fit(mask, column)
        return ColumnTags(bound(table), BoundColumn(column.name, column.field_id), asked.tags)

    async def _unset_tags(self, asked: command.UnsetTags, names: Names) -> ColumnTags:
        catalog, name = names.table(asked.table)
        table = await asyncio.to_thread(self.facts.find, catalog, name)
        on = Securable.table(catalog, name) if table is None else bound(table)
        return ColumnTags(on, _unset_column(table, asked.column), asked.tags)


def refuse_view(table: Table) -> None:
    if table.kind is TableKind.VIEW:
        raise BailiwickError(
            Code.NOT_SUPPORTED,
            f"{table} is a view. Rules stand on the tables below it, and hold for who reads the view.",
        )


def tagged_columns(facts: TableFacts, tag: str, tags: Iterable[ColumnTags]) -> tuple[Column, ...]:
    """The columns that carry `tag` now. May block."""
    found: list[Column] = []
    for tagged in tags:
        table = facts.find(tagged.on.catalog, tagged.on.table_name) if tag in tagged.tags else None
        if table is None:
            continue
        is_same = table.uuid == tagged.on.uuid
        found += [
            column
            for column in table.columns
            if column.name.lower() == tagged.column.name.lower()
            or (is_same and column.field_id == tagged.column.field_id)
        ]
    return tuple(found)


def _role(asked: command.CreateRole | command.DropRole, policies: Policies) -> Wishes:
    is_there = asked.name in BUILT_IN_ROLES or policies.role(asked.name) is not None
    if isinstance(asked, command.CreateRole):
        return () if is_there and asked.if_not_exists else (change.AddRole(asked.name),)
    return () if asked.if_exists and not is_there else (change.RemoveRole(asked.name),)


def _refuse_built_in(role: str) -> None:
    if role in BUILT_IN_ROLES:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"Role '{role}' is built in, and given to a user by ALTER USER name ROLES (…).",
            details={"reason": "built_in", "kind": "role"},
        )


def _meaningful(privileges: frozenset[Privilege], on: Securable) -> frozenset[Privilege]:
    """ALL on a table is all that a table knows of."""
    is_all = privileges >= ALL_PRIVILEGES - {Privilege.OWN}
    is_of_tables = on.scope in (Scope.TABLE, Scope.ALL_TABLES)
    return privileges & TABLE_PRIVILEGES if is_all and is_of_tables else privileges


def _unset_column(table: Table | None, column: Parts) -> BoundColumn:
    """One that is not there any more is found by the name it had."""
    name = ".".join(column)
    columns = () if table is None else table.columns
    found = next((each for each in columns if each.name.lower() == name.lower()), None)
    return BoundColumn(name) if found is None else BoundColumn(found.name, found.field_id)

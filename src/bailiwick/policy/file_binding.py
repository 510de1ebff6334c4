"""The changes that a policy file means, bound and checked as those of statements are.

Unlike a statement, a file may speak of a table that is not there yet: its grants and rules wait under the
name for the table, unchecked. Once it comes, a rule that does not fit it refuses every read that it is for.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy import changes as change
from bailiwick.policy import draft, files
from bailiwick.policy.binding import TableFacts, bound, column_of
from bailiwick.policy.decision import Table
from bailiwick.policy.definitions import Wishes, refuse_view, tagged_columns
from bailiwick.policy.model import BoundColumn, Mask, Policies, RowFilter, Scope, Securable
from bailiwick.policy.rule_checks import RuleChecks


@dataclass(frozen=True, slots=True)
class FileBinding:
    facts: TableFacts
    checks: RuleChecks
    catalogs: frozenset[str]

    async def wishes(self, text: str, policies: Policies) -> Wishes:
        """What is to be changed so that the policies are what the file says. Raises what is wrong with it."""
        planned = await asyncio.to_thread(files.planned, text, policies, self._uuid_of)
        wishes = [await self._bound(wish) for wish in planned]
        after = draft.applied(policies, wishes)
        return tuple([await self._fitting(wish, after) for wish in wishes])

    def _uuid_of(self, securable: Securable) -> str | None:
        table = self.facts.find(securable.catalog, securable.table_name)
        return None if table is None else table.uuid

    async def _bound(self, wish: change.Wish) -> change.Wish:
        match wish:
            case change.AddGrants(_, on, _):
                table = await self._find(on)
                return wish if table is None else replace(wish, on=bound(table))
            case change.AddFilter(rule):
                return replace(wish, filter=await self._filter(rule))
            case change.AddMask(mask) if mask.on is not None:
                return replace(wish, mask=await self._mask(mask, mask.on))
            case change.AddTags(tags):
                table = await self._find(tags.on, is_ruled=True)
                if table is None:
                    return wish
                column = column_of(table, tags.column.name)
                on, bound_column = bound(table), BoundColumn(column.name, column.field_id)
                return change.AddTags(replace(tags, on=on, column=bound_column))
            case _:
                return wish

    async def _filter(self, rule: RowFilter) -> RowFilter:
        table = await self._find(rule.on, is_ruled=True)
        try:
            return rule if table is None else await self.checks.filter(rule, table)
        except BailiwickError as error:
            raise _of(f"Row filter {rule.name} on {rule.on}", error) from error

    async def _mask(self, mask: Mask, on: Securable) -> Mask:
        table = await self._find(on, is_ruled=True)
        try:
            return mask if table is None else await self.checks.mask(mask, table)
        except BailiwickError as error:
            raise _of(f"Mask {mask.name} on {on}", error) from error

    async def _fitting(self, wish: change.Wish, after: Policies) -> change.Wish:
        """Masks on tags fit the columns that carry them once all is changed."""
        match wish:
            case change.AddMask(mask) if mask.tag is not None:
                tagged = await asyncio.to_thread(tagged_columns, self.facts, mask.tag, after.tags)
                return replace(wish, mask=await self.checks.tag_mask(mask, tagged))
            case change.AddTags(tags):
                table = await self._find(tags.on)
                if table is not None:
                    column = column_of(table, tags.column.name)
                    masks = [mask for tag in sorted(tags.tags) for mask in after.tag_masks(tag)]
                    for mask in masks:
                        await self.checks.fit(mask, column)
                return wish
            case _:
                return wish

    async def _find(self, on: Securable, *, is_ruled: bool = False) -> Table | None:
        if on.catalog not in self.catalogs:
            raise BailiwickError(
                Code.CATALOG_NOT_FOUND,
                f"There is no catalog for {on}, but there is {', '.join(sorted(self.catalogs))}.",
            )
        if on.scope is not Scope.TABLE:
            return None
        table = await asyncio.to_thread(self.facts.find, on.catalog, on.table_name)
        if table is not None and is_ruled:
            refuse_view(table)
        return table


def described(wishes: Sequence[change.Wish]) -> list[dict[str, object]]:
    return [{"change": str(wish)} for wish in wishes]


def _of(what: str, error: BailiwickError) -> BailiwickError:
    return BailiwickError(error.code, f"{what}: {error.message}", details=error.details)

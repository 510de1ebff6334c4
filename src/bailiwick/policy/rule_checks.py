"""Rules checked against the tables they are for, and bound to what they name there.

A filter must be true or false; what a mask shows must be of its column's type; a mask on a tag must fit each
column that carries the tag. What an expression is, Spark says (`expressions.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy import actions
from bailiwick.policy.binding import bound, bound_columns, column_of
from bailiwick.policy.decision import Column, Table
from bailiwick.policy.expressions import (
    VALUE,
    ExpressionCheck,
    ExpressionKind,
    require_boolean,
    require_fit,
    spark_type,
)
from bailiwick.policy.model import BoundColumn, Mask, RowFilter

UNTAGGED = Column(0, VALUE, type="string")
"""What `value` is taken for while no column carries a mask's tag."""


@dataclass(frozen=True, slots=True)
class RuleChecks:
    check: ExpressionCheck

    async def filter(self, rule: RowFilter, table: Table) -> RowFilter:
        """The rule bound to `table` and to the columns that it reads there."""
        checked = await self.check.check(parts(table), ExpressionKind.FILTER, None, rule.using, None)
        require_boolean(checked, rule.name)
        columns = bound_columns(table, checked.columns)
        return replace(rule, on=bound(table), columns=columns, tables=checked.tables)

    async def mask(self, mask: Mask, table: Table) -> Mask:
        """The mask of a column, bound to `table`, to the column and to those that it reads."""
        column = column_of(table, mask.column.name if mask.column is not None else "")
        mask = replace(mask, on=bound(table), column=BoundColumn(column.name, column.field_id))
        if mask.using is None:
            actions.sql(mask.action or "", column.type)
            return mask
        checked = await self.check.check(
            parts(table), ExpressionKind.MASK, column.name, mask.using, column.type
        )
        require_fit(checked, column.type, mask.name, column.name)
        return replace(mask, columns=bound_columns(table, checked.columns), tables=checked.tables)

    async def tag_mask(self, mask: Mask, columns: Sequence[Column]) -> Mask:
        """The mask, if it fits each of `columns`, which are all that carry its tag."""
        if mask.action is not None:
            actions.check(mask.action)
        tables: set[str] = set()
        by_type = {column.type: column for column in columns}
        for column in by_type.values():
            tables.update(await self.fit(mask, column))
        if not by_type and mask.using is not None:
            checked = await self.check.check(None, ExpressionKind.MASK, None, mask.using, UNTAGGED.type)
            tables.update(checked.tables)
        return replace(mask, tables=tuple(sorted(tables)))

    async def fit(self, mask: Mask, column: Column) -> tuple[str, ...]:
        """The other tables that a mask on a tag reads, if it fits a column that carries the tag."""
        try:
            if mask.using is None:
                actions.sql(mask.action or "", column.type)
                return ()
            _refuse_nested(column)
            checked = await self.check.check(None, ExpressionKind.MASK, None, mask.using, column.type)
            require_fit(checked, column.type, mask.name, column.name)
        except BailiwickError as error:
            told = f"Mask {mask.name} on tag {mask.tag} does not fit column {column.name}: {error.message}"
            raise BailiwickError(error.code, told, details=error.details) from error
        return checked.tables


def _refuse_nested(column: Column) -> None:
    if spark_type(column.type) is None:
        raise BailiwickError(
            Code.NOT_SUPPORTED,
            f"a column of type {column.type[:100]} can be masked by a tag with ACTION 'null' only.",
            details={"reason": "type", "kind": "mask"},
        )


def parts(table: Table) -> tuple[str, ...]:
    return (table.catalog, *table.name.parts)

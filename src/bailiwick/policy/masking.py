"""Which mask each column gets, for one principal and one table.

A mask reaches a column by naming it, or by naming a tag that it carries. Of several that reach the same
column the one with the highest priority is shown. What the checks at definition should have made impossible
is refused here once more: two masks of no or equal priority, and masks on a struct and on a field of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bailiwick.policy import actions
from bailiwick.policy.decision import AppliedMask, Column, Table
from bailiwick.policy.model import BoundColumn, Mask, Policies
from bailiwick.policy.standing import Standing


class MasksDisagreeError(Exception):
    """Two masks meet and nothing says which is to be shown, so nothing is."""


@dataclass(frozen=True, slots=True)
class _Reach:
    """A mask, and the column it reaches as the rule or the tag names it."""

    mask: Mask
    bound: BoundColumn


def masks_for(
    standing: Standing, table: Table, policies: Policies
) -> tuple[tuple[AppliedMask, ...], tuple[str, ...]]:
    """At most one mask for each column, and the reasons. Raises MasksDisagreeError."""
    reaches = tuple(_reaches(table, policies))
    if not reaches:
        return (), ()
    met = tuple(reach for reach in reaches if standing.is_met_by(reach.mask))
    chosen = tuple(_chosen(table, met))
    _refuse_nested(chosen)
    because = tuple(_sentence(standing, reach) for reach in reaches)
    return tuple(_applied(table, reach, column) for reach, column in chosen), tuple(dict.fromkeys(because))


def _reaches(table: Table, policies: Policies) -> Iterator[_Reach]:
    for mask in policies.masks_on(table.catalog, table.names, table.uuid):
        if mask.on is not None and mask.column is not None:
            yield _Reach(mask, _bound(mask.column, mask.on.uuid, table))
    for tagged in policies.tags_on(table.catalog, table.names, table.uuid):
        bound = _bound(tagged.column, tagged.on.uuid, table)
        for tag in sorted(tagged.tags):
            for mask in policies.tag_masks(tag):
                yield _Reach(mask, bound)


def _bound(column: BoundColumn, uuid: str | None, table: Table) -> BoundColumn:
    # Another table's field ids say nothing about this one's columns: here it is covered by name.
    return column if uuid == table.uuid else replace(column, field_id=None)


def _chosen(table: Table, met: tuple[_Reach, ...]) -> Iterator[tuple[_Reach, Column | None]]:
    left = list(met)
    for column in table.columns:
        here = [reach for reach in met if _is(column, reach.bound)]
        if here:
            yield _highest(here), column
            left = [reach for reach in left if reach not in here]
    # What the table has no longer may still be seen in its past.
    while left:
        first = left[0].bound
        here = [reach for reach in left if _same(reach.bound, first)]
        yield _highest(here), None
        left = [reach for reach in left if reach not in here]


def _is(column: Column, bound: BoundColumn) -> bool:
    name = bound.name.lower()
    return (
        column.field_id == bound.field_id
        or column.name.lower() == name
        or any(former.lower() == name for former in column.former_names)
    )


def _same(one: BoundColumn, other: BoundColumn) -> bool:
    same_id = one.field_id is not None and one.field_id == other.field_id
    return same_id or one.name.lower() == other.name.lower()


def _highest(reaches: list[_Reach]) -> _Reach:
    first, *others = sorted(reaches, key=lambda reach: _priority(reach.mask), reverse=True)
    for other in others:
        if other.mask != first.mask and (other.mask.priority is None or _tie(other.mask, first.mask)):
            raise MasksDisagreeError(
                f"Masks {first.mask.name} and {other.mask.name} meet on column {first.bound.name}, and their "
                "priorities do not say which is to be shown: an admin must give them different ones."
            )
    return first


def _priority(mask: Mask) -> float:
    return float("-inf") if mask.priority is None else mask.priority


def _tie(one: Mask, other: Mask) -> bool:
    return one.priority == other.priority


def _refuse_nested(chosen: tuple[tuple[_Reach, Column | None], ...]) -> None:
    names = {(reach.bound.name if column is None else column.name).lower() for reach, column in chosen}
    for name in sorted(names):
        for at, character in enumerate(name):
            if character == "." and name[:at] in names:
                raise MasksDisagreeError(
                    f"Column {name[:at]} and its field {name} both have masks: an admin must remove one."
                )


def _applied(table: Table, reach: _Reach, column: Column | None) -> AppliedMask:
    mask, bound = reach.mask, reach.bound
    names = {bound.name} if column is None else {bound.name, column.name, *column.former_names}
    uuid = mask.on.uuid if mask.on is not None else None
    columns = tuple(_bound(each, uuid, table) for each in mask.columns)
    return AppliedMask(
        name=mask.name,
        using=_expression(mask, column),
        field_id=bound.field_id if column is None else column.field_id,
        names=frozenset(names),
        tables=mask.tables,
        columns=columns,
        is_value=mask.tag is not None or mask.using is None,
        action=actions.standard_name(mask.action) if mask.action is not None else None,
    )


def _expression(mask: Mask, column: Column | None) -> str:
    if mask.using is not None:
        return mask.using
    # A column that has gone has no type to fit; one whose type was changed may not fit any longer.
    return actions.sql_or_null(mask.action or "", None if column is None else column.type)


def _sentence(standing: Standing, reach: _Reach) -> str:
    by_tag = "" if reach.mask.tag is None else f" by tag {reach.mask.tag}"
    applies = "applies" if standing.is_met_by(reach.mask) else "does not apply"
    what = f"Mask {reach.mask.name} {applies} to column {reach.bound.name}{by_tag}"
    return f"{what}: {standing.reason(reach.mask)}."

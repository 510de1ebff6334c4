"""Masks that could meet on one column, and those that cannot.

Refused when defined, because what a person sees must not depend on luck: two masks meet unless it is certain
that nobody is under both, and then their priorities must differ. A mask on a struct and one on a field of it
can never both hold, whatever their priorities: the one would undo the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from bailiwick.policy.model import BoundColumn, GranteeKind, Mask, Policies, Securable


@dataclass(frozen=True, slots=True)
class _Place:
    """A mask on a column, as the mask or a tag names it."""

    mask: Mask
    on: Securable
    column: BoundColumn


def meetings(policies: Policies) -> Iterator[str]:
    """A sentence for each two masks that could meet and do not say which is shown."""
    yield from _on_one_tag(policies)
    by_table: dict[object, list[_Place]] = {}
    for place in _places(policies):
        by_table.setdefault((place.on.catalog, place.on.table_name), []).append(place)
        if place.on.uuid is not None:
            by_table.setdefault(place.on.uuid, []).append(place)
    for places in by_table.values():
        for one, other in combinations(places, 2):
            yield from _problem(one, other)


def _on_one_tag(policies: Policies) -> Iterator[str]:
    tags = sorted({mask.tag for mask in policies.masks if mask.tag is not None})
    for tag in tags:
        for one, other in combinations(policies.tag_masks(tag), 2):
            if _could_meet(one, other) and not _is_settled(one, other):
                yield _unsettled(one, other, f"a column with tag {tag}")


def _places(policies: Policies) -> Iterator[_Place]:
    for mask in policies.masks:
        if mask.on is not None and mask.column is not None:
            yield _Place(mask, mask.on, mask.column)
    for tagged in policies.tags:
        for tag in sorted(tagged.tags):
            for mask in policies.tag_masks(tag):
                yield _Place(mask, tagged.on, tagged.column)


def _problem(one: _Place, other: _Place) -> Iterator[str]:
    if one.mask == other.mask and _is_same(one, other):
        return
    if _is_inside(one.column, other.column) or _is_inside(other.column, one.column):
        if one.mask == other.mask or _could_meet(one.mask, other.mask):
            inner, outer = sorted((one.column.name, other.column.name), key=len, reverse=True)
            yield (
                f"Column {outer} and its field {inner} of table {one.on} would both have masks "
                f"('{one.mask.name}', '{other.mask.name}'): leave one of them out."
            )
    elif _is_same(one, other) and _could_meet(one.mask, other.mask) and not _is_settled(one.mask, other.mask):
        yield _unsettled(one.mask, other.mask, f"column {one.column.name} of table {one.on}")


def _is_same(one: _Place, other: _Place) -> bool:
    is_one_table = one.on.uuid is not None and one.on.uuid == other.on.uuid
    same_id = one.column.field_id is not None and one.column.field_id == other.column.field_id
    return (is_one_table and same_id) or one.column.name.lower() == other.column.name.lower()


def _is_inside(inner: BoundColumn, outer: BoundColumn) -> bool:
    return inner.name.lower().startswith(f"{outer.name.lower()}.")


def _could_meet(one: Mask, other: Mask) -> bool:
    """Whether somebody could be under both. Only what no later change of roles can undo counts as certain."""
    return any(
        not (
            (first.kind is GranteeKind.USER and second.kind is GranteeKind.USER and first != second)
            or first in one.exempt | other.exempt
            or second in one.exempt | other.exempt
        )
        for first in one.applies_to
        for second in other.applies_to
    )


def _is_settled(one: Mask, other: Mask) -> bool:
    return one.priority is not None and other.priority is not None and one.priority != other.priority


def _unsettled(one: Mask, other: Mask, where: str) -> str:
    return (
        f"Masks '{one.name}' and '{other.name}' could both apply to {where}: give them different priorities, "
        "or exempt from one whom the other is for."
    )

"""Where rules are, for whoever they are: changing what a rule is bound to needs the right to change rules."""

from collections.abc import Iterator

from bailiwick.names import TableName
from bailiwick.policy.decision import Table
from bailiwick.policy.model import BoundColumn, Policies


def is_covered(policies: Policies, catalog: str, name: TableName, uuid: str | None = None) -> bool:
    """Whether some filter, mask or tag is on a table of this name or uuid."""
    place = (catalog, (name,), uuid)
    return bool(policies.filters_on(*place) or policies.masks_on(*place) or policies.tags_on(*place))


def covered_columns(policies: Policies, table: Table) -> frozenset[int]:
    """Field ids of the columns that a filter, mask or tag names, and of the structs they are fields of."""
    bound = tuple(_bound(policies, table))
    names = {column.name.lower() for column in bound}
    ids = {column.field_id for column in bound}
    return frozenset(
        column.field_id
        for column in table.columns
        if column.field_id in ids
        or any(_is_or_holds(own.lower(), names) for own in (column.name, *column.former_names))
    )


def _bound(policies: Policies, table: Table) -> Iterator[BoundColumn]:
    place = (table.catalog, table.names, table.uuid)
    for rule in policies.filters_on(*place):
        yield from rule.columns
    for mask in policies.masks_on(*place):
        yield from (*mask.columns, *((mask.column,) if mask.column is not None else ()))
    for tagged in policies.tags_on(*place):
        yield tagged.column


def _is_or_holds(name: str, named: set[str]) -> bool:
    return name in named or any(other.startswith(f"{name}.") for other in named)

"""What the catalog's changes mean for policies. Pure, and never refused: they have happened already.

Nothing here may show more than before. So a rule follows its table and its name: a renamed table takes along
also what it had by name only, and what waits under a dropped table's name is bound to the next table of that
name.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from bailiwick.names import TableName
from bailiwick.policy import changes as c
from bailiwick.policy.draft import granted, is_same_table
from bailiwick.policy.model import BoundColumn, Grant, Grantee, Mask, Policies, Privilege, Securable


def after(policies: Policies, happening: c.Happening) -> Policies:
    """The policies afterwards, still under the old version."""
    match happening:
        case c.TableCreated(catalog, name, uuid, by, columns):
            return _created(policies, Securable.table(catalog, name, uuid), by, columns)
        case c.TableRenamed(catalog, old, new, uuid):
            return _renamed(policies, Securable.table(catalog, old, uuid), new)
        case c.TableDropped(catalog, name, uuid):
            return _dropped(policies, Securable.table(catalog, name, uuid))
        case c.NamespaceCreated(catalog, namespace, by):
            own = _own(Securable(catalog, namespace), by)
            return replace(policies, grants=_unique((*policies.grants, own)))
        case c.NamespaceDropped(catalog, namespace):
            gone = Securable(catalog, namespace).key
            kept = (grant for grant in policies.grants if not (grant.by_creation and grant.on.key == gone))
            return replace(policies, grants=tuple(kept))
        case _:
            assert_never(happening)


def _created(policies: Policies, table: Securable, by: str, columns: tuple[BoundColumn, ...]) -> Policies:
    """What waited for a table of this name is about this one."""
    field_ids = {column.name.lower(): column.field_id for column in columns}

    def place(on: Securable) -> Securable:
        return table if on.uuid is None and on.key == table.key else on

    def column(on: Securable, bound: BoundColumn) -> BoundColumn:
        return replace(bound, field_id=field_ids.get(bound.name.lower())) if place(on) is not on else bound

    grants = tuple(_moved(grant, place(grant.on)) for grant in policies.grants)
    return _placed(policies, place, column, _unique((*grants, _own(table, by))))


def _renamed(policies: Policies, table: Securable, new: TableName) -> Policies:
    """What is about the table by its uuid or its old name is about the new name, and keeps its binding."""

    def place(on: Securable) -> Securable:
        if not is_same_table(on, table):
            return on
        return replace(on, namespace=new.namespace, name=new.name, uuid=on.uuid or table.uuid)

    def granted_place(on: Securable) -> Securable:
        # A grant bound to another table that once had this name is not this one's.
        return place(on) if on.uuid in (None, table.uuid) else on

    grants = tuple(_moved(grant, granted_place(grant.on)) for grant in policies.grants)
    return _placed(policies, place, _unchanged, _unique(grants))


def _dropped(policies: Policies, table: Securable) -> Policies:
    """Grants on the table end. Its rules go on under the name that it had last, bound to nothing."""
    waiting = replace(table, uuid=None)

    def place(on: Securable) -> Securable:
        return waiting if on.uuid == table.uuid else on

    def column(on: Securable, bound: BoundColumn) -> BoundColumn:
        return replace(bound, field_id=None) if on.uuid == table.uuid else bound

    grants = tuple(grant for grant in policies.grants if grant.on.uuid != table.uuid)
    return _placed(policies, place, column, grants)


def _own(on: Securable, by: str) -> Grant:
    return granted(Grantee.user(by), on, Privilege.OWN, by_creation=True)


def _placed(
    policies: Policies,
    place: Callable[[Securable], Securable],
    column: Callable[[Securable, BoundColumn], BoundColumn],
    grants: tuple[Grant, ...],
) -> Policies:
    """With each rule's table and columns as these functions give them, and these grants."""

    def masked(mask: Mask) -> Mask:
        if mask.on is None:
            return mask
        on, bound = mask.on, mask.column and column(mask.on, mask.column)
        return replace(
            mask, on=place(on), column=bound, columns=tuple(column(on, each) for each in mask.columns)
        )

    return replace(
        policies,
        grants=grants,
        filters=tuple(
            replace(rule, on=place(rule.on), columns=tuple(column(rule.on, each) for each in rule.columns))
            for rule in policies.filters
        ),
        masks=tuple(map(masked, policies.masks)),
        tags=tuple(
            replace(tagged, on=place(tagged.on), column=column(tagged.on, tagged.column))
            for tagged in policies.tags
        ),
    )


def _unchanged(_on: Securable, bound: BoundColumn) -> BoundColumn:
    return bound


def _moved(grant: Grant, on: Securable) -> Grant:
    return grant if on is grant.on else granted(grant.to, on, grant.privilege, by_creation=grant.by_creation)


def _unique(grants: tuple[Grant, ...]) -> tuple[Grant, ...]:
    """Of two that say the same, the first."""
    return tuple({grant.id: grant for grant in reversed(grants)}.values())

"""Who may do what to which table, and which rows and columns they see of it.

Pure: no I/O, no clock, the same answer for the same values. Default deny: without a grant nothing is visible.
It tells what is to be enforced; the guard inside Spark enforces it.

Rules meet a table by its uuid or by its name, and a column by its field id or by any name: what was renamed
keeps its rules, and so does what was dropped and made again. Grants on one table follow its uuid alone once
they are bound to it: a new table under an old name is not the table that was granted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from bailiwick.identity.principal import Principal
from bailiwick.names import Namespace, TableName
from bailiwick.policy import spelling
from bailiwick.policy.decision import (
    AppliedFilter,
    AppliedMask,
    Column,
    Decision,
    Table,
    TableKind,
)
from bailiwick.policy.masking import MasksDisagreeError, masks_for
from bailiwick.policy.model import (
    ALL_PRIVILEGES,
    TABLE_PRIVILEGES,
    Key,
    Policies,
    Privilege,
    RowFilter,
    Scope,
)
from bailiwick.policy.standing import Standing

__all__ = [
    "AppliedFilter",
    "AppliedMask",
    "Column",
    "Decision",
    "Table",
    "TableKind",
    "decide",
    "decide_as",
    "decide_namespace",
    "decide_namespace_as",
    "sees_table",
]


def decide(principal: Principal, action: Privilege, table: Table, policies: Policies) -> Decision:
    """May `principal` do `action` to `table`, and under which filters and masks?"""
    return decide_as(Standing.of(principal), action, table, policies)


def decide_as(standing: Standing, action: Privilege, table: Table, policies: Policies) -> Decision:
    """The same for one whose standing is known already."""
    held, sources = _on_table(standing, table.catalog, table.name, table.uuid, policies)
    what = f"{table.kind} {table}"
    if not held:
        return Decision(False, (f"{standing.texts[0]} holds no privilege on {what}.",))
    if action not in held:
        reason = f"{standing.texts[0]} lacks {action} on {what}."
        return Decision(False, (reason, *sources), is_visible=True, privileges=held)
    filters = policies.filters_on(table.catalog, table.names, table.uuid)
    try:
        masks, masked_because = masks_for(standing, table, policies)
    except MasksDisagreeError as error:
        return Decision(False, (str(error), *sources), is_visible=True)
    applied = tuple(each for each in filters if standing.is_met_by(each))
    if table.kind is TableKind.VIEW and (applied or masks):
        reason = (
            f"{what} has the name of a table with rules, which a view cannot carry: an admin must clear them."
        )
        return Decision(False, (reason, *sources), is_visible=True)
    because = (*sources, *(_filter_sentence(standing, each) for each in filters), *masked_because)
    return Decision(
        True,
        because,
        is_visible=True,
        privileges=held,
        filters=tuple(_applied(each, table) for each in applied),
        masks=masks,
    )


def decide_namespace(
    principal: Principal, action: Privilege, catalog: str, namespace: Namespace, policies: Policies
) -> Decision:
    """May `principal` do `action` to a namespace? `()` is the catalog itself."""
    return decide_namespace_as(Standing.of(principal), action, catalog, namespace, policies)


def decide_namespace_as(
    standing: Standing, action: Privilege, catalog: str, namespace: Namespace, policies: Policies
) -> Decision:
    """The same for one whose standing is known already. Visible is also what holds something visible."""
    kind = "namespace" if namespace else "catalog"
    what = f"{kind} {spelling.written((catalog, *namespace))}"
    if standing.principal.is_admin:
        return Decision(True, (_ADMIN,), is_visible=True, privileges=ALL_PRIVILEGES)
    held, sources = _held(standing, _namespace_keys(catalog, namespace), ALL_PRIVILEGES, policies)
    is_visible = bool(held) or any(
        (catalog, namespace) in policies.footholds(each) for each in standing.texts
    )
    if action in held:
        return Decision(True, sources, is_visible=True, privileges=held)
    lacks = f"lacks {action}" if is_visible else "holds no privilege"
    reason = f"{standing.texts[0]} {lacks} on {what}."
    return Decision(False, (reason, *sources), is_visible=is_visible, privileges=held)


def sees_table(standing: Standing, catalog: str, name: TableName, uuid: str, policies: Policies) -> bool:
    """Whether some privilege is held on it: what is listed, and told from what is missing."""
    return bool(_on_table(standing, catalog, name, uuid, policies)[0])


_ADMIN = "role:admin may do everything."


def _on_table(
    standing: Standing, catalog: str, name: TableName, uuid: str, policies: Policies
) -> tuple[frozenset[Privilege], tuple[str, ...]]:
    if standing.principal.is_admin:
        return TABLE_PRIVILEGES, (_ADMIN,)
    full_name = spelling.written((catalog, *name.parts))
    by_uuid = (full_name, policies.granted_to_uuid(uuid))
    held, sources = _held(standing, _table_keys(catalog, name), TABLE_PRIVILEGES, policies, by_uuid)
    return held, sources


def _held(
    standing: Standing,
    keys: Iterator[tuple[str, Key]],
    meaningful: frozenset[Privilege],
    policies: Policies,
    *first: tuple[str, Mapping[str, frozenset[Privilege]]],
) -> tuple[frozenset[Privilege], tuple[str, ...]]:
    """What the standing gives, out of what means something here, and a sentence for each grant of it."""
    held: set[Privilege] = set()
    sources: list[str] = []
    for place, granted in (*first, *((place, policies.granted(key)) for place, key in keys)):
        if not granted:
            continue
        for grantee in standing.texts:
            if privileges := granted.get(grantee, _NOTHING) & meaningful:
                held |= privileges
                sources.append(f"{grantee} holds {', '.join(sorted(privileges))} on {place}.")
    return (meaningful if Privilege.OWN in held else frozenset(held)), tuple(sources)


_NOTHING: frozenset[Privilege] = frozenset()


def _table_keys(catalog: str, name: TableName) -> Iterator[tuple[str, Key]]:
    namespace = spelling.written((catalog, *name.namespace))
    yield f"{namespace}.{spelling.written((name.name,))}", (Scope.TABLE, catalog, name.namespace, name.name)
    yield f"{namespace}.*", (Scope.ALL_TABLES, catalog, name.namespace, "")
    yield from _namespace_keys(catalog, name.namespace)


def _namespace_keys(catalog: str, namespace: Namespace) -> Iterator[tuple[str, Key]]:
    for depth in range(len(namespace), 0, -1):
        place = f"namespace {spelling.written((catalog, *namespace[:depth]))}"
        yield place, (Scope.NAMESPACE, catalog, namespace[:depth], "")
    if namespace:
        yield f"{spelling.written((catalog,))}.*", (Scope.ALL_NAMESPACES, catalog, (), "")
    yield f"catalog {spelling.written((catalog,))}", (Scope.CATALOG, catalog, (), "")


def _applied(rule: RowFilter, table: Table) -> AppliedFilter:
    columns = rule.columns
    if rule.on.uuid != table.uuid:
        # Another table's field ids say nothing about this one's columns: here it is covered by name.
        columns = tuple(replace(column, field_id=None) for column in columns)
    return AppliedFilter(rule.name, rule.using, columns, rule.tables)


def _filter_sentence(standing: Standing, rule: RowFilter) -> str:
    applies = "applies" if standing.is_met_by(rule) else "does not apply"
    return f"Row filter {rule.name} {applies}: {standing.reason(rule)}."

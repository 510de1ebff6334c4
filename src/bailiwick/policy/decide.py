"""Who may do what to which table, and which rows and columns they see of it.

Pure: no I/O, no clock, the same answer for the same values. Default deny: without a grant nothing is visible.
It tells what is to be enforced; the guard inside Spark enforces it.

Rules meet a table by its uuid or by its name, and a column by its field id or by any name: what was renamed
keeps its rules, and so does what was dropped and made again. Grants on one table follow its uuid alone once
they are bound to it: a new table under an old name is not the table that was granted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    "sees_namespace",
    "sees_table",
]


def decide(principal: Principal, action: Privilege, table: Table, policies: Policies) -> Decision:
    """May `principal` do `action` to `table`, and under which filters and masks?"""
    return decide_as(Standing.of(principal), action, table, policies)


def decide_as(standing: Standing, action: Privilege, table: Table, policies: Policies) -> Decision:
    """The same for one whose standing is known already.

    What holds for the table is told also where this action is not allowed: others may be.
    """
    held = _on_table(standing, table.catalog, table.name, table.uuid, policies)
    if not held.privileges:
        return Decision(False, (f"{standing.texts[0]} holds no privilege on {table.kind} {table}.",))
    try:
        masks, masked_because = masks_for(standing, table, policies)
    except MasksDisagreeError as error:
        return Decision(False, (str(error), *held.because), is_visible=True)
    filters = policies.filters_on(table.catalog, table.names, table.uuid)
    applied = tuple(_applied(rule, table) for rule in filters if standing.is_met_by(rule))
    if table.kind is TableKind.VIEW and (applied or masks):
        covered = f"View {table} has the name of a table with rules, which a view cannot carry: "
        reason = f"{covered}an admin must clear them."
        return Decision(False, (reason, *held.because), is_visible=True)
    is_allowed = action in held.privileges
    lacking = () if is_allowed else (f"{standing.texts[0]} lacks {action} on {table.kind} {table}.",)
    filtered_because = (_sentence(standing, rule) for rule in filters)
    because = (*lacking, *held.because, *filtered_because, *masked_because)
    return Decision(is_allowed, because, True, held.privileges, applied, masks)


def decide_namespace(
    principal: Principal, action: Privilege, catalog: str, namespace: Namespace, policies: Policies
) -> Decision:
    """May `principal` do `action` to a namespace? `()` is the catalog itself."""
    return decide_namespace_as(Standing.of(principal), action, catalog, namespace, policies)


def decide_namespace_as(
    standing: Standing, action: Privilege, catalog: str, namespace: Namespace, policies: Policies
) -> Decision:
    """The same for one whose standing is known already. Visible is also what holds something visible."""
    held = _on_namespace(standing, catalog, namespace, policies)
    if action in held.privileges:
        return Decision(True, held.because, is_visible=True, privileges=held.privileges)
    is_visible = _sees_namespace(standing, held, catalog, namespace, policies)
    lacks = f"lacks {action}" if is_visible else "holds no privilege"
    what = f"{'namespace' if namespace else 'catalog'} {spelling.written((catalog, *namespace))}"
    reason = f"{standing.texts[0]} {lacks} on {what}."
    return Decision(False, (reason, *held.because), is_visible=is_visible, privileges=held.privileges)


def sees_table(standing: Standing, catalog: str, name: TableName, uuid: str, policies: Policies) -> bool:
    """Whether some privilege is held on it: what is listed, and told from what is missing."""
    return bool(_on_table(standing, catalog, name, uuid, policies).privileges)


def sees_namespace(standing: Standing, catalog: str, namespace: Namespace, policies: Policies) -> bool:
    """Whether a privilege is held on it or on something in it."""
    held = _on_namespace(standing, catalog, namespace, policies)
    return _sees_namespace(standing, held, catalog, namespace, policies)


def _sees_namespace(
    standing: Standing, held: "_Held", catalog: str, namespace: Namespace, policies: Policies
) -> bool:
    place = (catalog, namespace)
    return bool(held.privileges) or any(place in policies.footholds(each) for each in standing.texts)


_ADMIN = "role:admin may do everything."
_NOTHING: frozenset[Privilege] = frozenset()


@dataclass(frozen=True, slots=True)
class _Source:
    """Whom a grant names, what it gives, and on what."""

    grantee: str
    privileges: frozenset[Privilege]
    key: Key

    def __str__(self) -> str:
        return f"{self.grantee} holds {', '.join(sorted(self.privileges))} on {_place(self.key)}."


@dataclass(frozen=True, slots=True)
class _Held:
    privileges: frozenset[Privilege]
    sources: tuple[_Source, ...] = ()
    is_by_role: bool = False

    @property
    def because(self) -> tuple[str, ...]:
        return (_ADMIN,) if self.is_by_role else tuple(map(str, self.sources))


def _on_table(standing: Standing, catalog: str, name: TableName, uuid: str, policies: Policies) -> _Held:
    if standing.principal.is_admin:
        return _Held(TABLE_PRIVILEGES, is_by_role=True)
    namespace = name.namespace
    table: Key = (Scope.TABLE, catalog, namespace, name.name)
    found = [
        *_sources(standing, table, policies.granted_to_uuid(uuid), TABLE_PRIVILEGES),
        *_sources(standing, table, policies.granted(table), TABLE_PRIVILEGES),
    ]
    for key in ((Scope.ALL_TABLES, catalog, namespace, ""), *_namespace_keys(catalog, namespace)):
        found += _sources(standing, key, policies.granted(key), TABLE_PRIVILEGES)
    return _held(found, TABLE_PRIVILEGES)


def _on_namespace(standing: Standing, catalog: str, namespace: Namespace, policies: Policies) -> _Held:
    if standing.principal.is_admin:
        return _Held(ALL_PRIVILEGES, is_by_role=True)
    found: list[_Source] = []
    for key in _namespace_keys(catalog, namespace):
        found += _sources(standing, key, policies.granted(key), ALL_PRIVILEGES)
    return _held(found, ALL_PRIVILEGES)


def _sources(
    standing: Standing,
    key: Key,
    granted: Mapping[str, frozenset[Privilege]],
    meaningful: frozenset[Privilege],
) -> list[_Source]:
    if not granted:
        return []
    given = ((grantee, granted.get(grantee, _NOTHING) & meaningful) for grantee in standing.texts)
    return [_Source(grantee, privileges, key) for grantee, privileges in given if privileges]


def _held(found: list[_Source], meaningful: frozenset[Privilege]) -> _Held:
    """Together. One who owns something may do all that means something there."""
    if not found:
        return _Held(_NOTHING)
    privileges = frozenset().union(*(source.privileges for source in found))
    return _Held(meaningful if Privilege.OWN in privileges else privileges, tuple(found))


def _namespace_keys(catalog: str, namespace: Namespace) -> list[Key]:
    """All whose grants reach into the namespace, itself first."""
    inside: list[Key] = [
        (Scope.NAMESPACE, catalog, namespace[:depth], "") for depth in range(len(namespace), 0, -1)
    ]
    if namespace:
        inside.append((Scope.ALL_NAMESPACES, catalog, (), ""))
    return [*inside, (Scope.CATALOG, catalog, (), "")]


def _place(key: Key) -> str:
    scope, catalog, namespace, name = key
    written = spelling.written((catalog, *namespace, *((name,) if name else ())))
    return f"{written}.*" if scope in (Scope.ALL_TABLES, Scope.ALL_NAMESPACES) else f"{scope} {written}"


def _applied(rule: RowFilter, table: Table) -> AppliedFilter:
    columns = rule.columns
    if rule.on.uuid != table.uuid:
        # Another table's field ids say nothing about this one's columns: here it is covered by name.
        columns = tuple(replace(column, field_id=None) for column in columns)
    return AppliedFilter(rule.name, rule.using, columns, rule.tables)


def _sentence(standing: Standing, rule: RowFilter) -> str:
    applies = "applies" if standing.is_met_by(rule) else "does not apply"
    return f"Row filter {rule.name} {applies}: {standing.reason(rule)}."

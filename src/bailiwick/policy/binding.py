"""From names as people write them to what rules are bound to: tables by uuid, columns by field id.

A name is completed as Spark does it: the asker's catalog and namespace where it has none, and its first part
is a catalog where there is one of that name. What the asker may not see is not there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from bailiwick.errors import BailiwickError, Code
from bailiwick.names import InvalidNameError, Namespace, TableName, checked_namespace, checked_table
from bailiwick.policy import spelling
from bailiwick.policy.access import Access
from bailiwick.policy.commands import ObjectKind, ObjectName, Parts
from bailiwick.policy.decision import Column, Table, TableKind
from bailiwick.policy.model import BoundColumn, Privilege, Securable

DEFAULT_NAMESPACE: Namespace = ("default",)
"""What a name means where the session has no namespace of its own."""


class TableFacts(Protocol):
    """What is in the catalogs now."""

    def find(self, catalog: str, name: TableName) -> Table | None:
        """The table or view of this name. Any thread may call; may block; raises nothing."""


@dataclass(frozen=True, slots=True)
class Names:
    """How one asker's names are completed."""

    catalogs: frozenset[str]
    catalog: str
    namespace: Namespace

    def table(self, parts: Parts) -> tuple[str, TableName]:
        if len(parts) == 1:
            return self.catalog, TableName(self.namespace or DEFAULT_NAMESPACE, parts[0])
        catalog, rest = self._split(parts)
        return catalog, _checked_table(parts, rest)

    def securable(self, name: ObjectName) -> Securable:
        """Not bound to any uuid. A table's or view's name may still be of nothing."""
        match name.kind:
            case ObjectKind.CATALOG:
                return Securable(self._catalog(name.parts))
            case ObjectKind.NAMESPACE if name.is_wildcard:
                return Securable(self._catalog(name.parts), is_wildcard=True)
            case ObjectKind.NAMESPACE:
                return Securable(*self._namespace(name.parts))
            case _ if name.is_wildcard:
                return Securable(*self._namespace(name.parts), is_wildcard=True)
            case _:
                return Securable.table(*self.table(name.parts))

    def _namespace(self, parts: Parts) -> tuple[str, Namespace]:
        catalog, rest = self._split(parts)
        try:
            return catalog, checked_namespace(rest)
        except InvalidNameError:
            raise _invalid(
                f"{spelling.written(parts)} is a catalog, not a namespace. All namespaces of a catalog are "
                "written ON NAMESPACE lake.*, all tables of a namespace ON TABLE lake.sales.*."
            ) from None

    def _catalog(self, parts: Parts) -> str:
        (catalog, *rest) = parts
        if rest or catalog not in self.catalogs:
            raise BailiwickError(
                Code.CATALOG_NOT_FOUND,
                f"There is no catalog {spelling.written(parts)[:300]}, "
                f"but there is {', '.join(sorted(self.catalogs))}.",
            )
        return catalog

    def _split(self, parts: Parts) -> tuple[str, Parts]:
        return (parts[0], parts[1:]) if parts[0] in self.catalogs else (self.catalog, parts)


def _checked_table(parts: Parts, rest: Parts) -> TableName:
    try:
        return checked_table(rest[:-1], rest[-1])
    except InvalidNameError as error:
        raise _invalid(f"{spelling.written(parts)[:300]} cannot be a table: {error}.") from None


def _invalid(message: str) -> BailiwickError:
    return BailiwickError(Code.INVALID_ARGUMENTS, message, details={"reason": "name"})


def no_such(catalog: str, name: TableName, kind: ObjectKind = ObjectKind.TABLE) -> BailiwickError:
    """The same for what is missing and for what the asker may not know of."""
    code = Code.VIEW_NOT_FOUND if kind is ObjectKind.VIEW else Code.TABLE_NOT_FOUND
    full_name = spelling.written((catalog, *name.parts))[:600]
    return BailiwickError(code, f"There is no {kind} {full_name}, or none that you may know of.")


def require_kind(table: Table, kind: ObjectKind) -> None:
    """Refuse a view that is called a table, and the other way round."""
    if (table.kind is TableKind.VIEW) != (kind is ObjectKind.VIEW):
        raise no_such(table.catalog, table.name, kind)


def require_own(access: Access, securable: Securable, table: Table | None) -> None:
    """Refuse who does not own it. Call only for what they may know of."""
    if table is not None:
        decision = access.table(Privilege.OWN, table)
    else:
        decision = access.namespace(Privilege.OWN, securable.catalog, securable.namespace or ())
    if decision.allowed:
        return
    if not decision.is_visible:
        raise BailiwickError(
            Code.SCHEMA_NOT_FOUND, f"There is no {securable.scope} {securable}, or none that you may know of."
        )
    raise BailiwickError(
        Code.ACCESS_DENIED,
        f"To grant or revoke on {securable} one must be an admin or hold own on it.",
        details={"reason": "missing_privilege", "missing": "own"},
    )


def bound(table: Table) -> Securable:
    return Securable.table(table.catalog, table.name, table.uuid)


def column_of(table: Table, name: str) -> Column:
    """The column of this name, in any case, dotted for a field of a struct."""
    exact = [each for each in table.columns if each.name == name]
    found = exact or [each for each in table.columns if each.name.lower() == name.lower()]
    if len(found) != 1:
        reason = "is not clear: several differ only in case" if found else "is not in"
        raise BailiwickError(
            Code.COLUMN_NOT_FOUND, f"Column {name[:300]} {reason}{'' if found else ' ' + str(table)}."
        )
    return found[0]


def bound_columns(table: Table, names: Iterable[str]) -> tuple[BoundColumn, ...]:
    found = (column_of(table, name) for name in sorted(set(names)))
    return tuple(BoundColumn(column.name, column.field_id) for column in found)

"""Roles, grants and rules as tables, each with only what its asker may see.

Who may read policy (admins, auditors) sees all of it. Others see what concerns themselves: the roles they
hold, what is granted to them and on what they own, and which rules meet them or are on what they own, without
what these say.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bailiwick.identity.principal import BUILT_IN_ROLES
from bailiwick.names import Namespace
from bailiwick.policy.access import Access
from bailiwick.policy.decision import Table
from bailiwick.policy.model import (
    Grant,
    Grantee,
    Mask,
    Policies,
    Privilege,
    Role,
    RowFilter,
    Scope,
    Securable,
)
from bailiwick.policy.standing import Standing

ROLES = pa.schema([("name", pa.string()), ("built_in", pa.bool_()), ("members", pa.list_(pa.string()))])
GRANTS = pa.schema(
    [("grantee", pa.string()), ("privilege", pa.string()), ("kind", pa.string()), ("object", pa.string())]
)
POLICIES = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("object", pa.string()),
        ("column", pa.string()),
        ("applies_to", pa.list_(pa.string())),
        ("exempt", pa.list_(pa.string())),
        ("rule", pa.string()),
        ("priority", pa.int32()),
    ]
)
IMPERSONATE = "impersonate"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Showing:
    """What one asker sees of the policies of one moment."""

    access: Access

    def roles(self) -> pa.Table:
        known = {role.name: role for role in self._policies.roles}
        known |= {name: known.get(name, Role(name)) for name in BUILT_IN_ROLES}
        rows: list[Row] = [
            {
                "name": name,
                "built_in": name in BUILT_IN_ROLES,
                "members": self._shown(known[name].members),
            }
            for name in sorted(known)
            if self._sees_all or name in self.access.principal.roles
        ]
        return pa.Table.from_pylist(rows, schema=ROLES)

    def grants(
        self, *, on: Securable | None = None, table: Table | None = None, to: Grantee | None = None
    ) -> pa.Table:
        """All; or those that reach `on`, which is `table` where it is one; or those made to `to` itself."""
        rows: list[Row] = [
            {
                "grantee": str(grant.to),
                "privilege": grant.privilege.value,
                "kind": grant.on.scope.value,
                "object": str(grant.on),
            }
            for grant in self._policies.grants
            if (on is None or reaches(grant.on, on, table)) and (to is None or grant.to == to)
            if self._sees_grant(grant)
        ]
        if on is None:
            rows += self._impersonations(to)
        rows.sort(key=lambda row: (row["object"], row["kind"], row["grantee"], row["privilege"]))
        return pa.Table.from_pylist(rows, schema=GRANTS)

    def policies(self, table: Table | None = None) -> pa.Table:
        """All filters, masks and tags; or those that are about `table`, by its tags too."""
        policies = self._policies
        if table is None:
            filters, masks, tags = policies.filters, policies.masks, policies.tags
        else:
            where = (table.catalog, table.names, table.uuid)
            filters, tags = policies.filters_on(*where), policies.tags_on(*where)
            named = sorted({tag for each in tags for tag in each.tags})
            by_tag = (mask for tag in named for mask in policies.tag_masks(tag))
            masks = (*policies.masks_on(*where), *by_tag)
        rows = [self._filter_row(each) for each in filters if self._sees_rule(each)]
        rows += [self._mask_row(each) for each in masks if self._sees_rule(each)]
        rows += [
            {"kind": "tag", "name": tag, "object": str(each.on), "column": each.column.name}
            for each in tags
            if self._sees_all or self._owns(each.on)
            for tag in sorted(each.tags)
        ]
        rows.sort(key=lambda row: (row["object"], row["kind"], row["column"] or "", row["name"]))
        return pa.Table.from_pylist(rows, schema=POLICIES)

    @property
    def _policies(self) -> Policies:
        return self.access.policies

    @property
    def _sees_all(self) -> bool:
        return self.access.principal.may_read_policy

    @property
    def _standing(self) -> Standing:
        return Standing.of(self.access.principal)

    def _impersonations(self, to: Grantee | None) -> list[Row]:
        return [
            {
                "grantee": str(rule.who),
                "privilege": IMPERSONATE,
                "kind": rule.as_whom.kind.value,
                "object": rule.as_whom.name,
            }
            for rule in self._policies.impersonations
            if to is None or rule.who == to
            if self._sees_all or rule.who in self._standing.grantees
        ]

    def _sees_grant(self, grant: Grant) -> bool:
        return self._sees_all or grant.to in self._standing.grantees or self._owns(grant.on)

    def _sees_rule(self, rule: RowFilter | Mask) -> bool:
        if self._sees_all or rule.on is None:
            return self._sees_all or self._standing.is_met_by(rule)
        # A rule about a table of which they may not know would tell them of it.
        on = rule.on
        is_visible = self.access.sees_table(on.catalog, on.table_name, on.uuid or "")
        return is_visible and (self._owns(on) or self._standing.is_met_by(rule))

    def _owns(self, on: Securable) -> bool:
        if on.scope is Scope.TABLE and on.uuid is not None:
            table = Table(on.catalog, on.table_name, on.uuid)
            return Privilege.OWN in self.access.table(Privilege.OWN, table).privileges
        decision = self.access.namespace(Privilege.OWN, on.catalog, on.namespace or ())
        return decision.allowed

    def _shown(self, grantees: Iterable[Grantee]) -> list[str]:
        """Others learn nothing of each other."""
        own = self._standing.grantees
        return sorted(str(each) for each in grantees if self._sees_all or each in own)

    def _filter_row(self, rule: RowFilter) -> Row:
        return {
            "kind": "row_filter",
            "name": rule.name,
            "object": str(rule.on),
            "column": None,
            "applies_to": self._shown(rule.applies_to),
            "exempt": self._shown(rule.exempt),
            "rule": rule.using if self._sees_all else None,
            "priority": None,
        }

    def _mask_row(self, rule: Mask) -> Row:
        text = rule.using if rule.action is None else f"ACTION '{rule.action}'"
        return {
            "kind": "mask",
            "name": rule.name,
            "object": f"tag {rule.tag}" if rule.on is None else str(rule.on),
            "column": None if rule.column is None else rule.column.name,
            "applies_to": self._shown(rule.applies_to),
            "exempt": self._shown(rule.exempt),
            "rule": text if self._sees_all else None,
            "priority": rule.priority,
        }


def reaches(granted: Securable, on: Securable, table: Table | None) -> bool:
    """Whether a grant on `granted` gives anything on `on`, which is `table` where it is one table."""
    if granted.catalog != on.catalog:
        return False
    match granted.scope:
        case Scope.CATALOG:
            return True
        case Scope.ALL_NAMESPACES:
            return on.scope is not Scope.CATALOG
        case Scope.NAMESPACE:
            return _is_inside(on.namespace, granted.namespace or ())
        case Scope.ALL_TABLES:
            return on.namespace == granted.namespace and on.scope in (Scope.ALL_TABLES, Scope.TABLE)
        case Scope.TABLE if granted.uuid is not None:
            return table is not None and table.uuid == granted.uuid
        case Scope.TABLE:
            return granted.key == on.key


def _is_inside(namespace: Namespace | None, outer: Namespace) -> bool:
    return namespace is not None and namespace[: len(outer)] == outer

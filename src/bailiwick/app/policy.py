"""Policy and audit, put together with what they ask and what asks them."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bailiwick.audit.log import AuditLog
from bailiwick.catalog.backend import Kind
from bailiwick.catalog.facts import Facts
from bailiwick.catalog.ownership import Ownership
from bailiwick.catalog.refusals import CatalogError
from bailiwick.catalog.service import CatalogService
from bailiwick.database.database import Database
from bailiwick.engines.launch import CATALOG
from bailiwick.errors import Code
from bailiwick.identity.principal import Principal
from bailiwick.names import Namespace, TableName
from bailiwick.policy.access import Access
from bailiwick.policy.decision import Table
from bailiwick.policy.membership import effective_roles, may_act_as
from bailiwick.policy.model import Privilege
from bailiwick.policy.store import PolicyStore
from bailiwick.queries.policy_decisions import Decisions
from bailiwick.queries.verdict import Refusal, Verdict

_CATALOG_ITSELF = Principal("bailiwick-catalog")
"""Who follows when a table goes or has another name: whoever did that is in the audit log."""


@dataclass(frozen=True, slots=True)
class Governance:
    """What is allowed, and what happened."""

    policies: PolicyStore
    audit: AuditLog
    decisions: Decisions

    def access(self, principal: Principal) -> Access:
        """What `principal` may, as policies are now."""
        return Access(principal, self.policies.current)

    def all_roles(self, user: str, given: frozenset[str]) -> frozenset[str]:
        return effective_roles(self.policies.current, user, given)

    def allows(self, actor: Principal, subject_name: str, subject_roles: frozenset[str]) -> bool:
        """Whether a rule lets `actor` act on behalf of the subject."""
        return may_act_as(actor, Principal(subject_name, subject_roles), self.policies.current)


async def open_governance(stack: AsyncExitStack, database: Database, data_dir: Path) -> Governance:
    policies = PolicyStore(database)
    await policies.load()
    stack.push_async_callback(policies.close)
    audit = await AuditLog.open(database, data_dir)
    stack.push_async_callback(audit.close)
    return Governance(policies, audit, Decisions())


class StoredOwnership(Ownership):
    """Tells the policies what became of tables, views and namespaces."""

    def __init__(self, policies: PolicyStore) -> None:
        self._policies = policies

    def created(self, kind: str, name: TableName | Namespace, uuid: str | None, principal: Principal) -> None:
        del kind
        if isinstance(name, TableName):
            self._policies.table_created(CATALOG, name, uuid or "", principal)
        else:
            self._policies.namespace_created(CATALOG, name, principal)

    def renamed(self, kind: str, name: TableName, new_name: TableName, uuid: str) -> None:
        del kind
        self._policies.table_renamed(CATALOG, name, new_name, uuid, _CATALOG_ITSELF)

    def dropped(self, kind: str, name: TableName | Namespace, uuid: str | None) -> None:
        del kind
        if isinstance(name, TableName):
            self._policies.table_dropped(CATALOG, name, uuid or "", _CATALOG_ITSELF)
        else:
            self._policies.namespace_dropped(CATALOG, name, _CATALOG_ITSELF)


class CatalogFacts:
    """What policy statements want to know of tables, from the catalog."""

    def __init__(self, catalog: CatalogService) -> None:
        self._catalog = catalog
        self._facts = Facts(CATALOG)

    def find(self, catalog: str, name: TableName) -> Table | None:
        """The table or view of this name. May block."""
        entry = self._catalog.contents.find(name) if catalog == CATALOG else None
        if entry is None:
            return None
        try:
            return self._facts.table(self._catalog.load(name, Kind(entry.kind)))
        except CatalogError:
            return None


class Ingress:
    """Whether somebody may bring rows to a table: known before the rows have come."""

    def __init__(self, policies: PolicyStore, catalog: CatalogService) -> None:
        self._policies = policies
        self._catalog = catalog

    def may_write(self, principal: Principal, target: tuple[str, ...]) -> Verdict:
        """What is decided here is decided again with each commit."""
        access = Access(principal, self._policies.current)
        name = TableName(tuple(target[1:-1]), target[-1])
        entry = self._catalog.contents.find(name)
        if entry is not None and access.sees_table(CATALOG, name, entry.uuid):
            decision = access.table(Privilege.INSERT, Table(CATALOG, name, entry.uuid))
        else:
            decision = access.namespace(Privilege.CREATE, CATALOG, name.namespace)
        if decision.allowed:
            return Verdict()
        return Verdict((Refusal(Code.ACCESS_DENIED, "privilege", decision.because[0]),))

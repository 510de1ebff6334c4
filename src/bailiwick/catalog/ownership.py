"""Who made what: they own it, from the moment that it is there.

The catalog tells; what ownership is worth is for policy to say. What a query has made itself it may use at
once, although its own view of the policies is older than that.
"""

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, replace

from bailiwick.identity.principal import Principal
from bailiwick.names import Namespace, TableName
from bailiwick.policy.access import Access
from bailiwick.policy.decide import Decision, Table
from bailiwick.policy.model import Grant, Grantee, Privilege, Securable

LEASES_MAX = 1_000


class Ownership(ABC):
    """Called from the catalog's threads; may block. Tables and views are not made if `created` raises."""

    @abstractmethod
    def created(self, kind: str, name: TableName | Namespace, uuid: str | None, principal: Principal) -> None:
        """`principal` makes a `table`, `view` or `namespace`. Said before a table or view is there, so that
        nothing is ever without its owner; one that then does not come to be keeps its uuid to itself."""

    @abstractmethod
    def renamed(self, kind: str, name: TableName, new_name: TableName, uuid: str) -> None:
        """The table or view has another name now."""

    @abstractmethod
    def dropped(self, kind: str, name: TableName | Namespace, uuid: str | None) -> None:
        """There is no such thing any more."""


class Nobody(Ownership):
    """Where nobody keeps account, because there is nobody but the gateway itself."""

    def created(self, kind: str, name: TableName | Namespace, uuid: str | None, principal: Principal) -> None:
        del kind, name, uuid, principal

    def renamed(self, kind: str, name: TableName, new_name: TableName, uuid: str) -> None:
        del kind, name, new_name, uuid

    def dropped(self, kind: str, name: TableName | Namespace, uuid: str | None) -> None:
        del kind, name, uuid


@dataclass(frozen=True, slots=True)
class WithOwn:
    """What a principal may, what it made under the same lease included."""

    given: Access
    own: Access
    """By nothing but grants on what was made. All rules hold there, too."""

    def table(self, action: Privilege, table: Table) -> Decision:
        own = self.own.table(action, table)
        return own if own.is_visible else self.given.table(action, table)

    def namespace(self, action: Privilege, catalog: str, namespace: Namespace) -> Decision:
        decision = self.given.namespace(action, catalog, namespace)
        if decision.allowed:
            return decision
        own = self.own.namespace(action, catalog, namespace)
        return own if own.is_visible else decision

    def sees_table(self, catalog: str, name: TableName, uuid: str) -> bool:
        return any(access.sees_table(catalog, name, uuid) for access in (self.given, self.own))

    def sees_namespace(self, catalog: str, namespace: Namespace) -> bool:
        return any(access.sees_namespace(catalog, namespace) for access in (self.given, self.own))


class MadeHere:
    """What each lease has made. The least recent leases are forgotten first: they have long ended."""

    def __init__(self, catalog: str, *, leases_max: int = LEASES_MAX) -> None:
        self._catalog = catalog
        self._leases_max = leases_max
        self._lock = threading.Lock()
        self._by_lease: OrderedDict[str, WithOwn] = OrderedDict()

    def access(self, lease: str, access: Access) -> Access | WithOwn:
        """What the holder of this lease may, its own works included."""
        known = self._by_lease.get(lease)
        return access if known is None or known.given != access else known

    def note(self, lease: str, access: Access, on: Securable) -> None:
        """Without a lease every call asks the policies of its own moment, and nothing needs to be noted."""
        if not lease:
            return
        known = self.access(lease, access)
        before = known.own.policies.grants if isinstance(known, WithOwn) else ()
        grant = Grant("", Grantee.user(access.principal.name), on, Privilege.OWN, by_creation=True)
        own = Access(access.principal, replace(access.policies, grants=(*before, grant)))
        with self._lock:
            self._by_lease[lease] = WithOwn(access, own)
            self._by_lease.move_to_end(lease)
            while len(self._by_lease) > self._leases_max:
                self._by_lease.popitem(last=False)

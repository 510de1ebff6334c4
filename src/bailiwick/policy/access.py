"""What one principal may, under the policies of one moment.

Made when a query gets its lease and kept for its life: a running query keeps its decisions. Immutable, so the
facade's threads may ask it at any time.
"""

from dataclasses import dataclass, field

from bailiwick.identity.principal import Principal
from bailiwick.names import Namespace, TableName
from bailiwick.policy.decide import decide_as, decide_namespace_as, sees_namespace, sees_table
from bailiwick.policy.decision import Decision, Table
from bailiwick.policy.model import Policies, Privilege
from bailiwick.policy.standing import Standing


@dataclass(frozen=True, slots=True)
class Access:
    principal: Principal
    policies: Policies = field(repr=False)
    _standing: Standing = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_standing", Standing.of(self.principal))

    @property
    def version(self) -> int:
        """Of the policies. An audit row says it."""
        return self.policies.version

    def table(self, action: Privilege, table: Table) -> Decision:
        return decide_as(self._standing, action, table, self.policies)

    def namespace(self, action: Privilege, catalog: str, namespace: Namespace) -> Decision:
        """`()` is the catalog itself."""
        return decide_namespace_as(self._standing, action, catalog, namespace, self.policies)

    def sees_table(self, catalog: str, name: TableName, uuid: str) -> bool:
        """Whether it is listed, and told from one that is missing."""
        return sees_table(self._standing, catalog, name, uuid, self.policies)

    def sees_namespace(self, catalog: str, namespace: Namespace) -> bool:
        """Whether a privilege is held on it or on something in it."""
        return sees_namespace(self._standing, catalog, namespace, self.policies)

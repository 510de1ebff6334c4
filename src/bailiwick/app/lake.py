"""The catalog, put together with what is known of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bailiwick.app.policy import Governance
from bailiwick.catalog.call import Decided
from bailiwick.catalog.facade import CallDecided, CommitSeen
from bailiwick.catalog.inventory import Inventory
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.sql import SqlBackend
from bailiwick.catalog.staging import Staging
from bailiwick.clock import wall
from bailiwick.database.database import Database
from bailiwick.engines.holders import Holders
from bailiwick.engines.launch import CATALOG
from bailiwick.identity.principal import Principal
from bailiwick.ids import GatewayId, LeaseId, QueryId
from bailiwick.names import Namespace
from bailiwick.policy.access import Access
from bailiwick.queries.affected import AffectedRows
from bailiwick.queries.auditing import commit_of
from bailiwick.queries.policy_decisions import PolicyDecision
from bailiwick.telemetry.metrics import Metrics
from bailiwick.telemetry.traces import NO_TRACES, Traces


@dataclass(frozen=True, slots=True)
class Lake:
    """The catalog and what is known of it."""

    catalog: CatalogService
    staging: Staging
    inventory: Inventory
    affected: AffectedRows

    governance: Governance

    async def has_schema(self, principal: Principal, catalog: str, namespace: Namespace) -> bool:
        """Whether there is one that this principal may know of."""
        if catalog != CATALOG or namespace not in self.catalog.contents.namespaces:
            return False
        return self.governance.access(principal).sees_namespace(CATALOG, namespace)


def open_lake(
    database: Database,
    data_dir: Path,
    governance: Governance,
    *,
    warehouse: Path | None = None,
    owner: Callable[[], GatewayId | None] = lambda: None,
) -> Lake:
    """`owner` is who commits, where several gateways do."""
    backend = SqlBackend.over(database, CATALOG, owner)
    catalog = CatalogService(backend, warehouse or data_dir / "warehouse")
    inventory = Inventory(catalog, governance.access)
    return Lake(catalog, Staging(data_dir / "staging"), inventory, AffectedRows(), governance)


class FacadeObserver:
    """Lets metrics, traces, counts of rows and the record of decisions follow what the catalog does."""

    def __init__(
        self,
        metrics: Metrics,
        affected: AffectedRows,
        holders: Holders,
        governance: Governance,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._metrics = metrics
        self._traces = traces
        self._affected = affected
        self._holders = holders
        self._governance = governance

    def answered(self, *, route: str, status: int, seconds: float, lease: LeaseId) -> None:
        self._metrics.facade_answered(route=route, status=status, seconds=seconds)
        self._traces.catalog_call(lease, route=route, status=status, seconds=seconds)

    def commit_seen(self, seen: CommitSeen) -> None:
        self._affected.note(seen.lease, seen.summary)

    def decided(self, decided: CallDecided) -> None:
        holder = self._holders.of_lease(decided.lease)
        commit = commit_of(decided, None if holder is None else holder.query_id, wall())
        if commit is not None:
            self._governance.audit.note(commit)
        if holder is None or holder.query_id is None:
            return
        for each in decided.decided:
            self._governance.decisions.keep(told(holder.query_id, holder.access, each))


def told(query_id: QueryId, access: Access, decided: Decided) -> PolicyDecision:
    """What the catalog decided, as it is shown and put on record."""
    principal = access.principal
    return PolicyDecision(
        query_id,
        wall(),
        principal.name,
        principal.actor,
        principal.tenant,
        decided.what,
        ", ".join(decided.privileges),
        decided.is_allowed,
        decided.rules,
        access.version,
        decided.because,
        is_visible=decided.is_visible,
    )


def known_tables(lake: Lake) -> tuple[str, ...]:
    """A first look at a table loads much of Iceberg: better before somebody waits for it."""
    return tuple(f"SELECT * FROM {CATALOG}.{name} LIMIT 1" for name in lake.catalog.tables()[:1])  # noqa: S608

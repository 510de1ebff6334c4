"""The catalog, put together with what is known of it."""

from dataclasses import dataclass
from pathlib import Path

from bailiwick.catalog.facade import CommitSeen
from bailiwick.catalog.inventory import Inventory
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.sql import SqlBackend
from bailiwick.catalog.staging import Staging
from bailiwick.database.database import Database
from bailiwick.engines.launch import CATALOG
from bailiwick.names import Namespace
from bailiwick.queries.affected import AffectedRows
from bailiwick.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Lake:
    """The catalog and what is known of it."""

    catalog: CatalogService
    staging: Staging
    inventory: Inventory
    affected: AffectedRows

    async def has_schema(self, catalog: str, namespace: Namespace) -> bool:
        return catalog == CATALOG and namespace in self.catalog.contents.namespaces


def open_lake(database: Database, data_dir: Path) -> Lake:
    catalog = CatalogService(SqlBackend(database.synchronous, CATALOG), data_dir / "warehouse")
    return Lake(catalog, Staging(data_dir / "staging"), Inventory(catalog), AffectedRows())


class FacadeObserver:
    def __init__(self, metrics: Metrics, affected: AffectedRows) -> None:
        self._metrics = metrics
        self._affected = affected

    def answered(self, *, route: str, status: int, seconds: float) -> None:
        self._metrics.facade_answered(route=route, status=status, seconds=seconds)

    def commit_seen(self, seen: CommitSeen) -> None:
        self._affected.note(seen.lease, seen.summary)


def known_tables(lake: Lake) -> tuple[str, ...]:
    """A first look at a table loads much of Iceberg: better before somebody waits for it."""
    return tuple(f"SELECT * FROM {CATALOG}.{name} LIMIT 1" for name in lake.catalog.tables()[:1])  # noqa: S608

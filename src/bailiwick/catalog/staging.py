"""Tables that are still being filled: a catalog of their own, which nobody can list and no restart survives.

An ingest that is larger than one piece gathers its rows in such a table first. It lives beside the lake's
tables, not among them: in memory, with its files in a directory of its own. Only the principal whose ingest
it is reaches it, under a name that nobody else learns; whatever a crash leaves is gone at the next start.
"""

import contextlib
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from bailiwick.catalog import canary, wire
from bailiwick.catalog.call import Answer, Call
from bailiwick.catalog.calls import CATALOG, Calls
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.ownership import Ownership
from bailiwick.catalog.refusals import (
    BadRequestError,
    CatalogError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
)
from bailiwick.catalog.routes import Route
from bailiwick.catalog.service import CatalogService
from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.access import Access
from bailiwick.policy.model import Grant, Grantee, Policies, Privilege, Securable
from bailiwick.policy.stamp import StampKey
from bailiwick.telemetry.logs import logger

NAMESPACE = "bailiwick_ingest"
"""The schema under which engines find these tables. Nobody can make or list one of this name."""

_CACHE_BYTES_MAX = 32 << 20
_NAME_BYTES = 16
_OF_TABLES = frozenset({Route.CREATE_TABLE, Route.LOAD_TABLE, Route.TABLE_EXISTS, Route.COMMIT_TABLE})
_OWNERS = "owners of tables being filled"
_OF_VIEWS = frozenset({Route.LOAD_VIEW, Route.VIEW_EXISTS})

_log = logger(__name__)


class Staging:
    """Every method but `open` and `holds` may block. Callable from any thread."""

    def __init__(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, mode=0o700)
        self._directory = directory.resolve()
        self.service = CatalogService(MemoryBackend(), self._directory, cache_bytes_max=_CACHE_BYTES_MAX)
        self.service.create_namespace((NAMESPACE,))
        self._lock = threading.Lock()
        self._owners: dict[str, Principal] = {}

    def open(self, principal: Principal) -> TableName:
        """A name under which this principal, and nobody else, may make a table."""
        name = f"t{secrets.token_hex(_NAME_BYTES)}"
        with self._lock:
            self._owners[name] = principal
        return TableName((NAMESPACE,), name)

    def holds(self, name: str, principal: Principal) -> bool:
        with self._lock:
            return self._owners.get(name) == principal

    def close(self, table: TableName) -> None:
        """From now on there is no such table, and nothing can be committed to it. Closing twice is fine."""
        with self._lock:
            self._owners.pop(table.name, None)
        with contextlib.suppress(CatalogError):
            self.service.drop(table)

    def purge(self, table: TableName) -> None:
        """Delete its files, also those that no commit knows. Those of a table that never was: fine."""
        for directory in (self._directory / NAMESPACE).glob(f"{table.name}-*"):
            try:
                shutil.rmtree(directory)
            except OSError as error:
                _log.warning("staging_not_purged", reason=error.strerror)


class StagedCalls(Calls):
    """The catalog's calls, with those on tables being filled sent to where these are."""

    def __init__(
        self,
        service: CatalogService,
        staging: Staging,
        *,
        catalog: str = CATALOG,
        stamp_key: Callable[[], StampKey | None] = lambda: None,
        ownership: Ownership | None = None,
        table_config: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            service, catalog=catalog, stamp_key=stamp_key, ownership=ownership, table_config=table_config
        )
        self._staging = staging
        self._policies = Policies(grants=(_grant(catalog),))
        self._staged = Calls(staging.service, catalog=catalog, stamp_key=stamp_key, table_config=table_config)

    def read(self, call: Call) -> Answer | None:
        if not _is_staged(call):
            return super().read(call)
        return self._staged.read(self._as_owner(call))

    def read_blocking(self, call: Call) -> Answer:
        if not _is_staged(call):
            return super().read_blocking(call)
        return self._staged.read_blocking(self._as_owner(call))

    def change(self, call: Call) -> Answer:
        if not _is_staged(call):
            if call.target.route is Route.CREATE_NAMESPACE:
                _refuse_reserved(call)
            return super().change(call)
        return self._staged.change(self._as_owner(call))

    def _as_owner(self, call: Call) -> Call:
        """The call as the owner's: who fills a table may do all with it, and no policy speaks of it."""
        self._check(call)
        role_alone = replace(call.principal, roles=frozenset({_OWNERS}))
        return replace(call, access=Access(role_alone, self._policies), decided=[])

    def _check(self, call: Call) -> None:
        """Return if the caller fills this table. To everybody else there is nothing here at all."""
        route, name = call.target.route, call.target.name
        if route in _OF_VIEWS:
            raise NoSuchViewError("View does not exist")
        if route not in _OF_TABLES:
            raise NoSuchNamespaceError(f"Namespace does not exist: {NAMESPACE}")
        if route is Route.CREATE_TABLE:
            name = str(wire.parsed_object(call.body).get("name"))
        if not self._staging.holds(name, call.principal):
            if route is Route.CREATE_TABLE:
                raise NoSuchNamespaceError(f"Namespace does not exist: {NAMESPACE}")
            raise NoSuchTableError("Table does not exist")


def _grant(catalog: str) -> Grant:
    return Grant("", Grantee.role(_OWNERS), Securable(catalog, (NAMESPACE,)), Privilege.OWN)


def _is_staged(call: Call) -> bool:
    return call.target.namespace[:1] == (NAMESPACE,)


def _refuse_reserved(call: Call) -> None:
    namespace = wire.parsed_object(call.body).get("namespace")
    first = namespace[0] if isinstance(namespace, list) and namespace else None
    if first in (NAMESPACE, *canary.TABLE.namespace):
        raise BadRequestError(f"the name {first} is kept for the gateway itself")

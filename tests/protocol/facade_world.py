"""A running facade with leases that a test can end, and an engine's way of talking to it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bailiwick.catalog.backend import CatalogBackend
from bailiwick.catalog.facade import CallDecided, CommitSeen
from bailiwick.catalog.server import FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.wire import Json
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId
from bailiwick.policy.access import Access
from bailiwick.policy.model import Grant, Grantee, Policies, Privilege, Securable
from bailiwick.policy.stamp import StampKey
from bailiwick.testing.iceberg import column, create_request, schema

CATALOG_IS_MINE = Grant("1", Grantee.user("will"), Securable("lake"), Privilege.OWN)
ALL_IS_READ = Grant("2", Grantee.user("rita"), Securable("lake"), Privilege.SELECT)
POLICIES = Policies(1, grants=(CATALOG_IS_MINE, ALL_IS_READ))

ADMIN = Principal("ada", frozenset({"admin"}))
WRITER = Principal("will", frozenset({"writer"}))
READER = Principal("rita", frozenset({"reader"}))
NOBODY = Principal("nils")
CREDENTIAL = "engine-credential"
TABLES = "/namespaces/db/tables"
T = f"{TABLES}/t"


@dataclass
class Lent:
    """Leases of sessions, as the pool keeps them."""

    current: dict[str, tuple[LeaseId, Principal]] = field(default_factory=dict)
    asked: int = 0
    ends_after: int | None = None
    policies: Policies = POLICIES

    def holder(self, session_handle: str, lease_id: LeaseId) -> Access | None:
        self.asked += 1
        if self.ends_after is not None and self.asked > self.ends_after:
            return None
        lease, principal = self.current.get(session_handle, ("", None))
        return None if principal is None or lease != lease_id else Access(principal, self.policies)


@dataclass
class Seen:
    answers: list[tuple[str, int]] = field(default_factory=list)
    commits: list[CommitSeen] = field(default_factory=list)
    decisions: list[CallDecided] = field(default_factory=list)
    fails: bool = False

    def answered(self, *, route: str, status: int, seconds: float, lease: LeaseId) -> None:  # noqa: ARG002
        self.answers.append((route, status))

    def commit_seen(self, seen: CommitSeen) -> None:
        if self.fails:
            raise RuntimeError("the observer broke")
        self.commits.append(seen)

    def decided(self, decided: CallDecided) -> None:
        if self.fails:
            raise RuntimeError("the observer broke")
        self.decisions.append(decided)


@dataclass
class World:
    service: CatalogService
    lent: Lent
    seen: Seen
    port: int
    warehouse: Path
    stamp_key: StampKey

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/iceberg/v1"

    def client(self, principal: Principal = WRITER, headers: Mapping[str, str] | None = None) -> httpx.Client:
        session, lease = f"session-{principal.name}", LeaseId(f"L{principal.name}")
        self.lent.current[session] = (lease, principal)
        sent = {
            "authorization": f"Bearer {CREDENTIAL}",
            "x-bailiwick-session": session,
            "x-bailiwick-lease": lease,
            **(headers or {}),
        }
        return httpx.Client(base_url=self.base_url, headers=sent, timeout=30)


@contextmanager
def running_world(backend: CatalogBackend, warehouse: Path) -> Iterator[World]:
    service = CatalogService(backend, warehouse)
    service.create_namespace(("db",))
    lent, seen = Lent(), Seen()
    key = StampKey.new()
    server = FacadeServer(service, lent, CREDENTIAL, stamp_key=lambda: key, observer=seen)
    port = server.start()
    try:
        yield World(service, lent, seen, port, warehouse, key)
    finally:
        server.stop()


def ok(response: httpx.Response) -> Any:
    assert response.is_success, response.text
    return response.json() if response.content else None


def problem(response: httpx.Response) -> tuple[int, str]:
    error = response.json()["error"]
    assert error["code"] == response.status_code
    return response.status_code, error["type"]


def commit(
    client: httpx.Client, *updates: Json, path: str = T, requirements: list[Json] | None = None
) -> httpx.Response:
    return client.post(path, json={"requirements": requirements or [], "updates": list(updates)})


def make_table(client: httpx.Client, name: str = "t", **more: Any) -> Json:
    made: Json = ok(client.post(TABLES, json=create_request(name, **more)))
    return made


def view_request(sql: str = "select 1") -> Json:
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 5,
        "summary": {"engine-name": "spark"},
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
        "default-namespace": ["db"],
    }
    return {"name": "v", "schema": schema(column(1, "a")), "view-version": version, "properties": {}}

"""The catalog as engines reach it, with nothing before it: for calling it as a dishonest session would.

It serves a catalog in memory over real files, which PyIceberg writes. Leases are given by hand.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.server import FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.identity.principal import ADMIN, READER, Principal
from bailiwick.ids import LeaseId
from bailiwick.policy.access import Access
from bailiwick.policy.model import BoundColumn, Grant, Grantee, Policies, Privilege, RowFilter, Securable
from bailiwick.policy.stamp import StampKey
from bailiwick.testing.leaks import Secrets

Note = Callable[..., None]

CREDENTIAL = "the-credential-of-an-engine"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "word": ["one", "two"]})
HIDDEN = pa.table({"id": pa.array([8, 9], pa.int64()), "word": ["VEILED-eight", "VEILED-nine"]})


def policies() -> Policies:
    """`mal` owns `own`, may add to `shared.stock`, sees some of `shared.some`, and nothing of `theirs`."""
    to = Grantee.user("mal")
    grants = [
        Grant("1", to, Securable.parse("lake.own", is_namespace=True), Privilege.OWN),
        Grant("2", to, Securable.parse("lake.shared.stock"), Privilege.SELECT),
        Grant("3", to, Securable.parse("lake.shared.stock"), Privilege.INSERT),
        *(
            Grant(f"4{verb}", to, Securable.parse("lake.shared.some"), verb)
            for verb in (
                Privilege.SELECT,
                Privilege.INSERT,
                Privilege.UPDATE,
                Privilege.DELETE,
                Privilege.ALTER,
            )
        ),
    ]
    some = RowFilter(
        name="few",
        on=Securable.parse("lake.shared.some"),
        applies_to=frozenset({to}),
        exempt=frozenset(),
        using="id < 2 AND id IN (SELECT id FROM lake.theirs.rights)",
        columns=(BoundColumn("id", 1),),
        tables=("lake.theirs.rights",),
    )
    return Policies(version=1, grants=tuple(grants), filters=(some,))


@dataclass(slots=True)
class Leases:
    """Session and lease to what the holder may."""

    held: dict[str, tuple[str, Access]] = field(default_factory=dict)

    def holder(self, session_handle: str, lease_id: LeaseId, /) -> Access | None:
        lease, access = self.held.get(session_handle, ("", None))
        return access if access is not None and lease == lease_id else None


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    text: str
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text) if self.text else None


@dataclass(slots=True)
class FacadeHouse:
    uri: str
    warehouse: Path
    leases: Leases
    key: StampKey

    def give(self, person: str, lease: str, roles: frozenset[str] = frozenset({READER})) -> None:
        """The session of that person's name is under this lease from now on."""
        self.leases.held[f"session-{person}"] = (lease, Access(Principal(person, roles), policies()))

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        person: str = "mal",
        lease: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answered:
        sent = {
            "Authorization": f"Bearer {CREDENTIAL}",
            "X-Bailiwick-Session": f"session-{person}",
            "X-Bailiwick-Lease": f"lease-{person}" if lease is None else lease,
            "Content-Type": "application/json",
            **(headers or {}),
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.uri}/v1/{path}", data, sent, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
                return Answered(answer.status, answer.read().decode(), dict(answer.headers))
        except urllib.error.HTTPError as error:
            return Answered(error.code, error.read().decode(), dict(error.headers))

    def client(self, person: str) -> RestCatalog:
        """PyIceberg, under that person's lease."""
        return RestCatalog(
            "lake",
            uri=self.uri,
            token=CREDENTIAL,
            **{
                "header.X-Bailiwick-Session": f"session-{person}",
                "header.X-Bailiwick-Lease": f"lease-{person}",
            },
        )

    def metadata(self, namespace: str, table: str, person: str = "admin") -> Any:
        return self.call("GET", f"namespaces/{namespace}/tables/{table}", person=person).json["metadata"]

    def commit(self, namespace: str, table: str, *updates: Any, **more: Any) -> Answered:
        return self.call(
            "POST",
            f"namespaces/{namespace}/tables/{table}",
            {"requirements": [], "updates": list(updates)},
            **more,
        )


@contextmanager
def facade_house(directory: Path) -> Iterator[FacadeHouse]:
    leases, key = Leases(), StampKey.new()
    service = CatalogService(MemoryBackend(), directory / "warehouse")
    server = FacadeServer(service, leases, CREDENTIAL, stamp_key=lambda: key)
    port = server.start()
    try:
        house = FacadeHouse(f"http://127.0.0.1:{port}/iceberg", directory / "warehouse", leases, key)
        house.give("admin", "lease-admin", frozenset({ADMIN}))
        house.give("mal", "lease-mal")
        _furnish(house)
        yield house
    finally:
        server.stop()


def _furnish(house: FacadeHouse) -> None:
    admin = house.client("admin")
    for namespace in ("own", "shared", "theirs"):
        admin.create_namespace(namespace)
    for name, rows in (
        ("shared.stock", ROWS),
        ("shared.some", HIDDEN),
        ("theirs.hidden", HIDDEN),
        ("theirs.rights", ROWS),
        ("own.table", ROWS),
    ):
        table = admin.create_table(name, rows.schema)
        table.append(rows)
        table.append(rows)


def refused(answer: Answered, note: Note) -> None:
    """It was, properly, and nothing hidden stands in the answer."""
    assert 400 <= answer.status < 500, answer
    assert Secrets().found_in(answer.text) == []
    assert "Traceback" not in answer.text
    note(is_refused=True)

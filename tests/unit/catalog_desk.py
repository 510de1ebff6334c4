"""A catalog with policies, asked as engines and other clients ask it, without a socket between."""

import uuid as uuids
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bailiwick.catalog import wire
from bailiwick.catalog.backend import CatalogBackend
from bailiwick.catalog.call import Answer, Call, Client
from bailiwick.catalog.calls import Calls
from bailiwick.catalog.commits import no_fence
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.ownership import Ownership
from bailiwick.catalog.refusals import CatalogError
from bailiwick.catalog.routes import Route, Target
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.wire import Json
from bailiwick.identity.principal import Principal
from bailiwick.names import Namespace, TableName
from bailiwick.policy.access import Access
from bailiwick.policy.model import BoundColumn, Grant, Grantee, Policies, Privilege, RowFilter, Securable
from bailiwick.policy.stamp import STAMP_CONFIG, Stamp, StampKey
from bailiwick.testing.iceberg import column, create_request, schema

ADMIN = Principal("ada", frozenset({"admin"}))
ANN = Principal("ann", frozenset({"reader"}))
BOB = Principal("bob", frozenset({"reader"}))
T = TableName(("db",), "t")
CREATE_VIEW = {
    "name": "v",
    "schema": schema(column(1, "a")),
    "view-version": {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 5,
        "summary": {},
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
        "default-namespace": ["db"],
    },
}


class Owners(Ownership):
    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def created(self, kind: str, name: TableName | Namespace, uuid: str | None, principal: Principal) -> None:
        self.told.append(("created", kind, name, uuid is not None, principal.name))

    def renamed(self, kind: str, name: TableName, new_name: TableName, uuid: str) -> None:
        del uuid
        self.told.append(("renamed", kind, name, new_name))

    def dropped(self, kind: str, name: TableName | Namespace, uuid: str | None) -> None:
        del uuid
        self.told.append(("dropped", kind, name))


@dataclass
class Desk:
    """`db.t` is there, made by an administrator; who else may do what is told by `policies`."""

    warehouse: Path
    backend: CatalogBackend = field(default_factory=MemoryBackend)
    policies: Policies = field(default_factory=lambda: Policies(1))
    key: StampKey = field(default_factory=StampKey.new)
    owners: Owners = field(default_factory=Owners)

    def __post_init__(self) -> None:
        self.service = CatalogService(self.backend, self.warehouse)
        if not self.service.contents.namespaces:
            self.service.create_namespace(("db",))
            self.service.commits.create_table(T, create_request("t"))
        self.calls = Calls(self.service, stamp_key=lambda: self.key, ownership=self.owners)

    def grant(self, who: Principal, on: str, *privileges: Privilege) -> None:
        """`on` as one writes it; a table is bound to the one that has the name."""
        securable = Securable.parse(on)
        if securable.name is not None:
            entry = self.service.contents.find(securable.table_name)
            assert entry is not None
            securable = Securable.table("lake", securable.table_name, entry.uuid)
        made = [Grant(str(uuids.uuid4()), Grantee.user(who.name), securable, each) for each in privileges]
        self.add(grants=made)

    def add(self, **more: Any) -> None:
        """Grants, filters, masks, tags."""
        current = self.policies
        parts = {name: getattr(current, name) for name in ("roles", "grants", "filters", "masks", "tags")}
        for name, items in more.items():
            parts[name] = (*parts[name], *items)
        self.policies = Policies(current.version + 1, **parts)

    def call(self, route: Route, who: Principal, name: str = "t", body: Any = None, **more: Any) -> Call:
        namespace = more.pop("namespace", ("db",))
        return Call(
            Target(route, namespace, name),
            more.pop("access", None) or Access(who, self.policies),
            more.pop("fence", no_fence),
            body=b"" if body is None else wire.rendered(body),
            lease=more.pop("lease", f"L{who.name}"),
            **more,
        )

    def ask(self, route: Route, who: Principal, name: str = "t", body: Any = None, **more: Any) -> Answer:
        call = self.call(route, who, name, body, **more)
        if not route.reads:
            return self.calls.change(call)
        answer = self.calls.read(call)
        return self.calls.read_blocking(call) if answer is None else answer

    def load(self, who: Principal, name: str = "t", **more: Any) -> Json:
        return wire.parsed_object(self.ask(Route.LOAD_TABLE, who, name, **more).body)

    def stamp(self, who: Principal, name: str = "t", **more: Any) -> Stamp:
        return self.key.open(self.load(who, name, **more)["config"][STAMP_CONFIG])

    def commit(self, who: Principal, *updates: Json, name: str = "t", **more: Any) -> Answer:
        body = {"requirements": more.pop("requirements", []), "updates": list(updates)}
        return self.ask(Route.COMMIT_TABLE, who, name, body, **more)

    def metadata(self, name: TableName = T) -> Json:
        return wire.parsed_object(self.service.load(name).data)


PLAIN, RESTRAINED = Client.PLAIN, Client.RESTRAINED


def refusal(ask: Callable[..., Any], *what: Any, **more: Any) -> tuple[type[CatalogError], str]:
    with pytest.raises(CatalogError) as raised:
        ask(*what, **more)
    return type(raised.value), raised.value.message


def names(answer: Answer, key: str = "identifiers") -> Any:
    return wire.parsed_object(answer.body)[key]


def filtered(desk: Desk, who: Principal = ANN, using: str = "id = 1", **more: Any) -> None:
    uuid = desk.service.find(T).uuid
    columns = more.pop("columns", (BoundColumn("id", 1),))
    rule = RowFilter(
        "some",
        Securable.table("lake", T, uuid),
        frozenset({Grantee.user(who.name)}),
        frozenset(),
        using,
        columns,
        **more,
    )
    desk.add(filters=[rule])

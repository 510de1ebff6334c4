"""The Iceberg REST facade as an engine meets it, over a real socket."""

import shutil
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import httpx
import pytest
from facade_world import (
    ADMIN,
    CREDENTIAL,
    NOBODY,
    READER,
    TABLES,
    Lent,
    T,
    World,
    commit,
    make_table,
    ok,
    problem,
    running_world,
    view_request,
)

from bailiwick.catalog.facade import CommitSeen
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.server import FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.wire import Json
from bailiwick.ids import LeaseId
from bailiwick.names import TableName
from bailiwick.policy.stamp import STAMP_CONFIG
from bailiwick.testing.iceberg import (
    create_request,
    read_by_pyiceberg,
    set_properties,
    staged_updates,
)
from bailiwick.testing.manifests import append


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(MemoryBackend(), tmp_path / "warehouse") as running:
        yield running


@pytest.fixture
def client(world: World) -> Iterator[httpx.Client]:
    with world.client() as made:
        yield made


def test_config_needs_only_the_engines_credential(world: World) -> None:
    config = ok(httpx.get(f"{world.base_url}/config", headers={"authorization": f"Bearer {CREDENTIAL}"}))
    assert "GET /v1/{prefix}/namespaces/{namespace}/views/{view}" in config["endpoints"]
    assert not [endpoint for endpoint in config["endpoints"] if "metrics" in endpoint]
    assert config["overrides"]["rest-metrics-reporting-enabled"] == "false"


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer x", f"Basic {CREDENTIAL}", f"Bearer {CREDENTIAL}x"]
)
@pytest.mark.parametrize("path", ["/config", "/namespaces", "/nonsense"])
def test_nothing_is_told_without_the_engines_credential(world: World, authorization: str, path: str) -> None:
    with world.client(headers={"authorization": authorization}) as client:
        assert problem(client.get(path)) == (401, "NotAuthorizedException")


@pytest.mark.parametrize(
    "headers", [{"x-bailiwick-lease": "Lother"}, {"x-bailiwick-session": "other"}, {"x-bailiwick-lease": ""}]
)
def test_a_lease_that_is_not_current_does_nothing(world: World, headers: Mapping[str, str]) -> None:
    with world.client() as good:
        make_table(good)
    with world.client(headers=headers) as client:
        for response in (
            client.get(T),
            client.head(T),
            client.get("/namespaces"),
            client.post(TABLES, json=create_request("u")),
            commit(client, set_properties(a="b")),
            client.delete(T),
        ):
            assert response.status_code == 403
            assert not response.content or problem(response)[1] == "ForbiddenException"
    assert world.service.tables() == (TableName(("db",), "t"),)


def test_a_commit_whose_lease_ends_on_the_way_is_refused(world: World) -> None:
    with world.client() as client:
        before = make_table(client)
        # Once at the door, once inside the critical section.
        world.lent.ends_after = world.lent.asked + 1
        assert problem(commit(client, set_properties(a="b"))) == (403, "ForbiddenException")
        world.lent.ends_after = None
        assert ok(client.get(T))["metadata"] == before["metadata"]


def test_a_reader_reads_and_changes_nothing(world: World) -> None:
    with world.client() as client:
        make_table(client)
        ok(client.post("/namespaces/db/views", json=view_request()))
    table = {"namespace": ["db"], "name": "t"}
    rename = {"source": table, "destination": {"namespace": ["db"], "name": "u"}}
    change = {"identifier": table, "requirements": [], "updates": [set_properties(a="b")]}
    with world.client(READER) as reader:
        ok(reader.get(T))
        assert reader.head(T).status_code == 204
        for method, path, body in (
            ("POST", "/namespaces", {"namespace": ["x"]}),
            ("DELETE", "/namespaces/db", None),
            ("POST", "/namespaces/db/properties", {"updates": {}}),
            ("POST", TABLES, create_request("u")),
            ("POST", TABLES, create_request("u") | {"stage-create": True}),
            ("POST", T, {"requirements": [], "updates": []}),
            ("DELETE", T, None),
            ("POST", "/namespaces/db/register", {"name": "x", "metadata-location": "file:/x"}),
            ("POST", "/tables/rename", rename),
            ("POST", "/transactions/commit", {"table-changes": [change]}),
            ("POST", "/namespaces/db/views", view_request()),
            ("POST", "/namespaces/db/views/v", {"updates": []}),
            ("DELETE", "/namespaces/db/views/v", None),
            ("POST", "/views/rename", {**rename, "source": {"namespace": ["db"], "name": "v"}}),
        ):
            assert problem(reader.request(method, path, json=body)) == (403, "ForbiddenException")


def test_one_who_may_not_read_sees_an_empty_catalog(world: World) -> None:
    with world.client() as client:
        make_table(client)
    with world.client(NOBODY) as nobody:
        assert ok(nobody.get("/namespaces")) == {"namespaces": []}
        assert problem(nobody.get(T)) == (404, "NoSuchTableException")
        assert nobody.get(T).json()["error"]["message"] == "Table does not exist: db.t"
        assert problem(nobody.get("/namespaces/db/views/v")) == (404, "NoSuchViewException")
        assert problem(nobody.get(TABLES)) == (404, "NoSuchNamespaceException")
        assert nobody.head("/namespaces/db").status_code == 404
        assert problem(nobody.delete(T)) == (404, "NoSuchTableException")


def test_namespaces_by_the_protocol(client: httpx.Client) -> None:
    ok(client.post("/namespaces", json={"namespace": ["db", "in ner"], "properties": {"a": "b"}}))
    assert ok(client.get("/namespaces")) == {"namespaces": [["db"]]}
    assert ok(client.get("/namespaces", params={"parent": "db"})) == {"namespaces": [["db", "in ner"]]}
    inner = f"/namespaces/db%1F{quote_plus('in ner')}"
    assert ok(client.get(inner)) == {"namespace": ["db", "in ner"], "properties": {"a": "b"}}
    answer = ok(client.post(f"{inner}/properties", json={"removals": ["a", "z"], "updates": {"c": "d"}}))
    assert answer == {"updated": ["c"], "removed": ["a"], "missing": ["z"]}
    assert problem(client.delete("/namespaces/db")) == (409, "NamespaceNotEmptyException")
    assert client.delete(inner).status_code == 204
    assert (client.head(inner).status_code, client.head("/namespaces/db").status_code) == (404, 204)
    assert problem(client.get(inner)) == (404, "NoSuchNamespaceException")
    assert problem(client.get("/namespaces", params={"parent": "x"})) == (404, "NoSuchNamespaceException")
    assert problem(client.post("/namespaces", json={"namespace": ["db"]})) == (409, "AlreadyExistsException")


def test_a_load_has_metadata_its_location_and_no_etag(world: World, client: httpx.Client) -> None:
    made = make_table(client)
    response = client.get(T, headers={"if-none-match": "*"})
    loaded = ok(response)
    assert loaded["metadata"] == made["metadata"]
    assert loaded["metadata-location"] == made["metadata-location"]
    assert made["metadata-location"].startswith(f"file:{world.warehouse}/db/t-")
    assert list(made["config"]) == [STAMP_CONFIG]
    assert "etag" not in response.headers
    head = client.head(T)
    assert (head.status_code, head.content) == (204, b"")
    missing = client.head(f"{TABLES}/missing")
    assert (missing.status_code, missing.content) == (404, b"")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_tables_of_every_format_are_committed_and_read_by_pyiceberg(
    client: httpx.Client, version: int
) -> None:
    metadata = make_table(client, format_version=version)["metadata"]
    for snapshot_id in (11, 12):
        metadata = ok(commit(client, *append(metadata, snapshot_id)))["metadata"]
    read = read_by_pyiceberg(client.get(T).content.partition(b'"metadata":')[2].rpartition(b',"config"')[0])
    assert (read.format_version, read.current_snapshot_id, len(read.snapshots)) == (version, 12, 2)


def test_a_commit_under_a_lease_is_seen(world: World, client: httpx.Client) -> None:
    metadata = make_table(client)["metadata"]
    ok(commit(client, *append(metadata, 11, rows=7)))
    assert world.seen.commits == [
        CommitSeen(LeaseId("Lwill"), TableName(("db",), "t"), {"operation": "append", "added-records": "7"})
    ]
    assert ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}", 200) in world.seen.answers


def test_a_staged_table_is_created_by_its_commit(client: httpx.Client) -> None:
    staged = ok(client.post(TABLES, json=create_request() | {"stage-create": True}))
    assert "metadata-location" not in staged
    assert problem(client.get(T)) == (404, "NoSuchTableException")
    updates = [*staged_updates(staged["metadata"]), *append(staged["metadata"], 1)]
    create = [{"type": "assert-create"}]
    made = ok(commit(client, *updates, requirements=create))
    assert made["metadata"]["current-snapshot-id"] == 1
    assert problem(commit(client, *updates, requirements=create)) == (409, "CommitFailedException")


def test_a_transaction_over_two_tables(client: httpx.Client) -> None:
    make_table(client)
    make_table(client, "u")

    def change(name: str, **more: Any) -> Json:
        identifier = {"namespace": ["db"], "name": name}
        return {"identifier": identifier, "requirements": [], "updates": [set_properties(a="b")], **more}

    stale = [{"type": "assert-default-spec-id", "default-spec-id": 9}]
    both = {"table-changes": [change("t"), change("u", requirements=stale)]}
    assert problem(client.post("/transactions/commit", json=both)) == (409, "CommitFailedException")
    assert "a" not in ok(client.get(T))["metadata"]["properties"]
    response = client.post("/transactions/commit", json={"table-changes": [change("t"), change("u")]})
    assert response.status_code == 204
    assert ok(client.get(f"{TABLES}/u"))["metadata"]["properties"]["a"] == "b"
    nameless: Json = {"table-changes": [{"requirements": [], "updates": []}]}
    assert problem(client.post("/transactions/commit", json=nameless)) == (400, "BadRequestException")


def test_a_table_is_renamed_dropped_and_purged(world: World, client: httpx.Client) -> None:
    make_table(client)
    names = {
        "source": {"namespace": ["db"], "name": "t"},
        "destination": {"namespace": ["db"], "name": "odd / name+é"},
    }
    assert client.post("/tables/rename", json=names).status_code == 204
    path = f"{TABLES}/{quote_plus('odd / name+é')}"
    made = ok(client.get(path))
    assert ok(client.get(TABLES))["identifiers"] == [names["destination"]]
    directory = Path(made["metadata"]["location"].removeprefix("file:"))
    assert directory.is_dir()
    assert client.delete(path, params={"purgeRequested": "true"}).status_code == 204
    assert not directory.exists()
    assert problem(client.delete(path)) == (404, "NoSuchTableException")
    assert problem(client.post("/tables/rename", json=names)) == (404, "NoSuchTableException")


def test_views_by_the_protocol(client: httpx.Client) -> None:
    views = "/namespaces/db/views"
    made = ok(client.post(views, json=view_request()))
    assert ok(client.get(f"{views}/v")) == made
    assert client.head(f"{views}/v").status_code == 204
    assert problem(client.post(TABLES, json=create_request("v"))) == (409, "AlreadyExistsException")
    assert problem(client.get(f"{TABLES}/v")) == (404, "NoSuchTableException")
    updates = [
        {"action": "add-view-version", "view-version": view_request("select 2")["view-version"]},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    uuid = [{"type": "assert-view-uuid", "uuid": made["metadata"]["view-uuid"]}]
    assert (
        ok(commit(client, *updates, path=f"{views}/v", requirements=uuid))["metadata"]["current-version-id"]
        == 2
    )
    names = {"source": {"namespace": ["db"], "name": "v"}, "destination": {"namespace": ["db"], "name": "w"}}
    assert client.post("/views/rename", json=names).status_code == 204
    assert ok(client.get(views))["identifiers"] == [names["destination"]]
    assert client.delete(f"{views}/w").status_code == 204
    assert problem(client.get(f"{views}/w")) == (404, "NoSuchViewException")


def test_only_an_administrator_registers_tables(world: World) -> None:
    with world.client() as writer, world.client(ADMIN) as admin:
        location = make_table(writer)["metadata-location"]
        writer.delete(T)
        body = {"name": "back", "metadata-location": location}
        assert problem(writer.post("/namespaces/db/register", json=body))[0] == 403
        ok(admin.post("/namespaces/db/register", json=body))
        assert problem(admin.post("/namespaces/db/register", json=body | {"name": "twice"}))[0] == 400
        elsewhere = {"name": "x", "metadata-location": "file:/etc/passwd"}
        assert problem(admin.post("/namespaces/db/register", json=elsewhere))[0] == 400


def test_of_two_writers_that_conflict_one_is_told_and_nothing_is_lost(world: World) -> None:
    with world.client() as client:
        make_table(client)
    barrier = threading.Barrier(2)

    def insert(writer: int) -> int:
        conflicts = 0
        with world.client() as client:
            barrier.wait()
            for number in range(15):
                while True:
                    metadata = ok(client.get(T))["metadata"]
                    current = metadata["refs"].get("main", {}).get("snapshot-id")
                    unmoved = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": current}]
                    updates = append(metadata, writer * 1000 + number + 1)
                    response = commit(client, *updates, requirements=unmoved)
                    if response.is_success:
                        break
                    assert problem(response) == (409, "CommitFailedException")
                    conflicts += 1
        return conflicts

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(insert, (1, 2))) >= 0
    with world.client() as client:
        metadata = ok(client.get(T))["metadata"]
    assert len(metadata["snapshots"]) == metadata["last-sequence-number"] == 30


def test_a_failure_inside_tells_the_engine_nothing_but_that(world: World, client: httpx.Client) -> None:
    make_table(client)
    shutil.rmtree(world.warehouse)
    world.warehouse.write_text("a file where a directory should be")
    response = commit(client, set_properties(a="b"))
    assert problem(response) == (500, "ServerError")
    assert str(world.warehouse) not in response.text
    assert ok(client.get(T))["metadata"]["properties"].get("a") is None


def test_an_observer_that_fails_does_not_undo_a_commit(world: World, client: httpx.Client) -> None:
    metadata = make_table(client)["metadata"]
    world.seen.fails = True
    assert ok(commit(client, *append(metadata, 11)))["metadata"]["current-snapshot-id"] == 11


def test_metadata_that_is_not_in_memory_is_read_from_its_file(tmp_path: Path) -> None:
    backend = MemoryBackend()
    with running_world(backend, tmp_path / "warehouse") as first, first.client() as client:
        made = make_table(client)
    service = CatalogService(backend, tmp_path / "warehouse")
    lent = Lent({"s": (LeaseId("L"), ADMIN)})
    server = FacadeServer(service, lent, CREDENTIAL)
    port = server.start()
    headers = {"authorization": f"Bearer {CREDENTIAL}", "x-bailiwick-session": "s", "x-bailiwick-lease": "L"}
    loaded = ok(httpx.get(f"http://127.0.0.1:{port}/iceberg/v1{T}", headers=headers))
    assert loaded["metadata"] == made["metadata"]
    server.stop()


def test_a_stopped_server_is_gone(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    server = FacadeServer(CatalogService(MemoryBackend(), tmp_path), Lent(), CREDENTIAL)
    port = server.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert client.get("/iceberg/v1/config").status_code == 401
        server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/iceberg/v1/config")
    assert not set(threading.enumerate()) - before

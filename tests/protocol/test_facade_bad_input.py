"""What the facade does with requests that no engine of ours would send."""

from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote_plus

import httpx
import pytest
from facade_world import TABLES, T, World, commit, make_table, ok, problem, running_world

from bailiwick.catalog.facade import BODY_BYTES_MAX
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.wire import Json
from bailiwick.testing.iceberg import append, create_request


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(MemoryBackend(), tmp_path / "warehouse") as running:
        yield running


@pytest.fixture
def client(world: World) -> Iterator[httpx.Client]:
    with world.client() as made:
        yield made


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"requirements": [], "updates": NaN}',
        b'{"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": 1e999}}]}',
        b'{"requirements": {}, "updates": []}',
        b'{"requirements": [], "updates": [{"action": "become-a-teapot"}]}',
        b'{"requirements": [{"type": "assert-nothing"}], "updates": []}',
        b'{"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": null}]}',
        b'{"requirements": [], "updates": ' + b"[" * 100_000,
        b'{"requirements": [], "updates": [], "x": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_body_that_makes_no_sense_is_refused_and_changes_nothing(client: httpx.Client, body: bytes) -> None:
    before = make_table(client)
    assert problem(client.post(T, content=body)) == (400, "BadRequestException")
    assert problem(client.post(TABLES, content=body)) == (400, "BadRequestException")
    assert problem(client.post("/namespaces", content=body)) == (400, "BadRequestException")
    assert ok(client.get(T))["metadata"] == before["metadata"]


def test_a_null_parent_cannot_make_a_table_unreadable(client: httpx.Client) -> None:
    metadata = make_table(client)["metadata"]
    add, set_main = append(metadata, 11)
    add["snapshot"]["parent-snapshot-id"] = None
    assert problem(commit(client, add, set_main)) == (400, "BadRequestException")
    ok(client.get(T))


def test_a_body_beyond_the_limit_is_refused_however_it_is_sent(client: httpx.Client) -> None:
    make_table(client)
    large = b" " * (BODY_BYTES_MAX + 1)
    assert client.post(T, content=large).status_code == 413

    def chunks() -> Iterator[bytes]:
        for _ in range(17):
            yield b" " * (1 << 20)

    assert client.post(T, content=chunks()).status_code == 413
    ok(client.get(T))


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-location", "location": "file:/elsewhere"},
        {"action": "assign-uuid", "uuid": "11111111-1111-4111-8111-111111111111"},
        {"action": "set-properties", "updates": {"write.data.path": "file:/elsewhere"}},
        {"action": "set-properties", "updates": {"write.metadata.path": "file:/elsewhere"}},
        {"action": "set-properties", "updates": {"write.object-storage.path": "s3://elsewhere"}},
    ],
)
def test_a_table_cannot_leave_its_place(world: World, client: httpx.Client, update: Json) -> None:
    before = make_table(client)
    assert problem(commit(client, update)) == (400, "BadRequestException")
    assert ok(client.get(T))["metadata"] == before["metadata"]
    outside = create_request("u") | {"location": "file:/elsewhere"}
    assert problem(client.post(TABLES, json=outside)) == (400, "BadRequestException")
    add = append(before["metadata"], 11)[0]
    add["snapshot"]["manifest-list"] = f"file:{world.warehouse}/db/other-0123456789abcdef/metadata/snap.avro"
    assert problem(commit(client, add)) == (400, "BadRequestException")


@pytest.mark.parametrize("name", ["../../etc", "a/b", "a\\b", "%2e%2e", "x" * 255, "né", "a.b", "`"])
def test_odd_names_stay_in_the_warehouse(world: World, client: httpx.Client, name: str) -> None:
    made = make_table(client, name)
    path = Path(made["metadata"]["location"].removeprefix("file:"))
    assert world.warehouse / "db" == path.resolve().parent
    assert ok(client.get(f"{TABLES}/{quote_plus(name)}"))["metadata"] == made["metadata"]


@pytest.mark.parametrize("name", ["", "x" * 256, "a\x1fb", "a\nb"])
def test_impossible_names_are_refused_or_not_found(client: httpx.Client, name: str) -> None:
    assert problem(client.post(TABLES, json=create_request(name))) == (400, "BadRequestException")
    if name:
        assert problem(client.get(f"{TABLES}/{quote_plus(name)}")) == (404, "NoSuchTableException")


def test_a_name_of_ten_million_letters_does_not_exist(world: World) -> None:
    with world.client() as client, closing(HTTPConnection("127.0.0.1", world.port, timeout=30)) as raw:
        raw.request("GET", f"/iceberg/v1{TABLES}/{'x' * 10_000_000}", headers=dict(client.headers))
        response = raw.getresponse()
        body = response.read()
    assert response.status == 404
    assert b"NoSuchTableException" in body
    assert len(body) < 1000


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/namespaces/db/tables/t/metrics"),
        ("POST", "/namespaces/db/tables/t/metrics"),
        ("PUT", "/namespaces"),
        ("PATCH", T),
        ("POST", "/oauth/tokens"),
        ("GET", "/../../healthz"),
    ],
)
def test_what_is_not_served_is_not_found(client: httpx.Client, method: str, path: str) -> None:
    assert problem(client.request(method, path)) == (404, "NotFoundException")


def test_malformed_paths_and_parameters_are_refused(client: httpx.Client) -> None:
    assert problem(client.get(f"{TABLES}/%ff")) == (400, "BadRequestException")
    many = "&".join(f"a{number}=b" for number in range(50))
    assert problem(client.get(f"{T}?{many}")) == (400, "BadRequestException")
    assert problem(client.get("/namespaces?parent=%ff")) == (400, "BadRequestException")

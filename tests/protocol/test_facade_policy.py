"""How policy shows on the wire between an engine and the catalog."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from facade_world import (
    ADMIN,
    NOBODY,
    READER,
    TABLES,
    T,
    World,
    commit,
    make_table,
    ok,
    problem,
    running_world,
)

from bailiwick.catalog import canary
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.wire import Json
from bailiwick.names import TableName
from bailiwick.policy.model import (
    BoundColumn,
    Grant,
    Grantee,
    Policies,
    Privilege,
    RowFilter,
    Securable,
)
from bailiwick.policy.stamp import POLICY_HEADER, STAMP_CONFIG
from bailiwick.testing.iceberg import create_request, set_properties
from bailiwick.testing.manifests import append

KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(MemoryBackend(), tmp_path / "warehouse") as running:
        yield running


def restricted(world: World) -> None:
    """The reader may read `t`, by a filter that reads `people`."""
    name = TableName(("db",), "t")
    on = Securable.table("lake", name, world.service.find(name).uuid)
    rule = RowFilter(
        "known",
        on,
        frozenset({Grantee.user(READER.name)}),
        frozenset(),
        "id IN (SELECT id FROM lake.db.people)",
        (BoundColumn("id", 1),),
        ("lake.db.people",),
    )
    grant = Grant("9", Grantee.user(READER.name), on, Privilege.SELECT)
    world.lent.policies = Policies(7, grants=(*world.lent.policies.grants[:0], grant), filters=(rule,))


def test_a_load_is_stamped_for_the_lease_that_asks(world: World) -> None:
    with world.client() as writer:
        make_table(writer)
        make_table(writer, "people")
    restricted(world)
    with world.client(READER) as reader:
        stamp = world.stamp_key.open(ok(reader.get(T))["config"][STAMP_CONFIG])
        assert (stamp.lease, stamp.policy_version, stamp.principal) == ("Lrita", 7, "rita")
        assert stamp.tables == {"lake.db.people"}


def test_rules_read_their_tables_under_the_stamp_of_what_they_guard(world: World) -> None:
    with world.client() as writer:
        for name in ("t", "people", "other"):
            make_table(writer, name)
    restricted(world)
    with world.client(READER) as reader:
        sealed = {POLICY_HEADER: ok(reader.get(T))["config"][STAMP_CONFIG]}
        assert problem(reader.get(f"{TABLES}/people")) == (404, "NoSuchTableException")
        loaded = ok(reader.get(f"{TABLES}/people", headers=sealed))
        assert world.stamp_key.open(loaded["config"][STAMP_CONFIG]).for_policy
        assert problem(reader.get(f"{TABLES}/other", headers=sealed)) == (404, "NoSuchTableException")
        assert problem(reader.delete(f"{TABLES}/people", headers=sealed))[0] == 403
    with world.client(NOBODY, sealed) as nobody:
        assert problem(nobody.get(f"{TABLES}/people"))[0] == 403


def test_only_the_canary_sees_its_table(world: World) -> None:
    path = f"/namespaces/{canary.TABLE.namespace[0]}/tables/{canary.TABLE.name}"
    with world.client(canary.PRINCIPAL) as bird:
        assert ok(bird.get(path))["config"] == {}
    with world.client(ADMIN) as admin:
        assert problem(admin.get(path)) == (404, "NoSuchTableException")


def test_keys_are_announced_and_honoured(world: World) -> None:
    with world.client() as client:
        assert ok(client.get("/config"))["idempotency-key-lifetime"] == "PT24H"
        metadata: Json = make_table(client)["metadata"]
        body = {"requirements": [], "updates": append(metadata, 11)}
        key = {"idempotency-key": KEY}
        first, again = (client.post(T, json=body, headers=key) for _ in range(2))
        assert ok(first)["metadata"] == ok(again)["metadata"]
        other = {"requirements": [], "updates": [set_properties(a="b")]}
        assert problem(client.post(T, json=other, headers=key)) == (422, "UnprocessableEntityException")
        assert problem(client.post(T, json=other, headers={"idempotency-key": "x"}))[0] == 400
        assert len(ok(client.get(T))["metadata"]["snapshots"]) == 1
    assert len(world.seen.commits) == 1


def test_the_observer_hears_of_every_decision_and_how_it_ended(world: World) -> None:
    with world.client() as writer:
        make_table(writer)
    world.seen.decisions.clear()
    with world.client(READER) as reader:
        ok(reader.get(T))
        assert problem(commit(reader, set_properties(a="b")))[0] == 403
        assert (
            problem(reader.post(TABLES, json=create_request("u"), headers={"idempotency-key": KEY}))[0] == 403
        )
    load, change, create = world.seen.decisions
    assert (load.principal, load.lease, load.status) == (READER, "Lrita", 200)
    assert [item.what for item in load.decided] == ["lake.db.t"]
    assert (change.status, change.message) == (403, "user:rita lacks alter on table lake.db.t.")
    assert [(item.privileges, item.is_allowed) for item in change.decided] == [((Privilege.ALTER,), False)]
    assert (create.message, create.idempotency_key) == ("user:rita lacks create on namespace lake.db.", KEY)
    assert create.policy_version == world.lent.policies.version


def test_a_lease_that_passes_on_between_load_and_commit_commits_nothing(world: World) -> None:
    with world.client() as client:
        metadata = make_table(client)["metadata"]
        # The session's next lease is somebody else's; the engine still sends the old one.
        session = f"session-{'will'}"
        lease, _ = world.lent.current[session]
        world.lent.current[session] = (type(lease)("Lnext"), READER)
        assert problem(commit(client, *append(metadata, 11))) == (403, "ForbiddenException")
        world.lent.current[session] = (lease, READER)
        assert problem(commit(client, *append(metadata, 11)))[0] == 403
    assert not world.seen.commits


def test_no_answer_carries_an_etag(world: World) -> None:
    with world.client() as client:
        made = client.post(TABLES, json=create_request("t"))
        responses: list[httpx.Response] = [made, client.get(T), commit(client, set_properties(a="b"))]
    assert not any("etag" in response.headers for response in responses)

"""A change that is sent twice under one key is made once, and one can ask what became of it."""

import threading
import uuid as uuids
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from catalog_desk import ADMIN, ANN, BOB, Desk, T

from bailiwick.catalog import idempotency, wire
from bailiwick.catalog.idempotency import CommitState, Idempotency
from bailiwick.catalog.refusals import (
    BadRequestError,
    CatalogError,
    ForbiddenError,
    KeyReusedError,
    StillBusyError,
)
from bailiwick.catalog.routes import Route
from bailiwick.catalog.sql import SqlBackend
from bailiwick.catalog.state import Witness
from bailiwick.identity.principal import Principal
from bailiwick.policy.model import Privilege
from bailiwick.policy.stamp import STAMP_CONFIG
from bailiwick.testing.databases import opened_database
from bailiwick.testing.iceberg import create_request, set_properties
from bailiwick.testing.manifests import append

KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
NOW = 1_700_000_000.0


def key_of(seconds: float) -> str:
    """A key of version 7 that was made at this time."""
    milliseconds = int(seconds * 1000)
    value = uuids.UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62) | uuids.uuid4().int >> 70)
    assert value.version == 7
    return str(value)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "warehouse")


def test_the_second_time_gets_the_first_answer_and_changes_nothing(desk: Desk) -> None:
    updates = append(desk.metadata(), 1)
    first = desk.commit(ADMIN, *updates, idempotency_key=KEY)
    desk.commit(ADMIN, set_properties(later="yes"))
    version = desk.service.version
    again = desk.commit(ADMIN, *updates, idempotency_key=KEY.upper())
    parsed, replayed = wire.parsed_object(first.body), wire.parsed_object(again.body)
    assert (again.status, replayed["metadata"]) == (first.status, parsed["metadata"])
    assert replayed["metadata-location"] == parsed["metadata-location"]
    assert desk.service.version == version
    # A snapshot is told of once.
    assert (len(first.committed), again.committed) == (1, ())


def test_the_answer_has_a_stamp_for_whoever_asks_now(desk: Desk) -> None:
    update = set_properties(a="b")
    desk.commit(ADMIN, update, idempotency_key=KEY)
    again = desk.commit(ADMIN, update, idempotency_key=KEY, lease="Lnext")
    stamp = desk.key.open(wire.parsed_object(again.body)["config"][STAMP_CONFIG])
    assert stamp.lease == "Lnext"


@pytest.mark.parametrize(
    ("route", "name", "namespace", "body", "status"),
    [
        (Route.CREATE_NAMESPACE, "", (), {"namespace": ["n"], "properties": {"a": "b"}}, 200),
        (Route.UPDATE_NAMESPACE, "", ("db",), {"updates": {"a": "b"}}, 200),
        (Route.CREATE_TABLE, "", ("db",), create_request("new"), 200),
        (Route.DROP_TABLE, "t", ("db",), None, 204),
        (
            Route.RENAME_TABLE,
            "",
            (),
            {"source": {"namespace": ["db"], "name": "t"}, "destination": {"namespace": ["db"], "name": "u"}},
            204,
        ),
    ],
)
def test_every_kind_of_change_is_made_once(
    desk: Desk, route: Route, name: str, namespace: Any, body: Any, status: int
) -> None:
    first = desk.ask(route, ADMIN, name, body, namespace=namespace, idempotency_key=KEY)
    again = desk.ask(route, ADMIN, name, body, namespace=namespace, idempotency_key=KEY)
    assert first.status == again.status == status
    if status == 200 and "TABLE" not in route.name:
        assert first.body == again.body


def test_a_transaction_is_made_once(desk: Desk) -> None:
    change = {
        "identifier": {"namespace": ["db"], "name": "t"},
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}],
        "updates": append(desk.metadata(), 1),
    }
    for _ in range(2):
        answer = desk.ask(
            Route.COMMIT_TRANSACTION, ADMIN, body={"table-changes": [change]}, idempotency_key=KEY
        )
        assert answer.status == 204
    assert len(desk.metadata()["snapshots"]) == 1


def test_a_change_of_nothing_is_known_too(desk: Desk) -> None:
    for _ in range(2):
        assert desk.commit(ADMIN, idempotency_key=KEY).status == 200
    assert desk.service.idempotency.shown(KEY, ADMIN).state is CommitState.COMMITTED


def test_the_same_key_with_something_else_is_refused(desk: Desk) -> None:
    desk.commit(ADMIN, set_properties(a="b"), idempotency_key=KEY)
    with pytest.raises(KeyReusedError):
        desk.commit(ADMIN, set_properties(a="c"), idempotency_key=KEY)
    with pytest.raises(KeyReusedError):
        desk.ask(Route.DROP_TABLE, ADMIN, idempotency_key=KEY)
    assert desk.metadata()["properties"]["a"] == "b"


def test_the_same_key_from_somebody_else_is_refused_and_tells_nothing(desk: Desk) -> None:
    desk.commit(ADMIN, set_properties(a="b"), idempotency_key=KEY)
    desk.grant(ANN, "lake.db.t", Privilege.OWN)
    with pytest.raises(KeyReusedError) as refused:
        desk.commit(ANN, set_properties(a="b"), idempotency_key=KEY)
    assert "ada" not in refused.value.message


@pytest.mark.parametrize("key", ["x", "0" * 36, "{017f22e2-79b0-7cc3-98c4-dc0c0c0739}", f"{KEY}0"])
def test_a_key_is_a_uuid(desk: Desk, key: str) -> None:
    with pytest.raises(BadRequestError):
        desk.commit(ADMIN, set_properties(a="b"), idempotency_key=key)


def test_what_was_refused_may_be_tried_again(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.SELECT)
    with pytest.raises(ForbiddenError):
        desk.commit(ANN, set_properties(a="b"), idempotency_key=KEY)
    assert desk.backend.outcome(KEY) is None
    desk.grant(ANN, "lake.db.t", Privilege.ALTER)
    assert desk.commit(ANN, set_properties(a="b"), idempotency_key=KEY).status == 200


def test_a_commit_of_an_ended_lease_leaves_no_trace(desk: Desk) -> None:
    def ended() -> Witness | None:
        raise ForbiddenError("the lease of this session has ended")

    with pytest.raises(ForbiddenError):
        desk.commit(ADMIN, set_properties(a="b"), idempotency_key=KEY, fence=ended)
    assert desk.backend.outcome(KEY) is None
    assert "a" not in desk.metadata()["properties"]


def test_two_at_once_make_one_change(desk: Desk) -> None:
    updates = append(desk.metadata(), 1)
    barrier = threading.Barrier(6)

    def send(_: int) -> int:
        barrier.wait()
        return desk.commit(ADMIN, *updates, idempotency_key=KEY).status

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(send, range(6))) == {200}
    assert len(desk.metadata()["snapshots"]) == 1


def test_one_does_not_wait_for_ever(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "WAIT_S", 0.01)
    inside, leave = threading.Event(), threading.Event()

    def slow() -> None:
        inside.set()
        assert leave.wait(10)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(desk.commit, ADMIN, set_properties(a="b"), idempotency_key=KEY, fence=slow)
        assert inside.wait(10)
        assert desk.service.idempotency.shown(KEY, ADMIN).state is CommitState.UNKNOWN
        with pytest.raises(StillBusyError):
            desk.commit(ADMIN, set_properties(a="b"), idempotency_key=KEY)
        leave.set()
        assert running.result().status == 200


def test_the_answer_survives_a_restart(tmp_path: Path) -> None:
    database = opened_database(tmp_path / "bailiwick.db")
    first = Desk(tmp_path / "warehouse", SqlBackend(database.synchronous))
    updates = append(first.metadata(), 1)
    made = first.commit(ADMIN, *updates, idempotency_key=KEY)
    again = Desk(tmp_path / "warehouse", SqlBackend(database.synchronous))
    replayed = again.commit(ADMIN, *updates, idempotency_key=KEY)
    assert wire.parsed_object(replayed.body)["metadata"] == wire.parsed_object(made.body)["metadata"]
    assert len(again.metadata()["snapshots"]) == 1
    shown = again.service.idempotency.shown(KEY, ADMIN)
    assert shown.state is CommitState.COMMITTED
    assert shown.outcome is not None
    assert [place.name for place in shown.outcome.places] == [T]
    database.synchronous_reads.dispose()
    database.synchronous.dispose()


def test_if_the_first_answer_is_gone_the_table_is_shown_as_it_is(desk: Desk) -> None:
    first = wire.parsed_object(desk.commit(ADMIN, set_properties(a="b"), idempotency_key=KEY).body)
    desk.commit(ADMIN, set_properties(c="d"))
    Path(first["metadata-location"].removeprefix("file:")).unlink()
    again = wire.parsed_object(desk.commit(ADMIN, set_properties(a="b"), idempotency_key=KEY).body)
    assert again["metadata"] == desk.metadata()
    desk.service.drop(T)
    with pytest.raises(CatalogError):
        desk.commit(ADMIN, set_properties(a="b"), idempotency_key=KEY)


# --- what became of it


def known(desk: Desk, now: float = NOW) -> Idempotency:
    return Idempotency(desk.backend, now=lambda: now)


def test_what_was_done_is_committed_to_its_maker_and_to_those_who_see_all(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.ALTER)
    desk.commit(ANN, set_properties(a="b"), idempotency_key=KEY)
    auditor = Principal("aud", frozenset({"auditor"}))
    for who, state in (
        (ANN, CommitState.COMMITTED),
        (ADMIN, CommitState.COMMITTED),
        (auditor, CommitState.COMMITTED),
        (BOB, CommitState.UNKNOWN),
        (replace(ANN, tenant="other"), CommitState.UNKNOWN),
    ):
        assert desk.service.idempotency.shown(KEY, who).state is state


def test_a_young_key_that_nobody_used_was_not_committed(desk: Desk) -> None:
    assert known(desk).shown(key_of(NOW - 60), ANN).state is CommitState.NOT_COMMITTED


@pytest.mark.parametrize(
    "key", [key_of(NOW - idempotency.LIFETIME_S - 1), key_of(NOW + 4000), str(uuids.uuid4())]
)
def test_of_other_keys_nothing_is_known(desk: Desk, key: str) -> None:
    assert known(desk).shown(key, ANN).state is CommitState.UNKNOWN


def test_once_outcomes_were_forgotten_older_keys_are_unknown(desk: Desk) -> None:
    calls = desk.calls
    for offset, key in ((0.0, key_of(NOW)), (idempotency.LIFETIME_S + 2 * idempotency.GRACE_S, KEY)):
        calls.idempotency._now = lambda offset=offset: NOW + offset  # type: ignore[misc]
        desk.commit(ADMIN, set_properties(a=key), idempotency_key=key)
    assert desk.backend.outcome(KEY) is not None
    assert desk.backend.known_since() >= NOW
    assert known(desk, NOW + 60).shown(key_of(NOW - 5), ADMIN).state is CommitState.UNKNOWN

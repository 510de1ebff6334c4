"""Tenants on a real gateway: what one does is not there for another, and neither can crowd the other out."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bailiwick.testing.asking import ENDLESS, failure, in_background, rows, value, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.raw_flight import Refused, raw_flight

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PASSWORD = "a long password"
SETTINGS = {
    "BAILIWICK__POOL__SESSIONS": "2",
    "BAILIWICK__POOL__LONG_RUNNING_MAX": "0",
    "BAILIWICK__POOL__RUNNING_PER_TENANT_MAX": "1",
    "BAILIWICK__POOL__QUEUE_LENGTH_PER_TENANT_MAX": "1",
    "BAILIWICK__POOL__QUEUE_WAIT_S": "15",
    "BAILIWICK__IDENTITY__FAILURE_DELAY_S": "0",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway of two tenants, `acme` and `globex`."""
    data_dir: Path = tmp_path_factory.mktemp("tenants") / "data"
    with running_gateway(data_dir, settings=SETTINGS) as gateway:
        for name, role, tenant in [
            ("ann", "reader", "acme"),
            ("abe", "reader", "acme"),
            ("ada", "operator", "acme"),
            ("gus", "reader", "globex"),
            ("gil", "operator", "globex"),
        ]:
            rows(gateway, f"CREATE USER {name} PASSWORD '{PASSWORD}' ROLES ({role}) TENANT '{tenant}'")
        yield gateway


def ask(gateway: RunningGateway, sql: str, who: str) -> list[tuple[object, ...]]:
    return rows(gateway, sql, who, PASSWORD)


def test_what_a_tenant_runs_is_not_there_for_another(shared: RunningGateway) -> None:
    ask(shared, "SELECT 'of acme'", "ann")
    sql = "SELECT DISTINCT tenant FROM system.runtime.queries ORDER BY 1"
    assert ask(shared, sql, "ada") == [("acme",)]
    assert ask(shared, sql, "gil") == [("globex",)]
    assert {tenant for (tenant,) in rows(shared, sql)} >= {"acme", "globex", "default"}
    sessions = "SELECT DISTINCT tenant FROM system.runtime.sessions"
    assert ask(shared, sessions, "ada") == [("acme",)]
    assert ask(shared, sessions, "gil") == [("globex",)]


def test_a_tenants_query_cannot_be_ended_from_another(shared: RunningGateway) -> None:
    with in_background(lambda: failure(shared, ENDLESS, "ann", PASSWORD)) as ended:
        query_id = wait_until("running", lambda: running(shared, "ann"))
        hidden = failure(shared, f"CANCEL QUERY '{query_id}'", "gil", PASSWORD)
        missing = failure(shared, "CANCEL QUERY 'q0'", "gil", PASSWORD)
        assert without_ids(hidden, query_id) == without_ids(missing, "q0")
        ask(shared, f"CANCEL QUERY '{query_id}'", "ada")
        assert "QUERY_CANCELLED" in ended.result(60)


def test_tickets_and_prepared_statements_are_good_for_their_owner_only(shared: RunningGateway) -> None:
    with raw_flight(shared.grpc_address, basic=("ann", PASSWORD)) as ann:
        ticket, handle = ann.ticket("SELECT 1"), ann.prepare("SELECT 1")
        assert ann.fetch(ticket).num_rows == ann.run_prepared(handle).num_rows == 1
    for other in ("abe", "ada", "gil", "admin"):
        password = PASSWORD if other != "admin" else shared.admin_password
        with raw_flight(shared.grpc_address, basic=(other, password)) as client:
            with pytest.raises(Refused, match="This ticket is not known here"):
                client.fetch(ticket)
            with pytest.raises(Refused, match="This prepared statement is not known here"):
                client.run_prepared(handle)


def test_a_tenant_runs_and_queues_no_more_than_it_may_and_others_are_served(shared: RunningGateway) -> None:
    # Beside a query that keeps every core busy, opening one anew would take long.
    wait_until("both sessions are there", lambda: sessions_of(shared) == 2, timeout_s=120)
    with (
        in_background(lambda: failure(shared, ENDLESS, "ann", PASSWORD)) as busy,
        ThreadPoolExecutor(3) as pool,
    ):
        query_id = wait_until("running", lambda: running(shared, "ann"))
        try:
            # One of them waits until that is too long, the others do not get that far.
            told = list(
                pool.map(lambda who: failure(shared, "SELECT 1", who, PASSWORD), ("ann", "abe", "ada"))
            )
            # The second place is free all the time, for anybody else.
            assert ask(shared, "SELECT 1", "gus") == [(1,)]
            assert value(shared, "SELECT 1") == 1
        finally:
            rows(shared, f"CANCEL QUERY '{query_id}'")
        assert "QUERY_CANCELLED" in busy.result(60)
    assert all("RESOURCE_EXHAUSTED" in each for each in told)
    assert sum("Too many queries of your tenant are waiting" in each for each in told) == 2
    assert sum("waited too long" in each for each in told) == 1
    assert ask(shared, "SELECT 1", "abe") == [(1,)]


def test_a_user_who_is_moved_signs_in_again_and_leaves_the_past_behind(shared: RunningGateway) -> None:
    rows(shared, f"CREATE USER mo PASSWORD '{PASSWORD}' TENANT 'acme'")
    with raw_flight(shared.grpc_address, basic=("mo", PASSWORD)) as client:
        client.fetch(client.ticket("SELECT 1"))
        rows(shared, "ALTER USER mo TENANT 'globex'")
        with pytest.raises(Refused) as refused:
            client.ticket("SELECT 1")
        assert refused.value.code == "SESSION_EXPIRED"
    seen = ask(shared, "SELECT DISTINCT tenant FROM system.runtime.queries", "mo")
    assert seen == [("globex",)]
    of_mo = "SELECT DISTINCT tenant FROM system.runtime.queries WHERE principal = 'mo' ORDER BY 1"
    assert rows(shared, of_mo) == [("acme",), ("globex",)]


def sessions_of(gateway: RunningGateway) -> object:
    """How many its engine has ready or in use."""
    return value(gateway, "SELECT sessions FROM system.runtime.nodes")


def running(gateway: RunningGateway, who: str) -> str:
    """The id of a running query of theirs, or nothing."""
    sql = f"SELECT query_id FROM system.runtime.queries WHERE state = 'running' AND principal = '{who}'"
    found = rows(gateway, sql)
    return str(found[0][0]) if found else ""


def without_ids(message: str, query_id: str) -> str:
    """The message, without the id it is about and the id of the statement that asked."""
    return message.replace(query_id, "…").split("(query ")[0]

"""Acting on behalf of others on a real gateway: by rule only, with both names, and for that pair only."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.identity.impersonation import ON_BEHALF_OF_HEADER
from bailiwick.testing.asking import failure, rows, value
from bailiwick.testing.gateway import RunningGateway
from bailiwick.testing.raw_flight import RawFlight, Refused, raw_flight, sign_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PASSWORD = "a long password"
SVC, BOB, CAROL = "acting_svc", "acting_bob", "acting_carol"
READ = "SELECT n FROM lake.acting.bobs"


@pytest.fixture(scope="module", autouse=True)
def people(gateway: RunningGateway) -> None:
    for name in (SVC, BOB, CAROL):
        rows(gateway, f"CREATE USER {name} PASSWORD '{PASSWORD}'")
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS acting")
    rows(gateway, "CREATE TABLE IF NOT EXISTS acting.bobs AS SELECT 42 AS n")
    rows(gateway, f"GRANT SELECT ON TABLE lake.acting.bobs TO USER {BOB}")
    rows(gateway, f"GRANT IMPERSONATE ON USER {BOB} TO USER {SVC}")


@contextmanager
def acting(gateway: RunningGateway, subject: str, who: str = SVC) -> Iterator[Any]:
    header = {f"adbc.flight.sql.rpc.call_header.{ON_BEHALF_OF_HEADER}": subject}
    password = gateway.admin_password if who == "admin" else PASSWORD
    with gateway.connect(who, password, options=header) as connection:
        yield connection


def ask(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def refusal(gateway: RunningGateway, subject: str, who: str = SVC) -> str:
    with pytest.raises(AdbcError) as refused, acting(gateway, subject, who) as connection:
        ask(connection, "SELECT 1")
    return str(refused.value)


def test_what_the_subject_may_is_what_the_actor_gets_and_no_more(gateway: RunningGateway) -> None:
    assert "TABLE_NOT_FOUND" in failure(gateway, READ, SVC, PASSWORD)
    with acting(gateway, BOB) as connection:
        assert ask(connection, READ) == [(42,)]
        assert ask(connection, "SELECT current_user()") == [(BOB,)]
        with pytest.raises(AdbcError, match="TABLE_NOT_FOUND"):
            ask(connection, "SELECT * FROM lake.acting.missing")
    assert "TABLE_NOT_FOUND" in failure(gateway, READ, SVC, PASSWORD)


def test_both_names_are_on_record(gateway: RunningGateway) -> None:
    with acting(gateway, BOB) as connection:
        ask(connection, "SELECT 'on record'")
        sessions = ask(connection, "SELECT DISTINCT principal, actor FROM system.runtime.sessions")
    assert (BOB, SVC) in sessions
    sql = "SELECT DISTINCT principal, actor FROM system.runtime.queries WHERE sql = 'SELECT ''on record'''"
    assert rows(gateway, sql) == [(BOB, SVC)]
    assert rows(gateway, sql, BOB, PASSWORD) == [(BOB, SVC)]
    audited = "SELECT count(*) FROM system.runtime.audit WHERE principal = '{}' AND actor = '{}'"
    assert value(gateway, audited.format(BOB, SVC)) >= 1


def test_without_a_rule_nobody_acts_for_anybody_and_learns_nothing(gateway: RunningGateway) -> None:
    for who, subject in ((SVC, CAROL), (SVC, "admin"), (BOB, SVC), ("admin", BOB)):
        told = refusal(gateway, subject, who)
        assert "ACCESS_DENIED" in told
        assert told == refusal(gateway, "no_such_user", who)


def test_a_rule_for_a_role_reaches_its_members_and_never_an_admin(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE ROLE acting_served")
    rows(gateway, f"GRANT IMPERSONATE ON ROLE acting_served TO USER {SVC}")
    assert "ACCESS_DENIED" in refusal(gateway, CAROL)
    rows(gateway, f"GRANT ROLE acting_served TO USER {CAROL}, USER admin")
    with acting(gateway, CAROL) as connection:
        assert ask(connection, "SELECT current_user()") == [(CAROL,)]
        rows(gateway, f"ALTER USER {CAROL} DISABLE")
        with pytest.raises(AdbcError, match="ACCESS_DENIED"):
            ask(connection, "SELECT 1")
        rows(gateway, f"ALTER USER {CAROL} ENABLE")
    assert "ACCESS_DENIED" in refusal(gateway, "admin")
    rows(gateway, f"REVOKE ROLE acting_served FROM USER {CAROL}")
    assert "ACCESS_DENIED" in refusal(gateway, CAROL)


def test_a_rule_that_is_revoked_ends_what_is_open_with_the_next_call(gateway: RunningGateway) -> None:
    with acting(gateway, BOB) as connection:
        assert ask(connection, READ) == [(42,)]
        rows(gateway, f"REVOKE IMPERSONATE ON USER {BOB} FROM USER {SVC}")
        try:
            with pytest.raises(AdbcError, match="ACCESS_DENIED"):
                ask(connection, READ)
        finally:
            rows(gateway, f"GRANT IMPERSONATE ON USER {BOB} TO USER {SVC}")
        assert ask(connection, READ) == [(42,)]


@pytest.mark.parametrize(
    "sql",
    [
        f"ALTER USER {BOB} PASSWORD 'another password'",
        f"CREATE TOKEN FOR {BOB}",
        f"GRANT SELECT ON TABLE lake.acting.bobs TO USER {SVC}",
        f"GRANT IMPERSONATE ON USER {CAROL} TO USER {SVC}",
    ],
)
def test_nothing_that_would_outlast_the_right_is_done_on_behalf_of_others(
    gateway: RunningGateway, sql: str
) -> None:
    with acting(gateway, BOB) as connection, pytest.raises(AdbcError, match="ACCESS_DENIED"):
        ask(connection, sql)
    assert rows(gateway, "SELECT 1", BOB, PASSWORD) == [(1,)]


def test_tickets_and_prepared_statements_are_good_for_the_pair_only(gateway: RunningGateway) -> None:
    address = gateway.grpc_address
    with raw_flight(address, basic=(SVC, PASSWORD)) as client:
        own = client.metadata
        client.metadata = (*own, (ON_BEHALF_OF_HEADER, BOB))
        ticket, handle = client.ticket(READ), client.prepare(READ)
        assert client.fetch(ticket).to_pydict() == client.run_prepared(handle).to_pydict() == {"n": [42]}
        client.metadata = own
        assert_not_known(client, ticket, handle)
    with raw_flight(address, basic=(BOB, PASSWORD)) as bob:
        assert_not_known(bob, ticket, handle)
        ticket, handle = bob.ticket(READ), bob.prepare(READ)
    with raw_flight(address, basic=(SVC, PASSWORD)) as client:
        client.metadata = (*client.metadata, (ON_BEHALF_OF_HEADER, BOB))
        assert_not_known(client, ticket, handle)


def assert_not_known(client: RawFlight, ticket: bytes, handle: bytes) -> None:
    with pytest.raises(Refused, match="This ticket is not known here"):
        client.fetch(ticket)
    with pytest.raises(Refused, match="This prepared statement is not known here"):
        client.run_prepared(handle)


def test_a_token_got_on_behalf_of_one_is_good_for_them_only(gateway: RunningGateway) -> None:
    with raw_flight(gateway.grpc_address) as client:
        client.metadata = ((ON_BEHALF_OF_HEADER, BOB),)
        token = sign_in(client, SVC, PASSWORD)
        client.metadata = (("authorization", f"Bearer {token}"),)
        assert client.fetch(client.ticket("SELECT current_user() AS who")).to_pydict() == {"who": [BOB]}
        for other in (CAROL, SVC):
            client.metadata = (("authorization", f"Bearer {token}"), (ON_BEHALF_OF_HEADER, other))
            with pytest.raises(Refused) as refused:
                client.ticket("SELECT 1")
            assert refused.value.code == "AUTHENTICATION_FAILED"

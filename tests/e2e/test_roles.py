"""What the built-in roles may do on a real gateway, and that roles of one's own making hold at once."""

import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.asking import ENDLESS, failure, in_background, rows, value, wait_until
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PASSWORD = "a long password"
BUILT_IN = ("reader", "writer", "operator", "auditor")
SECRET = 4711


@pytest.fixture(scope="module", autouse=True)
def people(gateway: RunningGateway) -> None:
    for role in BUILT_IN:
        rows(gateway, f"CREATE USER roles_{role} PASSWORD '{PASSWORD}' ROLES ({role})")
    rows(gateway, f"CREATE USER roles_else PASSWORD '{PASSWORD}' ROLES (operator) TENANT 'elsewhere'")
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS roles")
    rows(gateway, f"CREATE TABLE IF NOT EXISTS roles.secrets AS SELECT {SECRET} AS n")


def ask(gateway: RunningGateway, sql: str, who: str) -> list[tuple[object, ...]]:
    return rows(gateway, sql, f"roles_{who}", PASSWORD)


def refusal(gateway: RunningGateway, sql: str, who: str) -> str:
    return failure(gateway, sql, f"roles_{who}", PASSWORD)


@pytest.mark.parametrize("role", BUILT_IN)
def test_everyone_with_a_role_may_ask_and_no_built_in_role_brings_data(
    gateway: RunningGateway, role: str
) -> None:
    assert ask(gateway, "SELECT 1 + 1", role) == [(2,)]
    hidden = refusal(gateway, "SELECT * FROM lake.roles.secrets", role)
    missing = refusal(gateway, "SELECT * FROM lake.roles.missing", role)
    assert "TABLE_NOT_FOUND" in hidden
    assert "TABLE_NOT_FOUND" in missing
    assert str(SECRET) not in hidden


def test_a_role_of_ones_own_making_holds_and_ends_with_the_next_call(gateway: RunningGateway) -> None:
    read = "SELECT n FROM lake.roles.secrets"
    with gateway.connect("roles_reader", PASSWORD) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        rows(gateway, "CREATE ROLE roles_team")
        rows(gateway, "CREATE ROLE roles_leads")
        rows(gateway, "GRANT SELECT ON TABLE lake.roles.secrets TO ROLE roles_team")
        rows(gateway, "GRANT ROLE roles_team TO ROLE roles_leads")
        rows(gateway, "GRANT ROLE roles_leads TO USER roles_reader")
        cursor.execute(read)
        assert cursor.fetchall() == [(SECRET,)]
        rows(gateway, "REVOKE ROLE roles_leads FROM USER roles_reader")
        with pytest.raises(AdbcError, match="TABLE_NOT_FOUND"):
            # What the driver prepared a moment ago is not described anew, but it is decided anew.
            cursor.execute(read).fetchall()
    assert "TABLE_NOT_FOUND" in refusal(gateway, read, "reader")


def test_built_in_roles_are_not_given_by_grant(gateway: RunningGateway) -> None:
    assert "INVALID_ARGUMENTS" in failure(gateway, "GRANT ROLE admin TO USER roles_reader")
    shown = {name: roles for name, roles, *_ in rows(gateway, "SHOW USERS")}
    assert shown["roles_operator"] == ["operator"]


def test_roles_say_whose_queries_one_sees(gateway: RunningGateway) -> None:
    ask(gateway, "SELECT 'seen by those who may'", "reader")
    sql = "SELECT count(*) FROM system.runtime.queries WHERE principal = 'roles_reader'"
    seen = {who: ask(gateway, sql, who) != [(0,)] for who in (*BUILT_IN, "else")}
    assert seen == {"reader": True, "writer": False, "operator": True, "auditor": True, "else": False}
    nodes = "SELECT count(*) FROM system.runtime.nodes"
    seen = {who: ask(gateway, nodes, who) != [(0,)] for who in BUILT_IN}
    assert seen == {"reader": False, "writer": False, "operator": True, "auditor": True}


def test_an_operator_ends_a_query_of_its_tenant_and_others_do_not(gateway: RunningGateway) -> None:
    def running() -> str | None:
        of_reader = "SELECT query_id FROM system.runtime.queries WHERE principal = 'roles_reader'"
        found = ask(gateway, f"{of_reader} AND state = 'running'", "operator")
        return str(found[0][0]) if found else None

    with in_background(lambda: refusal(gateway, ENDLESS, "reader")) as ended:
        query_id = wait_until("running", running)
        for who in ("writer", "auditor", "else"):
            assert "There is no query" in refusal(gateway, f"CANCEL QUERY '{query_id}'", who)
        ask(gateway, f"CANCEL QUERY '{query_id}'", "operator")
        assert "QUERY_CANCELLED" in ended.result(60)
    state = f"SELECT state FROM system.runtime.queries WHERE query_id = '{query_id}'"
    assert value(gateway, state) == "cancelled"


@pytest.mark.parametrize(
    ("sql", "allowed"),
    [
        ("SHOW AUDIT LIMIT 1", {"auditor"}),
        ("CREATE ROLE roles_mine", set()),
        ("GRANT SELECT ON TABLE lake.roles.secrets TO ROLE reader", set()),
        ("CREATE USER roles_more PASSWORD 'a long password'", set()),
        ("SHOW USERS", set()),
        ("ALTER USER roles_reader ROLES (admin)", set()),
    ],
)
def test_audit_is_for_auditors_and_changing_policy_for_admins(
    gateway: RunningGateway, sql: str, allowed: set[str]
) -> None:
    for role in BUILT_IN:
        if role in allowed:
            ask(gateway, sql, role)
        else:
            told = refusal(gateway, sql, role)
            assert "ACCESS_DENIED" in told or "TABLE_NOT_FOUND" in told


def test_everyone_keeps_their_own_password_and_tokens(gateway: RunningGateway) -> None:
    for role in BUILT_IN:
        [(token_id, secret, _expires_at)] = ask(gateway, f"CREATE TOKEN FOR roles_{role}", role)
        with gateway.connect_with_token(str(secret)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        ask(gateway, f"REVOKE TOKEN '{token_id}'", role)

"""What people mistype, and what attackers send: each gets a typed answer, and the gateway goes on."""

import re
from typing import Any

import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.asking import failure, rows, value
from bailiwick.testing.gateway import RunningGateway

pytestmark = pytest.mark.spark

MISTAKES = {
    "SELEC 1": "SYNTAX_ERROR",
    "SELECT (1": "SYNTAX_ERROR",
    "SELECT * FROM no_such_table": "TABLE_NOT_FOUND",
    "SELECT * FROM lake.no_such_namespace.t": "TABLE_NOT_FOUND",
    "SELECT nope FROM range(1)": "COLUMN_NOT_FOUND",
    "SELECT no_such_function(1)": "FUNCTION_NOT_FOUND",
    "SELECT 1 / 0": "DIVISION_BY_ZERO",
    "SELECT cast('x' AS INT)": "INVALID_CAST",
    "DROP NAMESPACE never_there": "SCHEMA_NOT_FOUND",
    "SET spark.sql.ansi.enabled = false": "NOT_SUPPORTED",
    "CREATE TEMPORARY VIEW v AS SELECT 1": "NOT_SUPPORTED",
    "BEGIN SELECT 1; END": "NOT_SUPPORTED",
    "SELECT * FROM parquet.`/etc`": "",
    "-- nothing": "SYNTAX_ERROR",
    "SELECT q.query_id FROM system.runtime.queries q, lake.some.table_of_ours": "NOT_SUPPORTED",
    "SELECT * FROM system.runtime.no_such_table": "TABLE_NOT_FOUND",
}


@pytest.mark.parametrize("sql", MISTAKES, ids=lambda sql: sql[:40])
def test_a_mistake_has_its_code(gateway: RunningGateway, sql: str) -> None:
    assert MISTAKES[sql] in failure(gateway, sql)


def test_sql_over_the_limit_is_refused(gateway: RunningGateway) -> None:
    assert "RESOURCE_EXHAUSTED" in failure(gateway, "SELECT 1 --" + "x" * (2 << 20))


def test_an_identifier_of_10_mb_is_refused(gateway: RunningGateway) -> None:
    assert "RESOURCE_EXHAUSTED" in failure(gateway, f"SELECT `{'x' * (10 << 20)}`")


def test_an_identifier_of_half_a_megabyte_is_a_user_error_of_bounded_length(gateway: RunningGateway) -> None:
    message = failure(gateway, f"SELECT `{'x' * (1 << 19)}` FROM range(1)")
    assert "COLUMN_NOT_FOUND" in message
    assert len(message) < 20_000


def test_current_user_is_who_asks(gateway: RunningGateway) -> None:
    assert rows(gateway, "SELECT current_user(), session_user()") == [("admin", "admin")]


def test_nothing_of_the_machine_is_told(gateway: RunningGateway) -> None:
    for sql in MISTAKES:
        message = failure(gateway, sql)
        assert str(gateway.data_dir) not in message
        assert "org.apache" not in message
        assert not re.search(r"\bat [a-z]+\.[a-z]+\.", message), message


def test_the_code_the_position_and_the_query_id_reach_the_client(gateway: RunningGateway) -> None:
    with gateway.connect() as connection, connection.cursor() as cursor:
        with pytest.raises(AdbcError) as caught:
            cursor.execute("SELECT\n nope FROM range(1)")
        details: dict[Any, bytes] = dict(caught.value.details)
    assert details[b"bailiwick-error-code"] == b"COLUMN_NOT_FOUND"
    assert details[b"bailiwick-sqlstate"] == b"42703"
    assert details[b"bailiwick-retryable"] == b"false"
    assert details[b"bailiwick-query-id"].startswith(b"q")


def test_a_wrong_password_is_refused_without_telling_who_exists(gateway: RunningGateway) -> None:
    wrong = failure(gateway, "SELECT 1", "admin", "not the password")
    unknown = failure(gateway, "SELECT 1", "nobody", "not the password")
    assert "AUTHENTICATION_FAILED" in wrong
    assert wrong == unknown


def test_a_forged_token_is_refused(gateway: RunningGateway) -> None:
    for token in ("", "x", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.", "bw_0000_0000"):
        with gateway.connect_with_token(token) as connection, connection.cursor() as cursor:
            with pytest.raises(AdbcError, match="AUTHENTICATION_FAILED"):
                cursor.execute("SELECT 1")


def test_the_engine_s_secrets_are_no_one_s_token(gateway: RunningGateway) -> None:
    credential = (gateway.data_dir / "run" / "engine.credential").read_text().strip()
    with gateway.connect_with_token(credential) as connection, connection.cursor() as cursor:
        with pytest.raises(AdbcError, match="AUTHENTICATION_FAILED"):
            cursor.execute("SELECT 1")


def test_what_one_may_do_is_what_was_granted(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE USER rita PASSWORD 'a long password' ROLES (reader)")
    rows(gateway, "CREATE USER will PASSWORD 'a long password' ROLES (writer)")
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS roles")
    rows(gateway, "GRANT SELECT, CREATE ON NAMESPACE roles TO USER will")
    rows(gateway, "GRANT SELECT ON NAMESPACE roles TO USER rita")
    rows(gateway, "CREATE TABLE roles.t AS SELECT 1 AS a", "will", "a long password")
    assert value(gateway, "SELECT a FROM roles.t", "rita", "a long password") == 1
    for sql in (
        "INSERT INTO roles.t VALUES (2)",
        "DROP TABLE roles.t",
        "CREATE USER eve PASSWORD 'a long password'",
    ):
        assert "ACCESS_DENIED" in failure(gateway, sql, "rita", "a long password")
    assert "ACCESS_DENIED" in failure(
        gateway, "CALL lake.system.remove_orphan_files('roles.t')", "will", "a long password"
    )
    assert value(gateway, "SELECT count(*) FROM roles.t") == 1


def test_people_see_their_own_queries_only(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE USER olga PASSWORD 'a long password' ROLES (reader)")
    value(gateway, "SELECT 'a secret of admin'")
    value(gateway, "SELECT 'olga herself'", "olga", "a long password")
    seen = rows(gateway, "SELECT DISTINCT principal FROM system.runtime.queries", "olga", "a long password")
    assert seen == [("olga",)]
    assert ("admin",) in rows(gateway, "SELECT DISTINCT principal FROM system.runtime.queries")


def test_passwords_are_not_in_the_history_nor_in_the_log(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE USER pia PASSWORD 'unmistakable-9931' ROLES (reader)")
    texts = rows(gateway, "SELECT sql FROM system.runtime.queries")
    assert not [text for (text,) in texts if "unmistakable-9931" in text]
    assert "unmistakable-9931" not in gateway.log_text()


def test_a_static_token_works_until_it_is_revoked(gateway: RunningGateway) -> None:
    rows(gateway, "CREATE USER tom PASSWORD 'a long password' ROLES (reader)")
    identifier, token, _expires = rows(gateway, "CREATE TOKEN FOR tom TTL '1h'")[0][:3]
    with gateway.connect_with_token(token) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 7")
            assert cursor.fetchone() == (7,)
        rows(gateway, f"REVOKE TOKEN '{identifier}'")
        with connection.cursor() as cursor:
            with pytest.raises(AdbcError, match=r"AUTHENTICATION_FAILED|SESSION_EXPIRED"):
                cursor.execute("SELECT 8")

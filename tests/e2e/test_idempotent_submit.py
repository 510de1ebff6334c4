"""A statement with a key on a real gateway: one execution, whatever happens to its client or the gateway."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.asking import ENDLESS, rows, running_queries, value, wait_until
from bailiwick.testing.gateway import RunningGateway, command, running_gateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

HEADER = "adbc.flight.sql.rpc.call_header.idempotency-key"
SETTINGS = {"BAILIWICK__ENGINE__MEMORY": "1g"}
SLOW = "SELECT count(*) FROM range(0, 600000000, 1, 8) WHERE id % 3 = 1"
CLIENT = f"""
import sys
from adbc_driver_flightsql import dbapi
uri, password, key, sql = sys.argv[1:]
connection = dbapi.connect(uri, db_kwargs={{"username": "admin", "password": password}}, autocommit=True)
cursor = connection.cursor()
cursor.adbc_statement.set_options(**{{"{HEADER}": key}})
cursor.execute(sql)
"""


@pytest.fixture(scope="module", autouse=True)
def lake(gateway: RunningGateway) -> Iterator[None]:
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS once")
    yield
    listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'once'"
    for (table,) in rows(gateway, listed):
        rows(gateway, f"DROP TABLE once.{table}")


def send(gateway: RunningGateway, key: str, sql: str) -> int:
    """How many rows it touched."""
    with gateway.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{HEADER: key})
        cursor.execute(sql)
        return int(cursor.rowcount)


def refusal(gateway: RunningGateway, key: str, sql: str) -> str:
    with pytest.raises(AdbcError) as caught:
        send(gateway, key, sql)
    return str(caught.value)


def client(gateway: RunningGateway, key: str, sql: str) -> subprocess.Popen[bytes]:
    """In a process of its own, that can be killed while its statement runs."""
    arguments = [sys.executable, "-c", CLIENT, gateway.uri, gateway.admin_password, key, sql]
    return subprocess.Popen(arguments, stderr=subprocess.DEVNULL)


def made(gateway: RunningGateway, name: str) -> str:
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS once")
    rows(gateway, f"CREATE OR REPLACE TABLE once.{name} (n BIGINT)")
    return f"once.{name}"


def test_an_insert_that_is_sent_again_is_there_once(gateway: RunningGateway) -> None:
    table = made(gateway, "again")
    counts = [send(gateway, "again-1", f"INSERT INTO {table} VALUES (1), (2)") for _ in range(3)]
    assert counts == [2, 2, 2]
    assert value(gateway, f"SELECT count(*) FROM {table}") == 2


def test_an_insert_that_many_send_at_once_is_there_once(gateway: RunningGateway) -> None:
    table = made(gateway, "at_once")
    with ThreadPoolExecutor(8) as pool:
        sent = [pool.submit(send, gateway, "race", f"INSERT INTO {table} VALUES (1)") for _ in range(8)]
        assert [each.result() for each in sent] == [1] * 8
    assert value(gateway, f"SELECT count(*) FROM {table}") == 1


def test_a_key_of_another_statement_is_refused(gateway: RunningGateway) -> None:
    table = made(gateway, "reused")
    send(gateway, "reused", f"INSERT INTO {table} VALUES (1)")
    told = refusal(gateway, "reused", f"INSERT INTO {table} VALUES (2)")
    assert "INVALID_ARGUMENTS: This idempotency key was used for another statement" in told
    assert value(gateway, f"SELECT sum(n) FROM {table}") == 1


def test_a_failed_insert_fails_the_same_way_and_is_not_run_again(gateway: RunningGateway) -> None:
    insert = "INSERT INTO once.failing SELECT 1 DIV (n - 1) FROM once.failing"
    made(gateway, "failing")
    rows(gateway, "INSERT INTO once.failing VALUES (1)")
    first, again = (refusal(gateway, "failing", insert) for _ in range(2))
    assert "DIVISION_BY_ZERO" in first
    assert "DIVISION_BY_ZERO" in again
    assert "was not run again" in again
    listed = "SELECT count(*) FROM system.runtime.queries WHERE sql LIKE 'INSERT INTO once.failing SELECT%'"
    assert value(gateway, listed) == 1


def test_a_read_under_a_key_gives_its_rows_each_time(gateway: RunningGateway) -> None:
    def ask() -> Any:
        with gateway.connect() as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{HEADER: "read"})
            cursor.execute("SELECT sum(id) FROM range(10)")
            return cursor.fetchone()

    assert [ask() for _ in range(2)] == [(45,), (45,)]


def test_an_insert_goes_on_without_its_client_who_comes_back_for_the_outcome(gateway: RunningGateway) -> None:
    table = made(gateway, "left")
    insert = f"INSERT INTO {table} {SLOW}"
    leaver = client(gateway, "left", insert)
    wait_until("running", lambda: running_queries(gateway, insert))
    leaver.kill()
    leaver.wait()
    assert send(gateway, "left", insert) == 1
    assert rows(gateway, f"SELECT n FROM {table}") == [(200_000_000,)]


def test_the_rows_of_an_executemany_are_there_once(gateway: RunningGateway) -> None:
    table = made(gateway, "many")
    for _ in range(2):
        with gateway.connect() as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{HEADER: "many"})
            cursor.executemany(f"INSERT INTO {table} VALUES (?)", [(1,), (2,), (3,)])
            assert cursor.rowcount == 3
    assert rows(gateway, f"SELECT n FROM {table} ORDER BY n") == [(1,), (2,), (3,)]


def test_the_command_line_sends_a_key(gateway: RunningGateway) -> None:
    table = made(gateway, "command")
    host, port = gateway.grpc_address.rsplit(":", 1)
    for _ in range(2):
        arguments = ("--host", host, "--port", port, "--user", "admin", "--idempotency-key", "command")
        done = subprocess.run(
            [command(), "query", *arguments, "--password-stdin", "-e", f"INSERT INTO {table} VALUES (1)"],
            input=gateway.admin_password.encode(),
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
    assert value(gateway, f"SELECT count(*) FROM {table}") == 1


@pytest.mark.fault
def test_a_gateway_that_was_stopped_or_killed_still_knows(tmp_path: Path) -> None:
    insert, endless = "INSERT INTO once.kept VALUES (1)", f"INSERT INTO once.kept {ENDLESS}"
    with running_gateway(tmp_path / "data", settings=SETTINGS) as gateway:
        made(gateway, "kept")
        assert send(gateway, "kept", insert) == 1
        assert gateway.stop() == 0
    with running_gateway(tmp_path / "data", settings=SETTINGS) as gateway:
        assert send(gateway, "kept", insert) == 1
        doomed = client(gateway, "doomed", endless)
        wait_until("running", lambda: running_queries(gateway, "CROSS JOIN"))
        gateway.stop(signal.SIGKILL)
        doomed.wait()
    with running_gateway(tmp_path / "data", settings=SETTINGS) as gateway:
        told = refusal(gateway, "doomed", endless)
        assert "It may have been carried out all the same" in told
        assert running_queries(gateway, "CROSS JOIN") == []
        assert rows(gateway, "SELECT n FROM once.kept") == [(1,)]

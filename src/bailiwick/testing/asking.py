"""Small questions that tests ask a running gateway, and waiting for an answer to become true."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.gateway import RunningGateway

Value = TypeVar("Value")
POLL_S = 0.05
_CLIENT = """
import sys
from adbc_driver_flightsql import dbapi
uri, password, sql = sys.argv[1:]
connection = dbapi.connect(uri, db_kwargs={"username": "admin", "password": password}, autocommit=True)
cursor = connection.cursor()
cursor.execute(sql)
cursor.fetchall()
"""

ENDLESS = "SELECT sum(a.id * b.id % 7) FROM range(0, 4000000000, 1, 40000) a CROSS JOIN range(0, 400) b"
"""Runs for longer than any test, in tasks of less than a second; shows progress; returns one row."""


def rows(
    gateway: RunningGateway, sql: str, user: str = "admin", password: str | None = None
) -> list[tuple[Any, ...]]:
    with _connected(gateway, user, password) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@contextmanager
def _connected(gateway: RunningGateway, user: str, password: str | None) -> Iterator[Any]:
    """Signing in is slow on purpose, so the main thread keeps its connections; others bring their own."""
    if threading.current_thread() is threading.main_thread():
        yield gateway.kept_connection(user, password)
        return
    with gateway.connect(user, password) as connection:
        yield connection


def value(gateway: RunningGateway, sql: str, user: str = "admin", password: str | None = None) -> Any:
    return rows(gateway, sql, user, password)[0][0]


def failure(gateway: RunningGateway, sql: str, user: str = "admin", password: str | None = None) -> str:
    """The message of the failure that `sql` must end in; it begins with our code."""
    try:
        got = rows(gateway, sql, user, password)
    except AdbcError as error:
        return str(error)
    raise AssertionError(f"expected a failure, got {len(got)} rows")


def wait_until(what: str, condition: Callable[[], Value], timeout_s: float = 30.0) -> Value:
    """The first truthy answer of `condition`. A failing one counts as not yet."""
    deadline = time.monotonic() + timeout_s
    last: BaseException | None = None
    while time.monotonic() < deadline:
        try:
            if answer := condition():
                return answer
        except (AdbcError, LookupError, OSError) as error:
            last = error
        time.sleep(POLL_S)
    raise AssertionError(f"not {what} within {timeout_s:.0f} s" + (f"; last: {last}" if last else ""))


def running_queries(gateway: RunningGateway, containing: str) -> list[str]:
    """Ids of the running queries whose text contains these words."""
    sql = "SELECT query_id, sql FROM system.runtime.queries WHERE state = 'running'"
    return [query_id for query_id, text in rows(gateway, sql) if containing in text]


def start_client(gateway: RunningGateway, sql: str) -> subprocess.Popen[bytes]:
    """A client in a process of its own, that can be killed while its query runs."""
    arguments = [sys.executable, "-c", _CLIENT, gateway.uri, gateway.admin_password, sql]
    return subprocess.Popen(arguments, stderr=subprocess.DEVNULL)


@contextmanager
def in_background(action: Callable[[], Value]) -> Any:
    """Run `action` in a thread; the block gets its future and waits for it at the end."""
    with ThreadPoolExecutor(1) as pool:
        future: Future[Value] = pool.submit(action)
        yield future

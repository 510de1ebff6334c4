"""The clients themselves: each a connection of its own, all of them asking at once.

They come as users of their own, because a user has only so many places in the gateway's queue. Users and
table are made before the clock starts and are gone afterwards.
"""
# ruff: noqa: S608 - every name in these statements is ours

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.gateway import RunningGateway
from bailiwick.testing.load.questions import (
    FILES,
    MAKE_TABLE,
    NAMESPACE,
    ROWS,
    TABLE,
    Mix,
    Question,
    questions,
)
from bailiwick.testing.load.summary import Asked, Ran, Summary, summarise
from bailiwick.testing.told import Told

CLIENTS_PER_USER = 10
SIGN_INS_AT_ONCE = 8
"""Passwords are slow to check, on purpose."""
HISTORY_S = 10.0
"""The history of reads is written in batches, a moment late."""
POLL_S = 0.1
QUEUE_OF_DEFAULT_FITS = 50
"""More clients than this need a longer queue than there is by default."""
STILL_THERE = Question("after idling", "SELECT 1", ((1,),))


@dataclass(frozen=True, slots=True)
class Address:
    """Where a gateway is, and how its administrator comes in."""

    uri: str
    administrator: dict[str, str] = field(repr=False)
    """What ADBC is given to connect as one: name and password, or a token."""
    options: dict[str, str] = field(default_factory=dict)
    """What every connection is given besides, such as whom to trust."""

    @classmethod
    def of(cls, gateway: RunningGateway) -> "Address":
        return cls(gateway.uri, {"username": "admin", "password": gateway.admin_password})

    def connect(self, credentials: dict[str, str]) -> Any:
        from adbc_driver_flightsql import dbapi

        return dbapi.connect(self.uri, db_kwargs={**self.options, **credentials}, autocommit=True)

    def sign_in(self, user: str, password: str) -> Any:
        return self.connect({"username": user, "password": password})


@dataclass(frozen=True, slots=True)
class Rush:
    """What is to be done."""

    clients: int = 10
    mix: Mix = Mix.MIXED
    each: int = 8
    """Questions a client asks."""
    seed: int = 0
    idle: int = 0
    """Clients besides that stay connected, and ask once when all is over."""
    is_kept: bool = False
    """Whether the table stays for another run."""

    def turns(self, client: int) -> Iterator[Question]:
        """What this client asks: every question in turn, in an order of its own."""
        order = list(questions(self.mix))
        Random(f"{self.seed}/{client}").shuffle(order)  # noqa: S311 - an order, not a secret
        return (order[number % len(order)] for number in range(self.each))


class NotPreparedError(Exception):
    """The table or the users could not be made. The message says what to do."""


def settings_for(clients: int) -> dict[str, str]:
    """Of a gateway that is started for so many."""
    if clients <= QUEUE_OF_DEFAULT_FITS:
        return {}
    return {
        "BAILIWICK__POOL__QUEUE_LENGTH_MAX": str(clients + 100),
        "BAILIWICK__POOL__QUEUE_LENGTH_PER_TENANT_MAX": str(clients + 100),
        "BAILIWICK__POOL__QUEUE_WAIT_S": "300",
    }


def processes_of(gateway: RunningGateway) -> dict[str, Callable[[], int]]:
    """The gateway's and its engine's, as they are when one asks."""
    return {"gateway": lambda: gateway.pid, "engine": lambda: gateway.engine_pid}


def rush(address: Address, plan: Rush) -> Summary:
    """Let all clients ask at once, and tell how it went."""
    run = f"load-{secrets.token_hex(4)}"
    with address.connect(address.administrator) as admin, _prepared(admin, plan, run) as users:
        connections = _connected(address, plan.clients + plan.idle, users)
        busy, idle = connections[: plan.clients], connections[plan.clients :]
        try:
            asked, elapsed_s = _race(busy, plan, run)
            asked += [_ask(each, plan.clients + number, STILL_THERE, run) for number, each in enumerate(idle)]
        finally:
            for connection in connections:
                with suppress(AdbcError):  # The gateway may be gone; what it failed at is told already.
                    connection.close()
        expected = sum(one.error is None for one in asked)
        return summarise(asked, _history(admin, run, expected), _engines(admin), elapsed_s)


def rows(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]


@contextmanager
def _prepared(admin: Any, plan: Rush, run: str) -> Iterator[dict[str, str]]:
    """Names and passwords of the users that the clients come as."""
    word = run.replace("-", "_")
    count = -(-plan.clients // CLIENTS_PER_USER)
    users = {f"{word}_{number}": secrets.token_urlsafe(24) for number in range(count)}
    try:
        _make(admin, users)
        yield users
    finally:
        with suppress(AdbcError):  # Tidying must not hide why the gateway stopped answering.
            for user in users:
                rows(admin, f"DROP USER {user}")
            if not plan.is_kept:
                rows(admin, f"DROP TABLE IF EXISTS {TABLE}")
                rows(admin, f"DROP NAMESPACE IF EXISTS {NAMESPACE}")


def _make(admin: Any, users: dict[str, str]) -> None:
    rows(admin, f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
    rows(admin, MAKE_TABLE)
    found = (rows(admin, f"SELECT count(*) FROM {TABLE}"), rows(admin, f"SELECT count(*) FROM {TABLE}.files"))
    if found != ([(ROWS,)], [(FILES,)]):
        raise NotPreparedError(
            f"{TABLE} is not the table that the questions are about: drop it and try again"
        )
    for user, password in users.items():
        # Operators see engines; what they may read has to be granted, as for anyone.
        rows(admin, f"CREATE USER {user} PASSWORD '{password}' ROLES (operator)")
        rows(admin, f"GRANT SELECT ON NAMESPACE {NAMESPACE} TO USER {user}")


def _connected(address: Address, count: int, users: dict[str, str]) -> list[Any]:
    people = list(users.items())
    with ThreadPoolExecutor(SIGN_INS_AT_ONCE) as pool:
        return list(pool.map(lambda client: address.sign_in(*people[client % len(people)]), range(count)))


def _race(connections: Sequence[Any], plan: Rush, run: str) -> tuple[list[Asked], float]:
    start = threading.Barrier(len(connections) + 1)
    # Before the clock starts: the right answers are computed when they are first asked for.
    turns = [list(plan.turns(client)) for client in range(len(connections))]

    def work(client: int) -> list[Asked]:
        start.wait()
        return [_ask(connections[client], client, question, run) for question in turns[client]]

    with ThreadPoolExecutor(len(connections)) as pool:
        working = [pool.submit(work, client) for client in range(len(connections))]
        start.wait()
        started = time.monotonic()
        asked = [one for client in working for one in client.result()]
        return asked, time.monotonic() - started


def _ask(connection: Any, client: int, question: Question, run: str) -> Asked:
    started = time.monotonic()
    try:
        got = rows(connection, question.marked(run))
    except AdbcError as error:
        return Asked(client, question.name, time.monotonic() - started, error=Told.by(error).code)
    return Asked(client, question.name, time.monotonic() - started, is_right=tuple(got) == question.right)


def _history(admin: Any, run: str, expected: int) -> list[Ran]:
    """Where the run's queries ran; as far as it is known in time."""
    sql = (
        "SELECT sql, node_id, started_at, finished_at FROM system.runtime.queries "
        f"WHERE state = 'finished' AND sql LIKE '%/* {run} %'"
    )
    deadline = time.monotonic() + HISTORY_S
    while True:
        found = [_ran(row, run) for row in rows(admin, sql)]
        if len(found) >= expected or time.monotonic() > deadline:
            return found
        time.sleep(POLL_S)


def _ran(row: tuple[Any, ...], run: str) -> Ran:
    sql, node_id, started_at, finished_at = row
    question = sql.rpartition(f"/* {run} ")[2].removesuffix(" */")
    # From its start: how long it waited for a place says nothing of the engine.
    return Ran(question, str(node_id), (finished_at - started_at).total_seconds() * 1000)


def _engines(admin: Any) -> list[str]:
    """Those that could take work now. The gateway's own engine counts only where there is no other."""
    known = rows(admin, "SELECT node_id, kind FROM system.runtime.nodes WHERE state = 'ready'")
    others = [node for node, kind in known if kind != "embedded"]
    return others or [node for node, _ in known]

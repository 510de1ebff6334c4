"""A gateway whose queries can be held, the tables that they are about, and the people who send them."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from bailiwick.testing.asking import rows
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.inside import GATED_NAMESPACE, Inside

NUMBERS_COUNT = 1_000
FULL = ("numbers", "planned", "described", "doomed")
EMPTY = ("kept", "kept_too")
PEOPLE = ("ann", "bob")
PORT_MIN, PORT_MAX = 20_000, 32_000
SETTINGS = {
    "BAILIWICK__ENGINE__MEMORY": "1g",
    # Many are held at once, and wait for their engine for as long as a busy machine needs to start one.
    "BAILIWICK__POOL__SESSIONS": "6",
    "BAILIWICK__POOL__QUEUE_WAIT_S": "200",
    # That wrong credentials wait is tested elsewhere.
    "BAILIWICK__IDENTITY__FAILURE_DELAY_S": "0",
    "BAILIWICK__SERVER__DRAIN_S": "1",
}


@dataclass(frozen=True, slots=True)
class Door:
    gateway: RunningGateway
    inside: Inside
    port: int
    directory: Path
    tokens: Mapping[str, str] = field(repr=False)


@contextmanager
def opened(directory: Path) -> Iterator[Door]:
    inside, port = Inside(directory / "inside"), _free_port()
    with _served(directory, inside, port, {}) as gateway:
        _furnish(gateway)
        tokens = {name: str(rows(gateway, f"CREATE TOKEN FOR {name} TTL '1h'")[0][1]) for name in PEOPLE}
        yield Door(gateway, inside, port, directory, tokens)


@contextmanager
def opened_again(door: Door, settings: Mapping[str, str]) -> Iterator[Door]:
    """The same door, tables and people, where a gateway has ended. `settings` are put over the usual ones."""
    with _served(door.directory, door.inside, door.port, settings) as gateway:
        yield replace(door, gateway=gateway)


def _served(
    directory: Path, inside: Inside, port: int, settings: Mapping[str, str]
) -> AbstractContextManager[RunningGateway]:
    all_settings, at_port = {**SETTINGS, **inside.settings, **settings}, ("--grpc-port", str(port))
    return running_gateway(directory / "data", settings=all_settings, arguments=at_port)


def _furnish(gateway: RunningGateway) -> None:
    rows(gateway, f"CREATE NAMESPACE {GATED_NAMESPACE}")
    for name in PEOPLE:
        rows(gateway, f"CREATE USER {name} PASSWORD 'a long password' ROLES (writer)")
        rows(gateway, f"GRANT ALL ON NAMESPACE {GATED_NAMESPACE} TO USER {name}")
    for table in FULL:
        rows(gateway, f"CREATE TABLE faults.{table} AS SELECT id AS n FROM range({NUMBERS_COUNT})")
    for table in EMPTY:
        rows(gateway, f"CREATE TABLE faults.{table} (n BIGINT)")


def _free_port() -> int:
    """Below those that the system gives away by itself: a gateway that is started again must find it free."""
    for port in range(PORT_MIN + os.getpid() % 10_000, PORT_MAX):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")

"""One round: somebody's query is hit at some moment of its life while two others wait for the same session.

What is asked, by whom, what happens and when, is drawn from a seed.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

import pyarrow as pa
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.asking import wait_until
from bailiwick.testing.faults import Blow, Fault, Part, Struck
from bailiwick.testing.inside import Point
from bailiwick.testing.leaks import refused
from bailiwick.testing.lease_book import Entry, Happened
from faults.matrix.houses import close_in_peace
from faults.switches.crossings import Said
from faults.switches.people import NAMES, PASSWORD, SHARED, Ask, Kind
from faults.switches.shared_house import SharedHouse

REACHED_WITHIN_S = 60.0
ANSWERED_WITHIN_S = 120.0
TOLD_WITHIN_S = 20.0
NEXT_WITHIN_S = 40.0
KEPT_WITHIN_S = 10.0


class Moment(StrEnum):
    PLANNING = "planning"
    RUNNING = "running"
    """And then after as long as the seed says."""
    FIRST_ROW = "first row"
    COMMITTING = "committing"
    COMMITTED = "committed"


_MOMENTS = {
    Kind.READ: (Moment.PLANNING, Moment.RUNNING, Moment.FIRST_ROW),
    Kind.INSERT: (Moment.PLANNING, Moment.RUNNING, Moment.COMMITTING, Moment.COMMITTED),
}
_FAILING = tuple(kind for kind in Kind if kind.fails)
CANCELLED = "cancelled by its client"
UNTOUCHED = "let go"
_BLOWS: tuple[Fault | str, ...] = (
    Fault(Part.ENGINE, Blow.KILLED),
    Fault(Part.ENGINE, Blow.STOPPED),
    Fault(Part.NETWORK, Blow.RESET),
    Fault(Part.NETWORK, Blow.CUT),
    Fault(Part.NETWORK, Blow.HUNG),
    CANCELLED,
    CANCELLED,
    UNTOUCHED,
)
_LASTING = (Blow.STOPPED, Blow.CUT, Blow.HUNG)


@dataclass(frozen=True, slots=True)
class Round:
    asks: tuple[Ask, Ask, Ask]
    """The first is hit."""
    moment: Moment
    blow: Fault | str
    delay_s: float

    @classmethod
    def of(cls, seed: int) -> "Round":
        random = Random(seed)
        people = random.sample(NAMES, len(NAMES))
        hit = random.choice((Kind.READ, Kind.READ, Kind.INSERT, Kind.INSERT, random.choice(_FAILING)))
        kinds = (hit, *random.choices((*Kind,), k=2))
        moment = random.choice(_MOMENTS.get(hit, (Moment.PLANNING,)))
        first, second, third = (
            Ask(who, kind, f"{seed:x}x{number}")
            for number, (who, kind) in enumerate(zip(people, kinds, strict=True))
        )
        return cls((first, second, third), moment, random.choice(_BLOWS), random.uniform(0.0, 1.2))

    @property
    def gate(self) -> tuple[Point, str] | None:
        """Where the first one is held until it is hit, and at which table."""
        match self.moment:
            case Moment.PLANNING:
                return Point.PLANNING, self.asks[0].read_table
            case Moment.COMMITTING:
                return Point.COMMITTING, SHARED.rpartition(".")[2]
            case Moment.COMMITTED:
                return Point.COMMITTED, SHARED.rpartition(".")[2]
            case _:
                return None

    @property
    def name(self) -> str:
        blow = self.blow if isinstance(self.blow, str) else self.blow.name
        kinds = ", ".join(f"{ask.who} {ask.kind}" for ask in self.asks)
        return f"{kinds}: {blow}, {self.moment}"


@dataclass(slots=True)
class Client:
    """One person at their own connection, with one statement."""

    ask: Ask
    connection: Any
    cursor: Any
    has_row: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, house: SharedHouse, ask: Ask) -> "Client":
        connection = house.gateway.connect(ask.who, PASSWORD)
        if ask.is_read:
            # So that the gateway knows what it is: else finding that out takes a turn of its own.
            with connection.cursor() as cursor:
                cursor.adbc_prepare(ask.sql)
        return cls(ask, connection, connection.cursor())

    def live(self) -> Said:
        batches: list[pa.RecordBatch] = []
        text = ""
        try:
            self.cursor.execute(self.ask.sql)
            for batch in self.cursor.fetch_record_batch():
                batches.append(batch)
                self.has_row.set()
        except AdbcError as error:
            text = refused(error).text
        except (pa.ArrowException, OSError) as error:
            text = str(error)
        rows = tuple(tuple(row.values()) for batch in batches for row in batch.to_pylist())
        return Said(self.ask, rows, text)

    def close(self) -> None:
        close_in_peace(self.cursor)
        close_in_peace(self.connection)


def run(house: SharedHouse, this: Round, random: Random) -> list[Said]:
    """What each of the three was given in the end."""
    began_with = len(house.inside.entries())
    with _clients(house, this) as clients, ThreadPoolExecutor(len(clients)) as pool:
        try:
            if this.gate:
                house.inside.close(*this.gate)
            victim = pool.submit(clients[0].live)
            _wait_reached(house, this, clients[0], victim)
            others = [pool.submit(client.live) for client in clients[1:]]
            wait_until("waiting", lambda: _are_waiting(house, this, victim), REACHED_WITHIN_S)
            _strike(house, this, clients[0], victim, random, began_with)
        finally:
            house.inside.open_all()
        return [future.result(timeout=ANSWERED_WITHIN_S) for future in (victim, *others)]


@contextmanager
def _clients(house: SharedHouse, this: Round) -> Iterator[list[Client]]:
    clients = [Client.of(house, ask) for ask in this.asks]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def _wait_reached(house: SharedHouse, this: Round, client: Client, victim: "Future[Said]") -> None:
    def is_there() -> bool:
        if victim.done():  # It was too quick to be met there.
            return True
        if this.gate:
            return house.inside.is_reached(*this.gate)
        is_running = house.states().get(this.asks[0].word) == "running"
        return is_running and (this.moment is Moment.RUNNING or client.has_row.is_set())

    wait_until(this.moment, is_there, REACHED_WITHIN_S)
    if this.moment is Moment.RUNNING:
        wait([victim], timeout=this.delay_s)


def _are_waiting(house: SharedHouse, this: Round, victim: "Future[Said]") -> bool:
    """As far as one can see it: what will fail is not on record before it is known what it is."""
    states = house.states()
    return victim.done() or all(ask.word in states for ask in this.asks[1:] if not ask.kind.fails)


def _strike(
    house: SharedHouse,
    this: Round,
    client: Client,
    victim: "Future[Said]",
    random: Random,
    began_with: int,
) -> None:
    """Let it happen; what was held at a gate goes on only when the next one has the session."""
    if this.blow == UNTOUCHED:
        return
    if this.blow == CANCELLED:
        with suppress(AdbcError):  # It was too quick to be cancelled.
            client.cursor.adbc_cancel()
    elif isinstance(this.blow, Fault):
        struck = Struck(house, this.blow, random, None)
        try:
            if this.blow.blow in _LASTING:
                wait([victim], timeout=TOLD_WITHIN_S)
        finally:
            struck.put_right()
    if this.gate:
        _wait_passed_on(house, this, began_with)


def _wait_passed_on(house: SharedHouse, this: Round, began_with: int) -> None:
    """Return when somebody has a session after the one who was hit, or when that one seems to keep it."""
    is_engine = isinstance(this.blow, Fault) and this.blow.part is Part.ENGINE
    with suppress(AssertionError):  # A change goes on when the way to its engine is whole again.
        wait_until(
            "passed on",
            lambda: any(_is_other(entry, this) for entry in house.inside.entries()[began_with:]),
            NEXT_WITHIN_S if is_engine else KEPT_WITHIN_S,
        )


def _is_other(entry: Entry, this: Round) -> bool:
    return entry.what is Happened.ENTERED and entry.who in {ask.who for ask in this.asks[1:]}

"""Which gateways are there, and what becomes of the queries of one that is not any more.

Each gateway has a row that it counts up every few seconds. Nobody's clock is believed: one whose count stands
still for `dead_after_s` of the time in which another could look is dead. Whoever finds that out first takes
its row away and fails its queries, in one transaction; from then on the catalog refuses what the dead one may
still try to commit (`catalog/sql.py`). One that was only slow finds its row gone, ends what it was doing, and
joins anew.

One that starts again in the same data directory knows at once that the one before it is dead: only one at a
time can live there (`database/lock.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy import RowMapping, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bailiwick.clock import Clock, monotonic, wall
from bailiwick.database.database import Database
from bailiwick.database.schema import gateways as table
from bailiwick.database.schema import queries
from bailiwick.engines.description import Kind
from bailiwick.errors import MAY_HAVE_HAPPENED, BailiwickError, Code
from bailiwick.ids import GatewayId, new_gateway_id
from bailiwick.queries import failures
from bailiwick.queries.query import Failure
from bailiwick.queries.sql import failed
from bailiwick.secrets import read_or_create_secret
from bailiwick.telemetry.logs import logger

BEAT_EVERY_S: Final = 5.0
DEAD_AFTER_S: Final = 20.0
STARTING_S: Final = 600.0
"""How long one may take from joining to its first beat: while its engine starts it runs nothing."""
HOME_BYTES: Final = 12

LOST: Final = Failure(Code.EXECUTION_FAILED, "The gateway that ran this query was lost.")
LOST_CHANGE: Final = Failure(
    Code.EXECUTION_FAILED,
    f"{LOST.message} {MAY_HAVE_HAPPENED}",
)
_RESTARTED: Final = Failure.of(failures.restarted())
_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """A gateway, as it has told of itself."""

    id: GatewayId
    home: str
    address: str
    started_at: float
    heartbeat_at: float
    beats: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """How far a gateway had counted, and when that was first seen."""

    beats: int
    at: float


@dataclass(frozen=True, slots=True)
class Sightings:
    """What one gateway has seen of the others, by its own clock."""

    looked_at: float | None = None
    by_id: Mapping[GatewayId, Sighting] = field(default_factory=dict)


def look(
    before: Sightings, rows: Iterable[GatewayRow], now: float, *, dead_after_s: float, blind_after_s: float
) -> tuple[Sightings, tuple[GatewayRow, ...]]:
    """What is known after seeing these rows, and which of them are dead. Pure.

    Who could not look for longer than `blind_after_s` knows nothing of the others: if the database did not
    answer, it did not answer them either. Who has never beaten is starting, and runs nothing yet.
    """
    was_blind = before.looked_at is None or now - before.looked_at > blind_after_s
    known = {} if was_blind else before.by_id
    seen: dict[GatewayId, Sighting] = {}
    dead: list[GatewayRow] = []
    for row in rows:
        last = known.get(row.id)
        seen[row.id] = last if last is not None and last.beats == row.beats else Sighting(row.beats, now)
        if now - seen[row.id].at >= (dead_after_s if row.beats else STARTING_S):
            dead.append(row)
    return Sightings(now, seen), tuple(dead)


def home_of(data_dir: Path) -> str:
    """What all gateways of one data directory have in common, made by the first of them. Blocks."""
    return read_or_create_secret(data_dir / "gateway-home", HOME_BYTES).reveal()


class GivenUpOnError(Exception):
    """The others have taken this gateway for dead: its queries have been failed."""


class GatewayLeases:
    """Between `join` and `leave`. `home` is the same for each gateway of one data directory."""

    def __init__(
        self,
        database: Database,
        *,
        home: str,
        address: str,
        beat_every_s: float = BEAT_EVERY_S,
        dead_after_s: float = DEAD_AFTER_S,
        clock: Clock = monotonic,
        now: Clock = wall,
    ) -> None:
        self._database = database
        self._home = home
        self._address = address
        self._beat_every_s = beat_every_s
        self._dead_after_s = dead_after_s
        self._clock = clock
        self._now = now
        self._sightings = Sightings()
        self._id: GatewayId | None = None

    @property
    def id(self) -> GatewayId | None:
        """This gateway's, once it has joined; another one after it was given up on and joined anew."""
        return self._id

    async def join(self) -> int:
        """Be one of the gateways. How many queries of earlier ones in this data directory were failed."""
        gateway_id, now, count = new_gateway_id(), self._now(), 0
        async with self._database.asynchronous.begin() as connection:
            earlier = select(table).where(table.c.home == self._home)
            for row in (await connection.execute(earlier)).mappings().all():
                count += await _take_over(connection, _row(row), now, _RESTARTED, _RESTARTED)
            values = {
                "id": gateway_id,
                "home": self._home,
                "address": self._address,
                "started_at": now,
                "heartbeat_at": now,
                "beats": 0,
            }
            await connection.execute(insert(table).values(values))
        self._id, self._sightings = gateway_id, Sightings()
        if count:
            _log.warning("queries_lost_by_restart", count=count)
        return count

    async def leave(self) -> None:
        """Be none of them any more. What has not ended by now is failed. Fine if it is not one.

        If the database is away, the others find out by themselves.
        """
        gateway_id, self._id = self._id, None
        if gateway_id is None:
            return
        try:
            async with self._database.asynchronous.begin() as connection:
                rows = await connection.execute(select(table).where(table.c.id == gateway_id))
                for row in rows.mappings().all():
                    await _take_over(connection, _row(row), self._now(), _RESTARTED, _RESTARTED)
        except BailiwickError as error:
            _log.warning("gateway_did_not_leave", cause=error.cause_text)

    async def beat(self) -> tuple[GatewayRow, ...]:
        """Show that this one lives, and take over from those that do not: which are given back.

        Raises GivenUpOnError.
        """
        async with self._database.asynchronous.begin() as connection:
            mine = update(table).where(table.c.id == self._id)
            counted = mine.values(beats=table.c.beats + 1, heartbeat_at=self._now())
            if (await connection.execute(counted)).rowcount != 1:
                raise GivenUpOnError
            rows = await connection.execute(select(table).where(table.c.id != self._id))
            self._sightings, dead = look(
                self._sightings,
                [_row(row) for row in rows.mappings().all()],
                self._clock(),
                dead_after_s=self._dead_after_s,
                blind_after_s=self._dead_after_s / 2,
            )
            for gateway in dead:
                count = await _take_over(connection, gateway, self._now(), LOST, LOST_CHANGE)
                _log.warning("gateway_lost", gateway=gateway.id, address=gateway.address, queries=count)
        return dead

    async def run(self, end_all_work: Callable[[], Awaitable[None]]) -> None:
        """Beat for ever. If others have given up on this one, first `end_all_work`, then join anew."""
        while True:
            await asyncio.sleep(self._beat_every_s)
            try:
                await self.beat()
            except GivenUpOnError:
                _log.error("given_up_on_by_other_gateways", gateway=self._id)
                await end_all_work()
                await self._join_in_the_end()
            except Exception as error:
                _log.warning("gateway_did_not_beat", cause=f"{type(error).__name__}: {error}")

    async def living(self) -> tuple[GatewayRow, ...]:
        """All gateways, the oldest first; one that has just died may be among them."""
        async with self._database.asynchronous_reads.connect() as connection:
            rows = await connection.execute(select(table).order_by(table.c.started_at, table.c.id))
            return tuple(_row(row) for row in rows.mappings())

    async def find(self, gateway_id: GatewayId) -> GatewayRow | None:
        """Where to reach a query's owner; None if it is gone."""
        async with self._database.asynchronous_reads.connect() as connection:
            rows = await connection.execute(select(table).where(table.c.id == gateway_id))
            row = rows.mappings().first()
        return None if row is None else _row(row)

    async def _join_in_the_end(self) -> None:
        while True:
            try:
                await self.join()
                return
            except Exception as error:
                _log.warning("gateway_did_not_join", cause=f"{type(error).__name__}: {error}")
                await asyncio.sleep(self._beat_every_s)


async def _take_over(
    connection: AsyncConnection, gateway: GatewayRow, at: float, lost: Failure, lost_change: Failure
) -> int:
    """Take the row away and fail its queries. If it has counted on meanwhile, nothing happens."""
    row = delete(table).where(table.c.id == gateway.id, table.c.beats == gateway.beats)
    if (await connection.execute(row)).rowcount != 1:
        return 0
    is_theirs, is_change = queries.c.owner == gateway.id, queries.c.kind == Kind.CHANGE.value
    changes = await connection.execute(failed(is_theirs & is_change, lost_change, at=at))
    others = await connection.execute(failed(is_theirs, lost, at=at))
    return int(changes.rowcount) + int(others.rowcount)


def _row(row: RowMapping) -> GatewayRow:
    return GatewayRow(
        GatewayId(row["id"]),
        row["home"],
        row["address"],
        row["started_at"],
        row["heartbeat_at"],
        row["beats"],
    )

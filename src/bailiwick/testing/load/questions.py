"""What the clients ask, with the right answers.

The answers are computed here from row numbers, not by any Spark: an engine that is wrong alone is found out
as well as one that is wrong under load.
"""
# ruff: noqa: S608 - every name in these statements is ours

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from heapq import nsmallest

NAMESPACE = "lake.bailiwick_load"
TABLE = f"{NAMESPACE}.readings"
ROWS = 200_000
FILES = 2
ROOMS = 10
PLACES = 10

MAKE_TABLE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} USING iceberg AS SELECT id, id * 7919 % 1000 AS sensor, "
    f"id * 2654435761 % 100003 AS value FROM range(0, {ROWS}, 1, {FILES})"
)

Row = tuple[object, ...]


class Mix(StrEnum):
    LIGHT = "light"
    HEAVY = "heavy"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    sql: str
    right: tuple[Row, ...]

    def marked(self, run: str) -> str:
        """The statement with a remark by which the history tells this run's from all others."""
        return f"{self.sql} /* {run} {self.name} */"


@dataclass(frozen=True, slots=True)
class Reading:
    id: int
    sensor: int
    value: int

    @property
    def room(self) -> int:
        return self.sensor % ROOMS


def questions(mix: Mix) -> tuple[Question, ...]:
    match mix:
        case Mix.LIGHT:
            return light()
        case Mix.HEAVY:
            return heavy()
        case Mix.MIXED:
            return (*light(), *heavy())


@cache
def light() -> tuple[Question, ...]:
    values = [reading.value for reading in readings()]
    return (
        Question("count", f"SELECT COUNT(*) FROM {TABLE}", ((ROWS,),)),
        Question("one", "SELECT 1", ((1,),)),
        Question("ends", f"SELECT MIN(value), MAX(value) FROM {TABLE}", ((min(values), max(values)),)),
        Question("nodes", "SELECT count(*) > 0 FROM system.runtime.nodes", ((True,),)),
    )


@cache
def heavy() -> tuple[Question, ...]:
    return (
        Question(
            "aggregate",
            "SELECT count(*), sum(value), min(id), max(id), count(DISTINCT sensor) "
            f"FROM {TABLE} WHERE value % 3 = 0",
            (_aggregate(),),
        ),
        Question(
            "group by",
            f"SELECT sensor % {ROOMS} AS room, count(*), sum(value), max(id) FROM {TABLE} "
            "GROUP BY room ORDER BY room",
            tuple(_rooms()),
        ),
        Question(
            "rank",
            f"SELECT * FROM (SELECT sensor % {ROOMS} AS room, id, "
            f"rank() OVER (PARTITION BY sensor % {ROOMS} ORDER BY value DESC, id) AS place FROM {TABLE}) "
            f"WHERE place <= {PLACES} ORDER BY room, place",
            tuple(_places()),
        ),
        Question(
            "rank of sums",
            "SELECT sensor, total, place FROM (SELECT sensor, sum(value) AS total, "
            f"rank() OVER (ORDER BY sum(value) DESC) AS place FROM {TABLE} GROUP BY sensor) "
            f"WHERE place <= {PLACES} ORDER BY place, sensor",
            tuple(_places_of_sums()),
        ),
    )


@cache
def readings() -> tuple[Reading, ...]:
    return tuple(Reading(id, id * 7919 % 1000, id * 2654435761 % 100003) for id in range(ROWS))


def _aggregate() -> Row:
    kept = [reading for reading in readings() if reading.value % 3 == 0]
    values, ids = sum(reading.value for reading in kept), [reading.id for reading in kept]
    return (len(kept), values, min(ids), max(ids), len({reading.sensor for reading in kept}))


def _rooms() -> Iterator[Row]:
    rooms: defaultdict[int, list[Reading]] = defaultdict(list)
    for reading in readings():
        rooms[reading.room].append(reading)
    for room in sorted(rooms):
        inside = rooms[room]
        yield (room, len(inside), sum(each.value for each in inside), max(each.id for each in inside))


def _places() -> Iterator[Row]:
    for room in range(ROOMS):
        inside = (reading for reading in readings() if reading.room == room)
        best = nsmallest(PLACES, inside, key=lambda reading: (-reading.value, reading.id))
        yield from ((room, reading.id, place) for place, reading in enumerate(best, 1))


def _places_of_sums() -> Iterator[Row]:
    sums: Counter[int] = Counter()
    for reading in readings():
        sums[reading.sensor] += reading.value
    for sensor, total in sorted(sums.items(), key=lambda item: (-item[1], item[0])):
        place = 1 + sum(other > total for other in sums.values())
        if place > PLACES:
            return
        yield (sensor, total, place)

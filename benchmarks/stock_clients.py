"""The stock PySpark client through the Spark Connect door, against the same client straight on the engine."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from benchmarks.measures import (
    AGGREGATE,
    CLIENTS,
    FETCH,
    FETCH_NOISE,
    MAKE_NOISE,
    MIX,
    QUERIES_EACH,
    Client,
    Measured,
    fetched,
    in_turns,
    rushed,
)
from benchmarks.sides import Arena, stop

DIGITS = 6
"""Sums of doubles depend on the order of rows beyond that."""


class DoorSession:
    """The subject: a stock PySpark session, opened with nothing but an address and a token."""

    def __init__(self, address: str, token: str) -> None:
        from pyspark.sql import SparkSession

        # The client sends a token over plaintext only to a host that is spelled `localhost`.
        url = f"sc://localhost:{address.rpartition(':')[2]}/;token={token}"
        self.spark = SparkSession.builder.remote(url).create()

    def rows(self, sql: str) -> list[Any]:
        return list(self.spark.sql(sql).collect())

    def table(self, sql: str) -> pa.Table:
        """As the baseline does it: without asking for the schema first."""
        table, _ = self.spark.sql(sql)._to_table()
        return table

    def close(self) -> None:
        stop(self.spark)


def select_one(arena: Arena, rounds: int) -> Measured:
    return _latency(arena, "PySpark: SELECT 1, p50", "SELECT 1", rounds=rounds, each=50)


def aggregate(arena: Arena, rounds: int) -> Measured:
    return _latency(arena, "PySpark: 200k-row aggregate, p50", AGGREGATE, rounds=rounds, each=20)


def fetch(arena: Arena, rounds: int) -> Measured:
    return _fetched(arena, "PySpark: fetch", FETCH, rounds)


def fetch_noise(arena: Arena, rounds: int) -> Measured:
    """What batches cost that are compressed in vain."""
    with closing(arena.adbc()) as admin:
        admin.rows(MAKE_NOISE)
    return _fetched(arena, "PySpark: fetch of noise", FETCH_NOISE, rounds)


def many_clients(arena: Arena, rounds: int) -> Measured:
    """Fresh sessions each round, opened before the clock starts. Every answer is compared."""
    token, right = _token(arena), _right_answers(arena)

    def connect(_number: int) -> Client:
        return DoorSession(arena.address, token)

    def ask(number: int, client: Client) -> None:
        for turn in range(QUERIES_EACH):
            sql = MIX[(number + turn) % len(MIX)]
            assert _rounded(client.rows(sql)) == right[sql], f"wrong answer to {sql}"

    name = f"PySpark: {CLIENTS} clients × {QUERIES_EACH} queries"
    return rushed(arena, rounds, name, ask, QUERIES_EACH, goal=1.0, connect=connect)


MEASURES: dict[str, Callable[[Arena, int], Measured]] = {
    "pyspark-many-clients": many_clients,
    "pyspark-fetch": fetch,
    "pyspark-fetch-noise": fetch_noise,
    "pyspark-aggregate": aggregate,
    "pyspark-select-one": select_one,
}


def _fetched(arena: Arena, name: str, sql: str, rounds: int) -> Measured:
    with (
        closing(DoorSession(arena.address, _token(arena))) as door,
        arena.lease() as stock,
        closing(stock.session()) as session,
    ):
        return fetched(arena, name, door, session, goal=0.9, rounds=rounds, sql=sql)


def _latency(arena: Arena, name: str, sql: str, *, rounds: int, each: int) -> Measured:
    with (
        closing(DoorSession(arena.address, _token(arena))) as door,
        arena.lease() as stock,
        closing(stock.session()) as session,
    ):
        assert _rounded(door.rows(sql)) == _rounded(session.rows(sql))
        return in_turns(arena, name, sql, door, session, goal=1.15, rounds=rounds, each=each)


def _right_answers(arena: Arena) -> dict[str, list[str]]:
    with arena.lease() as stock, closing(stock.session()) as session:
        return {sql: _rounded(session.rows(sql)) for sql in MIX}


def _rounded(rows: Sequence[Any]) -> list[str]:
    return sorted(
        repr([round(value, DIGITS) if isinstance(value, float) else value for value in row]) for row in rows
    )


def _token(arena: Arena) -> str:
    with closing(arena.adbc()) as admin:
        return str(admin.rows("CREATE TOKEN FOR admin TTL '12h'")[0][1])

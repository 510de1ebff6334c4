"""What is measured. Each measure runs both sides in turns on the same tables and gives one ratio."""

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import pyarrow as pa

from bailiwick.testing.load.clients import Rush
from bailiwick.testing.load.questions import MAKE_TABLE, NAMESPACE, Mix, questions
from benchmarks.sides import Arena, Cpu, StockSession, seconds
from benchmarks.stock_server import stock_server

FETCH_ROWS = 5_000_000
STOCK_WARM_UP = 800
STOCK_WARM_UP_MIXED = 60
CLIENTS = 50
QUERIES_EACH = 4
MIXED_EACH = len(questions(Mix.MIXED))
ONLY_OURS = "nodes"
"""The question about the gateway itself, which a client of the engine cannot ask."""
USERS = 10
READER_PASSWORD = "bench-reader-password"  # noqa: S105 - of a gateway that lives for a minute

AGGREGATE = (
    "SELECT sensor % 10 AS room, count(*) AS readings, avg(value) AS mean, max(at) AS last "
    "FROM bench.readings WHERE value > 0.1 GROUP BY sensor % 10"
)
ONE_ROW = "SELECT id, sensor, value FROM bench.readings WHERE id = ?"
FETCH = "SELECT * FROM bench.facts"
FETCH_NOISE = "SELECT * FROM bench.noise"
MIX = (
    "SELECT count(*) FROM bench.readings",
    "SELECT avg(value), max(value), min(at) FROM bench.readings WHERE sensor < 50",
    "SELECT sensor % 10 AS room, avg(value) FROM bench.readings GROUP BY sensor % 10 ORDER BY room",
    "SELECT day, channel, rank() OVER (PARTITION BY channel ORDER BY revenue DESC) AS place "
    "FROM shop.daily_revenue ORDER BY place, channel LIMIT 10",
    "SELECT category, count(*) AS n, avg(price) FROM shop.products GROUP BY category ORDER BY category",
    "SELECT c.country, count(*) AS readings FROM bench.readings r JOIN shop.customers c "
    "ON c.customer_id = r.sensor GROUP BY c.country ORDER BY readings DESC",
)
MAKE_NOISE = (
    "CREATE TABLE IF NOT EXISTS bench.noise USING iceberg AS SELECT xxhash64(id) AS id, "
    "hash(id) AS bucket, xxhash64(id, 1) * 1.5e-9D AS amount, "
    "date_add(DATE '1970-01-01', abs(hash(id, 2)) % 50000) AS day, hash(id, 3) % 2 = 0 AS flagged, "
    f"left(sha2(cast(id AS STRING), 256), 17) AS label FROM range({FETCH_ROWS})"
)
"""The facts' columns, filled with what no one could compress."""
PREPARE = (
    "CREATE NAMESPACE IF NOT EXISTS bench",
    "CREATE OR REPLACE TABLE bench.readings USING iceberg AS SELECT id, id * 7919 % 1000 AS sensor, "
    "timestamp_seconds(1704067200 + id * 30) AS at, (id * 2654435761 % 100003) / 100003.0D AS value "
    "FROM range(200000)",
    "CREATE OR REPLACE TABLE bench.facts USING iceberg AS "
    "SELECT id, cast(id % 1000 AS INT) AS bucket, id * 0.5D AS amount, "
    "date_add(DATE '2024-01-01', cast(id % 365 AS INT)) AS day, cast(id % 97 = 0 AS BOOLEAN) AS flagged, "
    f"concat('customer-', lpad(hex(id * 2654435761 % 4294967296), 8, '0')) AS label FROM range({FETCH_ROWS})",
    f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}",
    MAKE_TABLE,
)


class Client(Protocol):
    def rows(self, sql: str) -> list[Any]: ...

    def close(self) -> None: ...


class Fetching(Protocol):
    def table(self, sql: str) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class Measured:
    """`ratio` compares ours with the baseline; whether more or less is better, `higher_is_better` says.

    With another unit than × it is how much more ours takes.
    """

    name: str
    baseline: str
    ours: str
    ratio: float
    goal: float
    higher_is_better: bool
    bounds: str
    unit: str = "×"

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.goal if self.higher_is_better else self.ratio <= self.goal


def warm_up(arena: Arena, warm_s: float) -> None:
    """Both sides in turns, until the JVM has compiled what they need: at first it is several times slower."""
    until = time.monotonic() + warm_s
    with closing(arena.adbc()) as adbc, arena.lease() as stock, closing(stock.session()) as session:
        while time.monotonic() < until:
            for sql in ("SELECT 1", AGGREGATE, *MIX):
                adbc.rows(sql)
                session.rows(sql)


def select_one(arena: Arena, rounds: int) -> Measured:
    return _latency(arena, "SELECT 1, same engine, p50", "SELECT 1", goal=0.65, rounds=rounds, each=50)


def select_one_stock(arena: Arena, rounds: int) -> Measured:
    """Against Spark as it comes. Both have answered it often before the clock counts."""
    with (
        stock_server() as port,
        closing(arena.adbc()) as adbc,
        closing(StockSession.straight(port)) as session,
    ):
        for _ in range(STOCK_WARM_UP):
            adbc.rows("SELECT 1")
            session.rows("SELECT 1")
        name = "SELECT 1, stock Spark, p50"
        return in_turns(arena, name, "SELECT 1", adbc, session, goal=0.6, rounds=rounds, each=50)


def aggregate(arena: Arena, rounds: int) -> Measured:
    return _latency(arena, "200k-row aggregate, p50", AGGREGATE, goal=0.9, rounds=rounds, each=20)


def fetch(arena: Arena, rounds: int) -> Measured:
    with closing(arena.adbc()) as adbc, arena.lease() as stock, closing(stock.session()) as session:
        return fetched(arena, "fetch", adbc, session, goal=1.3, rounds=rounds)


def fetched(
    arena: Arena,
    name: str,
    subject: Fetching,
    session: Fetching,
    *,
    goal: float,
    rounds: int,
    sql: str = FETCH,
) -> Measured:
    """Both sides in turns, the whole of a large table each time."""
    theirs, ours, spent = [], [], []
    size = subject.table(sql).nbytes
    assert session.table(sql).num_rows == FETCH_ROWS
    for _ in range(rounds):
        theirs.append(seconds(session.table, sql))
        before = arena.cpu()
        ours.append(seconds(subject.table, sql))
        spent.append(arena.cpu() - before)
    baseline_s, ours_s = statistics.median(theirs), statistics.median(ours)
    return Measured(
        name=f"{name}, {FETCH_ROWS // 1_000_000}M rows × 6",
        baseline=f"{size / 1e6 / baseline_s:.0f} MB/s",
        ours=f"{size / 1e6 / ours_s:.0f} MB/s",
        ratio=baseline_s / ours_s,
        goal=goal,
        higher_is_better=True,
        bounds=_per(spent, 1, "fetch"),
    )


def many_clients(arena: Arena, rounds: int) -> Measured:
    """Fifty clients with the shop's questions."""
    _make_readers(arena)

    def ask(number: int, client: Client) -> None:
        for turn in range(QUERIES_EACH):
            assert client.rows(MIX[(number + turn) % len(MIX)])

    return rushed(arena, rounds, f"{CLIENTS} clients × {QUERIES_EACH} queries", ask, QUERIES_EACH, goal=2.5)


def fifty_mixed(arena: Arena, rounds: int) -> Measured:
    """Fifty clients with the mixed questions of `make load`, every answer compared on both sides."""
    _make_readers(arena)
    return rushed(arena, rounds, f"{CLIENTS} clients, mixed", _ask_mixed, MIXED_EACH - 1, goal=3.0)


def fifty_mixed_stock(arena: Arena, rounds: int) -> Measured:
    """The same against Spark as it comes: with such a table on a server of its own, without our settings."""
    _make_readers(arena)
    with stock_server() as port:
        with closing(StockSession.straight(port)) as session:
            for statement in (f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}", MAKE_TABLE):
                session.rows(statement)
            for _ in range(STOCK_WARM_UP_MIXED):
                _ask_mixed(0, session)

        def baseline() -> float:
            return _rush(lambda _number: StockSession.straight(port), _ask_mixed)

        name = f"{CLIENTS} clients, mixed, stock Spark"
        return rushed(arena, rounds, name, _ask_mixed, MIXED_EACH - 1, goal=3.0, baseline=baseline)


def _ask_mixed(number: int, client: Client) -> None:
    for question in Rush(CLIENTS, Mix.MIXED, MIXED_EACH).turns(number):
        if question.name != ONLY_OURS:
            found = tuple(tuple(row) for row in client.rows(question.sql))
            assert found == question.right, f"{question.name}: {found[:3]}"


def rushed(
    arena: Arena,
    rounds: int,
    name: str,
    ask: Callable[[int, Client], None],
    each: int,
    *,
    goal: float,
    connect: Callable[[int], Client] | None = None,
    baseline: Callable[[], float] | None = None,
) -> Measured:
    """Fresh connections each round, opened before the clock starts. The first round only warms up.

    Without `connect`, ours are readers by ADBC; without `baseline` that is stock clients on the same engine.
    """
    theirs, ours, spent = [], [], []
    for number in range(rounds + 1):
        arena.rest()
        their_s = baseline() if baseline is not None else _rushed_past(arena, ask)
        arena.rest()
        before = arena.cpu()
        our_s = _rush(connect or (lambda number: _reader(arena, number)), ask)
        arena.tell(f"round {number} of {rounds}: {their_s:.1f} s against {our_s:.1f} s")
        if number:
            theirs.append(their_s)
            ours.append(our_s)
            spent.append(arena.cpu() - before)
    queries = CLIENTS * each
    return Measured(
        name=name,
        baseline=f"{queries / statistics.median(theirs):.1f} q/s",
        ours=f"{queries / statistics.median(ours):.1f} q/s",
        ratio=statistics.median(theirs) / statistics.median(ours),
        goal=goal,
        higher_is_better=True,
        bounds=_per(spent, queries, "query"),
    )


def prepared(arena: Arena, rounds: int) -> Measured:
    """Prepare, bind, execute and fetch one row, each time with another value."""
    values = count(1, 37)
    theirs: list[float] = []
    ours: list[float] = []
    spent: list[Cpu] = []
    with closing(arena.adbc()) as adbc, arena.lease() as stock, closing(stock.session()) as session:
        for number in range(rounds + 1):
            baseline = [seconds(session.rows, ONE_ROW, [next(values)]) for _ in range(20)]
            before = arena.cpu()
            subject = [seconds(adbc.rows, ONE_ROW, [next(values)]) for _ in range(20)]
            if number:
                spent.append(arena.cpu() - before)
                theirs += baseline
                ours += subject
        assert len(adbc.rows(ONE_ROW, [7])) == len(session.rows(ONE_ROW, [7])) == 1
    baseline_s, ours_s = statistics.median(theirs), statistics.median(ours)
    return Measured(
        name="one row by parameter, p50",
        baseline=f"{1000 * baseline_s:.1f} ms",
        ours=f"{1000 * ours_s:.1f} ms",
        ratio=ours_s / baseline_s,
        goal=1.0,
        higher_is_better=False,
        bounds=_per(spent, 20, "query"),
    )


MEASURES: dict[str, Callable[[Arena, int], Measured]] = {
    "many-clients": many_clients,
    "fifty-mixed": fifty_mixed,
    "fifty-mixed-stock": fifty_mixed_stock,
    "fetch": fetch,
    "aggregate": aggregate,
    "prepared": prepared,
    "select-one": select_one,
    "select-one-stock": select_one_stock,
}
"""The shortest comes last: what the JVM still compiles for the others would count most there."""


def _latency(arena: Arena, name: str, sql: str, *, goal: float, rounds: int, each: int) -> Measured:
    with closing(arena.adbc()) as adbc, arena.lease() as stock, closing(stock.session()) as session:
        return in_turns(arena, name, sql, adbc, session, goal=goal, rounds=rounds, each=each)


def in_turns(
    arena: Arena,
    name: str,
    sql: str,
    adbc: Client,
    session: Client,
    *,
    goal: float,
    rounds: int,
    each: int,
) -> Measured:
    theirs: list[float] = []
    ours: list[float] = []
    spent: list[Cpu] = []
    assert len(adbc.rows(sql)) == len(session.rows(sql))
    for number in range(rounds + 1):
        baseline = [seconds(session.rows, sql) for _ in range(each)]
        before = arena.cpu()
        subject = [seconds(adbc.rows, sql) for _ in range(each)]
        if number:  # The first round only warms up.
            spent.append(arena.cpu() - before)
            theirs += baseline
            ours += subject
    baseline_s, ours_s = statistics.median(theirs), statistics.median(ours)
    return Measured(
        name=name,
        baseline=f"{1000 * baseline_s:.1f} ms",
        ours=f"{1000 * ours_s:.1f} ms",
        ratio=ours_s / baseline_s,
        goal=goal,
        higher_is_better=False,
        bounds=_per(spent, each, "query"),
    )


def _rush(connect: Callable[[int], Client], ask: Callable[[int, Client], None]) -> float:
    """All clients start at once; seconds until the last has its last answer. A failure ends the benchmark."""
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(connect, range(CLIENTS)))
    try:
        return _race(clients, ask)
    finally:
        for client in clients:
            client.close()


def _race(clients: Sequence[Client], ask: Callable[[int, Client], None]) -> float:
    start = threading.Barrier(len(clients) + 1)

    def work(number: int, client: Client) -> None:
        start.wait()
        ask(number, client)

    with ThreadPoolExecutor(len(clients)) as pool:
        working = [pool.submit(work, number, client) for number, client in enumerate(clients)]
        start.wait()
        return seconds(lambda: [one.result() for one in working])


def _reader(arena: Arena, number: int) -> Client:
    return arena.adbc(f"reader{number % USERS}", READER_PASSWORD)


def _rushed_past(arena: Arena, ask: Callable[[int, Client], None]) -> float:
    """By stock clients on the same engine, past the gateway's doors."""
    with arena.lease() as stock:
        return _rush(lambda _number: stock.session(), ask)


def _make_readers(arena: Arena) -> None:
    with closing(arena.adbc()) as admin:
        known = {row[0] for row in admin.rows("SHOW USERS")}
        for name in {f"reader{number}" for number in range(USERS)} - known:
            admin.rows(f"CREATE USER {name} PASSWORD '{READER_PASSWORD}' ROLES (reader)")
        for namespace in ("bench", "shop", NAMESPACE.removeprefix("lake.")):
            admin.rows(f"GRANT SELECT ON NAMESPACE lake.{namespace} TO ROLE reader")


def _per(spent: Sequence[Cpu], number: int, unit: str) -> str:
    """Where our side's processor time goes: with the clients on the same cores, that is what bounds it."""
    engine_ms = 1000 * statistics.median(one.engine_s for one in spent) / number
    gateway_ms = 1000 * statistics.median(one.gateway_s for one in spent) / number
    return f"CPU a {unit}: engine {engine_ms:.0f} ms, gateway {gateway_ms:.1f} ms"

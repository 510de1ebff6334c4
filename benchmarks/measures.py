"""What is measured. Each measure runs both sides in turns on the same tables and gives one ratio."""

import statistics
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from benchmarks.sides import Arena, Cpu, Stock, seconds

FETCH_ROWS = 5_000_000
CLIENTS = 50
QUERIES_EACH = 4
USERS = 10
READER_PASSWORD = "bench-reader-password"  # noqa: S105 - of a gateway that lives for a minute

AGGREGATE = (
    "SELECT status, channel, count(*) AS orders, max(ordered_at) AS last, sum(customer_id) AS total "
    "FROM shop.orders GROUP BY status, channel"
)
FETCH = "SELECT * FROM bench.facts"
MIX = (
    "SELECT count(*) FROM shop.orders",
    "SELECT avg(unit_price), max(quantity) FROM shop.order_lines WHERE quantity > 2",
    "SELECT channel, count(*) FROM shop.orders WHERE status = 'paid' GROUP BY channel ORDER BY channel",
    "SELECT category, avg(price) FROM shop.products GROUP BY category ORDER BY category",
    "SELECT day, channel, rank() OVER (PARTITION BY channel ORDER BY revenue DESC) AS place "
    "FROM shop.daily_revenue ORDER BY place, channel LIMIT 10",
    "SELECT c.country, count(*) FROM shop.orders o JOIN shop.customers c USING (customer_id) "
    "GROUP BY c.country ORDER BY 2 DESC",
)
PREPARE = (
    "CREATE NAMESPACE IF NOT EXISTS bench",
    "CREATE OR REPLACE TABLE bench.facts USING iceberg AS "
    "SELECT id, cast(id % 1000 AS INT) AS bucket, id * 0.5D AS amount, "
    "date_add(DATE '2024-01-01', cast(id % 365 AS INT)) AS day, cast(id % 97 = 0 AS BOOLEAN) AS flagged, "
    f"concat('customer-', lpad(hex(id * 2654435761 % 4294967296), 8, '0')) AS label FROM range({FETCH_ROWS})",
)


class Client(Protocol):
    def rows(self, sql: str) -> list[object]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Measured:
    """`ratio` compares ours with the baseline; whether more or less is better, `higher_is_better` says."""

    name: str
    baseline: str
    ours: str
    ratio: float
    goal: float
    higher_is_better: bool
    bounds: str

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.goal if self.higher_is_better else self.ratio <= self.goal


def select_one(arena: Arena) -> Measured:
    return _latency(arena, "SELECT 1, p50", "SELECT 1", goal=0.65, rounds=8, each=25)


def aggregate(arena: Arena) -> Measured:
    return _latency(arena, "aggregate of 200k rows, p50", AGGREGATE, goal=0.9, rounds=8, each=10)


def fetch(arena: Arena, rounds: int = 5) -> Measured:
    adbc = arena.adbc()
    with arena.lease() as stock:
        session = stock.session()
        size = adbc.table(FETCH).nbytes
        assert session.table(FETCH).num_rows == FETCH_ROWS
        theirs, ours, spent = [], [], []
        for _ in range(rounds):
            theirs.append(seconds(session.table, FETCH))
            before = arena.cpu()
            ours.append(seconds(adbc.table, FETCH))
            spent.append(arena.cpu() - before)
        session.close()
    adbc.close()
    baseline_s, ours_s = statistics.median(theirs), statistics.median(ours)
    return Measured(
        name=f"fetch of {FETCH_ROWS / 1e6:.0f} million rows × 6",
        baseline=f"{size / 1e6 / baseline_s:.0f} MB/s",
        ours=f"{size / 1e6 / ours_s:.0f} MB/s",
        ratio=baseline_s / ours_s,
        goal=1.3,
        higher_is_better=True,
        bounds=_per(spent, 1, "fetch"),
    )


def many_clients(arena: Arena, rounds: int = 3) -> Measured:
    """Fresh connections each round, opened before the clock starts. The first round only warms up."""
    _make_readers(arena)
    theirs, ours, spent = [], [], []
    for number in range(rounds + 1):
        with arena.lease() as stock:
            baseline = _rush(partial(_new_session, stock))
        before = arena.cpu()
        subject = _rush(lambda client: arena.adbc(f"reader{client % USERS}", READER_PASSWORD))
        if number:
            theirs.append(baseline)
            ours.append(subject)
            spent.append(arena.cpu() - before)
    count = CLIENTS * QUERIES_EACH
    return Measured(
        name=f"{CLIENTS} clients × {QUERIES_EACH} mixed queries",
        baseline=f"{count / statistics.median(theirs):.1f} queries/s",
        ours=f"{count / statistics.median(ours):.1f} queries/s",
        ratio=statistics.median(theirs) / statistics.median(ours),
        goal=2.5,
        higher_is_better=True,
        bounds=_per(spent, count, "query"),
    )


MEASURES: dict[str, Callable[[Arena], Measured]] = {
    "select-one": select_one,
    "aggregate": aggregate,
    "fetch": fetch,
    "many-clients": many_clients,
}


def _latency(arena: Arena, name: str, sql: str, *, goal: float, rounds: int, each: int) -> Measured:
    adbc = arena.adbc()
    with arena.lease() as stock:
        session = stock.session()
        assert len(adbc.rows(sql)) == len(session.rows(sql))
        theirs: list[float] = []
        ours: list[float] = []
        spent: list[Cpu] = []
        for number in range(rounds + 1):
            baseline = [seconds(session.rows, sql) for _ in range(each)]
            before = arena.cpu()
            subject = [seconds(adbc.rows, sql) for _ in range(each)]
            if number:  # The first round only warms up.
                spent.append(arena.cpu() - before)
                theirs += baseline
                ours += subject
        session.close()
    adbc.close()
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


def _rush(connect: Callable[[int], Client]) -> float:
    """All clients start at once; seconds until the last has its last answer. A failure ends the benchmark."""
    clients: list[Client] = []
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(connect, range(CLIENTS)))
    start = threading.Barrier(CLIENTS + 1)

    def work(number: int) -> None:
        start.wait()
        for turn in range(QUERIES_EACH):
            assert clients[number].rows(MIX[(number + turn) % len(MIX)])

    with ThreadPoolExecutor(CLIENTS) as pool:
        working = [pool.submit(work, number) for number in range(CLIENTS)]
        start.wait()
        took_s = seconds(lambda: [one.result() for one in working])
    for client in clients:
        client.close()
    return took_s


def _new_session(stock: Stock, _client: int) -> Client:
    return stock.session()


def _make_readers(arena: Arena) -> None:
    admin = arena.adbc()
    for number in range(USERS):
        admin.rows(f"CREATE USER reader{number} PASSWORD '{READER_PASSWORD}' ROLES (reader)")
    admin.close()


def _per(spent: Sequence[Cpu], count: int, unit: str) -> str:
    """Where our side's processor time goes: on a machine of two cores that is what bounds it."""
    engine_ms = 1000 * statistics.median(one.engine_s for one in spent) / count
    gateway_ms = 1000 * statistics.median(one.gateway_s for one in spent) / count
    return f"CPU a {unit}: engine {engine_ms:.0f} ms, gateway {gateway_ms:.1f} ms"

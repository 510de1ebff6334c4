"""What governance costs: the same statements by one whom no rule meets and by one whom rules do.

Both come through the same door with the same grants; the rules of the second keep every row, and masks leave
what the queries compare as it is, so both sides do the same work and get equally many rows. What differs
is what the guard puts into the plans, and what that keeps Spark from doing.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.measures import READER_PASSWORD, Measured
from benchmarks.sides import Adbc, Arena, Cpu, seconds

SCALE = "0.1"
TABLES = 8
QUERIES = Path(__file__).parents[1] / "tests" / "e2e" / "tpch"
FREE, GOVERNED = "bench_free", "bench_governed"
GROUP = "bench_group"

RULES = (
    # Of each table: a filter that keeps all rows, a mask on a column that queries read and one on another.
    ("FILTER", "tpch.lineitem", "", "l_shipdate >= DATE '1992-01-01'"),
    ("MASK", "tpch.lineitem", "l_shipinstruct", "upper(l_shipinstruct)"),
    ("MASK", "tpch.lineitem", "l_comment", "'hidden'"),
    ("FILTER", "tpch.orders", "", "o_totalprice > 0"),
    ("MASK", "tpch.orders", "o_comment", "lower(o_comment)"),
    ("MASK", "tpch.orders", "o_clerk", "sha2(o_clerk, 256)"),
    ("FILTER", "tpch.customer", "", "c_custkey > 0"),
    ("MASK", "tpch.customer", "c_phone", "concat(left(c_phone, 3), 'nnn-nnn-nnnn')"),
    ("MASK", "tpch.customer", "c_address", "NULL"),
    ("FILTER", "bench.facts", "", "bucket >= 0"),
    ("MASK", "bench.facts", "label", "concat('customer-', right(label, 4))"),
)
SCANS = (
    "SELECT l_orderkey, l_shipinstruct FROM tpch.lineitem WHERE l_orderkey = -1",
    "SELECT o_orderkey, o_comment FROM tpch.orders WHERE o_orderkey = -1",
    "SELECT c_custkey, c_phone FROM tpch.customer WHERE c_custkey = -1",
)
RELATIONS = 24
PLANS_EACH = 15
SELECTIVE = "SELECT id, amount, label FROM bench.facts WHERE id = ?"
SELECTIVE_EACH = 20


@dataclass(frozen=True, slots=True)
class Pair:
    """The two who are compared, and the engine's clock."""

    arena: Arena
    free: Adbc
    governed: Adbc

    def spent(self, work: Callable[..., object], *arguments: object) -> Cpu:
        """Processor time while `work` goes on, that of Java's compiler and collector included."""
        before = self.arena.cpu()
        work(*arguments)
        return self.arena.cpu() - before

    def in_turn(self, number: int) -> Sequence[Adbc]:
        """Who comes first changes with each round: what Java still learns would favour the second."""
        return (self.free, self.governed) if number % 2 else (self.governed, self.free)


def tpch(arena: Arena, rounds: int) -> Measured:
    """All 22 queries. Two rounds only warm up."""
    texts = {path.stem: path.read_text() for path in sorted(QUERIES.glob("q*.sql"))}
    spent_s: dict[tuple[str, str], list[float]] = {}
    with _pair(arena) as pair:
        for name, sql in texts.items():
            assert len(pair.free.rows(sql)) == len(pair.governed.rows(sql)), name
        for number in range(rounds + 1):
            for name, sql in texts.items():
                for side in pair.in_turn(number):
                    taken_s = pair.spent(side.rows, sql).engine_s
                    if number:
                        spent_s.setdefault((name, _who(pair, side)), []).append(taken_s)
    median_s = {key: statistics.median(values) for key, values in spent_s.items()}
    totals_s = {who: sum(median_s[name, who] for name in texts) for who in (FREE, GOVERNED)}
    each = " ".join(f"{name} {median_s[name, GOVERNED] / median_s[name, FREE]:.2f}" for name in texts)
    return Measured(
        name=f"governed TPC-H at {SCALE}, engine CPU",
        baseline=f"{totals_s[FREE]:.1f} s",
        ours=f"{totals_s[GOVERNED]:.1f} s",
        ratio=totals_s[GOVERNED] / totals_s[FREE],
        goal=1.10,
        higher_is_better=False,
        bounds=f"filters and masks on lineitem, orders, customer; ratio of each query: {each}",
    )


def planning(arena: Arena, rounds: int) -> Measured:
    """A query of many scans that find no file to read: nearly all of it is planning.

    Texts differ by a comment: the gateway keeps no description of them, and Java compiles nothing anew.
    EXPLAIN would not do: to those who are restricted it shows another plan than the one that runs.
    """
    numbers = count(1)
    spent: dict[str, list[Cpu]] = {FREE: [], GOVERNED: []}
    with _pair(arena) as pair:

        def plan(side: Adbc) -> None:
            for _ in range(PLANS_EACH):
                assert side.rows(_many_relations(next(numbers))) == []

        for number in range(rounds + 3):
            for side in pair.in_turn(number):
                taken = pair.spent(plan, side)
                if number > 2:
                    spent[_who(pair, side)].append(taken)
    engine_ms = {who: _median_ms(one.engine_s for one in spent[who]) / PLANS_EACH for who in spent}
    gateway_ms = {who: _median_ms(one.gateway_s for one in spent[who]) / PLANS_EACH for who in spent}
    return Measured(
        name="planning, more CPU a relation",
        baseline=f"{engine_ms[FREE] / RELATIONS:.1f} ms",
        ours=f"{engine_ms[GOVERNED] / RELATIONS:.1f} ms",
        ratio=(engine_ms[GOVERNED] - engine_ms[FREE]) / RELATIONS,
        goal=2.0,
        higher_is_better=False,
        unit=" ms",
        bounds=f"engine CPU of {RELATIONS} scans without a file, each with a filter and masks: "
        f"{engine_ms[GOVERNED]:.0f} ms against {engine_ms[FREE]:.0f} ms; the gateway's: "
        f"{gateway_ms[GOVERNED]:.0f} ms against {gateway_ms[FREE]:.0f} ms",
    )


def selective(arena: Arena, rounds: int) -> Measured:
    """One row of five million by its number: a predicate that does not reach the scan reads them all."""
    values = count(1, 15_013)
    taken_s: dict[str, list[float]] = {FREE: [], GOVERNED: []}
    spent_s: dict[str, list[float]] = {FREE: [], GOVERNED: []}
    with _pair(arena) as pair:

        def look_up(side: Adbc) -> None:
            who = _who(pair, side)
            taken_s[who] += [seconds(side.rows, SELECTIVE, [next(values)]) for _ in range(SELECTIVE_EACH)]

        for number in range(rounds + 1):
            for side in pair.in_turn(number):
                spent_s[_who(pair, side)].append(pair.spent(look_up, side).engine_s)
        assert len(pair.governed.rows(SELECTIVE, [7])) == 1
    p50_ms = {who: _median_ms(taken[SELECTIVE_EACH:]) for who, taken in taken_s.items()}
    cpu_ms = {who: _median_ms(taken[1:]) / SELECTIVE_EACH for who, taken in spent_s.items()}
    return Measured(
        name="governed: one row by number, p50",
        baseline=f"{p50_ms[FREE]:.1f} ms",
        ours=f"{p50_ms[GOVERNED]:.1f} ms",
        ratio=p50_ms[GOVERNED] / p50_ms[FREE],
        goal=1.5,
        higher_is_better=False,
        bounds=f"engine CPU a query: {cpu_ms[GOVERNED]:.0f} ms against {cpu_ms[FREE]:.0f} ms",
    )


MEASURES: dict[str, Callable[[Arena, int], Measured]] = {
    "governed-tpch": tpch,
    "governed-planning": planning,
    "governed-selective": selective,
}


@contextmanager
def _pair(arena: Arena) -> Iterator[Pair]:
    with closing(arena.adbc()) as admin:
        _ensure_tables(admin)
        _ensure_policy(admin)
    with (
        closing(arena.adbc(FREE, READER_PASSWORD)) as free,
        closing(arena.adbc(GOVERNED, READER_PASSWORD)) as governed,
    ):
        yield Pair(arena, free, governed)


def _who(pair: Pair, side: Adbc) -> str:
    return FREE if side is pair.free else GOVERNED


def _median_ms(taken_s: Iterable[float]) -> float:
    return 1000 * statistics.median(taken_s)


def _many_relations(number: int) -> str:
    scans = (SCANS[position % len(SCANS)] for position in range(RELATIONS))
    return f"{' UNION ALL '.join(scans)} /* {number} */"


def _ensure_tables(admin: Adbc) -> None:
    """The generator's tables, as any client would bring them."""
    found = admin.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'tpch'")
    if len(found) == TABLES:
        return
    admin.rows("CREATE NAMESPACE IF NOT EXISTS tpch")
    generator = str(Path(sys.executable).parent / "tpchgen-cli")
    with tempfile.TemporaryDirectory(prefix="bailiwick-tpch-") as directory:
        command = [generator, "parquet", "--scale-factor", SCALE, "--output-dir", directory]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for path in sorted(Path(directory).glob("*.parquet")):
            with admin.connection.cursor() as cursor:
                rows = pq.read_table(path).to_reader(max_chunksize=50_000)
                cursor.adbc_ingest(path.stem, rows, mode="replace", db_schema_name="tpch")


def _ensure_policy(admin: Adbc) -> None:
    known = {row[0] for row in admin.rows("SHOW USERS")}
    for name in {FREE, GOVERNED} - known:
        admin.rows(f"CREATE USER {name} PASSWORD '{READER_PASSWORD}' ROLES (reader)")
    admin.rows(f"CREATE ROLE IF NOT EXISTS {GROUP}")
    admin.rows(f"GRANT ROLE {GROUP} TO USER {FREE}, USER {GOVERNED}")
    for namespace in ("tpch", "bench"):
        admin.rows(f"GRANT SELECT ON NAMESPACE lake.{namespace} TO ROLE {GROUP}")
    for number, (kind, table, column, using) in enumerate(RULES):
        what = f"ON TABLE lake.{table}" + (f" COLUMN {column}" if column else "")
        rule = "ROW FILTER" if kind == "FILTER" else "MASK"
        admin.rows(f"CREATE OR REPLACE {rule} bench_{number} {what} FOR USER {GOVERNED} USING ({using})")

"""Five million rows brought by a client: `adbc_ingest` against the stock client's `createDataFrame`.

Ours makes all rows visible in one commit, whatever their number, and holds a few chunks of them at a time.
The stock client hands them to Spark in one plan, and Spark holds them as rows on its heap.
"""

import statistics
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import psutil
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException

from benchmarks.measures import Measured
from benchmarks.sides import Adbc, Arena, StockSession, seconds

ROWS = 5_000_000
BATCH_ROWS = 65_536
TARGET = "bench.ingested"
STOCK_TARGET = "bench.ingested_by_stock"
LOOK_EVERY_S = 0.05
ROUNDS_MAX = 3
"""Each moves a quarter of a gigabyte twice: a few tell enough."""


@dataclass(slots=True)
class Peak:
    """The most memory that the gateway and its engine were seen to hold."""

    gateway_bytes: int = 0
    engine_bytes: int = 0


def ingest(arena: Arena, rounds: int) -> Measured:
    rows = facts()
    theirs: list[float] = []
    ours: list[float] = []
    failure = ""
    with closing(arena.adbc()) as adbc, _watching(arena) as peak:
        for _ in range(min(rounds, ROUNDS_MAX)):
            ours.append(seconds(_bring, adbc, rows))
        assert adbc.rows(f"SELECT count(*) FROM {TARGET}")[0][0] == rows.num_rows
    with arena.lease() as stock, closing(stock.session()) as session:
        try:
            for _ in range(min(rounds, ROUNDS_MAX)):
                theirs.append(seconds(_write_by_stock, session, rows))
        except PySparkException as error:
            failure = type(error).__name__
    ours_s = statistics.median(ours)
    baseline_s = statistics.median(theirs) if theirs else float("inf")
    return Measured(
        name=f"ingest, {ROWS // 1_000_000}M rows × {rows.num_columns}",
        baseline=f"{rows.num_rows / baseline_s / 1000:.0f}k rows/s" if theirs else f"fails: {failure}",
        ours=f"{rows.num_rows / ours_s / 1000:.0f}k rows/s",
        ratio=baseline_s / ours_s,
        goal=0.7,
        higher_is_better=True,
        bounds=f"{rows.nbytes / 1e6:.0f} MB of Arrow, written twice by Spark; peak memory of the gateway "
        f"{peak.gateway_bytes / 1e6:.0f} MB, of its engine {peak.engine_bytes / 1e6:.0f} MB",
    )


def facts() -> pa.Table:
    """The columns that `bench.facts` has, made here."""
    ids = pa.array(range(ROWS), pa.int64())
    bucket = pc.subtract(ids, pc.multiply(pc.divide(ids, 1000), 1000))
    return pa.table(
        {
            "id": ids,
            "bucket": bucket.cast(pa.int32()),
            "amount": pc.multiply(ids.cast(pa.float64()), 0.5),
            "day": pc.add(bucket, 19_000).cast(pa.int32()).cast(pa.date32()),
            "flagged": pc.equal(bucket, 0),
            "label": pc.binary_join_element_wise("customer", ids.cast(pa.string()), "-"),
        }
    )


def _bring(adbc: Adbc, rows: pa.Table) -> None:
    reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=BATCH_ROWS))
    schema, _, table = TARGET.partition(".")
    with adbc.connection.cursor() as cursor:
        assert cursor.adbc_ingest(table, reader, mode="replace", db_schema_name=schema) == rows.num_rows


def _write_by_stock(session: StockSession, rows: pa.Table) -> None:
    session.spark.addTag(session.lease)
    session.spark.createDataFrame(rows).writeTo(STOCK_TARGET).using("iceberg").createOrReplace()


@contextmanager
def _watching(arena: Arena) -> Iterator[Peak]:
    peak, is_over = Peak(), threading.Event()
    gateway = psutil.Process(arena.process.pid)
    (engine,) = [child for child in gateway.children(recursive=True) if child.name() == "java"]

    def look() -> None:
        while not is_over.wait(LOOK_EVERY_S):
            peak.gateway_bytes = max(peak.gateway_bytes, gateway.memory_info().rss)
            peak.engine_bytes = max(peak.engine_bytes, engine.memory_info().rss)

    watcher = threading.Thread(target=look, name="peak")
    watcher.start()
    try:
        yield peak
    finally:
        is_over.set()
        watcher.join()

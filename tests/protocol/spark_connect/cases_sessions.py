"""A session: its settings, tags, interrupts, progress, long results, threads."""

import threading
import time
import uuid
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from spark_connect.case import case, since
from spark_connect.connecting import another, kept

_WAIT_S = 60.0
_POLL_S = 0.05


def _endless(spark: Any) -> Any:
    return (
        spark.range(0, 4_000_000_000, 1, 2000)
        .crossJoin(spark.range(1000).toDF("n"))
        .agg(f.sum(f.col("id") * f.col("n") % 7))
    )


def _until(what: Any) -> Any:
    """The first value of `what` that says something."""
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        if value := what():
            return value
        time.sleep(_POLL_S)
    raise TimeoutError


def _interrupted(spark: Any, interrupt: Any, tag: str | None = None) -> Any:
    """How a query ends, and how many were interrupted, when `interrupt` is called until it finds some."""
    ended: list[Any] = []

    def work() -> None:
        if tag:
            spark.addTag(tag)
        try:
            ended.append(_endless(spark).collect())
        except PySparkException as error:
            ended.append([type(error).__name__, error.getCondition(), error.getSqlState()])

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    found = _until(interrupt)
    worker.join(_WAIT_S)
    return [len(found), ended]


@case
def interrupt_by_tag(spark: Any) -> Any:
    return _interrupted(spark, lambda: spark.interruptTag("slow"), "slow")


@case
def interrupt_all(spark: Any) -> Any:
    return _interrupted(spark, spark.interruptAll)


@case
def interrupt_by_operation(spark: Any) -> Any:
    seen: list[str] = []

    def handler(operation_id: str, **_more: Any) -> None:
        seen.append(operation_id)

    spark.registerProgressHandler(handler)
    try:
        return _interrupted(spark, lambda: seen and spark.interruptOperation(seen[-1]))
    finally:
        spark.removeProgressHandler(handler)


@case
def interrupting_nothing(spark: Any) -> Any:
    return [spark.interruptAll(), spark.interruptTag("nobody"), spark.interruptOperation("0" * 8)]


@case
def a_session_goes_on_after_an_interrupt(spark: Any) -> Any:
    _interrupted(spark, lambda: spark.interruptTag("again"), "again")
    return spark.sql("SELECT 7 AS n").collect()


@case
def tags(spark: Any) -> Any:
    spark.addTag("one")
    spark.addTag("two")
    spark.removeTag("one")
    seen = [sorted(spark.getTags()), spark.sql("SELECT 1 AS n").collect()]
    spark.clearTags()
    return [*seen, sorted(spark.getTags())]


@case
def a_bad_tag(spark: Any) -> Any:
    spark.addTag("a,b")


@case
def progress_is_told(spark: Any) -> Any:
    told: list[Any] = []

    def handler(stages: Any, inflight_tasks: int, operation_id: str, done: bool) -> None:
        told.append((len(list(stages or [])), inflight_tasks, bool(operation_id), done))

    spark.registerProgressHandler(handler)
    try:
        total = spark.range(0, 100_000_000, 1, 8).agg(f.sum(f.col("id") % 7)).collect()
    finally:
        spark.removeProgressHandler(handler)
        spark.clearProgressHandlers()
    return [total, bool(told), all(each[2] for each in told), told[-1][3] if told else None]


@case
def version(spark: Any) -> Any:
    return spark.version


@case
def a_setting_that_may_be_set(spark: Any) -> Any:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    seen = spark.sql("SELECT CAST(TIMESTAMP '2026-01-01 00:00:00Z' AS STRING) AS t").collect()
    spark.conf.set("spark.sql.session.timeZone", before)
    return [before, seen, spark.conf.get("spark.sql.session.timeZone")]


@case
def a_setting_by_sql(spark: Any) -> Any:
    spark.sql("SET TIME ZONE 'America/Lima'")
    seen = spark.sql("SELECT current_timezone() AS z").collect()
    spark.sql("SET TIME ZONE 'UTC'")
    return seen


@case
def a_setting_unset(spark: Any) -> Any:
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    seen = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.unset("spark.sql.shuffle.partitions")
    return seen


@case
def a_setting_with_a_default(spark: Any) -> Any:
    return [
        spark.conf.get("spark.sql.no.such.key", "fallback"),
        spark.conf.get("spark.sql.no.such.key", None),
    ]


@case
def a_setting_that_is_not_there(spark: Any) -> Any:
    return spark.conf.get("spark.sql.no.such.key")


@case
def modifiable_settings(spark: Any) -> Any:
    return [
        spark.conf.isModifiable("spark.sql.session.timeZone"),
        spark.conf.isModifiable("spark.sql.warehouse.dir"),
    ]


@case
def a_long_result(spark: Any) -> Any:
    table = spark.range(0, 400_000, 1, 8).selectExpr("id", "repeat(CAST(id AS STRING), 4) AS t").toArrow()
    return [table.num_rows, sum(table.column("id").to_pylist())]


@case
def a_wide_result(spark: Any) -> Any:
    frame = spark.range(500).select(*((f.col("id") + n).alias(f"c{n}") for n in range(200)))
    table = frame.toArrow()
    return [table.num_rows, table.num_columns]


@case
def large_values(spark: Any) -> Any:
    rows = spark.range(4).selectExpr("id", "repeat('x', 1000000) AS t").collect()
    return sorted([row.id, len(row.t)] for row in rows)


@case
def a_large_frame_is_sent(spark: Any) -> Any:
    rows = [(n, "y" * 100) for n in range(30_000)]
    return spark.createDataFrame(rows, "n INT, t STRING").groupBy(f.length("t")).count()


@case
def a_deep_plan(spark: Any) -> Any:
    frame = spark.range(3)
    for n in range(60):
        frame = frame.withColumn("id", f.col("id") + n)
    return frame


@case
def a_wide_union(spark: Any) -> Any:
    frame = spark.range(1)
    for n in range(30):
        frame = frame.union(spark.range(n, n + 1))
    return frame.agg(f.sum("id"), f.count("*"))


@case
def several_threads(spark: Any) -> Any:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda n: spark.range(n * 10).count(), range(1, 9)))


@case
def two_sessions(spark: Any) -> Any:
    other = another()
    try:
        spark.range(1).createOrReplaceTempView("s_mine")
        return [
            spark.catalog.tableExists("s_mine"),
            other.catalog.tableExists("s_mine"),
            other.range(3).count(),
        ]
    finally:
        spark.catalog.dropTempView("s_mine")
        other.stop()


@since(4, 1)
def a_cloned_session(spark: Any) -> Any:
    """It begins with what there was, and goes its own way from there."""
    origin = another()
    try:
        origin.conf.set("spark.sql.shuffle.partitions", "3")
        origin.createDataFrame([(1, "x" * 2_000_000)], "n INT, t STRING").createTempView("s_kept")
        clone = kept(origin.cloneSession())
        # Plain Spark copies the views no sooner than they are first asked for.
        seen = clone.sql("SELECT n, length(t) FROM s_kept").collect()
        origin.catalog.dropTempView("s_kept")
        clone.conf.set("spark.sql.shuffle.partitions", "5")
        clone.range(2).createTempView("s_own")
        return [
            seen,
            clone.table("s_kept").count(),
            origin.conf.get("spark.sql.shuffle.partitions"),
            origin.catalog.tableExists("s_own"),
            origin.catalog.tableExists("s_kept"),
            clone.conf.get("spark.sql.shuffle.partitions"),
        ]
    finally:
        origin.stop()


@since(4, 1)
def a_clone_under_a_name(spark: Any) -> Any:
    name = str(uuid.uuid4()).upper()
    clone = kept(spark.cloneSession(name))
    return [clone.session_id == name, clone.range(2).count()]


@since(4, 1)
def a_clone_under_a_name_that_is_taken(spark: Any) -> Any:
    name = str(uuid.uuid4())
    kept(spark.cloneSession(name))
    return kept(spark.cloneSession(name))


@since(4, 1)
def a_clone_under_a_name_that_is_none(spark: Any) -> Any:
    return kept(spark.cloneSession("mine"))


@case
def a_session_spelled_in_capitals(spark: Any) -> Any:
    name = str(uuid.uuid4()).upper()
    other = another(session_id=name)
    try:
        other.range(1).createTempView("s_spelled")
        return [other.session_id == name, other.table("s_spelled").count()]
    finally:
        other.stop()


@case
def a_stopped_session(spark: Any) -> Any:
    other = another()
    other.range(1).collect()
    other.stop()
    return other.is_stopped


@case
def execution_metrics(spark: Any) -> Any:
    frame = spark.table("people").filter("id > 2")
    frame.collect()
    return frame.executionInfo is not None


@case
def a_cut_short_iterator(spark: Any) -> Any:
    rows = spark.range(0, 100_000, 1, 4).toLocalIterator()
    first = next(rows).id
    del rows
    return [first, spark.range(2).count()]

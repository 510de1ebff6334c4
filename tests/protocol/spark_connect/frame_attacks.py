# ruff: noqa: E501 - one attack a line
"""Attempts to see what one may not see, by what only DataFrames can say. Whatever they answer is searched.

They are made as `ana`, in the house: she sees people of the EU, and masks. Runs inside the client's environment.
"""

import contextlib
import io
from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as f

Attack = Callable[[Any], Any]
LATER = "2100-01-01 00:00:00"
VIEW_WHOSE_RULE_READS = "a view of a version whose rule reads a table"


def people(spark: Any) -> Any:
    return spark.table("people")


def _printed(work: Callable[[], Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        work()
    return said.getvalue()


def _explained(frame: Any, mode: str) -> str:
    return _printed(lambda: frame.explain(mode))


def _all_explained(frame: Any) -> list[str]:
    return [_explained(frame, mode) for mode in ("simple", "extended", "codegen", "cost", "formatted")]


def _with_orders(spark: Any) -> Any:
    everybody, orders = people(spark), spark.table("orders")
    return everybody.join(orders, everybody.id == orders.person_id)


def _by_pattern(frame: Any) -> Any:
    return frame.select(frame.colRegex("`.*`"))


def _files(frame: Any) -> Any:
    return frame.select(frame.metadataColumn("_file"))


def _observed(spark: Any) -> Any:
    from pyspark.sql import Observation

    seen = Observation()
    rows = (
        people(spark)
        .observe(seen, f.max("ssn"), f.max("salary"), f.collect_list("notes"), f.count("*"))
        .collect()
    )
    return [rows, seen.get]


def _observed_below(spark: Any) -> Any:
    from pyspark.sql import Observation

    seen = Observation("below")
    frame = spark.table("counted").observe(seen, f.max("n"), f.count("*")).filter("n < 0")
    return [frame.collect(), seen.get]


def _from_view(spark: Any, name: str) -> Any:
    people(spark).createOrReplaceTempView(name)
    try:
        return [
            spark.table(name).collect(),
            spark.sql(f"SELECT max(salary), max(ssn), count(*) FROM {name}").collect(),
        ]
    finally:
        spark.catalog.dropTempView(name)


def _view_over_hidden(spark: Any) -> Any:
    spark.sql("CREATE OR REPLACE TEMP VIEW attack_hidden AS SELECT * FROM lake.vault.secrets")
    return spark.table("attack_hidden").collect()


def _written_out(spark: Any) -> Any:
    people(spark).writeTo("lake.desk.attack_copied").createOrReplace()
    return spark.table("lake.desk.attack_copied").collect()


def _metrics(frame: Any) -> Any:
    frame.collect()
    told = frame.executionInfo
    return [str(told), None if told is None or told.metrics is None else str(told.metrics.toDot())]


def _merged_into_own(spark: Any) -> Any:
    own = "lake.desk.attack_merged"
    spark.range(0).selectExpr("CAST(id AS INT) AS id", "'' AS ssn").writeTo(own).createOrReplace()
    people(spark).select("id", "ssn").mergeInto(
        own, f.expr(f"{own}.id = people.id")
    ).whenNotMatched().insertAll().merge()
    return spark.table(own).collect()


def _parted_by_masked(spark: Any) -> Any:
    own = "lake.desk.attack_parted"
    people(spark).select("ssn", "email").writeTo(own).partitionedBy(f.col("ssn")).createOrReplace()
    return [spark.table(own).collect(), spark.table(f"{own}.partitions").collect()]


def _self_joined(spark: Any) -> Any:
    one, other = people(spark), people(spark)
    return one.join(other, one.ssn == other.ssn).select(one.ssn, other.salary, other.home).collect()


def _dropped(spark: Any) -> Any:
    frame = people(spark)
    return frame.withColumn("ssn", f.lit("x")).select(frame.ssn, frame.salary).collect()


def _of_another(spark: Any) -> Any:
    return people(spark).select(spark.table("orders").comment).collect()


def _view_of_a_version(spark: Any) -> Any:
    spark.read.option("versionAsOf", "hired").table("people").createOrReplaceTempView("attack_version")
    return [
        spark.table("attack_version").collect(),
        spark.sql("SELECT max(salary) FROM attack_version").collect(),
    ]


def _view_whose_rule_reads(spark: Any) -> Any:
    spark.read.option("timestampAsOf", LATER).table("orders").createOrReplaceTempView("attack_rule")
    return [row.id for row in spark.table("attack_rule").collect()]


def _view_of_a_branch(spark: Any) -> Any:
    spark.read.option("branch", "side").table("events").createOrReplaceTempView("attack_branch")
    return spark.table("attack_branch").filter("severity > 3").collect()


def _renamed_away(spark: Any) -> Any:
    moved = people(spark).withColumnsRenamed({"ssn": "a", "email": "b", "notes": "c", "region": "d"})
    return moved.filter("d <> 'EU' OR a LIKE 'V%'").select("a", "b", "c", "d").collect()


def _by_place(spark: Any) -> Any:
    frame = people(spark)
    return [
        frame.select(*(frame[place] for place in range(14))).collect(),
        frame.orderBy(-4, -6).limit(3).collect(),
    ]


ATTACKS: dict[str, Attack] = {
    "columns by their places": _by_place,
    "a self join by frames": _self_joined,
    "a column that was replaced": _dropped,
    "a column of another frame": _of_another,
    "columns under other names": _renamed_away,
    "a column that is made of masked ones": lambda s: (
        people(s).withColumns({"ssn": f.concat("ssn", "email"), "was": f.col("ssn")}).collect()
    ),
    "sorted by what is masked": lambda s: [
        people(s).orderBy(f.desc("salary"), "ssn").limit(3).collect(),
        people(s).orderBy("notes").offset(20).collect(),
    ],
    "the first": lambda s: [people(s).first(), people(s).head(2), people(s).take(2), people(s).isEmpty()],
    "sets with guesses": lambda s: (
        people(s)
        .select("salary")
        .intersect(s.range(9_021_000, 9_021_100).selectExpr("CAST(id AS DECIMAL(10,2))"))
        .collect()
    ),
    "what is not among the visible": lambda s: s.table("counted").select("n").exceptAll(s.range(7)).collect(),
    "split at random": lambda s: [part.collect() for part in people(s).randomSplit([1.0, 1.0], 1)],
    "schemas": lambda s: [
        people(s).schema,
        people(s).dtypes,
        _printed(people(s).printSchema),
        s.table("open_orders").schema,
    ],
    "grouped by what is masked": lambda s: [
        people(s).groupBy("ssn", "salary").count().collect(),
        people(s).rollup("email").agg(f.max("notes"), f.approx_count_distinct("badge")).collect(),
    ],
    "by ranges of what is masked": lambda s: (
        people(s).repartitionByRange(3, "salary").select(f.spark_partition_id(), "salary").collect()
    ),
    "a frame inside of SQL": lambda s: s.sql(
        "SELECT max(salary), count(*) FROM {p} WHERE region <> 'EU' OR ssn LIKE 'V%'", p=people(s)
    ).collect(),
    "a parameter of SQL": lambda s: s.sql("SELECT * FROM people WHERE region = :r", {"r": "US"}).collect(),
    "a computed name": lambda s: s.sql("SELECT * FROM IDENTIFIER(:t)", {"t": "lake.vault.secrets"}).collect(),
    "a whole row": lambda s: (
        people(s).select(f.struct("*").alias("all")).select("all.ssn", "all.home.city", "all.notes").collect()
    ),
    "hidden metadata": lambda s: people(s).selectExpr("_metadata").collect(),
    "hidden ids of rows": lambda s: people(s).select("_row_id", "_last_updated_sequence_number").collect(),
    "a view of a version": _view_of_a_version,
    VIEW_WHOSE_RULE_READS: _view_whose_rule_reads,
    "a view of a branch": _view_of_a_branch,
    "merged into one's own": _merged_into_own,
    "partitioned by what is masked": _parted_by_masked,
    "an overflow": lambda s: people(s).select(f.col("salary").cast("decimal(1,0)")).collect(),
    "a division by what is hidden": lambda s: (
        s.table("counted").filter("1 / (n - 9) > 0 OR 1 / (n - 100) > 0").collect()
    ),
    "a view explained": lambda s: _all_explained(s.table("over_view")),
    "a version explained": lambda s: _all_explained(s.read.option("versionAsOf", "hired").table("people")),
    "kept in memory": lambda s: people(s).cache().collect(),
    "kept in a checkpoint": lambda s: people(s).localCheckpoint().collect(),
    "a table kept in memory": lambda s: s.catalog.cacheTable("people"),
    "a view for everybody": lambda s: people(s).createGlobalTempView("attack_global"),
    "inserted where one may read": lambda s: s.table("regions").write.insertInto("lake.house.regions"),
    "everything": lambda s: people(s).collect(),
    "everything as pandas": lambda s: people(s).toPandas(),
    "everything by iterator": lambda s: list(people(s).toLocalIterator()),
    "shown": lambda s: _printed(lambda: people(s).show(1000, truncate=False)),
    "shown upright": lambda s: _printed(lambda: people(s).show(1000, truncate=False, vertical=True)),
    "as JSON": lambda s: people(s).select(f.to_json(f.struct("*"))).collect(),
    "the tail": lambda s: [s.table("counted").orderBy("n").tail(5), people(s).tail(3)],
    "described": lambda s: people(s).describe().collect(),
    "summarised": lambda s: people(s).summary().collect(),
    "quantiles": lambda s: [
        people(s).select(f.col("salary").cast("double").alias("d")).approxQuantile("d", [0.0, 1.0], 0.0),
        s.table("counted").approxQuantile("n", [1.0], 0.0),
    ],
    "correlations": lambda s: [s.table("counted").corr("n", "n"), s.table("counted").cov("n", "n")],
    "cross table": lambda s: people(s).crosstab("region", "ssn").collect(),
    "frequent items": lambda s: people(s).freqItems(["ssn", "email", "region", "notes"], 0.01).collect(),
    "stratified sample": lambda s: (
        people(s).sampleBy("region", {"EU": 1.0, "US": 1.0, "APAC": 1.0}, 1).collect()
    ),
    "sample": lambda s: people(s).sample(True, 5.0, 1).collect(),
    "explained": lambda s: _all_explained(people(s)),
    "explained with a filter": lambda s: _all_explained(s.table("orders").filter("amount > 9000000")),
    "explained join": lambda s: _all_explained(_with_orders(s)),
    "explained hidden table": lambda s: _all_explained(s.table("lake.vault.secrets")),
    "schema of a hidden table": lambda s: s.table("lake.vault.secrets").schema,
    "columns of a hidden table": lambda s: s.table("lake.vault.secrets").columns,
    "hidden table": lambda s: s.table("lake.vault.secrets").collect(),
    "hidden table joined": lambda s: people(s).join(s.table("lake.vault.secrets"), "id").collect(),
    "hidden table in a scalar": lambda s: (
        people(s).select(s.table("lake.vault.secrets").agg(f.max("word")).scalar()).collect()
    ),
    "hidden table in exists": lambda s: people(s).filter(s.table("lake.vault.secrets").exists()).collect(),
    "hidden table in a lateral join": lambda s: (
        people(s).lateralJoin(s.table("lake.vault.secrets")).collect()
    ),
    "hidden table in a union": lambda s: (
        people(s).select("name").union(s.table("lake.vault.secrets").select("word")).collect()
    ),
    "hidden table in an expression": lambda s: (
        s.range(1).select(f.expr("(SELECT max(word) FROM lake.vault.secrets)")).collect()
    ),
    "hidden table in a filter text": lambda s: (
        people(s).filter("EXISTS (SELECT 1 FROM lake.vault.secrets)").collect()
    ),
    "hidden table by a reader": lambda s: s.read.table("lake.vault.secrets").collect(),
    "hidden table by format": lambda s: s.read.format("iceberg").load("lake.vault.secrets").collect(),
    "restricted table by format": lambda s: s.read.format("iceberg").load("lake.house.people").collect(),
    "restricted table by a reader": lambda s: s.read.table("lake.house.people").collect(),
    "an option for a snapshot": lambda s: s.read.option("snapshot-id", 1).table("people").collect(),
    "an option for a branch": lambda s: s.read.option("branch", "side").table("events").collect(),
    "an option for a time": lambda s: (
        s.read.option("as-of-timestamp", "4102444800000").table("people").collect()
    ),
    "a changelog": lambda s: (
        s.read.option("start-snapshot-id", 1).option("end-snapshot-id", 2).table("people").collect()
    ),
    "files of a table": lambda s: s.table("lake.house.people.files").collect(),
    "all data files": lambda s: s.table("lake.house.people.all_data_files").collect(),
    "entries of a table": lambda s: s.table("lake.house.people.entries").collect(),
    "snapshots of a table": lambda s: s.table("lake.house.people.snapshots").collect(),
    "partitions of a table": lambda s: s.table("lake.house.people.partitions").collect(),
    "position deletes": lambda s: s.table("lake.house.people.position_deletes").collect(),
    "names of files": lambda s: people(s).select(f.input_file_name()).distinct().collect(),
    "a column of files": lambda s: people(s).select("_file", "_pos").collect(),
    "a metadata column": lambda s: _files(people(s)).collect(),
    "input files": lambda s: people(s).inputFiles(),
    "observed": _observed,
    "observed below a filter": _observed_below,
    "metrics": lambda s: _metrics(people(s).filter("id > 0")),
    "a view": lambda s: _from_view(s, "attack_view"),
    "a view named like the table": lambda s: _from_view(s, "people"),
    "a view over a hidden table": _view_over_hidden,
    "written out": _written_out,
    "a raised value": lambda s: people(s).select(f.raise_error(f.concat("ssn", "email", "phone"))).collect(),
    "a raised value of hidden rows": lambda s: (
        s.table("events").filter("severity > 3").select(f.raise_error("payload")).collect()
    ),
    "an asserted value": lambda s: (
        s.table("counted").select(f.assert_true(f.col("n") < 3, f.col("text"))).collect()
    ),
    "a cast that fails": lambda s: people(s).select(f.col("email").cast("int")).collect(),
    "a value guessed": lambda s: (
        people(s).filter((f.col("salary") > 1000000) | f.col("ssn").startswith("V")).collect()
    ),
    "a join on guesses": lambda s: (
        people(s)
        .join(s.range(9_021_000, 9_021_100).toDF("guess"), f.col("salary") == f.col("guess"))
        .collect()
    ),
    "rows past the filter": lambda s: people(s).filter("region <> 'EU' OR region IS NULL").collect(),
    "counts past the filter": lambda s: [
        s.table("counted").count(),
        s.table("counted").filter("n > 6").count(),
    ],
    "groups": lambda s: (
        people(s).groupBy("region", "ssn").agg(f.max("salary"), f.collect_list("email")).collect()
    ),
    "a cube": lambda s: people(s).cube("region", "ssn").agg(f.max("salary")).collect(),
    "a pivot": lambda s: people(s).groupBy("region").pivot("ssn").agg(f.max("salary")).collect(),
    "unpivoted": lambda s: people(s).unpivot("id", ["email", "notes", "badge"], "k", "v").collect(),
    "transposed": lambda s: people(s).select("id", "ssn", "email").transpose("id").collect(),
    "filled": lambda s: people(s).fillna("x").collect(),
    "replaced": lambda s: people(s).replace("***-01", "x", ["ssn"]).collect(),
    "by regular expression": lambda s: _by_pattern(people(s)).collect(),
    "a struct unpacked": lambda s: people(s).select("home.*").distinct().collect(),
    "a struct rebuilt": lambda s: people(s).select(f.col("home").withField("more", f.col("ssn"))).collect(),
    "hints": lambda s: (
        people(s)
        .hint("broadcast")
        .join(s.table("orders").hint("merge"), people(s).id == s.table("orders").person_id)
        .collect()
    ),
    "repartitioned": lambda s: people(s).repartition(4, "ssn").sortWithinPartitions("salary").collect(),
    "a window": lambda s: (
        people(s)
        .selectExpr("first_value(ssn) OVER (ORDER BY salary DESC)", "lag(notes) OVER (ORDER BY id)")
        .collect()
    ),
    "a scalar of the house": lambda s: s.range(1).select(people(s).agg(f.max("salary")).scalar()).collect(),
    "deduplicated": lambda s: people(s).dropDuplicates(["region"]).collect(),
    "to a schema": lambda s: (
        people(s).select("id", "ssn").to(s.table("people").select("id", "ssn").schema).collect()
    ),
    "a semantic hash": lambda s: [
        people(s).semanticHash() == people(s).semanticHash(),
        people(s).sameSemantics(people(s)),
    ],
    "databases": lambda s: [each.name for each in s.catalog.listDatabases()],
    "tables of a hidden schema": lambda s: s.catalog.listTables("lake.vault"),
    "a hidden table that exists": lambda s: s.catalog.tableExists("lake.vault.secrets"),
    "a hidden schema that exists": lambda s: s.catalog.databaseExists("lake.vault"),
    "a hidden table of the catalog": lambda s: s.catalog.getTable("lake.vault.secrets"),
    "hidden columns": lambda s: s.catalog.listColumns("lake.vault.secrets"),
    "tables": lambda s: [each.name for each in s.catalog.listTables("lake.house")],
    "functions of the engine": lambda s: (
        s.range(1)
        .select(f.call_function("java_method", f.lit("java.lang.System"), f.lit("getenv")))
        .collect()
    ),
    "properties by reflection": lambda s: (
        s.range(1).select(f.reflect(f.lit("java.lang.System"), f.lit("getProperties"))).collect()
    ),
    "settings": lambda s: [
        s.conf.get(key, None)
        for key in (
            "spark.sql.catalog.lake.token",
            "spark.connect.authenticate.token",
            "spark.bailiwick.stamp-key-file",
        )
    ],
    "a switched rule": lambda s: s.conf.set("spark.sql.optimizer.excludedRules", "x"),
    "writing to what one may read": lambda s: people(s).writeTo("lake.house.people").append(),
    "replacing what one may read": lambda s: (
        s.range(1).write.mode("overwrite").saveAsTable("lake.house.people")
    ),
    "merging into what one may read": lambda s: (
        s.range(1).alias("s").mergeInto("lake.house.people", f.expr("true")).whenMatched().delete().merge()
    ),
}
DENIED = {
    "writing to what one may read",
    "replacing what one may read",
    "merging into what one may read",
    "inserted where one may read",
    "kept in memory",
    "kept in a checkpoint",
    "a table kept in memory",
    "a view for everybody",
}
"""Refused because one may not; the others may answer, as long as nothing hidden stands in it."""

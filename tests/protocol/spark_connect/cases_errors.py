"""Mistakes: each must raise what plain Spark raises, with its condition, SQLSTATE, parameters and place."""

from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import case, several

STATEMENTS = {
    "syntax": "SELEC 1",
    "syntax at the end": "SELECT 1 FROM",
    "syntax in a second line": "SELECT 1,\n  2 FRM people",
    "unclosed text": "SELECT 'a",
    "no such table": "SELECT * FROM no_such_table",
    "no such schema": "SELECT * FROM lake.no_such_schema.t",
    "no such catalog": "SELECT * FROM no_such_catalog.a.b",
    "no such column": "SELECT id, nme FROM people",
    "no such column without a guess": "SELECT zzzzzz",
    "no such field": "SELECT home.nothing FROM nested",
    "no such function": "SELECT no_such_function(1)",
    "ambiguous column": "SELECT id FROM people, nested",
    "wrong number of arguments": "SELECT length('a', 'b')",
    "wrong type of an argument": "SELECT sum(tags) FROM people",
    "wrong type in a comparison": "SELECT id FROM people WHERE tags > 1",
    "not in the group": "SELECT city, age FROM people GROUP BY city",
    "aggregate in where": "SELECT id FROM people WHERE sum(age) > 1",
    "window in where": "SELECT id FROM people WHERE row_number() OVER (ORDER BY id) = 1",
    "sets of different widths": "SELECT 1 UNION SELECT 1, 2",
    "scalar subquery of two columns": "SELECT (SELECT 1, 2)",
    "scalar subquery of two rows": "SELECT (SELECT id FROM people)",
    "unbound parameter": "SELECT :a",
    "division by zero": "SELECT 1 / 0",
    "division by zero in a table": "SELECT 1 / (id - 3) FROM people",
    "cast": "SELECT CAST('abc' AS INT)",
    "cast of a column": "SELECT CAST(name AS INT) AS n FROM people",
    "overflow": "SELECT 2147483647 + 1",
    "cast overflow": "SELECT CAST(300 AS TINYINT)",
    "array index": "SELECT array(1, 2)[5]",
    "element at": "SELECT element_at(array(1), 0)",
    "date": "SELECT to_date('2026-13-01')",
    "decimal overflow": "SELECT CAST(12345 AS DECIMAL(3, 1))",
    "raised": "SELECT raise_error('by hand')",
    "asserted": "SELECT assert_true(id < 3) FROM people",
    "regular expression": "SELECT 'a' RLIKE '['",
    "json": "SELECT parse_json('{bad')",
    "duplicate columns of a table": "CREATE TABLE errors_dup (a INT, a INT) USING iceberg",
    "an existing table": "CREATE TABLE people (a INT) USING iceberg",
    "an existing schema": "CREATE NAMESPACE lake.clients",
    "insert of too many columns": "INSERT INTO people VALUES (1)",
    "drop of nothing": "DROP TABLE no_such_table",
    "alter of nothing": "ALTER TABLE people DROP COLUMN nothing",
    "bad type": "SELECT CAST(1 AS NOTHING)",
    "bad option of a join": "SELECT * FROM people NATURAL CROSS JOIN orders ON true",
    "use of nothing": "USE lake.no_such_schema",
    "negative limit": "SELECT 1 LIMIT -1",
    "cyclic CTE": "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a",
    "describe of nothing": "DESCRIBE no_such_table",
}


def _statement(text: str) -> Any:
    return lambda spark: spark.sql(text).collect()


several("errors", {name: _statement(text) for name, text in STATEMENTS.items()})
several(
    "errors",
    {
        "frame without such a table": lambda s: s.table("no_such_table").collect(),
        "frame without such a column": lambda s: s.table("people").select("nme").collect(),
        "schema without such a column": lambda s: s.table("people").select("nme").schema,
        "schema of no table": lambda s: s.table("no_such_table").schema,
        "columns of no table": lambda s: s.table("no_such_table").columns,
        "explain of no table": lambda s: s.table("no_such_table").explain(),
        "show of no table": lambda s: s.table("no_such_table").show(),
        "item that is not there": lambda s: s.table("people")["nothing"],
        "attribute that is not there": lambda s: s.table("people").nothing,
        "filter by no boolean": lambda s: s.table("people").filter(f.col("id") + 1).collect(),
        "filter with bad SQL": lambda s: s.table("people").filter("id >>> ").collect(),
        "expression with bad SQL": lambda s: s.table("people").select(f.expr("1 +")).collect(),
        "division in a frame": lambda s: s.table("people").select(1 / (f.col("id") - 3)).collect(),
        "cast in a frame": lambda s: s.table("people").select(f.col("name").cast("int")).collect(),
        "bad cast in a frame": lambda s: s.table("people").select(f.col("id").cast("nothing")).collect(),
        "join without a condition": lambda s: s.table("people").join(s.table("orders"), "nothing").collect(),
        "bad kind of join": lambda s: s.table("people").join(s.table("orders"), "id", "sideways").collect(),
        "ambiguous reference": lambda s: s.table("people").join(s.table("nested")).select("id").collect(),
        "union of different widths": lambda s: s.table("people").union(s.range(1)).collect(),
        "union by name of different names": lambda s: s.range(1).unionByName(s.range(1).toDF("n")).collect(),
        "aggregate of a text": lambda s: s.table("people").groupBy("city").agg(f.sum("tags")).collect(),
        "group by nothing there": lambda s: s.table("people").groupBy("nothing").count().collect(),
        "unknown function by name": lambda s: s.range(1).select(f.call_function("nothing")).collect(),
        "bad sample": lambda s: s.range(1).sample(-1.0).collect(),
        "bad date format": lambda s: s.table("people").select(f.date_format("born", "bad format")).collect(),
        "raised in a frame": lambda s: s.range(1).select(f.raise_error(f.lit("by frame"))).collect(),
        "to a schema with other names": lambda s: s.range(1).to(_schema()).collect(),
        "rows that do not fit": lambda s: s.createDataFrame([("x",)], "a INT"),
        "a schema that is none": lambda s: s.createDataFrame([(1,)], "a NOTHING"),
        "too many parameters": lambda s: s.sql("SELECT ?", args=[1, 2]).collect(),
        "too few parameters": lambda s: s.sql("SELECT ?, ?", args=[1]).collect(),
        "a table that the catalog does not know": lambda s: s.catalog.getTable("no_such_table"),
        "a database that the catalog does not know": lambda s: s.catalog.getDatabase("no_such_schema"),
        "columns that the catalog does not know": lambda s: s.catalog.listColumns("no_such_table"),
        "a function that the catalog does not know": lambda s: s.catalog.getFunction("no_such_function"),
        "a database to set that is not there": lambda s: s.catalog.setCurrentDatabase("no_such_schema"),
        "a catalog to set that is not there": lambda s: s.catalog.setCurrentCatalog("no_such_catalog"),
        "a view name that is none": lambda s: s.range(1).createTempView("a b"),
        "a view that exists": lambda s: _view_twice(s, "errors_view"),
        "insert into nothing": lambda s: s.range(1).write.insertInto("no_such_table"),
        "pandas of an error": lambda s: s.sql("SELECT 1 / 0 AS n").toPandas(),
        "arrow of an error": lambda s: s.sql("SELECT 1 / 0 AS n").toArrow(),
        "iterator of an error": lambda s: list(s.sql("SELECT 1 / 0 AS n").toLocalIterator()),
    },
)  # fmt: skip


def _schema() -> Any:
    from pyspark.sql.types import IntegerType, StructField, StructType

    return StructType([StructField("other", IntegerType(), nullable=False)])


def _view_twice(spark: Any, name: str) -> Any:
    spark.range(1).createOrReplaceTempView(name)
    try:
        spark.range(1).createTempView(name)
    finally:
        spark.catalog.dropTempView(name)


@case
def empty(spark: Any) -> Any:
    return spark.sql("").collect()


@case
def a_session_goes_on_after_an_error(spark: Any) -> Any:
    for text in ("SELEC", "SELECT 1 / 0", "SELECT nothing"):
        try:
            spark.sql(text).collect()
        except Exception as error:
            type(error)
    return spark.sql("SELECT 42 AS n").collect()


@case
def the_kinds_of_exceptions(spark: Any) -> Any:
    import pyspark.errors as known

    raised = []
    for text in ("SELEC", "SELECT nothing", "SELECT 1 / 0", "SELECT CAST('a' AS INT)", "SELECT array(1)[3]"):
        try:
            spark.sql(text).collect()
        except known.PySparkException as error:
            kinds = (
                "ParseException",
                "AnalysisException",
                "ArithmeticException",
                "NumberFormatException",
                "ArrayIndexOutOfBoundsException",
                "SparkRuntimeException",
            )
            raised.append([kind for kind in kinds if isinstance(error, getattr(known, kind))])
    return raised

# ruff: noqa: E501 - one case a line
"""SQL as text: one case a statement, and the ways to give it parameters."""

from decimal import Decimal
from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import case, several, since

STATEMENTS = {
    "one": "SELECT 1 AS one",
    "no rows": "SELECT 1 AS one WHERE false",
    "a table": "SELECT * FROM people",
    "a full name": "SELECT count(*) AS n FROM lake.clients.people",
    "where": "SELECT id FROM people WHERE age > 30 AND city IS NOT NULL",
    "like": "SELECT name FROM people WHERE name LIKE '%a%' OR name RLIKE '^b'",
    "case": "SELECT id, CASE WHEN age < 30 THEN 'young' WHEN age IS NULL THEN '?' ELSE 'old' END AS kind FROM people",
    "group": "SELECT city, count(*) AS n, sum(salary) AS total FROM people GROUP BY city",
    "group by all": "SELECT city, age, count(*) AS n FROM people GROUP BY ALL",
    "having": "SELECT city FROM people GROUP BY city HAVING count(*) > 1",
    "rollup": "SELECT city, age, count(*) AS n FROM people GROUP BY ROLLUP (city, age)",
    "cube": "SELECT city, age, grouping_id() AS g, count(*) AS n FROM people GROUP BY CUBE (city, age)",
    "grouping sets": "SELECT city, age, count(*) AS n FROM people GROUP BY GROUPING SETS ((city), (age), ())",
    "filter clause": "SELECT count(*) FILTER (WHERE age > 30) AS n FROM people",
    "inner join": "SELECT p.name, o.amount FROM people p JOIN orders o ON p.id = o.person_id",
    "left join": "SELECT p.id, o.id AS oid FROM people p LEFT JOIN orders o ON p.id = o.person_id AND o.amount > 11",
    "full join": "SELECT p.id, o.person_id FROM people p FULL JOIN orders o ON p.id = o.person_id",
    "semi join": "SELECT id FROM people LEFT SEMI JOIN orders o ON people.id = o.person_id",
    "anti join": "SELECT id FROM orders LEFT ANTI JOIN people p ON p.id = orders.person_id",
    "natural join": "SELECT count(*) AS n FROM people NATURAL JOIN (SELECT id, name FROM people)",
    "using": "SELECT id, count(*) AS n FROM people JOIN nested USING (id) GROUP BY id",
    "cross join": "SELECT count(*) AS n FROM people CROSS JOIN nested",
    "lateral": "SELECT p.id, m.top FROM people p, LATERAL (SELECT max(amount) AS top FROM orders o "
    "WHERE o.person_id = p.id) m",
    "lateral view": "SELECT id, tag FROM people LATERAL VIEW explode(tags) t AS tag",
    "lateral view outer": "SELECT id, tag FROM people LATERAL VIEW OUTER explode(tags) t AS tag",
    "union": "SELECT city FROM people UNION SELECT status FROM orders",
    "union all": "SELECT id FROM people UNION ALL SELECT id FROM nested",
    "intersect": "SELECT id FROM people INTERSECT SELECT person_id FROM orders",
    "except all": "SELECT person_id FROM orders EXCEPT ALL SELECT id FROM people",
    "with": "WITH a AS (SELECT id FROM people), b AS (SELECT id + 1 AS id FROM a) SELECT * FROM a JOIN b USING (id)",
    "with recursive": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "scalar subquery": "SELECT id, (SELECT max(amount) FROM orders) AS top FROM people",
    "correlated subquery": "SELECT id, (SELECT count(*) FROM orders o WHERE o.person_id = p.id) AS n FROM people p",
    "exists": "SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.person_id = p.id AND amount > 11)",
    "not in": "SELECT id FROM people WHERE id NOT IN (SELECT person_id FROM orders WHERE status = 'late')",
    "window": "SELECT id, rank() OVER (PARTITION BY city ORDER BY salary DESC, id) AS r FROM people",
    "window frame": "SELECT id, sum(amount) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM orders",
    "named window": "SELECT id, lag(id) OVER w AS l, lead(id) OVER w AS n FROM people WINDOW w AS (ORDER BY id)",
    "qualify by subquery": "SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY city ORDER BY id) AS r "
    "FROM people) WHERE r = 1",
    "pivot": "SELECT * FROM (SELECT person_id, status, amount FROM orders) PIVOT (sum(amount) FOR status IN "
    "('open', 'paid'))",
    "unpivot": "SELECT * FROM (SELECT id, age, CAST(salary AS INT) AS pay FROM people) UNPIVOT (v FOR k IN (age, pay))",
    "values": "SELECT * FROM VALUES (1, 'a'), (2, NULL) AS t(n, s)",
    "table valued range": "SELECT sum(id) AS s FROM range(0, 100, 3)",
    "table sample all": "SELECT count(*) AS n FROM people TABLESAMPLE (100 PERCENT)",
    "pipes": "FROM orders |> WHERE amount > 5 |> AGGREGATE sum(amount) AS s GROUP BY status |> ORDER BY s",
    "lambda": "SELECT id, transform(tags, t -> upper(t)) AS t, filter(tags, t -> t > 'a') AS l FROM people",
    "json": "SELECT from_json(json, 'n INT, list ARRAY<INT>, deep STRUCT<t: STRING>') AS j FROM nested",
    "json path": "SELECT get_json_object(json, '$.deep.t') AS t, json_array_length('[1,2]') AS n FROM nested",
    "struct fields": "SELECT home.street, home.zip.code, items[0].v, scores['b'] FROM nested",
    "variant": "SELECT variant_get(parse_json(json), '$.list[1]', 'int') AS v FROM nested",
    "decimals": "SELECT sum(salary) AS s, avg(salary) AS a, max(salary) / 3 AS t FROM people",
    "dates": "SELECT id, year(born) AS y, date_trunc('MONTH', joined) AS m, datediff(joined, born) AS d FROM people",
    "intervals": "SELECT born + INTERVAL '1' MONTH AS m, joined - INTERVAL '2' HOUR AS h FROM people",
    "collate": "SELECT name COLLATE UTF8_LCASE = 'ADA' AS is_ada FROM people",
    "order": "SELECT id FROM people ORDER BY age DESC NULLS LAST, id LIMIT 3 OFFSET 1",
    "distinct": "SELECT DISTINCT city, age FROM people",
    "time travel": "SELECT count(*) AS n FROM people TIMESTAMP AS OF '2999-01-01'",
    "describe": "DESCRIBE people",
    "show tables": "SHOW TABLES LIKE 'people'",
    "show columns": "SHOW COLUMNS IN people",
    "show functions": "SHOW FUNCTIONS LIKE 'abs'",
    "describe function": "DESCRIBE FUNCTION abs",
    "describe query": "DESCRIBE QUERY SELECT 1 AS a, 'b' AS b",
    "comments": "SELECT /* one */ 1 -- two",
    "a hint": "SELECT /*+ BROADCAST(o) */ count(*) AS n FROM people p JOIN orders o ON p.id = o.person_id",
    "current schema": "SELECT current_catalog() AS c, current_schema() AS s",
    "try functions": "SELECT try_divide(1, 0) AS d, try_cast('x' AS INT) AS c, try_add(2147483647, 1) AS a",
    "listagg": "SELECT city, listagg(name, ',') WITHIN GROUP (ORDER BY name) AS l FROM people GROUP BY city",
    "percentiles": "SELECT percentile(age, 0.5) AS p, median(age) AS m, mode(city) AS o FROM people",
    "identifier clause": "SELECT IDENTIFIER('id') FROM IDENTIFIER('people')",
}  # fmt: skip


def _statement(text: str) -> Any:
    return lambda spark: spark.sql(text)


several("sql", {name: _statement(text) for name, text in STATEMENTS.items()})


@case
def positional_parameters(spark: Any) -> Any:
    return spark.sql("SELECT id FROM people WHERE age > ? AND city = ?", args=[30, "Oslo"])


@case
def named_parameters(spark: Any) -> Any:
    return spark.sql(
        "SELECT :a + 1 AS n, :b AS t FROM people WHERE id = :id", args={"a": 1, "b": "it's", "id": 2}
    )


@case
def parameters_of_many_types(spark: Any) -> Any:
    args = [1.5, Decimal("2.50"), True, None, b"ab", "ü"]
    return spark.sql("SELECT ? AS d, ? AS c, ? AS b, ? AS n, ? AS y, ? AS t", args=args)


@case
def array_and_map_parameters(spark: Any) -> Any:
    args = {"a": f.array(f.lit(1), f.lit(2)), "m": f.create_map(f.lit("k"), f.lit(3))}
    return spark.sql("SELECT :a AS a, :m['k'] AS v", args=args)


@case
def a_frame_as_an_argument(spark: Any) -> Any:
    older = spark.table("people").filter("age > 30")
    return spark.sql("SELECT city, count(*) AS n FROM {older} GROUP BY city", older=older)


@case
def a_column_as_an_argument(spark: Any) -> Any:
    return spark.sql("SELECT {c} AS c FROM {t}", c=f.col("name"), t=spark.table("people"))


@case
def a_statement_becomes_a_frame(spark: Any) -> Any:
    return spark.sql("SELECT id, age FROM people").filter("age IS NOT NULL").agg(f.sum("age").alias("s"))


@case
def changes_run_once(spark: Any) -> Any:
    spark.sql("CREATE OR REPLACE TABLE sql_once (n INT) USING iceberg")
    inserted = spark.sql("INSERT INTO sql_once VALUES (1), (2)")
    inserted.collect()
    inserted.collect()
    return spark.table("sql_once")


@case
def the_life_of_a_table(spark: Any) -> Any:
    for statement in (
        "CREATE OR REPLACE TABLE sql_life (id INT, name STRING) USING iceberg",
        "INSERT INTO sql_life VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE sql_life SET name = 'z' WHERE id = 2",
        "DELETE FROM sql_life WHERE id = 3",
        "MERGE INTO sql_life t USING (SELECT 1 AS id UNION ALL SELECT 9) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = 'm' WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')",
        "ALTER TABLE sql_life ADD COLUMN extra DOUBLE",
        "INSERT INTO sql_life VALUES (10, 'x', 1.5)",
    ):
        spark.sql(statement)
    return spark.table("sql_life")


@case
def dropping_a_table(spark: Any) -> Any:
    spark.sql("CREATE OR REPLACE TABLE sql_gone (n INT) USING iceberg")
    spark.sql("DROP TABLE sql_gone")
    return spark.catalog.tableExists("sql_gone")


@case
def use_changes_the_schema(spark: Any) -> Any:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.clients_too")
    spark.sql("USE lake.clients_too")
    seen = spark.sql("SELECT current_schema() AS s").first()[0]
    spark.sql("USE lake.clients")
    return [seen, spark.catalog.currentDatabase()]


@since(4, 1)
def recursion_with_a_limit(spark: Any) -> Any:
    return spark.sql(
        "WITH RECURSIVE r(n) MAX RECURSION LEVEL 20 AS (SELECT 1 UNION ALL SELECT n + 1 FROM r "
        "WHERE n < 12) SELECT max(n) AS n FROM r"
    )

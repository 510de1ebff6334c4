# ruff: noqa: E501 - one attempt a line
"""Every place where a query may stand inside another, and every clause that looks at rows."""

import pytest

from attacks.attempt import Attacker, Attempt, absent, gives, harmless, refused

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SIDE_BY_SIDE = True

ALL = [(24,)]
NONE = [(0,)]

ATTEMPTS: tuple[Attempt, ...] = (
    gives("EXISTS", "SELECT count(*) FROM regions WHERE EXISTS (SELECT 1 FROM people WHERE region = code)", rows=[(1,)]),
    gives("NOT EXISTS", "SELECT count(*) FROM regions WHERE NOT EXISTS (SELECT 1 FROM people WHERE region = code)", rows=[(3,)]),
    gives("IN", "SELECT code FROM regions WHERE code IN (SELECT region FROM people)", rows=[("EU",)]),
    gives("NOT IN", "SELECT count(*) FROM regions WHERE code NOT IN (SELECT region FROM people)", rows=[(3,)]),
    gives("a scalar", "SELECT (SELECT count(*) FROM people)", rows=ALL),
    gives("a correlated scalar", "SELECT (SELECT count(*) FROM people WHERE region = code) FROM regions WHERE rank = 2", rows=NONE),
    gives("LATERAL", "SELECT count(*) FROM regions, LATERAL (SELECT * FROM people WHERE region = code)", rows=ALL),
    gives("LATERAL VIEW", "SELECT count(*) FROM counted LATERAL VIEW explode(array(1)) t AS a", rows=[(7,)]),
    gives("a self join", "SELECT count(*) FROM people a JOIN people b ON a.id = b.id", rows=ALL),
    gives("a self join past the filter", "SELECT count(*) FROM people a RIGHT JOIN people b ON a.region <> b.region", rows=ALL),
    gives("a natural join", "SELECT count(*) FROM people NATURAL JOIN people AS other", rows=[(0,)]),
    gives("an outer join", "SELECT count(p.id) FROM regions FULL JOIN people p ON region = code", rows=ALL),
    gives("a cross join", "SELECT count(*) FROM people a CROSS JOIN people b", rows=[(576,)]),
    gives("a union", "SELECT count(*) FROM (SELECT id FROM people UNION SELECT id FROM people)", rows=ALL),
    gives("an intersection", "SELECT count(*) FROM (SELECT id FROM people INTERSECT SELECT id FROM people)", rows=ALL),
    gives("a difference", "SELECT count(*) FROM (SELECT id FROM people EXCEPT SELECT id FROM people WHERE region = 'EU')", rows=NONE),
    gives("a recursive CTE", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT count(*) FROM r JOIN people ON id = n", rows=[(3,)]),
    harmless("a recursive CTE over people", "WITH RECURSIVE r(id, m) AS (SELECT id, manager FROM people WHERE id = 1 UNION ALL SELECT p.id, p.manager FROM people p JOIN r ON p.id = r.m AND p.id <> r.id) SELECT * FROM r LIMIT 20"),
    gives("a CTE that is read twice", "WITH w AS (SELECT * FROM people) SELECT count(*) FROM w a JOIN w b USING (id)", rows=ALL),
    gives("a CTE named like the table", "WITH people AS (SELECT * FROM people) SELECT count(*) FROM people", rows=ALL),
    gives("a pipe", "FROM people |> WHERE region IS DISTINCT FROM 'EU' |> AGGREGATE count(*) AS n", rows=NONE),
    gives("TABLE", "SELECT count(*) FROM (TABLE people)", rows=ALL),
    gives("a sample of all", "SELECT count(*) FROM people TABLESAMPLE (100 PERCENT)", rows=ALL),
    harmless("a sample", "SELECT * FROM people TABLESAMPLE (50 PERCENT) REPEATABLE (1)"),
    harmless("a bucket as a sample", "SELECT * FROM people TABLESAMPLE (BUCKET 1 OUT OF 2)"),
    gives("a sample of rows", "SELECT count(*) FROM people TABLESAMPLE (1000 ROWS)", rows=ALL),
    harmless("a pivot over a masked column", "SELECT * FROM (SELECT region, ssn, salary FROM people) PIVOT (max(salary) FOR region IN ('EU', 'US'))"),
    harmless("an unpivot of masked columns", "SELECT * FROM (SELECT id, email, notes, badge FROM people) UNPIVOT (v FOR k IN (email, notes, badge))"),
    harmless("windows over masked columns", "SELECT id, first_value(ssn) OVER (ORDER BY salary), lag(email) OVER (ORDER BY ssn) FROM people"),
    harmless("groups by masked columns", "SELECT ssn, email, count(*) FROM people GROUP BY ALL"),
    harmless("a cube over masked columns", "SELECT region, ssn, max(salary) FROM people GROUP BY CUBE (region, ssn)"),
    harmless("an order by masked columns", "SELECT * FROM people ORDER BY salary DESC, notes, badge"),
    gives("a filter on a raw value of a masked column", "SELECT count(*) FROM people WHERE salary > 1000000", rows=NONE),
    gives("a filter on a raw text", "SELECT count(*) FROM people WHERE email LIKE 'V%' OR notes LIKE 'V%' OR badge LIKE 'V%'", rows=NONE),
    gives("a join on raw values", "SELECT count(*) FROM people JOIN (SELECT explode(sequence(9021000, 9021100)) AS guess) ON salary = guess", rows=NONE),
    gives("a field of a struct", "SELECT DISTINCT home.city FROM people WHERE home IS NOT NULL", rows=[("somewhere",)]),
    gives("a struct as a whole", "SELECT count(DISTINCT home.city), count(DISTINCT struct(home).home.city) FROM people", rows=[(1, 1)]),
    gives("a field by position", "SELECT DISTINCT inline.city FROM people, LATERAL inline(array(home)) AS inline WHERE home IS NOT NULL", rows=[("somewhere",)]),
    gives("NULL in a column that cannot be null", "SELECT count(*) FROM people WHERE badge IS NULL", rows=ALL),
    gives("NOT NULL in such a column", "SELECT count(*), count(badge), count(DISTINCT badge) FROM people WHERE badge IS NOT NULL", rows=[(0, 0, 0)]),
    gives("the least and the greatest", "SELECT min(salary) < 1000, max(salary) < 1000, min(ssn) LIKE '***%', max(ssn) LIKE '***%' FROM people", rows=[(True, True, True, True)]),
    gives("counts that storage could answer", "SELECT count(*), min(n), max(n) FROM counted", rows=[(7, 0, 6)]),
    gives("a count of nothing", "SELECT count(*) FROM counted WHERE n > 6", rows=NONE),
    gives("a distinct of partitions", "SELECT DISTINCT region FROM people", rows=[("EU",)]),
    gives("a limit past the filter", "SELECT count(*) FROM (SELECT * FROM counted LIMIT 4000)", rows=[(7,)]),
    gives("an offset past the filter", "SELECT count(*) FROM (SELECT * FROM counted ORDER BY n OFFSET 5)", rows=[(2,)]),
    harmless("a table as an argument", "SELECT * FROM explode(TABLE(people))"),
    harmless("a lateral join against hidden rows", "SELECT * FROM events e, LATERAL (SELECT name, salary FROM people p WHERE p.id = e.person_id)"),
    harmless("hints", "SELECT /*+ BROADCAST(p), REPARTITION(3), MERGE(o) */ p.ssn, o.comment FROM people p JOIN orders o ON p.id = o.person_id"),
    gives("an always true condition", "SELECT count(*) FROM people WHERE region = 'EU' OR 1 = 1", rows=ALL),
    gives("a condition on the other side", "SELECT count(*) FROM people WHERE NOT (region = 'EU')", rows=NONE),
    gives("one's own filter on a filtered table", "SELECT count(*) FROM orders WHERE person_id NOT IN (SELECT id FROM people) AND person_id NOT IN (101, 104, 300)", rows=NONE),
    absent("a hidden table in a join", "SELECT * FROM people JOIN lake.vault.secrets USING (id)"),
    absent("a hidden table in a scalar", "SELECT (SELECT max(word) FROM lake.vault.secrets) FROM people"),
    absent("a hidden table in an order", "SELECT id FROM people ORDER BY (SELECT max(id) FROM lake.vault.secrets)"),
    absent("a hidden table in a group", "SELECT 1 FROM people GROUP BY (SELECT max(id) FROM lake.vault.secrets)"),
    absent("a hidden table in a limit", "SELECT id FROM people LIMIT (SELECT max(id) FROM lake.vault.secrets)"),
    absent("a hidden table in a window", "SELECT sum(id) OVER (ORDER BY (SELECT max(id) FROM lake.vault.secrets)) FROM people"),
    refused("a hidden table in a lambda", "SELECT transform(tags, t -> (SELECT max(word) FROM lake.vault.secrets)) FROM people"),
    refused("a hidden table in VALUES", "SELECT * FROM VALUES ((SELECT max(word) FROM lake.vault.secrets))"),
    absent("a hidden table in a pipe", "FROM people |> JOIN lake.vault.secrets USING (id) |> SELECT word"),
    absent("a hidden table in a union", "SELECT name FROM people UNION ALL SELECT word FROM lake.vault.secrets"),
    refused("a hidden table as an argument", "SELECT * FROM explode(TABLE(lake.vault.secrets))"),
)  # fmt: skip


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_a_query_within_a_query_shows_nothing_hidden(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)

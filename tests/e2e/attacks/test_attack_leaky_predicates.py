# ruff: noqa: E501 - one attempt a line
"""Predicates that fail or tell when they see a hidden row: they must never see one.

Each is tried on three filters: one that storage can answer, one with a subquery, one on a data column of a
partitioned table; and each as a predicate, beside one that only hidden rows pass, in a join and in a list.
"""

import pytest

from attacks.attempt import Attacker, Attempt, gives, harmless

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SIDE_BY_SIDE = True

TABLES = {
    "people": ("name", "salary", "id", "region <> 'EU' OR region IS NULL"),
    "orders": ("status", "amount", "person_id", "amount > 9000000"),
    "events": ("CAST(weight AS STRING)", "weight", "severity", "severity > 3 OR severity IS NULL"),
    "counted": ("text", "n", "n", "n > 6"),
}
"""A text and two numbers that differ in hidden rows, and a condition that only hidden rows meet."""
PREDICATES = {
    "raise_error": "raise_error(concat('seen ', {text}, ' ', {number}))",
    "assert_true": "assert_true(false, concat('seen ', {text})) IS NULL",
    "cast of a text": "CAST(concat('x', {text}) AS INT) = 1",
    "cast of a number": "CAST({number} AS TINYINT) < 0",
    "cast to a date": "CAST({text} AS DATE) IS NULL",
    "division": "1 / ({number} - {number}) > 0",
    "array index": "array('a')[CAST({number} + 9 AS INT)] = 'a'",
    "element_at": "element_at(array({text}), CAST({number} + 5 AS INT)) = 'a'",
    "regular expression": "{text} RLIKE concat('[', {text})",
    "number format": "to_number({text}, '999') > 0",
    "date format": "to_date({text}, 'yyyy-MM-dd') IS NULL",
    "JSON": "from_json({text}, 'a INT', map('mode', 'FAILFAST')) IS NULL",
    "overflow": "CAST({number} AS BIGINT) * 9223372036854775807 > 0",
    "scalar of many": "{key} = (SELECT explode(array({text}, {text})))",
}
PLACES = {
    "alone": "SELECT count(*) FROM {table} WHERE {predicate}",
    "first": "SELECT count(*) FROM {table} WHERE {predicate} AND ({hidden})",
    "listed": "SELECT count(CASE WHEN {predicate} THEN 1 END) FROM {table}",
    "joined": "SELECT count(*) FROM {table} JOIN regions ON {predicate} AND ({hidden})",
}

EVERYWHERE: tuple[Attempt, ...] = tuple(
    harmless(
        f"{predicate} {place} on {table}",
        PLACES[place].format(
            table=table,
            hidden=hidden,
            predicate=PREDICATES[predicate].format(text=text, number=number, key=key),
        ),
    )
    for table, (text, number, key, hidden) in TABLES.items()
    for predicate in PREDICATES
    for place in ("alone", "first")
)
ELSEWHERE: tuple[Attempt, ...] = tuple(
    harmless(
        f"raise_error {place} on {table}",
        PLACES[place].format(
            table=table,
            hidden=hidden,
            predicate=PREDICATES["raise_error"].format(text=text, number=number, key=key),
        ),
    )
    for table, (text, number, key, hidden) in TABLES.items()
    for place in ("listed", "joined")
)
ONLY_HIDDEN: tuple[Attempt, ...] = tuple(
    gives(
        f"{predicate} after what only hidden rows meet on {table}",
        f"SELECT count(*) FROM {table} WHERE ({hidden}) AND "
        + PREDICATES[predicate].format(text=text, number=number, key=key),
        rows=[(0,)],
    )
    for table, (text, number, key, hidden) in TABLES.items()
    for predicate in ("raise_error", "cast of a text", "division", "assert_true")
)
MORE: tuple[Attempt, ...] = (
    harmless("raise_error of a masked column", "SELECT raise_error(max(ssn)) FROM people"),
    harmless("raise_error of every masked column", "SELECT raise_error(listagg(concat(ssn, email, phone), ',')) FROM people"),
    harmless("raise_error in HAVING", "SELECT region FROM people GROUP BY region HAVING raise_error(region) IS NULL"),
    harmless("raise_error in an order", "SELECT id FROM events ORDER BY raise_error(payload)"),
    harmless("raise_error in a subquery", "SELECT 1 WHERE EXISTS (SELECT 1 FROM events WHERE severity > 3 AND raise_error(payload) IS NULL)"),
    harmless("raise_error in a correlated subquery", "SELECT code FROM regions WHERE (SELECT max(raise_error(name)) FROM people WHERE region = code) IS NULL"),
    harmless("raise_error in a window", "SELECT sum(id) OVER (PARTITION BY raise_error(name)) FROM people"),
    harmless("raise_error in a lambda", "SELECT filter(tags, t -> raise_error(concat(t, ssn)) IS NULL) FROM people"),
    harmless("raise_error in a generator", "SELECT explode(array(raise_error(notes))) FROM people"),
    harmless("raise_error through a view", "SELECT * FROM open_orders WHERE raise_error(concat(comment, salary)) IS NULL"),
    harmless("raise_error on an older version", "SELECT * FROM people VERSION AS OF {snapshot_people_0} WHERE raise_error(name) IS NULL"),
    harmless("raise_error on a branch", "SELECT * FROM lake.house.events.branch_side WHERE severity > 3 AND raise_error(payload) IS NULL"),
    harmless("raise_error while rows are written", "CREATE TABLE lake.desk.raised AS SELECT * FROM people WHERE raise_error(name) IS NULL"),
    harmless("raise_error in a merge", "CREATE TABLE lake.desk.merged (id INT)", "MERGE INTO lake.desk.merged t USING events s ON t.id = s.id AND raise_error(s.payload) IS NULL WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"),
    harmless("raise_error in a deletion", "DELETE FROM lake.desk.merged WHERE id IN (SELECT id FROM events WHERE severity > 3 AND raise_error(payload) IS NULL)"),
    harmless("raise_error with a code and a map", "SELECT raise_error('USER_RAISED_EXCEPTION', map('errorMessage', payload)) FROM events WHERE severity > 3"),
    harmless("a filter that a join carries over", "SELECT count(*) FROM events e JOIN (SELECT 4 AS s UNION ALL SELECT 5) v ON e.severity = v.s WHERE raise_error(e.payload) IS NULL"),
    harmless("a runtime filter", "SELECT count(*) FROM orders o JOIN people p ON o.person_id = p.id AND p.salary > 500 WHERE raise_error(o.status) IS NULL"),
    harmless("a partition pruned at run time", "SELECT count(*) FROM people p JOIN regions r ON p.region = r.code WHERE r.rank = 2 AND raise_error(p.name) IS NULL"),
    harmless("a limit below", "SELECT raise_error(text) FROM (SELECT text FROM counted ORDER BY n DESC LIMIT 1)"),
    harmless("an assertion on nulls", "SELECT assert_true(badge IS NULL, concat('badge ', badge, notes)) FROM people"),
    harmless("a cast of a masked column", "SELECT CAST(ssn AS INT), CAST(email AS DATE) FROM people"),
    harmless("an ANSI overflow of a masked number", "SELECT CAST(salary AS DECIMAL(1,0)) FROM people"),
    harmless("nondeterminism beside it", "SELECT count(*) FROM events WHERE rand() >= 0 AND raise_error(payload) IS NULL"),
    harmless("nondeterminism below", "SELECT * FROM (SELECT *, monotonically_increasing_id() AS m FROM events) WHERE m >= 0 AND severity > 3 AND raise_error(payload) IS NULL"),
)  # fmt: skip


@pytest.mark.parametrize("attempt", [*EVERYWHERE, *ELSEWHERE], ids=lambda attempt: attempt.id)
def test_a_predicate_that_fails_tells_nothing_hidden(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


@pytest.mark.parametrize("attempt", ONLY_HIDDEN, ids=lambda attempt: attempt.id)
def test_a_predicate_never_meets_a_hidden_row(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


@pytest.mark.parametrize("attempt", MORE, ids=lambda attempt: attempt.id)
def test_a_failure_elsewhere_tells_nothing_hidden(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)

# ruff: noqa: E501 - one attempt a line
"""Writes: what one cannot see one cannot change, and nothing raw leaves by a table of one's own."""

import pytest

from attacks.attempt import Attacker, Attempt, absent, denied, gives, harmless
from bailiwick.testing.leaks import ask
from bailiwick.testing.policy_house import House
from bailiwick.testing.policy_rows import VEIL

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

READ_ONLY = (
    "INSERT INTO people SELECT * FROM people",
    "INSERT OVERWRITE people SELECT * FROM people",
    "INSERT INTO orders (id, comment) VALUES (1, 'x')",
    "DELETE FROM people",
    "DELETE FROM people WHERE region = 'US'",
    "UPDATE people SET region = 'EU'",
    "UPDATE people SET notes = ssn WHERE region <> 'EU'",
    "TRUNCATE TABLE people",
    "MERGE INTO people t USING people s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.region = 'EU'",
    "MERGE INTO people t USING regions s ON t.region = s.code WHEN MATCHED THEN DELETE",
    "INSERT INTO regions VALUES ('X', 'x', 9)",
    "DELETE FROM regions",
)
RESTRICTED = (
    "INSERT OVERWRITE lake.house.shelf VALUES (9, 'x', 'EU')",
    "INSERT OVERWRITE lake.house.shelf PARTITION (region = 'US') SELECT 9, 'x'",
    "INSERT INTO lake.house.shelf REPLACE WHERE region = 'US' SELECT 9, 'x', 'US'",
    "DELETE FROM lake.house.shelf",
    "DELETE FROM lake.house.shelf WHERE region = 'US'",
    "DELETE FROM lake.house.shelf WHERE region = 'EU'",
    "DELETE FROM lake.house.shelf WHERE ssn LIKE 'V%'",
    "UPDATE lake.house.shelf SET region = 'EU'",
    "UPDATE lake.house.shelf SET region = 'EU' WHERE id = 3",
    "UPDATE lake.house.shelf SET id = id + 1 WHERE raise_error(ssn) IS NULL",
    "TRUNCATE TABLE lake.house.shelf",
    "MERGE INTO lake.house.shelf t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.region = 'EU'",
    "MERGE INTO lake.house.shelf t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO lake.house.shelf t USING (SELECT 3 AS id) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.region = 'EU'",
    "CREATE OR REPLACE TABLE lake.house.shelf AS SELECT 1 AS id, 'x' AS ssn, 'EU' AS region",
    "REPLACE TABLE lake.house.shelf (id INT)",
)
OUTSIDE = (
    "INSERT INTO lake.house.shelf VALUES (10, 'x', 'US')",
    "INSERT INTO lake.house.shelf VALUES (10, 'x', NULL)",
    "INSERT INTO lake.house.shelf VALUES (10, 'x', 'EU'), (11, 'x', 'US')",
    "INSERT INTO lake.house.shelf (id, ssn) VALUES (10, 'x')",
    "INSERT INTO lake.house.shelf PARTITION (region = 'US') SELECT 10, 'x'",
    "INSERT INTO lake.house.shelf BY NAME SELECT 10 AS id, 'US' AS region",
    "INSERT INTO lake.house.shelf SELECT 10, 'x', r FROM VALUES ('EU'), ('US') AS v(r)",
)

ATTEMPTS: tuple[Attempt, ...] = (
    *(denied(f"a reader: {sql}", sql) for sql in READ_ONLY),
    *(denied(f"one who is restricted: {sql}", sql, person="dora") for sql in RESTRICTED),
    *(denied(f"a row outside the filter: {sql}", sql, person="wanda") for sql in OUTSIDE),
    denied("no right to delete", "DELETE FROM lake.house.shelf WHERE id = 1", person="wanda"),
    absent("rows into a hidden table", "INSERT INTO lake.vault.secrets VALUES (1, 'x')"),
    absent("rows out of a hidden table", "DELETE FROM lake.vault.secrets"),
    absent(
        "a hidden table into one's own", "CREATE TABLE lake.desk.stolen AS SELECT * FROM lake.vault.secrets"
    ),
    absent(
        "a hidden table merged",
        "MERGE INTO lake.desk.own t USING lake.vault.secrets s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    ),
    denied("a table where one may not", "CREATE TABLE lake.house.mine AS SELECT * FROM people"),
    harmless(
        "restricted rows into one's own",
        "CREATE TABLE lake.desk.taken AS SELECT * FROM people",
        "SELECT * FROM lake.desk.taken",
    ),
    gives(
        "how many were taken",
        "SELECT count(*), count(notes), count(badge) FROM lake.desk.taken",
        rows=[(24, 0, 0)],
    ),
    harmless(
        "rows added to one's own",
        "INSERT INTO lake.desk.taken SELECT * FROM people",
        "SELECT * FROM lake.desk.taken",
    ),
    harmless(
        "rows merged into one's own",
        "MERGE INTO lake.desk.taken t USING people s ON t.id = s.id AND t.ssn <> s.ssn WHEN MATCHED THEN UPDATE SET t.ssn = s.ssn WHEN NOT MATCHED THEN INSERT *",
        "SELECT * FROM lake.desk.taken",
    ),
    harmless(
        "one's own changed by a subquery",
        "UPDATE lake.desk.taken SET name = (SELECT max(email) FROM people)",
        "SELECT * FROM lake.desk.taken",
    ),
    harmless(
        "two tables at once",
        "FROM people INSERT INTO lake.desk.taken SELECT * INSERT INTO lake.desk.taken SELECT * WHERE region <> 'EU'",
        "SELECT * FROM lake.desk.taken",
    ),
    harmless("files of what was taken", "SELECT * FROM lake.desk.taken.files"),
    harmless(
        "orders into one's own",
        "CREATE TABLE lake.desk.bought AS SELECT * FROM orders",
        "SELECT * FROM lake.desk.bought",
    ),
    harmless(
        "partitioned by what is masked",
        "CREATE TABLE lake.desk.parted PARTITIONED BY (ssn) AS SELECT ssn, email, phone FROM people",
        "SELECT * FROM lake.desk.parted.partitions",
    ),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_a_write_changes_and_takes_nothing_hidden(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


def test_a_row_inside_the_filter_may_be_inserted(attacker: Attacker, house: House) -> None:
    """facts/security, policy binding: an EU-only writer inserted a US row. By default a row must fit."""
    with house.connected("wanda") as connection:
        outcome = ask(connection, "INSERT INTO lake.house.shelf VALUES (7, 'own number', 'EU')")
        assert outcome.code is None, outcome.text
    attacker.judge(
        gives(
            "what was inserted",
            "SELECT id, ssn FROM lake.house.shelf WHERE id > 3",
            rows=[(7, "hidden")],
            person="wanda",
        )
    )


def test_after_all_writes_every_hidden_row_is_where_it_was(house: House) -> None:
    with house.connected("admin") as connection:
        shelf = ask(connection, "SELECT id, ssn, region FROM lake.house.shelf WHERE id < 7 ORDER BY id")
        assert shelf.rows == [(1, f"{VEIL}-a", "EU"), (2, f"{VEIL}-b", "EU"), (3, f"{VEIL}-c", "US")]
        assert ask(connection, "SELECT count(*) FROM lake.house.shelf").rows == [(4,)]
        assert ask(connection, "SELECT count(*) FROM lake.house.people").rows == [(40,)]
        assert ask(connection, "SELECT count(*) FROM lake.vault.secrets").rows == [(2,)]

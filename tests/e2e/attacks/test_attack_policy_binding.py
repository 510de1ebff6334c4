# ruff: noqa: E501 - one attempt a line
"""What a policy's words mean is fixed: no setting, variable or name of the asker's changes it."""

from collections.abc import Iterator

import pytest

from attacks.attempt import Attacker, Attempt, denied, gives, harmless, refused
from bailiwick.testing.leaks import ask
from bailiwick.testing.policy_house import House

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ZONES = ("-18:00", "+18:00", "Pacific/Kiritimati", "America/Los_Angeles")


@pytest.fixture(scope="module", autouse=True)
def bound(house: House) -> Iterator[None]:
    """Policies whose meaning settings could change."""
    with house.connected("admin") as admin, house.connected("ana") as ana:
        for sql in (
            "CREATE TABLE lake.house.dated (id INT, at TIMESTAMP, word STRING)",
            "INSERT INTO lake.house.dated VALUES (1, TIMESTAMP '2026-01-01 12:00:00Z', 'seen'), "
            "(2, TIMESTAMP '2025-12-31 23:59:59Z', 'VEILED-old'), (3, TIMESTAMP '2026-01-02 01:00:00Z', 'VEILED-new')",
            "CREATE ROW FILTER dated_day ON TABLE lake.house.dated FOR ROLE analyst "
            "USING (at >= TIMESTAMP '2026-01-01 00:00:00' AND date_format(at, 'yyyy-MM-dd') = '2026-01-01')",
            "CREATE TABLE lake.house.quoted (id INT, word STRING)",
            "INSERT INTO lake.house.quoted VALUES (1, 'a\\\\b'), (2, 'VEILED-ab'), (3, 'word')",
            "CREATE ROW FILTER quoted_word ON TABLE lake.house.quoted FOR ROLE analyst USING (word <> \"VEILED-ab\" AND word <> 'x' OR false)",
            "CREATE TABLE lake.house.owned (owner STRING, word STRING)",
            "INSERT INTO lake.house.owned VALUES ('ana', 'hers'), ('otto', 'VEILED-his'), ('admin', 'VEILED-theirs')",
            "CREATE ROW FILTER owned_by ON TABLE lake.house.owned FOR ROLE analyst USING (owner = current_user())",
            "CREATE TABLE lake.house.twice (a INT, b INT, word STRING)",
            "INSERT INTO lake.house.twice VALUES (1, 1, 'both'), (1, 0, 'VEILED-a'), (0, 1, 'VEILED-b'), (0, 0, 'VEILED-c')",
            "CREATE ROW FILTER first_of_two ON TABLE lake.house.twice FOR ROLE analyst USING (a = 1 OR a = 2)",
            "CREATE ROW FILTER second_of_two ON TABLE lake.house.twice FOR ROLE analyst USING (b = 1 OR b = 2)",
            "CREATE TABLE lake.vault.messy (code STRING)",
            "INSERT INTO lake.vault.messy VALUES ('1'), ('VEILED-code')",
            "CREATE TABLE lake.house.checked (id INT, word STRING)",
            "INSERT INTO lake.house.checked VALUES (1, 'VEILED-1'), (2, 'VEILED-2')",
            "CREATE ROW FILTER checked_by ON TABLE lake.house.checked FOR ROLE analyst USING (id IN (SELECT CAST(m.code AS INT) FROM lake.vault.messy m))",
            "CREATE TABLE lake.house.casted (id INT, word STRING, other STRING)",
            "INSERT INTO lake.house.casted VALUES (1, 'VEILED-1', '1'), (2, 'VEILED-2', 'VEILED-x'), (3, 'VEILED-3', '0')",
            "CREATE ROW FILTER casted_by ON TABLE lake.house.casted FOR ROLE analyst USING (10 / CAST(other AS INT) > 0)",
            "CREATE MASK casted_word ON TABLE lake.house.casted COLUMN word FOR ROLE analyst USING (CAST(CAST(word AS INT) AS STRING))",
            "CREATE TABLE lake.house.by_right (person_id INT, word STRING)",
            "CREATE ROW FILTER by_right_of ON TABLE lake.house.by_right FOR ROLE analyst USING (person_id IN (SELECT e.person_id FROM lake.vault.entitled e WHERE e.who = current_user()))",
            "GRANT INSERT ON TABLE lake.house.by_right TO ROLE analyst",
            *(
                f"GRANT SELECT ON TABLE lake.house.{name} TO ROLE analyst"
                for name in ("dated", "quoted", "owned", "twice", "checked", "casted", "by_right")
            ),
        ):
            outcome = ask(admin, sql)
            assert outcome.code is None, f"{sql}: {outcome.text}"
        for sql in (
            "CREATE TABLE lake.desk.entitled AS SELECT 'ana' AS who, explode(sequence(1, 400)) AS person_id",
            "CREATE TABLE lake.desk.people AS SELECT 'EU' AS region, 'VEIL' AS name",
        ):
            outcome = ask(ana, sql)
            assert outcome.code is None, f"{sql}: {outcome.text}"
        yield


ATTEMPTS: tuple[Attempt, ...] = (
    gives("filters are all of them", "SELECT word FROM twice", rows=[("both",)]),
    gives("filters and an own OR", "SELECT word FROM twice WHERE a = 0 OR true", rows=[("both",)]),
    gives("current_user in a filter", "SELECT word FROM owned", rows=[("hers",)]),
    gives("a column named current_user", "SELECT o.word FROM (SELECT 'otto' AS current_user) v, LATERAL (SELECT * FROM owned) o", rows=[("hers",)]),
    gives("an own table named like the policy's", "SELECT count(*) FROM lake.house.orders", rows=[(26,)], schema="desk"),
    gives("a CTE named like the policy's table", "WITH entitled AS (SELECT 'ana' AS who, 104 AS person_id) SELECT count(*) FROM orders", rows=[(26,)]),
    gives("an outer column named like the policy's", "SELECT count(*) FROM (SELECT 'EU' AS region, 1 AS person_id, 1 AS severity) o WHERE (SELECT count(*) FROM people) = 24", rows=[(1,)]),
    gives("a lateral column named like the policy's", "SELECT count(*) FROM (SELECT 'US' AS region) o, LATERAL (SELECT id FROM people) p", rows=[(24,)]),
    gives("an alias named like the policy's column", "SELECT count(*) FROM (SELECT 'EU' AS region, name FROM people WHERE region IS NOT NULL)", rows=[(24,)]),
    denied("a variable named like the policy's column", "DECLARE OR REPLACE VARIABLE region STRING DEFAULT 'EU'"),
    denied("a variable named like a function", "DECLARE VARIABLE current_user STRING DEFAULT 'otto'"),
    denied("a temporary view named like the policy's table", "CREATE TEMPORARY VIEW entitled AS SELECT 'ana' AS who, 1 AS person_id"),
    denied("ANSI off", "SET spark.sql.ansi.enabled = false"),
    denied("case sensitivity", "SET spark.sql.caseSensitive = true"),
    denied("escaped string literals", "SET spark.sql.parser.escapedStringLiterals = true"),
    denied("double quoted identifiers by SET", "SET spark.sql.ansi.doubleQuotedIdentifiers = true"),
    denied("the time zone by SET", "SET spark.sql.session.timeZone = '-18:00'"),
    gives("a backslash in a policy", "SELECT count(*) FROM quoted", rows=[(2,)]),
    refused("a user with a quote in the name", "CREATE USER `x' OR '1'='1` PASSWORD 'long enough for all' ROLES (reader)", person="admin"),
    refused("a role with a quote in the name", "CREATE ROLE `x' OR '1'='1`", person="admin"),
    refused("an unqualified table in a policy", "CREATE ROW FILTER bad ON TABLE lake.house.twice FOR ROLE analyst USING (a IN (SELECT a FROM twice))", person="admin"),
    refused("a policy with a function of Java", "CREATE ROW FILTER bad ON TABLE lake.house.twice FOR ROLE analyst USING (reflect('java.lang.System', 'exit') = 'x')", person="admin"),
    harmless("a mask that raises", "CREATE MASK raising ON TABLE lake.house.checked COLUMN word FOR ROLE analyst USING (raise_error(word))", person="admin"),
    harmless("what a mask that raises shows", "SELECT word FROM checked"),
    refused("a policy that is no condition", "CREATE ROW FILTER bad ON TABLE lake.house.twice FOR ROLE analyst USING (word)", person="admin"),
    refused("a policy of several statements", "CREATE ROW FILTER bad ON TABLE lake.house.twice FOR ROLE analyst USING (true); DROP ROW FILTER first_of_two ON TABLE lake.house.twice", person="admin"),
    refused("a policy that closes its parenthesis", "CREATE ROW FILTER bad ON TABLE lake.house.twice FOR ROLE analyst USING (true) OR (true)", person="admin"),
    refused("a policy with a comment that hides", "CREATE ROW FILTER bad ON TABLE lake.house.twice FOR ROLE analyst USING (true /* )", person="admin"),
    refused("a policy with a parameter", "CREATE ROW FILTER bad ON TABLE lake.house.twice FOR ROLE analyst USING (a = ?)", person="admin"),
    refused("two masks that could meet", "CREATE MASK second_ssn ON TABLE lake.house.people COLUMN ssn FOR ROLE analyst USING ('y')", person="admin"),
    harmless("everything of the dated", "SELECT * FROM dated"),
    harmless("a rule whose own table breaks it", "SELECT id FROM checked"),
    harmless("a rule whose own table breaks it, with a failing predicate", "SELECT raise_error(word) FROM checked"),
    gives("a filter and a mask that fail on values", "SELECT id, word FROM casted", rows=[(1, None)]),
    gives("a row that a filter with a subquery lets in", "INSERT INTO by_right VALUES (1, 'x')", "SELECT word FROM by_right", rows=[("x",)]),
    denied("a row that a filter with a subquery does not let in", "INSERT INTO by_right VALUES (105, 'x')"),
    denied("several rows, one of which it does not let in", "INSERT INTO by_right SELECT id, 'x' FROM range(1, 200)"),
)  # fmt: skip


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_a_policy_means_what_it_meant(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


@pytest.mark.parametrize("zone", ZONES)
def test_a_time_zone_does_not_move_a_policy(attacker: Attacker, zone: str) -> None:
    """facts/security, policy binding: a session at -18:00 moved a timestamp policy."""
    with attacker.house.connected("ana") as connection:
        assert ask(connection, f"SET TIME ZONE '{zone}'").code is None
        outcome = ask(connection, "SELECT id, word FROM dated")
    attacker.search(f"time zone {zone}", outcome.text)
    assert outcome.rows == [(1, "seen")], outcome.text
    attacker.noted(is_refused=False)


def test_double_quotes_do_not_change_a_policy(attacker: Attacker) -> None:
    """facts/security, policy binding: with `doubleQuotedIdentifiers` a text became a column's name."""
    from bailiwick.testing.policy_house import PASSWORD

    key = "adbc.flight.sql.session.option.double_quoted_identifiers"
    with attacker.house.gateway.connect("ana", PASSWORD) as connection:
        connection.adbc_connection.set_options(**{key: "true"})
        outcome = ask(connection, 'SELECT "word" FROM lake.house.quoted')
    attacker.search("double quotes", outcome.text)
    assert len(outcome.rows) == 2, outcome.text
    attacker.noted(is_refused=False)

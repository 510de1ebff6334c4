"""A hidden name and a missing one answer alike, in every statement and in every list of names."""

import re
from typing import Any

import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from attacks.attempt import Attacker, Attempt, gives, harmless
from bailiwick.testing.leaks import ask
from bailiwick.testing.policy_house import PASSWORD, House

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STATEMENTS = (
    "SELECT * FROM {table}",
    "SELECT word FROM {table}",
    "SELECT nonsense FROM {table}",
    "SELECT * FROM {table} VERSION AS OF 1",
    "SELECT * FROM {table}.files",
    "SELECT * FROM {table}.branch_x",
    "SELECT 1 WHERE EXISTS (TABLE {table})",
    "SELECT * FROM lake.house.people JOIN {table} USING (id)",
    "EXPLAIN SELECT * FROM {table}",
    "EXPLAIN POLICY SELECT * FROM {table}",
    "INSERT INTO {table} VALUES (1, 'x')",
    "INSERT INTO {table} VALUES (1)",
    "INSERT OVERWRITE {table} VALUES (1, 'x')",
    "UPDATE {table} SET word = 'x'",
    "DELETE FROM {table}",
    "TRUNCATE TABLE {table}",
    "MERGE INTO {table} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "ALTER TABLE {table} ADD COLUMN x INT",
    "ALTER TABLE {table} RENAME TO vault.other",
    "ALTER TABLE {table} DROP COLUMN word",
    "ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE {table} CREATE BRANCH x",
    "ALTER TABLE {table} ALTER COLUMN word SET TAGS ('pii')",
    "DROP TABLE {table}",
    "DROP TABLE {table} PURGE",
    "DROP VIEW {table}",
    "CREATE TABLE {table} (id INT)",
    "CREATE TABLE {table} AS SELECT 1 AS id",
    "CREATE OR REPLACE TABLE {table} (id INT)",
    "REPLACE TABLE {table} (id INT)",
    "CREATE VIEW {table} AS SELECT 1 AS id",
    "CREATE VIEW lake.desk.v AS SELECT * FROM {table}",
    "CREATE TABLE lake.desk.t LIKE {table}",
    "DESCRIBE TABLE {table}",
    "DESCRIBE TABLE EXTENDED {table}",
    "DESCRIBE TABLE {table} word",
    "SHOW CREATE TABLE {table}",
    "SHOW TBLPROPERTIES {table}",
    "SHOW COLUMNS IN {table}",
    "SHOW PARTITIONS {table}",
    "SHOW GRANTS ON TABLE {table}",
    "SHOW POLICIES ON TABLE {table}",
    "GRANT SELECT ON TABLE {table} TO USER nils",
    "REVOKE SELECT ON TABLE {table} FROM USER nils",
    "CREATE ROW FILTER f ON TABLE {table} FOR USER nils USING (true)",
    "COMMENT ON TABLE {table} IS 'x'",
    "ANALYZE TABLE {table} COMPUTE STATISTICS",
    "REFRESH TABLE {table}",
    "CACHE TABLE {table}",
    "CALL lake.system.expire_snapshots('vault.{last}')",
)
VIEW_STATEMENTS = (
    "SELECT * FROM {table}",
    "DROP VIEW {table}",
    "ALTER VIEW {table} AS SELECT 1 AS id",
    "CREATE OR REPLACE VIEW {table} AS SELECT 1 AS id",
    "SHOW CREATE TABLE {table}",
    "DESCRIBE TABLE {table}",
    "SHOW TBLPROPERTIES {table}",
)
SCHEMA_STATEMENTS = (
    "SHOW TABLES IN {schema}",
    "SHOW VIEWS IN {schema}",
    "SHOW TABLE EXTENDED IN {schema} LIKE '*'",
    "DESCRIBE NAMESPACE {schema}",
    "DROP NAMESPACE {schema}",
    "DROP NAMESPACE {schema} CASCADE",
    "CREATE TABLE {schema}.mine (a INT)",
    "CREATE NAMESPACE {schema}.inner",
    "ALTER NAMESPACE {schema} SET PROPERTIES ('a' = 'b')",
    "SHOW FUNCTIONS IN {schema}",
    "USE {schema}",
)
LISTS = (
    "SHOW SCHEMAS IN lake",
    "SHOW TABLES IN lake.house",
    "SHOW TABLES IN lake.vault",
    "SHOW VIEWS IN lake.house",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM information_schema.schemata",
    "SELECT * FROM information_schema.views",
    "SELECT * FROM lake.information_schema.tables WHERE table_schema = 'vault'",
    "SELECT * FROM lake.information_schema.columns WHERE table_name = 'secrets'",
    "SELECT * FROM lake.information_schema.views WHERE table_name = 'peep'",
    "SHOW GRANTS",
    "SHOW ROLES",
    "SELECT nonsense FROM lake.house.people",
    "SELECT * FROM lake.house.peoples",
    "SELECT * FROM lake.vaults.secret",
)  # fmt: skip
UNIQUE = re.compile(r"\(query q[0-9a-z]+\)")


def told(connection: Any, sql: str, *names: str) -> tuple[str, str]:
    """Code and text, without the names that were asked for and what is unique to each query."""
    outcome = ask(connection, sql)
    text = outcome.message or outcome.text
    for name in names:
        text = re.sub(re.escape(name), "NAME", text, flags=re.IGNORECASE)
    return str(outcome.code), UNIQUE.sub("UNIQUE", text)


@pytest.mark.parametrize("person", ["ana", "nils"])
@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_hidden_table_is_as_good_as_missing(attacker: Attacker, sql: str, person: str) -> None:
    connection = attacker.connection(person)
    answers = [
        told(connection, sql.format(table=f"lake.vault.{name}", last=name), name)
        for name in ("secrets", "missing")
    ]
    attacker.search(sql, answers[0][1])
    assert answers[0] == answers[1]
    # Spark shows what is wrong with a query in the place of its plan.
    assert answers[0][0] != "None" or sql.startswith("EXPLAIN SELECT")
    attacker.noted(is_refused=True)


@pytest.mark.parametrize("sql", VIEW_STATEMENTS)
def test_a_hidden_view_is_as_good_as_missing(attacker: Attacker, sql: str) -> None:
    connection = attacker.connection("ana")
    answers = [told(connection, sql.format(table=f"lake.vault.{name}"), name) for name in ("peep", "pool")]
    attacker.search(sql, answers[0][1])
    assert answers[0] == answers[1]
    attacker.noted(is_refused=True)


@pytest.mark.parametrize("sql", SCHEMA_STATEMENTS)
def test_a_hidden_schema_is_as_good_as_missing(attacker: Attacker, sql: str) -> None:
    with attacker.house.connected("ana") as connection:
        answers = [told(connection, sql.format(schema=f"lake.{name}"), name) for name in ("vault", "never")]
    attacker.search(sql, answers[0][1])
    assert answers[0] == answers[1]
    attacker.noted(is_refused=True)


@pytest.mark.parametrize("sql", LISTS)
def test_no_list_names_what_is_hidden(attacker: Attacker, sql: str) -> None:
    for person in ("ana", "nils", "eve"):
        outcome = attacker.judge(harmless(f"{person}: {sql}", sql, person=person))
        told = outcome.text.replace(sql, "").lower()
        hidden = ["peep", "entitled", "veiled_column", "desk_copy"]
        hidden += ["secrets"] if "secret" not in sql else []
        hidden += ["vault"] if "vault" not in sql else []
        hidden += ["orders", "eu_only", "events"] if person != "ana" else []
        hidden += ["house", "people"] if person == "nils" and "house" not in sql else []
        assert [word for word in hidden if word in told] == [], outcome.text


@pytest.mark.parametrize("person", ["ana", "nils", "eve"])
def test_browsing_tools_are_shown_nothing_hidden(attacker: Attacker, house: House, person: str) -> None:
    with house.gateway.connect(person, PASSWORD) as connection:
        found = connection.adbc_get_objects(depth="columns").read_all().to_pylist()
        text = str(found)
        attacker.search("GetObjects", text)
        assert [word for word in ("vault", "secrets", "entitled", "peep", "desk_copy") if word in text] == []
        for schema, table in (("vault", "secrets"), ("vault", "missing"), ("nowhere", "missing")):
            with pytest.raises(AdbcError):
                connection.adbc_get_table_schema(table, db_schema_filter=schema)
    attacker.noted(is_refused=False)


RIGHTS: tuple[Attempt, ...] = (
    gives(
        "schemas that one may know",
        "SELECT schema_name FROM lake.information_schema.schemata "
        "WHERE schema_name IN ('house', 'vault', 'desk', 'copy')",
        rows=[],
        person="nils",
    ),
    gives(
        "tables that one may know",
        "SELECT table_name FROM lake.information_schema.tables "
        "WHERE table_schema <> 'desk' AND table_name IN ('people', 'orders', 'secrets', 'regions')",
        rows=[("people",)],
        person="eve",
    ),
)


@pytest.mark.parametrize("attempt", RIGHTS, ids=lambda attempt: attempt.id)
def test_one_knows_of_what_one_has_a_privilege_on(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


def test_with_some_privilege_but_not_this_one_it_is_named(attacker: Attacker) -> None:
    outcome = ask(attacker.connection("ana"), "DELETE FROM lake.house.people")
    assert str(outcome.code) == "ACCESS_DENIED"
    assert "delete" in outcome.text.lower()
    assert "people" in outcome.text

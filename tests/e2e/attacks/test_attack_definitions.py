# ruff: noqa: E501 - one attempt a line
"""Definitions of restricted tables: renames, decoys, tables that are dropped and made again."""

import pytest

from attacks.attempt import Attacker, Attempt, denied, gives, harmless, refused
from bailiwick.testing.leaks import ask
from bailiwick.testing.policy_house import House

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ATTEMPTS: tuple[Attempt, ...] = (
    denied("a masked column that is renamed", "ALTER TABLE lake.house.shelf RENAME COLUMN ssn TO nss", person="dora"),
    denied("a masked column that is dropped", "ALTER TABLE lake.house.shelf DROP COLUMN ssn", person="dora"),
    denied("the filter's column that is renamed", "ALTER TABLE lake.house.shelf RENAME COLUMN region TO area", person="dora"),
    refused("the filter's column that is dropped", "ALTER TABLE lake.house.shelf DROP COLUMN region", person="dora"),
    refused("a table that is moved to one's own", "ALTER TABLE lake.house.shelf RENAME TO desk.shelf", person="dora"),
    denied("a table that is replaced", "CREATE OR REPLACE TABLE lake.house.shelf (id INT, ssn STRING, region STRING)", person="dora"),
    denied("other places for files", "ALTER TABLE lake.house.shelf SET TBLPROPERTIES ('write.data.path' = '/tmp/x')", person="dora"),
    denied("no right to alter", "ALTER TABLE lake.house.shelf ADD COLUMN x INT", person="wanda"),
    denied("no right to drop", "DROP TABLE lake.house.shelf", person="wanda"),
    refused("a table over a restricted one", "ALTER TABLE lake.desk.over RENAME TO house.shelf", person="dora"),
)  # fmt: skip


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_a_definition_does_not_shake_off_a_policy(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


def test_a_decoy_column_is_masked_too(attacker: Attacker, house: House) -> None:
    """facts/security, policy binding: rename `ssn` to `nss`, add a new `ssn`: the mask hit the decoy."""
    _made(house, "decoy")
    for sql in (
        "ALTER TABLE lake.house.decoy RENAME COLUMN ssn TO nss",
        "ALTER TABLE lake.house.decoy ADD COLUMN ssn STRING",
    ):
        _as_admin(house, sql)
    attacker.judge(
        gives(
            "both columns",
            "SELECT nss, ssn FROM lake.house.decoy WHERE id = 1",
            rows=[("hidden", "hidden")],
            person="wanda",
        )
    )
    attacker.judge(harmless("everything of it", "SELECT * FROM lake.house.decoy", person="wanda"))


def test_a_column_dropped_and_added_again_stays_masked(attacker: Attacker, house: House) -> None:
    _made(house, "readded")
    for sql in (
        "ALTER TABLE lake.house.readded DROP COLUMN ssn",
        "ALTER TABLE lake.house.readded ADD COLUMN ssn STRING",
        "INSERT INTO lake.house.readded (id, region, ssn) VALUES (5, 'EU', 'VEILED-again')",
    ):
        _as_admin(house, sql)
    attacker.judge(
        gives(
            "the column of that name",
            "SELECT ssn FROM lake.house.readded WHERE id = 5",
            rows=[("hidden",)],
            person="wanda",
        )
    )


def test_a_table_dropped_and_made_again_stays_covered(attacker: Attacker, house: House) -> None:
    _made(house, "again")
    for sql in (
        "DROP TABLE lake.house.again",
        "CREATE TABLE lake.house.again (id INT, ssn STRING, region STRING)",
        "INSERT INTO lake.house.again VALUES (1, 'VEILED-new', 'EU'), (2, 'VEILED-new', 'US')",
        "GRANT SELECT ON TABLE lake.house.again TO ROLE keeper",
    ):
        _as_admin(house, sql)
    attacker.judge(
        gives(
            "the table of that name",
            "SELECT * FROM lake.house.again",
            rows=[(1, "hidden", "EU")],
            person="wanda",
        )
    )


def test_a_table_made_again_without_the_policys_columns_is_refused(attacker: Attacker, house: House) -> None:
    _made(house, "changed")
    for sql in (
        "DROP TABLE lake.house.changed",
        "CREATE TABLE lake.house.changed (id INT, ssn STRING, area STRING)",
        "INSERT INTO lake.house.changed VALUES (1, 'VEILED-new', 'US')",
        "GRANT SELECT ON TABLE lake.house.changed TO ROLE keeper",
    ):
        _as_admin(house, sql)
    attacker.judge(denied("a filter without its column", "SELECT id FROM lake.house.changed", person="wanda"))


def test_a_renamed_table_keeps_its_policies(attacker: Attacker, house: House) -> None:
    """facts/security, policy binding: renamed to a name with an unrestricted grant, all rows were shown."""
    _made(house, "before")
    _as_admin(
        house,
        "GRANT SELECT ON NAMESPACE lake.desk_open TO ROLE keeper",
        first="CREATE NAMESPACE lake.desk_open",
    )
    _as_admin(house, "ALTER TABLE lake.house.before RENAME TO desk_open.after")
    attacker.judge(
        gives(
            "under its new name",
            "SELECT id, ssn FROM lake.desk_open.after",
            rows=[(1, "hidden"), (2, "hidden")],
            person="wanda",
        )
    )


def test_a_table_renamed_away_and_another_in_its_place_keep_apart(attacker: Attacker, house: House) -> None:
    """Rules go with their table. What is new under the old name hides nothing of what was there."""
    _made(house, "swapped")
    for sql in (
        "ALTER TABLE lake.house.swapped RENAME TO house.swapped_old",
        "CREATE TABLE lake.house.swapped (id INT, ssn STRING, region STRING)",
        "GRANT SELECT ON TABLE lake.house.swapped_old TO ROLE keeper",
    ):
        _as_admin(house, sql)
    attacker.judge(
        gives(
            "the table that went",
            "SELECT id, ssn FROM lake.house.swapped_old",
            rows=[(1, "hidden"), (2, "hidden")],
            person="wanda",
        )
    )


def test_a_masked_field_of_a_struct_stays_masked_when_the_struct_is_renamed(
    attacker: Attacker, house: House
) -> None:
    for sql in (
        "CREATE TABLE lake.house.nested (id INT, home STRUCT<city: STRING, zip: STRING>)",
        "INSERT INTO lake.house.nested VALUES (1, named_struct('city', 'VEILED-city', 'zip', '1000'))",
        "CREATE MASK nested_city ON TABLE lake.house.nested COLUMN home.city FOR ROLE keeper USING ('somewhere')",
        "GRANT SELECT ON TABLE lake.house.nested TO ROLE keeper",
        "ALTER TABLE lake.house.nested RENAME COLUMN home TO place",
        "ALTER TABLE lake.house.nested RENAME COLUMN place.city TO town",
    ):
        _as_admin(house, sql)
    attacker.judge(
        gives(
            "the field under its new name",
            "SELECT place.town, place.zip FROM lake.house.nested",
            rows=[("somewhere", "1000")],
            person="wanda",
        )
    )


def test_a_table_that_one_creates_under_a_covered_name_is_covered(attacker: Attacker, house: House) -> None:
    with house.connected("ana") as connection:
        assert ask(connection, "CREATE TABLE lake.desk.covered (id INT, ssn STRING)").code is None
    _as_admin(
        house, "CREATE MASK covered_ssn ON TABLE lake.desk.covered COLUMN ssn FOR USER ana USING ('hidden')"
    )
    with house.connected("ana") as connection:
        assert ask(connection, "DROP TABLE lake.desk.covered").code is None
        assert ask(connection, "CREATE TABLE lake.desk.covered AS SELECT 1 AS id, 'x' AS ssn").code is None
    attacker.judge(
        gives("one's own table of that name", "SELECT ssn FROM lake.desk.covered", rows=[("hidden",)])
    )


def _made(house: House, name: str) -> None:
    """A restricted table to be played with."""
    for sql in (
        f"CREATE TABLE lake.house.{name} (id INT, ssn STRING, region STRING)",
        f"INSERT INTO lake.house.{name} VALUES (1, 'VEILED-a', 'EU'), (2, 'VEILED-b', 'EU'), (3, 'VEILED-c', 'US')",
        f"CREATE ROW FILTER {name}_eu ON TABLE lake.house.{name} FOR ROLE keeper USING (region = 'EU')",
        f"CREATE MASK {name}_ssn ON TABLE lake.house.{name} COLUMN ssn FOR ROLE keeper USING ('hidden')",
        f"GRANT SELECT ON TABLE lake.house.{name} TO ROLE keeper",
    ):
        _as_admin(house, sql)


def _as_admin(house: House, sql: str, first: str | None = None) -> None:
    with house.connected("admin") as connection:
        for statement in (first, sql):
            if statement is not None:
                outcome = ask(connection, statement)
                assert outcome.code is None, outcome.text

# ruff: noqa: E501 - one attempt a line
"""Time travel, branches and tags: an older version is under the same policy, or is refused."""

import pytest

from attacks.attempt import Attacker, Attempt, denied, gives, harmless, refused
from bailiwick.testing.leaks import ask
from bailiwick.testing.policy_house import House

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SIDE_BY_SIDE = True

FIRST, ALL = 16, 24
"""People whom ana may see, of the first version and of the last."""
OPTIONS = (
    ("snapshot-id", "{snapshot_people_0}"),
    ("as-of-timestamp", "4102444800000"),
    ("branch", "main"),
    ("tag", "hired"),
    ("start-snapshot-id", "{snapshot_people_0}"),
    ("start-timestamp", "0"),
    ("scan-task-set-id", "1"),
    ("versionAsOf", "{snapshot_people_0}"),
    ("path", "lake.vault.secrets"),
    ("locality", "true"),
)

ATTEMPTS: tuple[Attempt, ...] = (
    gives("version", "SELECT count(*) FROM people VERSION AS OF {snapshot_people_0}", rows=[(FIRST,)]),
    gives(
        "version as text", "SELECT count(*) FROM people VERSION AS OF '{snapshot_people_0}'", rows=[(FIRST,)]
    ),
    gives(
        "system version",
        "SELECT count(*) FROM people FOR SYSTEM_VERSION AS OF {snapshot_people_0}",
        rows=[(FIRST,)],
    ),
    gives("time", "SELECT count(*) FROM people TIMESTAMP AS OF '{time_people_0}'", rows=[(FIRST,)]),
    gives(
        "computed time",
        "SELECT count(*) FROM people TIMESTAMP AS OF (TIMESTAMP '{time_people_0}' + INTERVAL 0 DAYS)",
        rows=[(FIRST,)],
    ),
    gives(
        "system time", "SELECT count(*) FROM people FOR SYSTEM_TIME AS OF '{time_people_0}'", rows=[(FIRST,)]
    ),
    gives(
        "version in a name",
        "SELECT count(*) FROM lake.house.people.snapshot_id_{snapshot_people_0}",
        rows=[(FIRST,)],
    ),
    gives("tag", "SELECT count(*), count(notes) FROM people VERSION AS OF 'hired'", rows=[(ALL, 0)]),
    gives("tag in a name", "SELECT count(*) FROM lake.house.people.tag_hired", rows=[(ALL,)]),
    gives("branch", "SELECT max(severity) FROM events VERSION AS OF 'side'", rows=[(3,)]),
    gives("branch in a name", "SELECT max(severity) FROM lake.house.events.branch_side", rows=[(3,)]),
    gives("main as a branch", "SELECT count(*) FROM lake.house.people.branch_main", rows=[(ALL,)]),
    gives(
        "two versions at once",
        "SELECT count(*) FROM people a FULL JOIN people VERSION AS OF {snapshot_people_0} b ON a.id = b.id",
        rows=[(ALL,)],
    ),
    gives(
        "what a version had and now is not there",
        "SELECT count(*) FROM (SELECT ssn FROM people VERSION AS OF {snapshot_people_0} EXCEPT SELECT ssn FROM people)",
        rows=[(0,)],
    ),
    harmless("masks of an older version", "SELECT * FROM people VERSION AS OF {snapshot_people_0}"),
    harmless("masks on a branch", "SELECT * FROM lake.house.events.branch_side"),
    harmless("masks of an older version of orders", "SELECT * FROM orders TIMESTAMP AS OF '{time_orders_0}'"),
    harmless("time in a name", "SELECT * FROM lake.house.people.at_timestamp_4102444800000"),
    *(
        harmless(f"option {key}", f"SELECT * FROM people WITH (`{key}` = '{value}')")
        for key, value in OPTIONS
    ),
    refused("a version of another table", "SELECT * FROM people VERSION AS OF {snapshot_orders_0}"),
    refused("a version that is not there", "SELECT * FROM people VERSION AS OF 1"),
    refused("a version of a hidden table", "SELECT * FROM lake.vault.secrets VERSION AS OF 1"),
    denied("a branch that is made", "ALTER TABLE people CREATE BRANCH mine"),
    denied("a branch that is dropped", "ALTER TABLE events DROP BRANCH side"),
    denied(
        "a branch that is moved", "ALTER TABLE events REPLACE BRANCH side AS OF VERSION {snapshot_events_0}"
    ),
    denied("a tag that is made", "ALTER TABLE people CREATE TAG mine"),
    denied("rows into a branch", "INSERT INTO lake.house.events.branch_side SELECT * FROM events"),
    denied("rows out of a branch", "DELETE FROM lake.house.events.branch_side WHERE true"),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_an_older_version_shows_nothing_more(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


@pytest.fixture(scope="module")
def evolved(house: House) -> str:
    """A table whose first version has neither the column of its filter nor that of its mask."""
    with house.connected("admin") as connection:
        for sql in (
            "CREATE TABLE lake.house.evolved (id INT, card STRING)",
            "INSERT INTO lake.house.evolved VALUES (1, 'VEILED-early-1'), (2, 'VEILED-early-2')",
            "ALTER TABLE lake.house.evolved ADD COLUMNS (area STRING, pin STRING)",
            "INSERT INTO lake.house.evolved VALUES (3, 'c', 'EU', 'VEILED-pin'), (4, 'VEILED-d', 'US', 'VEILED-pin')",
            "CREATE ROW FILTER evolved_area ON TABLE lake.house.evolved FOR ROLE analyst USING (area = 'EU')",
            "CREATE MASK evolved_pin ON TABLE lake.house.evolved COLUMN pin FOR ROLE analyst USING ('****')",
            "GRANT SELECT ON TABLE lake.house.evolved TO ROLE analyst",
        ):
            assert ask(connection, sql).code is None, sql
        outcome = ask(
            connection, "SELECT snapshot_id FROM lake.house.evolved.history ORDER BY made_current_at"
        )
        return str(outcome.rows[0][0])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM evolved VERSION AS OF {first}",
        "SELECT id FROM evolved VERSION AS OF {first}",
        "SELECT count(*) FROM lake.house.evolved.snapshot_id_{first}",
        "SELECT o.id FROM evolved VERSION AS OF {first} o WHERE EXISTS (SELECT 1 FROM (SELECT 'EU' AS area) WHERE o.id > 0)",
        "SELECT x.* FROM (SELECT 'EU' AS area, 'p' AS pin) s, LATERAL (SELECT * FROM evolved VERSION AS OF {first}) x",
    ],
)
def test_a_version_before_the_policys_columns_is_refused_neutrally(
    attacker: Attacker, evolved: str, sql: str
) -> None:
    """facts/security, policy binding: with a variable of the column's name all rows were shown."""
    outcome = attacker.judge(denied(f"early version: {sql}", sql.format(first=evolved)))
    assert "area" not in outcome.text.replace(sql, "")


def test_the_version_of_now_is_filtered_and_masked(attacker: Attacker, evolved: str) -> None:
    attacker.judge(gives("evolved now", "SELECT * FROM evolved", rows=[(3, "c", "EU", "****")]))


def test_a_version_by_a_subquery_shows_nothing(attacker: Attacker) -> None:
    """Spark itself breaks on it, whoever asks: nothing is read."""
    outcome = ask(
        attacker.connection("ana"), "SELECT * FROM people TIMESTAMP AS OF (SELECT max(at) FROM events)"
    )
    attacker.search("a version by a subquery", outcome.text)
    assert outcome.is_refused
    attacker.noted(is_refused=True)

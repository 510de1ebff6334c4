# ruff: noqa: E501 - one attempt a line
"""Views have their reader's rights: whoever made one lends nobody anything."""

from collections.abc import Iterator

import pytest

from attacks.attempt import Attacker, Attempt, absent, denied, gives, harmless, refused
from bailiwick.testing.leaks import ask
from bailiwick.testing.policy_house import House

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def lent(house: House) -> Iterator[None]:
    """Views that an administrator made over hidden tables and gave away."""
    with house.connected("admin") as admin, house.connected("ana") as ana:
        for sql in (
            "CREATE VIEW lake.house.loophole AS SELECT * FROM lake.vault.secrets",
            "CREATE VIEW lake.house.half AS SELECT p.id, (SELECT max(word) FROM lake.vault.secrets) AS w "
            "FROM lake.house.people p",
            "CREATE VIEW lake.house.raw_people AS SELECT * FROM lake.house.people",
            "CREATE VIEW lake.house.who AS SELECT current_user() AS who, count(*) AS n FROM lake.house.people",
            *(
                f"GRANT SELECT ON VIEW lake.house.{view} TO USER ana"
                for view in ("loophole", "half", "raw_people", "who")
            ),
            "GRANT SELECT ON VIEW lake.house.who TO USER eve",
            "GRANT SELECT ON VIEW lake.house.raw_people TO USER otto",
        ):
            outcome = ask(admin, sql)
            assert outcome.code is None, outcome.text
        outcome = ask(
            ana, "CREATE VIEW lake.desk.mine AS SELECT id, ssn, email, notes FROM lake.house.people"
        )
        assert outcome.code is None, outcome.text
        outcome = ask(admin, "GRANT SELECT ON VIEW lake.desk.mine TO USER otto")
        assert outcome.code is None, outcome.text
        yield


ATTEMPTS: tuple[Attempt, ...] = (
    harmless("a view over restricted tables", "SELECT * FROM open_orders"),
    harmless("a view over a view", "SELECT * FROM over_view"),
    harmless("sums of a view", "SELECT * FROM by_region"),
    gives("groups of a view", "SELECT region, people FROM by_region", rows=[("EU", 24)]),
    refused("a lent view over a hidden table", "SELECT * FROM loophole"),
    refused("a count over a lent view", "SELECT count(*) FROM loophole"),
    refused("a lent view that is half hidden", "SELECT id FROM half"),
    harmless("a lent view over a restricted table", "SELECT * FROM raw_people"),
    gives("rows of a lent view", "SELECT count(*), count(notes) FROM raw_people", rows=[(24, 0)]),
    gives("who reads a view", "SELECT * FROM who", rows=[("ana", 24)]),
    harmless("who else reads it", "SELECT who FROM lake.house.who", person="eve"),
    refused(
        "a lent view by one who may not read its table",
        "SELECT * FROM lake.house.raw_people",
        person="otto",
        schema="copy",
    ),
    refused(
        "a restricted person's view by one without rights",
        "SELECT * FROM lake.desk.mine",
        person="otto",
        schema="copy",
    ),
    harmless("a view of one's own", "SELECT * FROM lake.desk.mine"),
    absent(
        "a view of one's own over a hidden table",
        "CREATE VIEW lake.desk.evil AS SELECT * FROM lake.vault.secrets",
    ),
    absent("a view over a hidden view", "CREATE VIEW lake.desk.evil AS SELECT * FROM lake.vault.peep"),
    denied("a view instead of a table", "CREATE OR REPLACE VIEW lake.house.people AS SELECT 1 AS id"),
    denied("a view where one may not", "CREATE VIEW lake.house.evil AS SELECT ssn FROM lake.house.people"),
    refused("a view in a hidden schema", "CREATE VIEW lake.vault.evil AS SELECT 1 AS a"),
    refused("another's view that is changed", "ALTER VIEW open_orders AS SELECT * FROM lake.house.people"),
    denied("another's view with other properties", "ALTER VIEW open_orders SET TBLPROPERTIES ('a' = 'b')"),
    denied("another's view that is dropped", "DROP VIEW open_orders"),
    denied("another's view that is renamed", "ALTER VIEW open_orders RENAME TO desk.open_orders"),
    denied("a temporary view", "CREATE TEMPORARY VIEW mine AS SELECT * FROM people"),
    denied(
        "a temporary view named like a table", "CREATE OR REPLACE TEMP VIEW people AS SELECT 'forged' AS name"
    ),
    refused("a view that reads itself", "ALTER VIEW lake.desk.mine AS SELECT * FROM lake.desk.mine"),
    harmless(
        "a view with a text in double quotes",
        'CREATE VIEW lake.desk.quoted AS SELECT "ssn" AS a FROM lake.house.people',
    ),
    harmless("a view's definition", "SHOW CREATE TABLE lake.house.loophole"),
    harmless("a view's description", "DESCRIBE TABLE EXTENDED lake.house.half"),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_a_view_lends_nothing(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


def test_a_view_changes_with_its_readers_rights_at_once(attacker: Attacker, house: House) -> None:
    with house.connected("admin") as admin:
        assert ask(admin, "REVOKE SELECT ON TABLE lake.house.people FROM ROLE us_analyst").code is None
        try:
            attacker.judge(
                refused("a view after its table was taken away", "SELECT n FROM lake.house.who", person="eve")
            )
        finally:
            assert ask(admin, "GRANT SELECT ON TABLE lake.house.people TO ROLE us_analyst").code is None
    attacker.judge(harmless("a view after it was given back", "SELECT n FROM lake.house.who", person="eve"))

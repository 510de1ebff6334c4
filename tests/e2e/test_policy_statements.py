"""Policy statements on a real gateway, through ADBC: what they say holds from the next query on."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from bailiwick.testing.asking import failure, rows, value
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PASSWORD = "people of statements"
PEOPLE = {"sally": "reader", "sam": "writer", "sue": "auditor"}
NUMBERS = itertools.count()
ROWS = (
    "(1, 'EU', 'eva@example.org', 10.5), (2, 'US', 'uma@example.org', 20), (3, 'EU', 'eli@example.org', 30)"
)


@pytest.fixture(scope="module", autouse=True)
def people(gateway: RunningGateway) -> Iterator[None]:
    """Sally reads what clerks may, Sam makes things of his own, Sue is an auditor."""
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS lake.clerks")
    for name, role in PEOPLE.items():
        rows(gateway, f"CREATE USER {name} PASSWORD '{PASSWORD}' ROLES ({role})")
    rows(gateway, "CREATE ROLE clerk")
    rows(gateway, "GRANT ROLE clerk TO USER sally")
    yield
    rows(gateway, "DROP ROLE IF EXISTS clerk_apprentice")


@pytest.fixture
def orders(gateway: RunningGateway) -> str:
    """A table that only admins see."""
    table = f"lake.clerks.orders_{next(NUMBERS)}"
    rows(gateway, f"CREATE TABLE {table} (id INT, region STRING, email STRING, amount DOUBLE) USING iceberg")
    rows(gateway, f"INSERT INTO {table} VALUES {ROWS}")
    return table


@pytest.fixture
def granted(gateway: RunningGateway, orders: str) -> str:
    """A table that clerks may read."""
    rows(gateway, f"GRANT SELECT ON TABLE {orders} TO ROLE clerk")
    return orders


def asked(gateway: RunningGateway, sql: str, person: str) -> list[tuple[Any, ...]]:
    return rows(gateway, sql, person, PASSWORD)


def refused(gateway: RunningGateway, sql: str, person: str | None = None) -> str:
    return failure(gateway, sql) if person is None else failure(gateway, sql, person, PASSWORD)


def ids(gateway: RunningGateway, table: str, person: str = "sally") -> list[int]:
    return [id_ for (id_,) in asked(gateway, f"SELECT id FROM {table} ORDER BY id", person)]


def test_a_grant_holds_from_the_next_query_on_and_so_does_its_end(
    gateway: RunningGateway, orders: str
) -> None:
    hidden = refused(gateway, f"SELECT * FROM {orders}", "sally")
    assert "TABLE_NOT_FOUND" in hidden
    rows(gateway, f"GRANT SELECT ON TABLE {orders} TO ROLE clerk")
    assert ids(gateway, orders) == [1, 2, 3]
    assert "ACCESS_DENIED" in refused(gateway, f"DELETE FROM {orders} WHERE id = 1", "sally")
    rows(gateway, f"REVOKE ALL ON TABLE {orders} FROM ROLE clerk")
    assert "TABLE_NOT_FOUND" in refused(gateway, f"SELECT * FROM {orders}", "sally")


def test_a_role_given_and_taken_holds_in_an_open_session(gateway: RunningGateway, granted: str) -> None:
    assert ids(gateway, granted) == [1, 2, 3]
    rows(gateway, "REVOKE ROLE clerk FROM USER sally")
    try:
        assert "TABLE_NOT_FOUND" in refused(gateway, f"SELECT * FROM {granted}", "sally")
    finally:
        rows(gateway, "GRANT ROLE clerk TO USER sally")
    assert ids(gateway, granted) == [1, 2, 3]


def test_a_row_filter_is_made_replaced_and_dropped(gateway: RunningGateway, granted: str) -> None:
    on = f"ON TABLE {granted} FOR ROLE clerk EXCEPT USER sam"
    rows(gateway, f"CREATE ROW FILTER region {on} USING (region = 'EU')")
    assert ids(gateway, granted) == [1, 3]
    assert "exists already" in refused(gateway, f"CREATE ROW FILTER region {on} USING (true)")
    rows(gateway, f"CREATE OR REPLACE ROW FILTER region {on} USING (region = 'US' /* ) */)")
    assert ids(gateway, granted) == [2]
    assert value(gateway, f"SELECT count(*) FROM {granted}") == 3
    rows(gateway, f"DROP ROW FILTER region ON TABLE {granted}")
    assert ids(gateway, granted) == [1, 2, 3]


def test_a_mask_is_made_by_expression_and_by_action(gateway: RunningGateway, granted: str) -> None:
    on = f"ON TABLE {granted} COLUMN"
    rows(gateway, f"CREATE MASK mail {on} email FOR ROLE clerk USING (concat(left(email, 1), '***'))")
    rows(gateway, f"CREATE MASK money {on} amount FOR ROLE clerk ACTION 'null'")
    shown = asked(gateway, f"SELECT email, amount FROM {granted} WHERE id = 1", "sally")
    assert shown == [("e***", None)]
    assert asked(gateway, f"SELECT count(*) FROM {granted} WHERE email LIKE '%example%'", "sally") == [(0,)]
    assert rows(gateway, f"SELECT email, amount FROM {granted} WHERE id = 1") == [("eva@example.org", 10.5)]


def test_a_mask_on_a_tag_reaches_each_column_that_carries_it(gateway: RunningGateway, granted: str) -> None:
    tag = f"secret_{next(NUMBERS)}"
    rows(gateway, f"ALTER TABLE {granted} ALTER COLUMN email SET TAGS ('{tag}')")
    rows(gateway, f"CREATE MASK {tag} ON TAG {tag} FOR ROLE clerk USING (concat('<', length(value), '>'))")
    assert asked(gateway, f"SELECT DISTINCT email FROM {granted}", "sally") == [("<15>",)]
    assert "does not fit column amount" in refused(
        gateway, f"ALTER TABLE {granted} ALTER COLUMN amount SET TAGS ('{tag}')"
    )
    rows(gateway, f"ALTER TABLE {granted} ALTER COLUMN region SET TAGS ('{tag}')")
    assert asked(gateway, f"SELECT DISTINCT region FROM {granted}", "sally") == [("<2>",)]
    rows(gateway, f"ALTER TABLE {granted} ALTER COLUMN region UNSET TAGS ('{tag}')")
    rows(gateway, f"DROP MASK {tag} ON TAG {tag}")
    assert len(asked(gateway, f"SELECT DISTINCT email FROM {granted}", "sally")) == 3


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("ROW FILTER f ON TABLE {} FOR ROLE clerk USING (nothing = 1)", "nothing"),
        ("ROW FILTER f ON TABLE {} FOR ROLE clerk USING (region =)", "SYNTAX_ERROR"),
        ("ROW FILTER f ON TABLE {} FOR ROLE clerk USING (region)", "TYPE_MISMATCH"),
        ("ROW FILTER f ON TABLE {} FOR ROLE clerk USING (id IN (SELECT id FROM others))", "in full"),
        ("ROW FILTER f ON TABLE {} FOR ROLE clerk USING (rand() < 0.5)", "the same way each time"),
        (
            "ROW FILTER f ON TABLE {} FOR ROLE clerk USING (reflect('java.lang.System', 'getenv') = '')",
            "INVALID_ARGUMENTS",
        ),
        ("ROW FILTER f ON TABLE {} FOR ROLE nobody USING (true)", "no role 'nobody'"),
        ("ROW FILTER f ON TABLE {}_x FOR ROLE clerk USING (true)", "TABLE_NOT_FOUND"),
        ("MASK m ON TABLE {} COLUMN id FOR ROLE clerk USING (sha2(email, 256))", "TYPE_MISMATCH"),
        ("MASK m ON TABLE {} COLUMN none FOR ROLE clerk USING ('x')", "COLUMN_NOT_FOUND"),
        ("MASK m ON TABLE {} COLUMN id FOR ROLE clerk ACTION 'show_last_4'", "does not fit"),
        ("MASK m ON TABLE {} COLUMN id FOR ROLE clerk ACTION 'blur'", "no mask action"),
    ],
)
def test_a_rule_that_cannot_be_enforced_is_refused_when_it_is_made(
    gateway: RunningGateway, granted: str, what: str, message: str
) -> None:
    assert message in refused(gateway, f"CREATE {what.format(granted)}")
    assert ids(gateway, granted) == [1, 2, 3]


def test_rules_follow_a_renamed_table_and_column(gateway: RunningGateway, granted: str) -> None:
    rows(gateway, f"CREATE ROW FILTER region ON TABLE {granted} FOR ROLE clerk USING (region = 'EU')")
    rows(gateway, f"CREATE MASK mail ON TABLE {granted} COLUMN email FOR ROLE clerk USING ('hidden')")
    rows(gateway, f"ALTER TABLE {granted} RENAME COLUMN email TO mail")
    renamed = f"{granted}_renamed"
    rows(gateway, f"ALTER TABLE {granted} RENAME TO {renamed.removeprefix('lake.')}")
    assert asked(gateway, f"SELECT DISTINCT mail FROM {renamed}", "sally") == [("hidden",)]
    assert ids(gateway, renamed) == [1, 3]
    names = [row[1] for row in rows(gateway, f"SHOW POLICIES ON TABLE {renamed}")]
    assert sorted(names) == ["mail", "region"]


def test_a_table_made_anew_stays_covered_until_an_admin_clears_it(
    gateway: RunningGateway, granted: str
) -> None:
    rows(gateway, f"CREATE ROW FILTER region ON TABLE {granted} FOR ROLE clerk USING (region = 'EU')")
    rows(gateway, f"DROP TABLE {granted}")
    rows(gateway, f"CREATE TABLE {granted} (id INT, region STRING) USING iceberg")
    rows(gateway, f"INSERT INTO {granted} VALUES (7, 'US'), (8, 'EU')")
    assert "TABLE_NOT_FOUND" in refused(gateway, f"SELECT * FROM {granted}", "sally")
    rows(gateway, f"GRANT SELECT ON TABLE {granted} TO ROLE clerk")
    assert ids(gateway, granted) == [8]
    rows(gateway, f"CLEAR POLICY ON TABLE {granted}")
    assert ids(gateway, granted) == [7, 8]


def test_who_makes_a_table_owns_it_and_may_grant_on_it(gateway: RunningGateway) -> None:
    table = f"lake.clerks.sams_{next(NUMBERS)}"
    create = f"CREATE TABLE {table} (id INT) USING iceberg"
    assert "SCHEMA_NOT_FOUND" in refused(gateway, create, "sam")
    rows(gateway, "GRANT CREATE ON NAMESPACE lake.clerks TO USER sam")
    asked(gateway, f"CREATE TABLE {table} USING iceberg AS SELECT 5 AS id", "sam")
    asked(gateway, f"GRANT SELECT ON TABLE {table} TO USER sally", "sam")
    assert ids(gateway, table) == [5]
    assert "own" in refused(gateway, f"GRANT SELECT ON TABLE {table} TO ROLE clerk", "sally")
    filter_ = f"CREATE ROW FILTER f ON TABLE {table} FOR USER sally USING (false)"
    assert "ACCESS_DENIED" in refused(gateway, filter_, "sam")


def test_everyone_sees_what_concerns_them_of_grants_and_rules(gateway: RunningGateway, granted: str) -> None:
    rows(gateway, f"CREATE ROW FILTER region ON TABLE {granted} FOR ROLE clerk USING (region = 'EU')")
    on = f"ON TABLE {granted}"
    assert asked(gateway, f"SHOW GRANTS {on}", "sally") == [("role:clerk", "select", "table", granted)]
    expected: tuple[object, ...] = ("row_filter", "region", granted, None, ["role:clerk"], [])
    assert asked(gateway, f"SHOW POLICIES {on}", "sally") == [(*expected, None, None)]
    for told in (rows(gateway, f"SHOW POLICIES {on}"), asked(gateway, f"SHOW POLICIES {on}", "sue")):
        assert told == [(*expected, "region = 'EU'", None)]
    assert "TABLE_NOT_FOUND" in refused(gateway, f"SHOW POLICIES {on}", "sam")
    assert ("clerk", False, ["user:sally"]) in asked(gateway, "SHOW ROLES", "sally")
    assert "ACCESS_DENIED" in refused(gateway, "SHOW POLICY FILE", "sally")


def test_explain_policy_says_what_applies_and_why(gateway: RunningGateway, granted: str) -> None:
    rows(gateway, f"CREATE ROW FILTER region ON TABLE {granted} FOR ROLE clerk USING (region = 'EU')")
    rows(gateway, f"CREATE MASK mail ON TABLE {granted} COLUMN email FOR ROLE clerk USING ('x')")
    question = f"EXPLAIN POLICY SELECT email FROM {granted} WHERE id > 0"
    own = asked(gateway, question, "sally")
    assert [(row[0], row[2], row[3], row[4], row[5], row[7]) for row in own] == [
        (granted, True, "grant", None, None, None),
        (granted, True, "row_filter", "region", None, None),
        (granted, True, "mask", "mail", "email", None),
    ]
    for told in (
        rows(gateway, f"{question} AS USER sally"),
        asked(gateway, f"{question} AS USER sally", "sue"),
    ):
        assert [row[6] for row in told] == [row[6] for row in own]
        assert [row[7] for row in told] == [None, "region = 'EU'", "'x'"]
    assert "ACCESS_DENIED" in refused(gateway, f"{question} AS USER sam", "sally")


def test_explain_policy_of_a_change_names_what_is_missing(gateway: RunningGateway, granted: str) -> None:
    told = rows(gateway, f"EXPLAIN POLICY DELETE FROM {granted} AS USER sally")
    refusal = [row for row in told if row[3] == "refusal"]
    assert [(row[1], row[2]) for row in refusal] == [("delete", False)]
    assert "lacks delete" in refusal[0][6]
    assert value(gateway, f"SELECT count(*) FROM {granted}") == 3


def test_explain_policy_does_not_tell_of_hidden_tables(gateway: RunningGateway, orders: str) -> None:
    told = [
        refused(gateway, f"EXPLAIN POLICY SELECT * FROM {name}", "sally") for name in (orders, f"{orders}_x")
    ]
    hidden, missing = (text.split(" (query ")[0] for text in told)
    assert "TABLE_NOT_FOUND" in hidden
    assert hidden == missing.replace("_x`", "`")


def test_what_holds_is_a_file_that_changes_nothing_when_applied(
    gateway: RunningGateway, granted: str
) -> None:
    rows(gateway, f"CREATE ROW FILTER region ON TABLE {granted} FOR ROLE clerk USING (region = 'EU')")
    text = value(gateway, "SHOW POLICY FILE").replace("'", "''")
    assert rows(gateway, f"APPLY POLICY '{text}' DRY RUN") == []
    added = text + '\n[[role]]\nname = "clerk_apprentice"\n'
    assert rows(gateway, f"APPLY POLICY '{added}' DRY RUN") == [("created role clerk_apprentice",)]
    assert "clerk_apprentice" not in value(gateway, "SHOW POLICY FILE")
    rows(gateway, f"APPLY POLICY '{added}'")
    assert "clerk_apprentice" in value(gateway, "SHOW POLICY FILE")
    assert rows(gateway, "SHOW POLICY HISTORY")[0][4] == "created role clerk_apprentice"
    assert ids(gateway, granted) == [1, 3]


def test_a_statement_that_goes_wrong_says_where(gateway: RunningGateway) -> None:
    told = refused(gateway, "GRANT SELECT ON TABLE t\nFROM USER ann")
    assert "SYNTAX_ERROR" in told
    assert "Expected TO, found a word. (line 2, column 1)" in told


def test_the_history_of_queries_keeps_no_rules_text(gateway: RunningGateway, granted: str) -> None:
    salt = f"salt{next(NUMBERS)}"
    on = f"ON TABLE {granted} COLUMN email FOR ROLE clerk"
    rows(gateway, f"CREATE MASK salted {on} USING (sha2(concat(email, '{salt}'), 256))")
    kept = rows(
        gateway,
        f"SELECT count(*) FROM system.runtime.queries WHERE sql LIKE '%{salt}%' AND sql LIKE 'CREATE%'",
    )
    assert kept == [(0,)]

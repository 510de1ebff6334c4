"""What each privilege lets one do to tables on a real gateway, and what a refusal says. All by plain SQL."""

import re
from collections.abc import Iterator

import pytest

from bailiwick.testing.asking import failure, rows, value
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PASSWORD = "a long password"
WHO = "facade_fay"
T = "lake.facade.t"


@pytest.fixture(scope="module", autouse=True)
def places(gateway: RunningGateway) -> None:
    rows(gateway, f"CREATE USER {WHO} PASSWORD '{PASSWORD}' ROLES (reader)")
    for namespace in ("facade", "facade_other", "facade_hidden"):
        rows(gateway, f"CREATE NAMESPACE IF NOT EXISTS lake.{namespace}")
    rows(gateway, "CREATE TABLE lake.facade_hidden.secrets (id BIGINT)")


@pytest.fixture
def table(gateway: RunningGateway) -> Iterator[None]:
    """Two rows, of which nothing is granted."""
    rows(gateway, f"CREATE TABLE {T} AS SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(id, name)")
    yield
    rows(gateway, f"DROP TABLE IF EXISTS {T}")


def grant(gateway: RunningGateway, privileges: str, on: str = f"TABLE {T}") -> None:
    rows(gateway, f"GRANT {privileges} ON {on} TO USER {WHO}")


def ask(gateway: RunningGateway, sql: str) -> list[tuple[object, ...]]:
    return rows(gateway, sql, WHO, PASSWORD)


def refusal(gateway: RunningGateway, sql: str) -> str:
    return failure(gateway, sql, WHO, PASSWORD)


def denied(gateway: RunningGateway, sql: str, privilege: str) -> None:
    """`sql` is refused for want of this privilege, and says so."""
    text = refusal(gateway, sql)
    assert "ACCESS_DENIED" in text, text
    assert privilege in text.lower(), text


def nameless(text: str) -> str:
    """A refusal without what differs from one to the next: the query's id and the names asked for."""
    text = re.sub(r" ?\(query q\w+\)", "", text)
    return re.sub(r"facade`?\.`?[tx]\b|facade_(hidden|absent)", "*", text)


CHANGES = [
    ("insert", f"INSERT INTO {T} VALUES (3, 'c')"),
    ("delete", f"DELETE FROM {T} WHERE id = 1"),
    ("update", f"UPDATE {T} SET name = 'z' WHERE id = 1"),
    ("alter", f"ALTER TABLE {T} ADD COLUMN more STRING"),
    ("alter", f"ALTER TABLE {T} SET TBLPROPERTIES ('a' = 'b')"),
    ("alter", f"ALTER TABLE {T} RENAME COLUMN name TO title"),
    ("drop", f"DROP TABLE {T}"),
    ("drop", f"ALTER TABLE {T} RENAME TO facade.u"),
]


@pytest.mark.parametrize(("privilege", "sql"), CHANGES, ids=[sql.split(T)[0] + what for what, sql in CHANGES])
@pytest.mark.usefixtures("table")
def test_a_change_without_its_privilege_is_refused_by_name(
    gateway: RunningGateway, privilege: str, sql: str
) -> None:
    hidden, missing = refusal(gateway, sql), refusal(gateway, sql.replace(T, "lake.facade.x"))
    assert "NOT_FOUND" in hidden
    assert nameless(hidden) == nameless(missing)
    others = {"select", "insert", "update", "delete", "alter", "drop"} - {privilege}
    grant(gateway, ", ".join(sorted(others)))
    grant(gateway, "create", "NAMESPACE lake.facade")
    denied(gateway, sql, privilege)
    grant(gateway, privilege)
    ask(gateway, sql)
    rows(gateway, "DROP TABLE IF EXISTS lake.facade.u")


@pytest.mark.usefixtures("table")
def test_what_is_granted_is_done(gateway: RunningGateway) -> None:
    grant(gateway, "select, insert, update, delete")
    ask(gateway, f"INSERT INTO {T} VALUES (3, 'c')")
    ask(gateway, f"UPDATE {T} SET name = 'z' WHERE id = 3")
    ask(gateway, f"DELETE FROM {T} WHERE id = 1")
    ask(
        gateway,
        f"MERGE INTO {T} t USING (SELECT 2 AS id, 'm' AS name UNION ALL SELECT 9, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *",
    )
    assert ask(gateway, f"SELECT * FROM {T} ORDER BY id") == [(2, "m"), (3, "z"), (9, "n")]
    ask(gateway, f"INSERT OVERWRITE {T} SELECT 7, 'o'")
    assert ask(gateway, f"SELECT * FROM {T}") == [(7, "o")]
    ask(gateway, f"TRUNCATE TABLE {T}")
    assert ask(gateway, f"SELECT count(*) FROM {T}") == [(0,)]


@pytest.mark.usefixtures("table")
def test_many_small_inserts_by_one_who_may_only_insert(gateway: RunningGateway) -> None:
    # Beyond a number of manifests Iceberg merges them while it appends: that is still an append.
    rows(gateway, f"ALTER TABLE {T} SET TBLPROPERTIES ('commit.manifest.min-count-to-merge' = '3')")
    grant(gateway, "insert")
    for number in range(5):
        ask(gateway, f"INSERT INTO {T} VALUES ({10 + number}, 'n')")
    assert value(gateway, f"SELECT count(*) FROM {T}") == 7


def test_who_makes_a_table_owns_it(gateway: RunningGateway) -> None:
    denied(gateway, "CREATE NAMESPACE lake.facade_mine", "create")
    grant(gateway, "create", "CATALOG lake")
    ask(gateway, "CREATE NAMESPACE lake.facade_mine")
    ask(gateway, "CREATE TABLE lake.facade_mine.made AS SELECT 1 AS id")
    ask(gateway, "INSERT INTO lake.facade_mine.made VALUES (2)")
    ask(gateway, "DELETE FROM lake.facade_mine.made WHERE id = 1")
    assert ask(gateway, "SELECT id FROM lake.facade_mine.made") == [(2,)]
    ask(gateway, "CREATE OR REPLACE TABLE lake.facade_mine.made AS SELECT 'x' AS x")
    ask(gateway, "CREATE VIEW lake.facade_mine.seen AS SELECT x FROM lake.facade_mine.made")
    assert ask(gateway, "SELECT * FROM lake.facade_mine.seen") == [("x",)]
    ask(gateway, "ALTER TABLE lake.facade_mine.made RENAME TO facade_mine.renamed")
    assert ask(gateway, "SELECT x FROM lake.facade_mine.renamed") == [("x",)]
    for statement in (
        "DROP VIEW lake.facade_mine.seen",
        "DROP TABLE lake.facade_mine.renamed",
        "DROP NAMESPACE lake.facade_mine",
    ):
        ask(gateway, statement)
    rows(gateway, f"REVOKE create ON CATALOG lake FROM USER {WHO}")


@pytest.mark.usefixtures("table")
def test_lists_show_what_is_granted(gateway: RunningGateway) -> None:
    grant(gateway, "insert")
    namespaces = {name for (name, *_) in ask(gateway, "SHOW NAMESPACES IN lake")}
    assert "facade" in namespaces
    assert "facade_hidden" not in namespaces
    assert [row[1] for row in ask(gateway, "SHOW TABLES IN lake.facade")] == ["t"]
    hidden = refusal(gateway, "SHOW TABLES IN lake.facade_hidden")
    missing = refusal(gateway, "SHOW TABLES IN lake.facade_absent")
    assert nameless(hidden) == nameless(missing)
    denied(gateway, f"SELECT * FROM {T}", "select")


@pytest.mark.usefixtures("table")
def test_one_from_whom_rows_are_hidden_adds_rows_and_nothing_else(gateway: RunningGateway) -> None:
    grant(gateway, "select, insert, update, delete, alter, drop")
    rows(gateway, f"CREATE ROW FILTER facade_some ON TABLE {T} FOR USER {WHO} USING (id < 100 AND id <> 1)")
    try:
        assert ask(gateway, f"SELECT id FROM {T}") == [(2,)]
        ask(gateway, f"INSERT INTO {T} VALUES (3, 'c')")
        for sql in (
            f"DELETE FROM {T} WHERE id = 2",
            f"UPDATE {T} SET name = 'z'",
            f"INSERT OVERWRITE {T} SELECT 5, 'x'",
            f"TRUNCATE TABLE {T}",
            f"ALTER TABLE {T} ADD COLUMN more STRING",
            f"CREATE OR REPLACE TABLE {T} AS SELECT 1 AS id",
        ):
            assert "ACCESS_DENIED" in refusal(gateway, sql), sql
        assert value(gateway, f"SELECT count(*) FROM {T}") == 3
    finally:
        rows(gateway, f"DROP ROW FILTER facade_some ON TABLE {T}")


@pytest.mark.usefixtures("table")
def test_a_column_with_rules_stays_as_it_is(gateway: RunningGateway) -> None:
    grant(gateway, "select, alter")
    rows(gateway, f"CREATE MASK facade_hide ON TABLE {T} COLUMN name FOR ROLE auditor USING ('x')")
    try:
        for sql in (f"ALTER TABLE {T} RENAME COLUMN name TO nom", f"ALTER TABLE {T} DROP COLUMN name"):
            text = refusal(gateway, sql)
            assert "ACCESS_DENIED" in text, text
            assert "has rules" in text, text
        ask(gateway, f"ALTER TABLE {T} RENAME COLUMN id TO number")
    finally:
        rows(gateway, f"DROP MASK facade_hide ON TABLE {T}")

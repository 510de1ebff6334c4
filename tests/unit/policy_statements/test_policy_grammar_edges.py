"""What begins like a policy statement is read or refused with its place; no rule's text is kept."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError, Code, Position
from bailiwick.names import InvalidNameError, checked_part
from bailiwick.policy.commands import (
    ExplainPolicy,
    GrantPrivileges,
    GrantRole,
    ObjectKind,
    ObjectName,
)
from bailiwick.policy.model import Grantee, Privilege
from bailiwick.policy.reading import LIST_LENGTH_MAX
from bailiwick.policy.statements import (
    LONG_STATEMENT_CHARS_MAX,
    STATEMENT_CHARS_MAX,
    changes,
    parse,
    redacted,
)

ANALYST = Grantee.role("analyst")
ON_ORDERS = ObjectName(ObjectKind.TABLE, ("lake", "sales", "orders"))
TOO_LONG = f"at most {LONG_STATEMENT_CHARS_MAX} characters"
SELECT = frozenset({Privilege.SELECT})
OPENINGS = ("GRANT ", "CREATE MASK ", "CREATE ROW FILTER f ON TABLE t FOR ROLE r USING (", "EXPLAIN POLICY ")
BLANKS = st.sampled_from([" ", "\n", "\t ", " -- note 'x\n", " /* a /* nested */ one */ ", " /**/ ", "\r\n"])


@pytest.mark.parametrize(
    "sql",
    [
        "",
        ";",
        "SELECT 1",
        "CREATE",
        "CREATE TABLE role (a INT)",
        "CREATE OR REPLACE TABLE mask (a INT)",
        "CREATE OR REPLACE VIEW row AS SELECT 1",
        "CREATE ROW",
        "DROP TABLE mask",
        "DROP ROW x",
        "SHOW TABLES",
        "SHOW CURRENT ROLES",
        "EXPLAIN SELECT 1",
        "EXPLAIN EXTENDED SELECT 1",
        "`GRANT` x",
        "GRANTS",
        "REVOKE TOKEN 'abc'",
        "revoke /* mine */ token 'abc'",
        "ALTER USER ann PASSWORD 'x'",
        "ALTER TABLE t ADD COLUMN tags STRING",
        "ALTER TABLE t ALTER COLUMN tags SET NOT NULL",
        "ALTER TABLE t ALTER COLUMN c COMMENT 'set tags'",
        "ALTER TABLE t SET TBLPROPERTIES ('tags' = 'x')",
        "ALTER TABLE t ALTER COLUMN c SET TAG ('tags')",
        "ALTER TABLE t RENAME TO tags",
        "ALTER TABLE t ALTER COLUMN 'c SET TAGS ('x')",
        "-- GRANT SELECT",
        "/* GRANT",
        "\ufeffGRANT ROLE a TO USER b",
    ],
)
def test_every_other_text_is_left_to_others(sql: str) -> None:
    assert parse(sql) is None
    assert redacted(sql) == sql


@pytest.mark.parametrize(
    ("sql", "line", "column", "expected"),
    [
        ("CREATE ROLE", 1, 12, "a name"),
        ("CREATE ROLE 'x'", 1, 13, "a name"),
        ("CREATE ROLE IF EXISTS x", 1, 16, "NOT"),
        ("GRANT", 1, 6, "SELECT, INSERT, UPDATE"),
        ("GRANT analyst TO USER ann", 1, 7, "SELECT, INSERT, UPDATE"),
        ("GRANT SELECT TABLE t TO USER ann", 1, 14, "ON"),
        ("GRANT SELECT, ON TABLE t TO USER ann", 1, 15, "SELECT"),
        ("GRANT SELECT ON t TO USER ann", 1, 17, "CATALOG, NAMESPACE, SCHEMA, DATABASE, TABLE or VIEW"),
        ("GRANT SELECT ON TABLE t TO ann", 1, 28, "USER or ROLE"),
        ("GRANT SELECT ON TABLE t TO USER ann WITH GRANT OPTION", 1, 37, "the end of the statement"),
        ("GRANT SELECT ON TABLE t.*.x TO USER ann", 1, 26, "TO"),
        ("GRANT SELECT ON TABLE * TO USER ann", 1, 23, "a name, found '*'"),
        ("GRANT SELECT ON CATALOG lake.* TO USER ann", 1, 30, "a name, found '*'"),
        ("GRANT SELECT ON TABLE t.7 TO USER ann", 1, 25, "a name, found '7'"),
        ("GRANT SELECT ON\n  TABLE t FROM USER ann", 2, 11, "TO"),
        ("REVOKE SELECT ON TABLE t TO USER ann", 1, 26, "FROM"),
        ("REVOKE ROLE a FROM USER ann,", 1, 29, "a name"),
        ("CREATE ROW FILTER f ON t FOR ROLE a USING (x)", 1, 24, "TABLE"),
        ("CREATE ROW FILTER f ON TABLE t USING (x)", 1, 32, "FOR"),
        ("CREATE ROW FILTER f ON TABLE t FOR ROLE a USING x", 1, 49, "'('"),
        ("CREATE ROW FILTER f ON TABLE t FOR ROLE a USING ( )", 1, 51, "an expression"),
        ("CREATE ROW FILTER f ON TABLE t FOR ROLE a USING (x) PRIORITY 1", 1, 53, "the end"),
        ("CREATE MASK m ON TABLE t FOR ROLE a USING (x)", 1, 26, "COLUMN"),
        ("CREATE MASK m ON TAG a COLUMN c FOR ROLE a USING (x)", 1, 24, "FOR"),
        ("CREATE MASK m ON TAG a FOR ROLE a", 1, 34, "USING or ACTION"),
        ("CREATE MASK m ON TAG a FOR ROLE a ACTION hash", 1, 42, "a string in single quotes"),
        ("CREATE MASK m ON TAG a FOR ROLE a ACTION 'hash' PRIORITY x", 1, 58, "a whole number"),
        ("CREATE MASK m ON TAG a FOR ROLE a ACTION 'hash' PRIORITY 1.5", 1, 58, "a whole number"),
        ("CREATE MASK m ON TAG a FOR ROLE a ACTION 'hash' PRIORITY -1", 1, 58, "a whole number"),
        ("DROP MASK m", 1, 12, "ON"),
        ("DROP MASK m ON COLUMN c", 1, 16, "TABLE or TAG"),
        ("ALTER TABLE t ALTER COLUMN c SET TAGS", 1, 38, "'('"),
        ("ALTER TABLE t ALTER COLUMN c SET TAGS ()", 1, 40, "a string in single quotes"),
        ("ALTER TABLE t ALTER COLUMN c SET TAGS ('a' 'b')", 1, 44, "',' or ')'"),
        ("CLEAR POLICY t", 1, 14, "ON"),
        ("SHOW ROLES LIKE 'a'", 1, 12, "the end"),
        ("SHOW GRANTS FOR USER ann", 1, 13, "the end"),
        ("SHOW POLICY", 1, 12, "FILE or HISTORY"),
        ("APPLY POLICY", 1, 13, "a string in single quotes"),
        ("APPLY POLICY '' DRY", 1, 20, "RUN"),
        ("EXPLAIN POLICY", 1, 15, "a statement to explain"),
        ("EXPLAIN POLICY ;", 1, 17, "a statement to explain"),
        ("EXPLAIN POLICY SELECT 1 AS USER 'ann'", 1, 33, "a name"),
    ],
)
def test_our_opening_that_goes_wrong_says_what_was_expected_and_where(
    sql: str, line: int, column: int, expected: str
) -> None:
    with pytest.raises(BailiwickError) as refused:
        parse(sql)
    assert refused.value.code is Code.SYNTAX_ERROR
    assert refused.value.position == Position(line, column)
    assert f"Expected {expected}" in refused.value.message
    assert redacted(sql) == sql or redacted(sql).endswith("…")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("GRANT SELECT ON TABLE t TO USER `a\x07b`", "control characters"),
        (f"GRANT SELECT ON TABLE {'.'.join('a' * 30)} TO USER ann", "at most 18 parts"),
        (f"CREATE ROLE {'a' * 256}", "at most 255 characters"),
        (f"GRANT ROLE a TO USER {', '.join(f'u{n}' for n in range(LIST_LENGTH_MAX + 1))}", "100 entries"),
        ("CREATE MASK m ON TAG a FOR ROLE a ACTION 'hash' PRIORITY 1000001", "at most 1000000"),
        (f"CREATE ROLE a -- {'x' * STATEMENT_CHARS_MAX}", f"at most {STATEMENT_CHARS_MAX} characters"),
        (f"APPLY POLICY '{'x' * LONG_STATEMENT_CHARS_MAX}'", TOO_LONG),
        (f"EXPLAIN POLICY {'x' * LONG_STATEMENT_CHARS_MAX}", TOO_LONG),
    ],
)
def test_everything_has_a_bound(sql: str, message: str) -> None:
    with pytest.raises(BailiwickError, match=message) as refused:
        parse(sql)
    assert refused.value.code is Code.SYNTAX_ERROR
    assert len(redacted(sql)) < 100


@given(st.lists(BLANKS, min_size=12, max_size=12))
def test_blanks_and_comments_may_stand_between_any_two_words(blanks: list[str]) -> None:
    words = ["GRANT", "SELECT", "ON", "TABLE", "lake", ".", "sales", ".", "orders", "TO", "ROLE", "analyst"]
    sql = "".join(word + blank for word, blank in zip(words, blanks, strict=False))
    assert parse(sql) == GrantPrivileges(SELECT, ON_ORDERS, (ANALYST,))


@given(st.text(max_size=60))
def test_any_name_can_be_quoted(name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    try:
        checked_part(name)
    except InvalidNameError:
        with pytest.raises(BailiwickError):
            parse(f"GRANT ROLE r TO USER {quoted}")
    else:
        assert parse(f"GRANT ROLE r TO USER {quoted}") == GrantRole("r", (Grantee.user(name),))


@given(st.sampled_from(OPENINGS), st.text(max_size=80))
def test_whatever_follows_is_read_or_refused_with_a_place(opening: str, rest: str) -> None:
    refused: BailiwickError | None = None
    try:
        parse(opening + rest)
    except BailiwickError as error:
        refused = error
    assert refused is None or (refused.code is Code.SYNTAX_ERROR and refused.position is not None)


def test_ordinary_sql_costs_microseconds() -> None:
    sql = "SELECT * FROM lake.sales.orders WHERE region = 'EU'" + " OR region = 'US'" * 5_000
    started = time.perf_counter()
    for _ in range(1_000):
        parse(sql)
    assert time.perf_counter() - started < 0.5


def test_a_rules_text_is_not_kept_and_nothing_else_of_a_statement_is_secret() -> None:
    assert (
        redacted("CREATE MASK m ON TABLE t COLUMN c FOR ROLE a USING (sha2(c || 'salt', 256)) PRIORITY 1")
        == "CREATE MASK m ON TABLE t COLUMN c FOR ROLE a USING (…) PRIORITY 1"
    )
    assert redacted("CREATE MASK m ON TABLE t COLUMN c FOR ROLE a USING (sha2('salt)") == "CREATE MASK…"
    assert redacted("APPLY POLICY '[[mask]] … salt' DRY RUN") == "APPLY POLICY…"
    for sql in (
        "GRANT SELECT ON TABLE t TO USER ann",
        "CREATE MASK m ON TAG pii FOR ROLE a ACTION 'hash'",
        "ALTER TABLE t ALTER COLUMN c SET TAGS ('pii')",
        "EXPLAIN POLICY SELECT 'x'",
    ):
        assert redacted(sql) == sql


def test_a_secret_behind_explain_policy_is_refused_and_not_kept() -> None:
    for secret in ("CREATE USER ann PASSWORD 'hunter2!'", "REVOKE TOKEN 'bw_id_hunter2!'"):
        with pytest.raises(BailiwickError, match="can be explained") as refused:
            parse(f"EXPLAIN POLICY {secret}")
        assert "hunter2" not in refused.value.message
        assert redacted(f"EXPLAIN POLICY {secret}") == "EXPLAIN POLICY…"


@pytest.mark.parametrize(
    ("sql", "inner", "as_user"),
    [
        ("EXPLAIN POLICY SELECT 1", "SELECT 1", None),
        ("EXPLAIN POLICY SELECT 1 ;", "SELECT 1 ;", None),
        ("explain policy SELECT 1 AS USER ann", "SELECT 1", "ann"),
        ("EXPLAIN POLICY SELECT 1 as user `ann@example.org` ; -- please", "SELECT 1", "ann@example.org"),
        ('EXPLAIN POLICY SELECT 1 AS USER "ann"', "SELECT 1", "ann"),
        ("EXPLAIN POLICY SELECT 1 /* x */ AS /* y */ USER ann", "SELECT 1 /* x */", "ann"),
        ("EXPLAIN POLICY SELECT 1 AS user", "SELECT 1 AS user", None),
        ("EXPLAIN POLICY SELECT 'AS USER ann'", "SELECT 'AS USER ann'", None),
        ("EXPLAIN POLICY SELECT 1 -- AS USER ann", "SELECT 1 -- AS USER ann", None),
        (r"EXPLAIN POLICY SELECT 'it\'s' AS USER ann", r"SELECT 'it\'s'", "ann"),
        ("EXPLAIN POLICY SELECT $$it's$$ AS USER ann", "SELECT $$it's$$", "ann"),
        ("EXPLAIN POLICY DELETE FROM t", "DELETE FROM t", None),
        ("EXPLAIN POLICY ALTER TABLE t ADD COLUMN tags INT", "ALTER TABLE t ADD COLUMN tags INT", None),
    ],
)
def test_explain_policy_takes_the_statement_as_it_is(sql: str, inner: str, as_user: str | None) -> None:
    command = parse(sql)
    assert isinstance(command, ExplainPolicy)
    assert command.sql.strip() == inner
    assert command.as_user == as_user


def test_places_in_an_explained_statement_are_those_of_the_whole_text() -> None:
    sql = "EXPLAIN\nPOLICY SELECT\n  nothing AS USER ann"
    command = parse(sql)
    assert isinstance(command, ExplainPolicy)
    assert command.sql.index("nothing") == sql.index("nothing")
    assert command.sql.count("\n") == sql.count("\n")


@pytest.mark.parametrize(
    "inner",
    ["GRANT x", "SHOW USERS", "EXPLAIN POLICY SELECT 1", "ALTER TABLE t ALTER COLUMN c SET TAGS ('x')"],
)
def test_our_own_statements_are_not_explained(inner: str) -> None:
    with pytest.raises(BailiwickError, match="can be explained"):
        parse(f"EXPLAIN POLICY {inner}")


def test_showing_and_trying_change_nothing() -> None:
    for sql in ("SHOW ROLES", "SHOW GRANTS", "EXPLAIN POLICY SELECT 1", "APPLY POLICY '' DRY RUN"):
        command = parse(sql)
        assert command is not None
        assert not changes(command)
    for sql in ("APPLY POLICY ''", "CREATE ROLE a", "CLEAR POLICY ON TABLE t"):
        command = parse(sql)
        assert command is not None
        assert changes(command)

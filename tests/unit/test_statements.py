"""Our administration statements are read exactly, all else is left to Spark, and no password is kept."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError, Code, Position
from bailiwick.identity.statements import (
    ChangePassword,
    ChangeRoles,
    ChangeTenant,
    Command,
    CreateToken,
    CreateUser,
    DisableUser,
    DropUser,
    EnableUser,
    RevokeToken,
    ShowTokens,
    ShowUsers,
    changes,
    parse,
    quoted_name,
    quoted_string,
    redacted,
)

NAMES = st.text(min_size=1, max_size=128)
WORDS = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,60}\Z")
STRINGS = st.text(max_size=300)
BLANKS = st.sampled_from([" ", "\n", "\t ", " -- note 'x\n", " /* a /* nested */ one */ ", " /**/ ", "\r\n"])
OPENINGS = (
    "CREATE USER",
    "ALTER USER",
    "DROP USER",
    "SHOW USERS",
    "CREATE TOKEN",
    "REVOKE TOKEN",
    "SHOW TOKENS",
)


@pytest.mark.parametrize(
    ("sql", "command"),
    [
        ("CREATE USER ann PASSWORD 'secret'", CreateUser("ann", "secret")),
        ("create user ann with password 'secret'", CreateUser("ann", "secret")),
        ("CREATE USER ann PASSWORD 'it''s'", CreateUser("ann", "it's")),
        (r"CREATE USER ann PASSWORD 'back\slash'", CreateUser("ann", r"back\slash")),
        ("CREATE USER ann PASSWORD 'x' ROLES (reader)", CreateUser("ann", "x", frozenset({"reader"}))),
        (
            'CREATE USER "a""n" PASSWORD \'x\' ROLES(Reader , `writer`);',
            CreateUser('a"n', "x", frozenset({"reader", "writer"})),
        ),
        ("CREATE USER `ann@example.org` PASSWORD ''", CreateUser("ann@example.org", "")),
        ("CREATE USER password PASSWORD 'x'", CreateUser("password", "x")),
        ("ALTER USER ann PASSWORD 'new'", ChangePassword("ann", "new")),
        ("ALTER USER ann WITH PASSWORD 'new' ;", ChangePassword("ann", "new")),
        ("ALTER USER ann ROLES (admin)", ChangeRoles("ann", frozenset({"admin"}))),
        ("CREATE USER ann PASSWORD 'x' TENANT 'acme'", CreateUser("ann", "x", None, "acme")),
        (
            "CREATE USER ann PASSWORD 'x' ROLES (reader) tenant 'acme'",
            CreateUser("ann", "x", frozenset({"reader"}), "acme"),
        ),
        (
            "CREATE USER ann PASSWORD 'x' TENANT 'acme' ROLES (reader)",
            CreateUser("ann", "x", frozenset({"reader"}), "acme"),
        ),
        ("ALTER USER tenant TENANT 'acme'", ChangeTenant("tenant", "acme")),
        ("ALTER USER ann DISABLE", DisableUser("ann")),
        ("ALTER USER ann ENABLE", EnableUser("ann")),
        ("DROP USER ann", DropUser("ann")),
        ("SHOW USERS", ShowUsers()),
        ("  show\tUsers;", ShowUsers()),
        ("-- who?\n/* all /* of */ them */ SHOW /* now */ USERS -- ;", ShowUsers()),
        ("CREATE TOKEN FOR ann", CreateToken("ann")),
        ("CREATE TOKEN FOR ann TTL '8h'", CreateToken("ann", 8 * 3600.0)),
        ("CREATE TOKEN FOR ann TTL '30m'", CreateToken("ann", 1800.0)),
        ("CREATE TOKEN FOR ann TTL '7d'", CreateToken("ann", 7 * 86_400.0)),
        ("CREATE TOKEN FOR ann TTL '45s'", CreateToken("ann", 45.0)),
        ("REVOKE TOKEN 'abc123'", RevokeToken("abc123")),
        ("REVOKE TOKEN 'bw_abc123_secret'", RevokeToken("abc123")),
        ("SHOW TOKENS", ShowTokens()),
    ],
)
def test_what_the_grammar_says_is_read(sql: str, command: Command) -> None:
    assert parse(sql) == command


@pytest.mark.parametrize(
    "sql",
    [
        "",
        " ",
        ";",
        "SELECT 1",
        "CREATE",
        "CREATE TABLE user (a INT)",
        "CREATE USERS",
        "SHOW USER FUNCTIONS",
        "SHOW USER",
        "SHOW TABLES",
        "ALTER TABLE user ADD COLUMN token STRING",
        "DROP TABLE users",
        "CREATE OR REPLACE USER ann PASSWORD 'x'",
        "-- CREATE USER ann",
        "-- one line \\\nCREATE USER ann PASSWORD 'x'",
        "/* CREATE USER */ SELECT 1",
        "/* CREATE USER ann",
        "'CREATE' USER ann",
        "`CREATE` USER ann",
        "CREATE_USER ann",
        "CREATE.USER ann",
        "\ufeffSHOW USERS",
    ],
)
def test_every_other_text_is_left_to_spark(sql: str) -> None:
    assert parse(sql) is None


@pytest.mark.parametrize(
    ("sql", "line", "column"),
    [
        ("CREATE USER", 1, 12),
        ("CREATE USER ann", 1, 16),
        ("CREATE USER 'ann' PASSWORD 'x'", 1, 13),
        ("CREATE USER 7ann PASSWORD 'x'", 1, 13),
        ("CREATE USER ann PASSWORD", 1, 25),
        ("CREATE USER ann PASSWORD x", 1, 26),
        ('CREATE USER ann PASSWORD "x"', 1, 26),
        ("CREATE USER ann\n  PASSWORD 'x", 2, 12),
        ("CREATE USER ann PASSWORD 'x' ROLES ()", 1, 37),
        ("CREATE USER ann PASSWORD 'x' ROLES (a,)", 1, 39),
        ("CREATE USER ann PASSWORD 'x' ROLES (a b)", 1, 39),
        ("CREATE USER ann PASSWORD 'x' ROLES a", 1, 36),
        ("CREATE USER ann PASSWORD 'x' ROLES (a) x", 1, 40),
        ("CREATE USER ann PASSWORD 'x' TENANT acme", 1, 37),
        ("CREATE USER ann PASSWORD 'x' TENANT 'a' TENANT 'b'", 1, 41),
        ("ALTER USER ann TENANT", 1, 22),
        ("CREATE USER ann PASSWORD 'x'; DROP USER bob", 1, 31),
        ("CREATE USER ann PASSWORD 'x';;", 1, 30),
        ("CREATE USER `` PASSWORD 'x'", 1, 13),
        ("CREATE USER an-n PASSWORD 'x'", 1, 15),
        ("CREATE USER a.b PASSWORD 'x'", 1, 14),
        ("CREATE USER IF NOT EXISTS ann PASSWORD 'x'", 1, 16),
        ("ALTER USER ann RENAME TO bob", 1, 16),
        ("DROP USER ann, bob", 1, 14),
        ("SHOW USERS LIKE 'a'", 1, 12),
        ("CREATE TOKEN ann", 1, 14),
        ("CREATE TOKEN FOR ann TTL 8h", 1, 26),
        ("CREATE TOKEN FOR ann TTL '8 h'", 1, 26),
        ("CREATE TOKEN FOR ann TTL '0h'", 1, 26),
        ("CREATE TOKEN FOR ann TTL '-1h'", 1, 26),
        ("CREATE TOKEN FOR ann TTL '1w'", 1, 26),
        ("CREATE TOKEN FOR ann TTL '99999999999d'", 1, 26),
        ("CREATE TOKEN FOR ann TTL '٣h'", 1, 26),
        ("REVOKE TOKEN abc", 1, 14),
        ("SHOW USERS /* for ever", 1, 11),
    ],
)
def test_our_opening_that_goes_wrong_is_a_syntax_error_at_its_place(sql: str, line: int, column: int) -> None:
    with pytest.raises(BailiwickError) as refused:
        parse(sql)
    assert refused.value.code is Code.SYNTAX_ERROR
    assert refused.value.position == Position(line, column)


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE USER {'a' * 129} PASSWORD 'x'",
        f"CREATE USER `{'a' * 129}` PASSWORD 'x'",
        f"CREATE USER ann PASSWORD '{'x' * 2049}'",
        f"SHOW USERS {' ' * 20_000}",
        f"CREATE USER {'a' * 10_000_000}",
    ],
)
def test_everything_has_a_bound(sql: str) -> None:
    with pytest.raises(BailiwickError, match="at most") as refused:
        parse(sql)
    assert refused.value.code is Code.SYNTAX_ERROR
    assert len(refused.value.message) < 200


@given(NAMES, STRINGS, st.frozensets(WORDS.map(str.lower), min_size=1, max_size=4), BLANKS)
@example("it's", "'; DROP USER root; --", frozenset({"reader"}), " ")
@example('"', "\\", frozenset({"reader"}), "\n")
def test_what_is_quoted_comes_back_as_it_was(
    name: str, password: str, roles: frozenset[str], blank: str
) -> None:
    listed = ", ".join(map(quoted_name, sorted(roles)))
    words = ["CREATE", "USER", quoted_name(name), "PASSWORD", quoted_string(password), "ROLES", f"({listed})"]
    assert parse(blank.join(words)) == CreateUser(name, password, roles)
    backticked = "`" + name.replace("`", "``") + "`"
    assert parse(f"ALTER USER {backticked} PASSWORD {quoted_string(password)}") == ChangePassword(
        name, password
    )


@given(st.text())
def test_no_text_makes_the_reader_fail_otherwise(text: str) -> None:
    for sql in (text, *(f"{opening} {text}" for opening in OPENINGS)):
        outcome = _outcome(sql)
        assert not isinstance(outcome, BailiwickError) or outcome.code is Code.SYNTAX_ERROR
        redacted(sql)


@given(
    st.lists(
        st.sampled_from([*"'\"`();,-/*\\ \n", "CREATE", "USER", "PASSWORD", "'x'", "a", "--", "/*", "*/"])
    )
)
def test_no_heap_of_our_own_tokens_makes_the_reader_fail_otherwise(pieces: list[str]) -> None:
    for sql in ("".join(pieces), "CREATE USER " + " ".join(pieces)):
        outcome = _outcome(sql)
        assert not isinstance(outcome, BailiwickError) or outcome.code is Code.SYNTAX_ERROR


SECRET = "Tr0ub4dor&3"


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        (f"CREATE USER ann PASSWORD '{SECRET}'", "CREATE USER \"ann\" PASSWORD '***'"),
        (
            f"create user ann with password '{SECRET}' roles (writer, reader);",
            'CREATE USER "ann" PASSWORD \'***\' ROLES ("reader", "writer")',
        ),
        (
            f"create user ann password '{SECRET}' tenant 'ac''me'",
            "CREATE USER \"ann\" PASSWORD '***' TENANT 'ac''me'",
        ),
        (f"ALTER USER ann PASSWORD '{SECRET}' -- {SECRET}", "ALTER USER \"ann\" PASSWORD '***'"),
        (f"CREATE USER ann PASSWORD {SECRET}", "CREATE USER …"),
        (f'CREATE USER ann PASSWORD "{SECRET}"', "CREATE USER …"),
        (f"CREATE USER ann PASSWORD '{SECRET}", "CREATE USER …"),
        (f"CREATE /* */ USER ann {SECRET}", "CREATE USER …"),
        (f"CREATE OR REPLACE USER ann PASSWORD '{SECRET}'", "CREATE OR REPLACE USER ann PASSWORD '***'"),
        (f"CREATE ROLE ann PASSWORD  '{SECRET}' x", "CREATE ROLE ann PASSWORD  '***' x"),
        (f'CREATE ROLE ann password"{SECRET}', "CREATE ROLE ann password'***'"),
        (f"CREATE ROLE ann password'{SECRET}''s", "CREATE ROLE ann password'***'"),
        (f"REVOKE TOKEN 'bw_abc_{SECRET}'", "REVOKE TOKEN 'abc'"),
        ("DROP USER ann", "DROP USER ann"),
        ("SELECT password, 'x' FROM t", "SELECT password, 'x' FROM t"),
        ("SELECT 1", "SELECT 1"),
    ],
)
def test_what_is_kept_has_no_secret_in_it(sql: str, kept: str) -> None:
    assert redacted(sql) == kept
    assert SECRET not in kept


@given(
    WORDS,
    st.from_regex(r"\A[A-Z0-9]{12}\Z"),
    st.sampled_from(["'{}'", '"{}"', "{}", "'{}", "''{}''", "`{}`"]),
)
def test_no_message_and_nothing_kept_repeats_a_password(name: str, password: str, form: str) -> None:
    for template in ("CREATE USER {} PASSWORD {}", "ALTER USER {} WITH PASSWORD {}", "CREATE USER {} {}"):
        sql = template.format(name, form.format(password))
        assert password not in redacted(sql)
        outcome = _outcome(sql)
        assert password not in repr(outcome)
        if isinstance(outcome, BailiwickError):
            assert password not in f"{outcome} {outcome.message} {outcome.details}"


def test_only_the_shows_change_nothing() -> None:
    assert not changes(ShowUsers())
    assert not changes(ShowTokens())
    assert changes(CreateToken("ann"))
    assert changes(DropUser("ann"))


def test_every_opening_is_in_the_grammar_of_the_docstring() -> None:
    documented = re.findall(
        r"^ +(?:statement :=|\|) ([A-Z]+ [A-Z]+)", str(parse.__globals__["__doc__"]), re.MULTILINE
    )
    assert sorted(documented) == sorted(OPENINGS)


def _outcome(sql: str) -> Command | BailiwickError | None:
    try:
        return parse(sql)
    except BailiwickError as error:
        return error

"""Statements end at their semicolons, wherever else a semicolon may stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.client import splitter
from bailiwick.client.splitter import Command, Splitter, Sql, Unfinished, is_complete, split


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT 1", ["SELECT 1"]),
        ("  \n ;; SELECT 1 ;\n; ", ["SELECT 1"]),
        ("SELECT 'a;b', \"c;d\", `e;f`;", ["SELECT 'a;b', \"c;d\", `e;f`"]),
        ("SELECT 'it''s; fine'; SELECT 2", ["SELECT 'it''s; fine'", "SELECT 2"]),
        (r"SELECT 'it\'s; fine'; SELECT 2", [r"SELECT 'it\'s; fine'", "SELECT 2"]),
        (r"SELECT '\\'; SELECT 2", [r"SELECT '\\'", "SELECT 2"]),
        (r"SELECT r'\'; SELECT 2", [r"SELECT r'\'", "SELECT 2"]),
        (r"SELECT R" '"\\"; SELECT 2', [r"SELECT R" '"\\"', "SELECT 2"]),
        (r"SELECT bar'\';'; SELECT 2", [r"SELECT bar'\';'", "SELECT 2"]),
        ("SELECT `a``;b`; SELECT 2", ["SELECT `a``;b`", "SELECT 2"]),
        ("SELECT 1 -- no; end\n; SELECT 2", ["SELECT 1 -- no; end", "SELECT 2"]),
        ("SELECT 1 -- goes \\\n on; here\n; SELECT 2", ["SELECT 1 -- goes \\\n on; here", "SELECT 2"]),
        ("SELECT /* a; /* b; */ c; */ 1; SELECT 2", ["SELECT /* a; /* b; */ c; */ 1", "SELECT 2"]),
        ("-- only a comment;\n/* and; another */;", []),
        ("SELECT 1 -- it's not a string", ["SELECT 1 -- it's not a string"]),
        ("SELECT 4 / 2 - -1;", ["SELECT 4 / 2 - -1"]),
        (
            r"CREATE USER a PASSWORD 'ends with \'; SELECT 2",
            [r"CREATE USER a PASSWORD 'ends with \'", "SELECT 2"],
        ),
        (
            r"alter /* x */ user a password '\'; SELECT '\';'",
            [r"alter /* x */ user a password '\'", r"SELECT '\';'"],
        ),
        ("SELECT 'é;ü\U0001f600;';", ["SELECT 'é;ü\U0001f600;'"]),
    ],
)
def test_a_semicolon_ends_a_statement_unless_it_is_hidden(text: str, statements: list[str]) -> None:
    assert split(text) == [Sql(each) for each in statements]


def test_lines_with_a_backslash_are_commands_where_a_statement_could_begin() -> None:
    text = "\\d sales.orders\nSELECT 1;\n  \\timing  \nSELECT\n\\d\n;\\q"
    assert split(text) == [
        Command("\\d sales.orders"),
        Sql("SELECT 1"),
        Command("\\timing"),
        Sql("SELECT\n\\d"),
        Command("\\q"),
    ]


@pytest.mark.parametrize(
    "text", ["SELECT 'a", 'SELECT "a;', "SELECT `a", "SELECT /* a", "SELECT r'a", "/* /* */"]
)
def test_a_text_that_ends_inside_of_something_is_not_run(text: str) -> None:
    pieces = Splitter()
    assert list(pieces.feed(f"SELECT 1; {text}")) == [Sql("SELECT 1")]
    with pytest.raises(Unfinished):
        list(pieces.finish())


def test_a_statement_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitter, "STATEMENT_CHARS_MAX", 20)
    with pytest.raises(Unfinished, match="at most 20 characters"):
        list(Splitter().feed("SELECT " + "1, " * 10))


@pytest.mark.parametrize(
    "text", ["", "  ", "\\d", "SELECT 1;", "SELECT 1; -- done", "SELECT\n1\n;\n", "\\timing on"]
)
def test_what_is_complete_is_run(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SELECT ';", "SELECT 1; SELECT", "/* ;", "SELECT 1 -- ;", "SELECT `;"]
)
def test_what_is_not_complete_waits_for_more(text: str) -> None:
    assert not is_complete(text)


PARTS = st.sampled_from(
    ["'", '"', "`", ";", "--", "/*", "*/", "\n", "\\", "\\d x\n", "r'", "SELECT ", "x", " ", "CREATE USER "]
)


@given(st.lists(PARTS, max_size=30), st.lists(st.integers(1, 5), min_size=1, max_size=10))
def test_the_pieces_do_not_depend_on_how_the_text_comes_in(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts)
    assert outcome([text]) == outcome(cut(text, sizes))


def cut(text: str, sizes: list[int]) -> list[str]:
    chunks, at, turn = [], 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        chunks.append(text[at : at + size])
        at, turn = at + size, turn + 1
    return chunks


def outcome(chunks: list[str]) -> tuple[list[object], bool]:
    pieces = Splitter()
    found: list[object] = []
    for chunk in chunks:
        found.extend(pieces.feed(chunk))
    try:
        found.extend(pieces.finish())
    except Unfinished:
        return found, False
    return found, True

"""The statements about the audit log are read exactly, and no other text is taken for one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.audit.chain import GENESIS, Anchor
from bailiwick.cli import sql_text
from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.audit_statements import ShowAudit, VerifyAudit, parse

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("sql", "command"),
    [
        ("SHOW AUDIT", ShowAudit()),
        ("  show /* all */ audit -- please\n;", ShowAudit()),
        ("SHOW AUDIT LIMIT 7", ShowAudit(limit=7)),
        ("SHOW AUDIT FOR USER ann LIMIT 7", ShowAudit("ann", limit=7)),
        ("SHOW AUDIT FOR USER `ann@example.org`", ShowAudit("ann@example.org")),
        ("SHOW AUDIT SINCE '8h'", ShowAudit(since_ago_s=8 * 3600.0)),
        ("SHOW AUDIT SINCE '2026-11-16T12:00:00'", ShowAudit(since=NOON)),
        ("SHOW AUDIT SINCE '2026-11-16T13:00:00+01:00'", ShowAudit(since=NOON)),
        ("SHOW AUDIT SINCE '2026-11-16T12:00:00Z' AFTER 5", ShowAudit(since=NOON, after=5)),
        ("SHOW AUDIT AFTER 123456789012345678", ShowAudit(after=123456789012345678)),
        ("VERIFY AUDIT", VerifyAudit()),
        (f"VERIFY AUDIT ANCHOR '3:{GENESIS}';", VerifyAudit(Anchor(3, GENESIS))),
    ],
)
def test_statements_are_read(sql: str, command: object) -> None:
    assert parse(sql) == command


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW AUDIT please",
        "SHOW AUDIT LIMIT",
        "SHOW AUDIT LIMIT -1",
        "SHOW AUDIT LIMIT 1001",
        "SHOW AUDIT LIMIT 1.5",
        "SHOW AUDIT LIMIT 1 LIMIT 2",
        "SHOW AUDIT LIMIT 1 AFTER 2",
        "SHOW AUDIT AFTER 1234567890123456789",
        "SHOW AUDIT SINCE 8h",
        "SHOW AUDIT SINCE 'yesterday'",
        "SHOW AUDIT SINCE '0h'",
        "SHOW AUDIT SINCE '9999-99-99'",
        "SHOW AUDIT FOR ann",
        "SHOW AUDIT FOR USER 'ann'",
        "SHOW AUDIT; SELECT 1",
        "SHOW AUDIT /* never ends",
        "SHOW AUDIT FOR USER `never ends",
        "VERIFY AUDIT NOW",
        "VERIFY AUDIT ANCHOR '3'",
        "SHOW AUDIT " + " " * 5_000,
    ],
)
def test_what_begins_like_ours_and_goes_wrong_is_refused_with_its_place(sql: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        parse(sql)
    assert refused.value.code is Code.SYNTAX_ERROR
    assert refused.value.position is not None


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT 1",
        "SHOW TABLES",
        "SHOW AUDITS",
        "VERIFY",
        "SHOW `AUDIT`",
        "SHOW 'AUDIT'",
        "'SHOW AUDIT'",
        "SHOW",
    ],
)
def test_other_texts_are_none_of_our_business(sql: str) -> None:
    assert parse(sql) is None


@given(st.text(max_size=60))
def test_any_text_is_ours_or_not_or_refused(text: str) -> None:
    for sql in (text, f"SHOW AUDIT {text}", f"VERIFY AUDIT {text}"):
        code = Code.SYNTAX_ERROR
        try:
            parse(sql)
        except BailiwickError as error:
            code = error.code
        assert code is Code.SYNTAX_ERROR


@given(
    who=st.none() | st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=50),
    ago=st.none() | st.integers(1, 10**6),
    after=st.none() | st.integers(0, 10**17),
    limit=st.integers(1, 1000),
)
def test_what_the_command_line_writes_is_read_as_it_was_meant(
    who: str | None, ago: int | None, after: int | None, limit: int
) -> None:
    sql = sql_text.show_audit(who, None if ago is None else f"{ago}m", after, limit)
    assert parse(sql) == ShowAudit(who, None, None if ago is None else ago * 60.0, after, limit)
    anchor = Anchor(limit, "a" * 64)
    assert parse(sql_text.verify_audit(str(anchor))) == VerifyAudit(anchor)

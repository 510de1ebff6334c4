"""The policy statements, read before Spark sees them. It reads; `administration.py` acts.

    statement := CREATE ROLE [IF NOT EXISTS] name | DROP ROLE [IF EXISTS] name
               | GRANT ROLE name TO who | REVOKE ROLE name FROM who
               | GRANT privileges ON object TO who | REVOKE privileges ON object FROM who
               | GRANT IMPERSONATE ON one TO who | REVOKE IMPERSONATE ON one FROM who
               | CREATE [OR REPLACE] ROW FILTER name ON TABLE table FOR who [EXCEPT who] USING (expression)
               | CREATE [OR REPLACE] MASK name ON ( TABLE table COLUMN column | TAG tag ) FOR who [EXCEPT who]
                 ( USING (expression) | ACTION string ) [PRIORITY number]
               | DROP ROW FILTER [IF EXISTS] name ON TABLE table
               | DROP MASK [IF EXISTS] name ON ( TABLE table | TAG tag )
               | ALTER TABLE table ALTER [COLUMN] column ( SET | UNSET ) TAGS (string, …)
               | CLEAR POLICY ON TABLE table
               | SHOW ROLES | SHOW GRANTS [ON object | TO one] | SHOW POLICIES [ON TABLE table]
               | SHOW POLICY ( FILE | HISTORY )
               | APPLY POLICY string [DRY RUN]
               | EXPLAIN POLICY statement of Spark's [AS USER name]
    privileges := ALL [PRIVILEGES] | privilege {, privilege}
    privilege  := SELECT | INSERT | UPDATE | DELETE | CREATE | ALTER | DROP | OWN
    object     := CATALOG name | ( NAMESPACE | SCHEMA | DATABASE | TABLE | VIEW ) name {. name} [. *]
    who        := one {, [USER | ROLE] name}        one := ( USER | ROLE ) name

Words, names, strings and comments are those of the administration statements (`identity/statements.py`); a
table, a column, a tag may have 255 characters a part. Names of roles are read in any case. After a comma an
unquoted `user` or `role` says the kind of who follows: one who is called that is quoted. ALL is everything
but `own` in a GRANT and everything in a REVOKE.

None of the openings means anything to Spark, and GRANT and REVOKE are always ours, but for REVOKE TOKEN. Of
ALTER TABLE only the form above is. What begins like ours and goes wrong is a SYNTAX_ERROR of ours; every
other text is none of our business. No secret stands in any of them; what a rule says is not for everyone,
though, and `redacted` leaves it out.
"""

import re
from collections.abc import Callable

from bailiwick.errors import BailiwickError, Code, Position
from bailiwick.identity import statements as identity
from bailiwick.policy.commands import (
    ApplyPolicy,
    ClearPolicy,
    CreateMask,
    CreateRole,
    CreateRowFilter,
    DropMask,
    DropRole,
    DropRowFilter,
    ExplainPolicy,
    GrantImpersonation,
    GrantPrivileges,
    GrantRole,
    Parts,
    PolicyCommand,
    RevokeImpersonation,
    RevokePrivileges,
    RevokeRole,
    SetTags,
    ShowGrants,
    ShowPolicies,
    ShowPolicyFile,
    ShowPolicyHistory,
    ShowRoles,
    UnsetTags,
)
from bailiwick.policy.expression_text import Piece, UncutError, last_pieces
from bailiwick.policy.model import Grantee, Privilege
from bailiwick.policy.reading import FILE_CHARS_MAX, Opening, PolicyLexer, Reader, opening

STATEMENT_CHARS_MAX = 65_536
LONG_STATEMENT_CHARS_MAX = FILE_CHARS_MAX
"""For those that carry a whole file or another statement."""

_FIRST_WORDS = frozenset({"CREATE", "DROP", "GRANT", "REVOKE", "ALTER", "CLEAR", "SHOW", "APPLY", "EXPLAIN"})
_WORDS_MAX = 5
_NOT_NEWLINE = re.compile(r"[^\n]")
_EXPLAIN = ("EXPLAIN", "POLICY")
_APPLY = ("APPLY", "POLICY")
_ALTER = ("ALTER", "TABLE")


def parse(sql: str) -> PolicyCommand | None:
    """The command that `sql` is, or None if it is not for us. Costs a few microseconds for ordinary SQL."""
    found = _opening(sql)
    if found is None:
        return None
    if found.words == _ALTER:
        return _tags(sql)
    _bound(sql, found)
    if found.words == _EXPLAIN:
        return _explain(sql, found.end)
    return _read(sql, found)[0]


def redacted(sql: str) -> str:
    """`sql` as it may be kept: without the text of a rule. What does not parse keeps only its opening."""
    found = _opening(sql)
    if found is None or found.words == _ALTER:
        return sql
    try:
        _bound(sql, found)
        if found.words == _EXPLAIN:
            _explain(sql, found.end)
            return sql
        _, span = _read(sql, found)
    except BailiwickError:
        span = (found.end, len(sql))
    if found.words == _APPLY:
        span = (found.end, len(sql))
    return sql if span is None else f"{sql[: span[0]]}…{sql[span[1] :]}"


def changes(command: PolicyCommand) -> bool:
    """Whether the command changes anything, as against showing."""
    match command:
        case ShowRoles() | ShowGrants() | ShowPolicies() | ShowPolicyFile() | ShowPolicyHistory():
            return False
        case ExplainPolicy():
            return False
        case ApplyPolicy(dry_run=dry_run):
            return not dry_run
        case _:
            return True


def _opening(sql: str) -> Opening | None:
    """The words that make it ours. A megabyte of comments is not read through."""
    head = sql[:STATEMENT_CHARS_MAX]
    first = opening(head, 1).words
    if not first or first[0] not in _FIRST_WORDS:
        return None
    words = opening(head, _WORDS_MAX).words
    if words[:2] == ("REVOKE", "TOKEN"):
        return None
    for length in range(1, len(words) + 1):
        if words[:length] in _RULES or words[:length] in (_EXPLAIN, _ALTER):
            return opening(head, length)
    return None


def _bound(sql: str, found: Opening) -> None:
    chars_max = LONG_STATEMENT_CHARS_MAX if found.words in (_EXPLAIN, _APPLY) else STATEMENT_CHARS_MAX
    if len(sql) > chars_max:
        message = f"{' '.join(found.words)} … has at most {chars_max} characters."
        raise BailiwickError(Code.SYNTAX_ERROR, message, position=Position(1, 1))


def _read(sql: str, found: Opening) -> tuple[PolicyCommand, tuple[int, int] | None]:
    """The command, and where the text of a rule stands in it."""
    reader = Reader(PolicyLexer(sql))
    for word in found.words:
        reader.word(word)
    command = _RULES[found.words](reader)
    reader.end()
    return command, reader.rule_span


def _create_role(reader: Reader) -> PolicyCommand:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    return CreateRole(reader.role_name(), if_not_exists)


def _drop_role(reader: Reader) -> PolicyCommand:
    if_exists = reader.accept("IF", "EXISTS")
    return DropRole(reader.role_name(), if_exists)


def _grant(reader: Reader) -> PolicyCommand:
    if reader.accept("ROLE"):
        role = reader.role_name()
        reader.word("TO")
        return GrantRole(role, reader.grantees())
    if reader.accept("IMPERSONATE", "ON"):
        as_whom = reader.grantee()
        reader.word("TO")
        return GrantImpersonation(as_whom, reader.grantees())
    privileges = _privileges(reader, everything=frozenset(Privilege) - {Privilege.OWN})
    reader.word("ON")
    on = reader.object_name()
    reader.word("TO")
    return GrantPrivileges(privileges, on, reader.grantees())


def _revoke(reader: Reader) -> PolicyCommand:
    if reader.accept("ROLE"):
        role = reader.role_name()
        reader.word("FROM")
        return RevokeRole(role, reader.grantees())
    if reader.accept("IMPERSONATE", "ON"):
        as_whom = reader.grantee()
        reader.word("FROM")
        return RevokeImpersonation(as_whom, reader.grantees())
    privileges = _privileges(reader, everything=frozenset(Privilege))
    reader.word("ON")
    on = reader.object_name()
    reader.word("FROM")
    return RevokePrivileges(privileges, on, reader.grantees())


def _privileges(reader: Reader, everything: frozenset[Privilege]) -> frozenset[Privilege]:
    if reader.accept("ALL"):
        reader.accept("PRIVILEGES")
        return everything
    words = tuple(privilege.value.upper() for privilege in Privilege)
    return frozenset(Privilege(word.lower()) for word in reader.listed(lambda: reader.word(*words)))


def _create_row_filter(reader: Reader, *, or_replace: bool = False) -> PolicyCommand:
    name = reader.name()
    table = _on_table(reader)
    applies_to, exempt = _for_and_except(reader)
    reader.word("USING")
    return CreateRowFilter(name, table, applies_to, exempt, reader.expression(), or_replace)


def _create_mask(reader: Reader, *, or_replace: bool = False) -> PolicyCommand:
    name = reader.name()
    table, tag = _on_table_or_tag(reader)
    column = None
    if table is not None:
        reader.word("COLUMN")
        column = reader.parts()
    applies_to, exempt = _for_and_except(reader)
    is_expression = reader.word("USING", "ACTION") == "USING"
    return CreateMask(
        name,
        table,
        column,
        tag,
        applies_to,
        exempt,
        using=reader.expression() if is_expression else None,
        action=None if is_expression else reader.string(),
        priority=reader.priority() if reader.accept("PRIORITY") else None,
        or_replace=or_replace,
    )


def _drop_row_filter(reader: Reader) -> PolicyCommand:
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    return DropRowFilter(name, _on_table(reader), if_exists)


def _drop_mask(reader: Reader) -> PolicyCommand:
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    table, tag = _on_table_or_tag(reader)
    return DropMask(name, table, tag, if_exists)


def _show_grants(reader: Reader) -> PolicyCommand:
    if reader.accept("ON"):
        return ShowGrants(on=reader.object_name())
    return ShowGrants(to=reader.grantee() if reader.accept("TO") else None)


def _show_policies(reader: Reader) -> PolicyCommand:
    return ShowPolicies(reader.parts() if reader.accept("ON", "TABLE") else None)


def _show_policy(reader: Reader) -> PolicyCommand:
    return ShowPolicyFile() if reader.word("FILE", "HISTORY") == "FILE" else ShowPolicyHistory()


def _apply(reader: Reader) -> PolicyCommand:
    return ApplyPolicy(reader.string(), reader.accept("DRY", "RUN"))


def _for_and_except(reader: Reader) -> tuple[frozenset[Grantee], frozenset[Grantee]]:
    reader.word("FOR")
    applies_to = frozenset(reader.grantees())
    return applies_to, frozenset(reader.grantees() if reader.accept("EXCEPT") else ())


def _on_table(reader: Reader) -> Parts:
    reader.word("ON")
    reader.word("TABLE")
    return reader.parts()


def _on_table_or_tag(reader: Reader) -> tuple[Parts | None, str | None]:
    reader.word("ON")
    if reader.word("TABLE", "TAG") == "TABLE":
        return reader.parts(), None
    return None, reader.name()


def _tags(sql: str) -> PolicyCommand | None:
    """Up to the word TAGS it may be Spark's, and everything that is wrong with it is for Spark to say."""
    if len(sql) > STATEMENT_CHARS_MAX or "tags" not in sql.lower():
        return None
    try:
        reader = Reader(PolicyLexer(sql))
        reader.word("ALTER")
        reader.word("TABLE")
        table = reader.parts()
        reader.word("ALTER")
        reader.accept("COLUMN")
        column = reader.parts()
        verb = reader.word("SET", "UNSET")
        reader.word("TAGS")
    except BailiwickError:
        return None
    tags = reader.strings()
    reader.end()
    return SetTags(table, column, tags) if verb == "SET" else UnsetTags(table, column, tags)


def _explain(sql: str, start: int) -> PolicyCommand:
    lexer = PolicyLexer(sql)
    try:
        last = last_pieces(sql, start, 4)
    except UncutError as error:
        raise lexer.error(error.message, error.at) from None
    if last and sql[last[-1].start] == ";":
        last = last[:-1]
    end, as_user = len(sql), None
    if len(last) > 2 and _is_as_user(sql, *last[-3:-1]):
        reader = Reader(PolicyLexer(sql[: last[-1].end], at=last[-1].start))
        end, as_user = last[-3].start, reader.name()
    inner = sql[start:end]
    if not inner.strip(" \t\r\n;"):
        raise lexer.error("Expected a statement to explain.", end)
    if _is_ours(inner):
        raise lexer.error("Only a statement that reads or changes tables can be explained.", start + 1)
    return ExplainPolicy(_NOT_NEWLINE.sub(" ", sql[:start]) + inner.rstrip(), as_user)


def _is_as_user(sql: str, first: Piece, second: Piece) -> bool:
    words = [sql[piece.start : piece.end].upper() for piece in (first, second)]
    return words == ["AS", "USER"]


def _is_ours(sql: str) -> bool:
    found = _opening(sql)
    if found is not None and found.words != _ALTER:
        return True
    try:
        return identity.parse(sql) is not None or (found is not None and _tags(sql) is not None)
    except BailiwickError:
        return True


_RULES: dict[tuple[str, ...], Callable[[Reader], PolicyCommand]] = {
    ("CREATE", "ROLE"): _create_role,
    ("DROP", "ROLE"): _drop_role,
    ("GRANT",): _grant,
    ("REVOKE",): _revoke,
    ("CREATE", "ROW", "FILTER"): _create_row_filter,
    ("CREATE", "OR", "REPLACE", "ROW", "FILTER"): lambda reader: _create_row_filter(reader, or_replace=True),
    ("CREATE", "MASK"): _create_mask,
    ("CREATE", "OR", "REPLACE", "MASK"): lambda reader: _create_mask(reader, or_replace=True),
    ("DROP", "ROW", "FILTER"): _drop_row_filter,
    ("DROP", "MASK"): _drop_mask,
    ("CLEAR", "POLICY"): lambda reader: ClearPolicy(_on_table(reader)),
    ("SHOW", "ROLES"): lambda _: ShowRoles(),
    ("SHOW", "GRANTS"): _show_grants,
    ("SHOW", "POLICIES"): _show_policies,
    ("SHOW", "POLICY"): _show_policy,
    ("APPLY", "POLICY"): _apply,
}

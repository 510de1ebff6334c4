"""The administration statements, read before Spark sees them. It reads; `administration.py` acts.

    statement := CREATE USER name [WITH] PASSWORD string { ROLES roles | TENANT string }
               | ALTER USER name ( [WITH] PASSWORD string | ROLES roles | TENANT string | DISABLE | ENABLE )
               | DROP USER name
               | SHOW USERS
               | CREATE TOKEN FOR name [TTL string]
               | REVOKE TOKEN string
               | SHOW TOKENS
    roles     := '(' name { ',' name } ')'
    name      := a word (letter or _, then letters, digits, _), or anything in `backticks` or "double quotes",
                 the quote itself doubled; 1 to 128 characters
    string    := 'single quotes', the quote doubled ('it''s'); a backslash is a backslash;
                 up to 2,048 characters

Keywords are read in any case and are not reserved. Comments (`--`, `/* nested */`) may stand between any two
words, a semicolon at the end. A TTL is a whole number and a unit: '45s', '30m', '8h', '7d'. The whole has at
most 16,384 characters. Which names users and tenants may have is said in `users.py`.

None of the openings (the first two words) means anything to Spark. A text that begins with one of them and
then goes wrong is a SYNTAX_ERROR of ours; every other text is none of our business. No message repeats what
it found: that might be a password in the wrong place.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bailiwick.errors import BailiwickError, Code, Position
from bailiwick.identity.lexer import Kind, Lexer, Token, first_words

STATEMENT_CHARS_MAX = 16_384


@dataclass(frozen=True, slots=True)
class CreateUser:
    name: str
    password: str = field(repr=False)
    roles: frozenset[str] | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class ChangePassword:
    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ChangeRoles:
    name: str
    roles: frozenset[str]


@dataclass(frozen=True, slots=True)
class ChangeTenant:
    name: str
    tenant: str


@dataclass(frozen=True, slots=True)
class DisableUser:
    name: str


@dataclass(frozen=True, slots=True)
class EnableUser:
    name: str


@dataclass(frozen=True, slots=True)
class DropUser:
    name: str


@dataclass(frozen=True, slots=True)
class ShowUsers:
    pass


@dataclass(frozen=True, slots=True)
class CreateToken:
    name: str
    ttl_s: float | None = None


@dataclass(frozen=True, slots=True)
class RevokeToken:
    id: str


@dataclass(frozen=True, slots=True)
class ShowTokens:
    pass


Command = (
    CreateUser
    | ChangePassword
    | ChangeRoles
    | ChangeTenant
    | DisableUser
    | EnableUser
    | DropUser
    | ShowUsers
    | CreateToken
    | RevokeToken
    | ShowTokens
)

_TTL = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LOOSE_PASSWORD = re.compile(r"(\bpassword\s*)('(?:[^']|'')*+(?:'|\Z)|\"[^\"]*+(?:\"|\Z))", re.IGNORECASE)


def parse(sql: str) -> Command | None:
    """The command that `sql` is, or None if it is not for us. Costs a few microseconds for ordinary SQL."""
    opening = _opening(sql)
    if opening is None:
        return None
    if len(sql) > STATEMENT_CHARS_MAX:
        raise BailiwickError(
            Code.SYNTAX_ERROR,
            f"An administration statement has at most {STATEMENT_CHARS_MAX} characters.",
            position=Position(1, 1),
        )
    reader = _Reader(Lexer(sql))
    reader.word(opening[0])
    reader.word(opening[1])
    command = _RULES[opening](reader)
    reader.end()
    return command


def redacted(sql: str) -> str:
    """`sql` as it may be kept: without passwords. One of ours that does not parse keeps only its opening."""
    opening = _opening(sql)
    if opening is None:
        # Not ours, but perhaps meant to be (CREATE OR REPLACE USER …).
        return _LOOSE_PASSWORD.sub(r"\1'***'", sql) if "password" in sql.lower() else sql
    try:
        command = parse(sql)
    except BailiwickError:
        return f"{' '.join(opening)} …"
    match command:
        case CreateUser(name, _, roles, tenant):
            in_tenant = f" TENANT {quoted_string(tenant)}" if tenant is not None else ""
            return f"CREATE USER {quoted_name(name)} PASSWORD '***'{_roles(roles)}{in_tenant}"
        case ChangePassword(name, _):
            return f"ALTER USER {quoted_name(name)} PASSWORD '***'"
        case RevokeToken(identifier):
            return f"REVOKE TOKEN {quoted_string(identifier)}"
        case _:
            return sql


def changes(command: Command) -> bool:
    """Whether the command changes anything, as against showing."""
    return not isinstance(command, ShowUsers | ShowTokens)


def quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted_string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _roles(roles: frozenset[str] | None) -> str:
    return f" ROLES ({', '.join(quoted_name(role) for role in sorted(roles))})" if roles else ""


def _opening(sql: str) -> tuple[str, str] | None:
    # One that opens any later would be too long in any case; a megabyte of comments is not read through.
    words = first_words(sql[:STATEMENT_CHARS_MAX])
    return words if words in _RULES else None


class _Reader:
    """One token after the other, with refusals that say what was expected and where."""

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self._next = lexer.next()

    def accept(self, keyword: str) -> bool:
        if self._next.is_word(keyword):
            self._next = self._lexer.next()
            return True
        return False

    def word(self, *keywords: str) -> str:
        for keyword in keywords:
            if self.accept(keyword):
                return keyword
        raise self._expected(" or ".join(keywords))

    def name(self) -> str:
        return self._take("a name", Kind.WORD, Kind.QUOTED_NAME).text

    def string(self) -> str:
        return self._take("a string in single quotes", Kind.STRING).text

    def roles(self) -> frozenset[str]:
        self._take("'('", Kind.OPEN)
        roles = {self.name().lower()}
        while self._take("',' or ')'", Kind.COMMA, Kind.CLOSE).kind is Kind.COMMA:
            roles.add(self.name().lower())
        return frozenset(roles)

    def ttl_s(self) -> float:
        token = self._take("a string in single quotes", Kind.STRING)
        form = _TTL.fullmatch(token.text)
        if form is None:
            raise self._lexer.error(
                "A TTL is a whole number and a unit: '45s', '30m', '8h', '7d'.", token.start
            )
        return int(form[1]) * _UNIT_S[form[2]]

    def end(self) -> None:
        if self._next.kind is Kind.SEMICOLON:
            self._next = self._lexer.next()
        if self._next.kind is not Kind.END:
            raise self._expected("the end of the statement")

    def _take(self, expected: str, *kinds: Kind) -> Token:
        token = self._next
        if token.kind not in kinds:
            raise self._expected(expected)
        self._next = self._lexer.next()
        return token

    def _expected(self, expected: str) -> BailiwickError:
        return self._lexer.error(f"Expected {expected}, found {self._next.kind.value}.", self._next.start)


def _create_user(reader: _Reader) -> Command:
    name = reader.name()
    command = CreateUser(name, _password(reader))
    while True:
        if command.roles is None and reader.accept("ROLES"):
            command = replace(command, roles=reader.roles())
        elif command.tenant is None and reader.accept("TENANT"):
            command = replace(command, tenant=reader.string())
        else:
            return command


def _alter_user(reader: _Reader) -> Command:
    name = reader.name()
    if reader.accept("ROLES"):
        return ChangeRoles(name, reader.roles())
    if reader.accept("TENANT"):
        return ChangeTenant(name, reader.string())
    if reader.accept("DISABLE"):
        return DisableUser(name)
    if reader.accept("ENABLE"):
        return EnableUser(name)
    return ChangePassword(name, _password(reader))


def _password(reader: _Reader) -> str:
    reader.accept("WITH")
    reader.word("PASSWORD")
    return reader.string()


def _create_token(reader: _Reader) -> Command:
    reader.word("FOR")
    return CreateToken(reader.name(), reader.ttl_s() if reader.accept("TTL") else None)


def _token_id(text: str) -> str:
    """People who mean to revoke a token may paste all of it. The secret goes no further than here."""
    return text.removeprefix("bw_").partition("_")[0]


_RULES: dict[tuple[str, str], Callable[[_Reader], Command]] = {
    ("CREATE", "USER"): _create_user,
    ("ALTER", "USER"): _alter_user,
    ("DROP", "USER"): lambda reader: DropUser(reader.name()),
    ("SHOW", "USERS"): lambda _: ShowUsers(),
    ("CREATE", "TOKEN"): _create_token,
    ("REVOKE", "TOKEN"): lambda reader: RevokeToken(_token_id(reader.string())),
    ("SHOW", "TOKENS"): lambda _: ShowTokens(),
}

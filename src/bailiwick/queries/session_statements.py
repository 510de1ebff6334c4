"""Statements that change the client's session and nothing else: USE, SET CATALOG, SET TIME ZONE.

They are read here and never reach an engine, whose sessions are shared. The grammar is closed: whatever is
not exactly one of these forms is left to Spark to describe, and refused there if it would leave state behind.
"""

from dataclasses import dataclass

from bailiwick.errors import BailiwickError
from bailiwick.identity.lexer import Kind, Lexer, Token
from bailiwick.names import DEPTH_MAX
from bailiwick.queries.time_zones import checked_time_zone

_NAMESPACE_WORDS = frozenset({"SCHEMA", "DATABASE", "NAMESPACE"})
_TOKENS_MAX = 2 * DEPTH_MAX + 8
TEXT_CHARS_MAX = 1 << 16
"""With comments and spaces. Longer ones are not looked into: reading megabytes of them would take a while."""
LOCAL = "LOCAL"


@dataclass(frozen=True, slots=True)
class Use:
    """`USE a.b`: a catalog's name may come first. With `is_inside_catalog` it may not."""

    parts: tuple[str, ...]
    is_inside_catalog: bool = False


@dataclass(frozen=True, slots=True)
class UseCatalog:
    catalog: str


@dataclass(frozen=True, slots=True)
class SetTimeZone:
    """None for LOCAL: the default."""

    time_zone: str | None


SessionStatement = Use | UseCatalog | SetTimeZone


def parse(sql: str) -> SessionStatement | None:
    """The statement, or None if it is none of these. INVALID_ARGUMENTS if there is no such time zone."""
    if len(sql) > TEXT_CHARS_MAX:
        return None
    try:
        tokens = _tokens(sql)
    except BailiwickError:
        return None
    if tokens is None:
        return None
    return _use(tokens[1:]) if tokens[0].is_word("USE") else _set(tokens[1:])


def _tokens(sql: str) -> list[Token] | None:
    """All but the end and a semicolon before it; None if it begins otherwise, or is longer than any form."""
    lexer, tokens = Lexer(sql), list[Token]()
    while (token := lexer.next()).kind is not Kind.END:
        tokens.append(_with_text(token, sql))
        is_other = not (tokens[0].is_word("USE") or tokens[0].is_word("SET"))
        if is_other or len(tokens) > _TOKENS_MAX:
            return None
    if not tokens:
        return None
    if tokens[-1].kind is Kind.SEMICOLON:
        tokens.pop()
    return tokens


def _with_text(token: Token, sql: str) -> Token:
    """With the character itself where the lexer has no name for it, and no name in double quotes."""
    if token.kind is Kind.OTHER or sql[token.start] == '"':
        return Token(Kind.OTHER, token.start, sql[token.start])
    return token


def _use(tokens: list[Token]) -> SessionStatement | None:
    if len(tokens) > 1 and tokens[0].kind is Kind.WORD and tokens[0].text.upper() in _NAMESPACE_WORDS:
        parts = _name(tokens[1:])
        return None if parts is None else Use(parts, is_inside_catalog=True)
    parts = _name(tokens)
    return None if parts is None else Use(parts)


def _set(tokens: list[Token]) -> SessionStatement | None:
    if len(tokens) == 2 and tokens[0].is_word("CATALOG"):
        if tokens[1].kind in (Kind.WORD, Kind.QUOTED_NAME, Kind.STRING):
            return UseCatalog(tokens[1].text)
        return None
    if len(tokens) != 3 or not tokens[0].is_word("TIME") or not tokens[1].is_word("ZONE"):
        return None
    if tokens[2].is_word(LOCAL):
        return SetTimeZone(None)
    if tokens[2].kind is not Kind.STRING:
        return None
    return SetTimeZone(checked_time_zone(tokens[2].text))


def _name(tokens: list[Token]) -> tuple[str, ...] | None:
    """`a.b.c`, each part a word or in backticks."""
    parts, dots = tokens[::2], tokens[1::2]
    are_parts = all(token.kind in (Kind.WORD, Kind.QUOTED_NAME) for token in parts)
    are_dots = all(token.kind is Kind.OTHER and token.text == "." for token in dots)
    if not parts or len(parts) != len(dots) + 1 or not are_parts or not are_dots:
        return None
    return tuple(token.text for token in parts)

"""Reads a policy statement word by word: names, lists of people, strings, numbers, expressions.

It knows what a name or a list looks like and refuses with what was expected and where; which of them stand
in which statement is told in `statements.py`. Words, strings and comments are those of the administration
statements (`identity/lexer.py`); besides, there are dots, stars and whole numbers.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from bailiwick.errors import BailiwickError
from bailiwick.identity.lexer import Kind, Lexer, Token, skip_blank
from bailiwick.names import DEPTH_MAX, PART_LENGTH_MAX, InvalidNameError, checked_part
from bailiwick.policy.commands import ObjectKind, ObjectName, Parts
from bailiwick.policy.expression_text import UncutError, cut_parenthesised
from bailiwick.policy.model import Grantee, GranteeKind

LIST_LENGTH_MAX = 100
"""So many grantees, privileges or tags one statement may name."""
PRIORITY_MAX = 1_000_000
FILE_CHARS_MAX = 1 << 20

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_NUMBER = re.compile(r"[0-9]++(?![A-Za-z0-9_.])")
_MARKS = ".*"
_NAMESPACE_WORDS = ("NAMESPACE", "SCHEMA", "DATABASE")
_NUMBER_DIGITS_MAX = 7


@dataclass(frozen=True, slots=True)
class Opening:
    words: tuple[str, ...]
    """In upper case."""
    end: int
    """Where the last of them ends."""


class PolicyLexer(Lexer):
    """Dots, stars and whole numbers are `OTHER` with their text; names are as long as a table's may be."""

    def __init__(self, sql: str, at: int = 0) -> None:
        super().__init__(sql)
        self._at = at

    def next(self) -> Token:
        start = skip_blank(self._sql, self._at)
        if start is None or start == len(self._sql):
            return super().next()
        if self._sql[start] in _MARKS:
            self._at = start + 1
            return Token(Kind.OTHER, start, self._sql[start])
        if number := _NUMBER.match(self._sql, start):
            self._at = number.end()
            return Token(Kind.OTHER, start, number[0])
        return super().next()

    def expression(self, open_at: int) -> tuple[str, int]:
        """The text in the parentheses that open at `open_at`, and where they end. Reading goes on there."""
        try:
            cut = cut_parenthesised(self._sql, open_at)
        except UncutError as error:
            raise self.error(error.message, error.at) from None
        self._at = cut.end
        return cut.text, cut.end

    def _bounded(self, text: str, chars_max: int, what: str, start: int) -> str:
        chars_max = FILE_CHARS_MAX if what == "A string" else PART_LENGTH_MAX
        return super()._bounded(text, chars_max, what, start)


class Reader:
    """One token after the other, with refusals that say what was expected and where."""

    def __init__(self, lexer: PolicyLexer) -> None:
        self._lexer = lexer
        self._next = lexer.next()
        self.rule_span: tuple[int, int] | None = None
        """Where the text of a rule stands, once it was read."""

    @property
    def at(self) -> int:
        """Where the next token begins."""
        return self._next.start

    def accept(self, *keywords: str) -> bool:
        """Whether the next word is the first of them; the others must follow then."""
        if not self._next.is_word(keywords[0]):
            return False
        self._next = self._lexer.next()
        for keyword in keywords[1:]:
            self.word(keyword)
        return True

    def word(self, *keywords: str) -> str:
        for keyword in keywords:
            if self.accept(keyword):
                return keyword
        *first, last = keywords
        raise self.expected(f"{', '.join(first)} or {last}" if first else last)

    def name(self) -> str:
        return self._checked(self._take("a name", Kind.WORD, Kind.QUOTED_NAME))

    def role_name(self) -> str:
        return self.name().lower()

    def parts(self) -> Parts:
        """A name of one or several parts: `orders`, `lake.sales.orders`."""
        return self._dotted(may_end_in_star=False)[0]

    def object_name(self) -> ObjectName:
        """CATALOG lake, NAMESPACE lake.sales, TABLE lake.sales.orders, TABLE lake.sales.*"""
        word = self.word("CATALOG", *_NAMESPACE_WORDS, "TABLE", "VIEW")
        kind = ObjectKind.NAMESPACE if word in _NAMESPACE_WORDS else ObjectKind(word.lower())
        parts, is_wildcard = self._dotted(may_end_in_star=kind is not ObjectKind.CATALOG)
        return ObjectName(kind, parts, is_wildcard)

    def grantee(self) -> Grantee:
        return self._grantee(GranteeKind(self.word("USER", "ROLE").lower()))

    def grantees(self) -> tuple[Grantee, ...]:
        """USER ann, bob, ROLE analyst: who follows a comma is of the kind said last."""
        found = [self.grantee()]
        while self._accept_kind(Kind.COMMA):
            has_kind = self._next.is_word("USER") or self._next.is_word("ROLE")
            self._bound_list(len(found))
            found.append(self.grantee() if has_kind else self._grantee(found[-1].kind))
        return tuple(dict.fromkeys(found))

    def string(self) -> str:
        return self._take("a string in single quotes", Kind.STRING).text

    def strings(self) -> frozenset[str]:
        """('pii', 'secret')"""
        self._take("'('", Kind.OPEN)
        found = [self.string()]
        while self._take("',' or ')'", Kind.COMMA, Kind.CLOSE).kind is Kind.COMMA:
            self._bound_list(len(found))
            found.append(self.string())
        return frozenset(found)

    def listed(self, read: Callable[[], str]) -> tuple[str, ...]:
        found = [read()]
        while self._accept_kind(Kind.COMMA):
            self._bound_list(len(found))
            found.append(read())
        return tuple(found)

    def priority(self) -> int:
        token = self._next
        if token.kind is not Kind.OTHER or not token.text.isdecimal():
            raise self.expected("a whole number")
        if len(token.text) > _NUMBER_DIGITS_MAX or int(token.text) > PRIORITY_MAX:
            raise self._lexer.error(f"A priority is at most {PRIORITY_MAX}.", token.start)
        self._next = self._lexer.next()
        return int(token.text)

    def expression(self) -> str:
        """(…), as Spark will read it."""
        if self._next.kind is not Kind.OPEN:
            raise self.expected("'('")
        start = self._next.start
        text, end = self._lexer.expression(start)
        self.rule_span = (start + 1, end - 1)
        self._next = self._lexer.next()
        return text

    def end(self) -> None:
        self._accept_kind(Kind.SEMICOLON)
        if self._next.kind is not Kind.END:
            raise self.expected("the end of the statement")

    def expected(self, expected: str) -> BailiwickError:
        found = f"'{self._next.text}'" if self._next.kind is Kind.OTHER and self._next.text else None
        return self._lexer.error(f"Expected {expected}, found {found or self._next.kind.value}.", self.at)

    def _grantee(self, kind: GranteeKind) -> Grantee:
        return Grantee(kind, self.role_name() if kind is GranteeKind.ROLE else self.name())

    def _dotted(self, *, may_end_in_star: bool) -> tuple[Parts, bool]:
        parts = [self.name()]
        while self._accept_mark("."):
            if may_end_in_star and self._accept_mark("*"):
                return tuple(parts), True
            if len(parts) > DEPTH_MAX + 1:
                raise self._lexer.error(f"A name has at most {DEPTH_MAX + 2} parts.", self.at)
            parts.append(self.name())
        return tuple(parts), False

    def _checked(self, token: Token) -> str:
        try:
            return checked_part(token.text)
        except InvalidNameError as error:
            raise self._lexer.error(f"This is no name: {error}.", token.start) from None

    def _bound_list(self, length: int) -> None:
        if length >= LIST_LENGTH_MAX:
            raise self._lexer.error(f"A list has at most {LIST_LENGTH_MAX} entries.", self.at)

    def _accept_mark(self, mark: str) -> bool:
        return self._accept_kind(Kind.OTHER) if self._next.text == mark else False

    def _accept_kind(self, kind: Kind) -> bool:
        if self._next.kind is not kind:
            return False
        self._next = self._lexer.next()
        return True

    def _take(self, expected: str, *kinds: Kind) -> Token:
        token = self._next
        if token.kind not in kinds:
            raise self.expected(expected)
        self._next = self._lexer.next()
        return token


def opening(sql: str, words_max: int) -> Opening:
    """How the text begins."""
    words: list[str] = []
    end = 0
    while len(words) < words_max and (start := skip_blank(sql, end)) is not None:
        word = _WORD.match(sql, start)
        if word is None:
            break
        words.append(word[0][:PART_LENGTH_MAX].upper())
        end = word.end()
    return Opening(tuple(words), end)

r"""A text of several statements, taken apart at its semicolons as the text comes in.

It knows what a semicolon may hide in (strings, quoted names, comments) and nothing else of SQL. Strings are
Spark's: a backslash takes the next character as it is, unless the string is raw (`r'…'`); in our own
administration statements a backslash is a backslash. A line that begins with a backslash where a statement
could begin is a command to the program that reads, such as `\d`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bailiwick.identity.lexer import first_words, skip_blank

STATEMENT_CHARS_MAX: Final = 16 << 20

_EDGE: Final = re.compile(r"(?<![A-Za-z0-9_])[rR](?=['\"])|['\"`;]|--|/\*")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_LINE_COMMENT: Final = re.compile(r"--(?:\\\r?\n|[^\n])*+\n")
_PLAIN: Final = {quote: re.compile(f"{quote}[^{quote}]*+{quote}") for quote in "'\"`"}
_ESCAPED: Final = {quote: re.compile(rf"{quote}(?:[^{quote}\\]|\\.)*+{quote}", re.DOTALL) for quote in "'\""}
_WITHOUT_ESCAPES: Final = {
    ("CREATE", "USER"),
    ("ALTER", "USER"),
    ("DROP", "USER"),
    ("CREATE", "TOKEN"),
    ("REVOKE", "TOKEN"),
}


@dataclass(frozen=True, slots=True)
class Sql:
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A line for the program itself, with its backslash."""

    text: str


Piece = Sql | Command


class Unfinished(ValueError):  # noqa: N818  (it says what is the case)
    """The text ends inside of a string, a name or a comment, or a statement is too long."""


class Splitter:
    """Feed it text as it comes, in parts of any size; the pieces are the same."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._has_escapes: bool | None = None

    @property
    def is_blank(self) -> bool:
        """Whether nothing but blanks and comments is left over."""
        return _is_blank(self._text)

    def feed(self, text: str) -> Iterator[Piece]:
        """What is complete by now. Raises Unfinished if a statement grows too long."""
        self._text += text
        while (piece := self._next()) is not None:
            yield piece
        if len(self._text) > STATEMENT_CHARS_MAX:
            raise Unfinished(f"a statement has at most {STATEMENT_CHARS_MAX} characters")

    def finish(self) -> Iterator[Piece]:
        """The last statement may go without its semicolon. Raises Unfinished if more would have to come."""
        yield from self.feed("\n")
        rest, is_inside = self._text, self._at < len(self._text) and self._open_at(self._at)
        self._take(len(rest))
        if is_inside:
            raise Unfinished("the last statement ends inside of a string, a quoted name or a comment")
        if not _is_blank(rest):
            yield Sql(rest.strip())

    def _next(self) -> Piece | None:
        start = skip_blank(self._text, 0)
        if start is not None and self._text.startswith("\\", start):
            return self._command(start)
        while edge := _EDGE.search(self._text, self._at):
            if edge[0] == ";":
                statement = self._text[: edge.start()]
                self._take(edge.end())
                if not _is_blank(statement):
                    return Sql(statement.strip())
                return self._next()
            end = self._end_of(edge)
            if end is None:
                self._at = edge.start()
                return None
            self._at = end
        # The last character may be the first half of an edge.
        self._at = max(self._at, len(self._text) - 1)
        if not self._text.strip():
            self._take(len(self._text))
        return None

    def _command(self, start: int) -> Piece | None:
        line, newline, _ = self._text[start:].partition("\n")
        if not newline:
            return None
        self._take(start + len(line) + 1)
        return Command(line.rstrip())

    def _end_of(self, edge: re.Match[str]) -> int | None:
        """Where what begins at `edge` ends; None if its end has not come yet."""
        match edge[0]:
            case "--":
                found = _LINE_COMMENT.match(self._text, edge.start())
            case "/*":
                return self._comment_end(edge.start())
            case "r" | "R":
                found = _PLAIN[self._text[edge.end()]].match(self._text, edge.end())
            case "`":
                found = _PLAIN["`"].match(self._text, edge.start())
            case quote:
                quotes = _ESCAPED if self._escapes() else _PLAIN
                found = quotes[quote].match(self._text, edge.start())
        return found.end() if found else None

    def _comment_end(self, start: int) -> int | None:
        depth = 0
        for edge in _COMMENT_EDGE.finditer(self._text, start):
            depth += 1 if edge[0] == "/*" else -1
            if depth == 0:
                return edge.end()
        return None

    def _escapes(self) -> bool:
        if self._has_escapes is None:
            self._has_escapes = first_words(self._text) not in _WITHOUT_ESCAPES
        return self._has_escapes

    def _open_at(self, at: int) -> bool:
        edge = _EDGE.match(self._text, at)
        return edge is not None and self._end_of(edge) is None

    def _take(self, end: int) -> None:
        self._text, self._at, self._has_escapes = self._text[end:], 0, None


def split(text: str) -> list[Piece]:
    """All pieces of a whole text."""
    splitter = Splitter()
    return [*splitter.feed(text), *splitter.finish()]


def is_complete(text: str) -> bool:
    """Whether a person who has typed this is done: every statement has its semicolon."""
    splitter = Splitter()
    for _ in splitter.feed(f"{text}\n"):
        pass
    return splitter.is_blank


def _is_blank(text: str) -> bool:
    return skip_blank(text, 0) == len(text)

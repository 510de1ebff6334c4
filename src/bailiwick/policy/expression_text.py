"""Spark's SQL as far as one must know it to say where a piece of it ends.

Policy statements hold texts of Spark's: a rule's expression in parentheses, a whole statement after EXPLAIN
POLICY. They are cut out here unread, aware only of what may hide a parenthesis or a word: strings ('…' and
"…" with backslashes and doubled quotes, r'…' and r"…" without, $tag$…$tag$), `names` and comments. Whether a
text means anything is for Spark to say: what was cut is what Spark checks, and what is kept.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

EXPRESSION_CHARS_MAX = 8_192

_PIECE = re.compile(
    r"""
    (?P<blank>   (?: \s | --(?:\\\n|[^\r\n])*+ )++ )
  | (?P<comment> /\* )
  | (?P<string>  [rR]'[^']*+' | [rR]"[^"]*+" | '(?:[^'\\]|\\.|'')*+' | "(?:[^"\\]|\\.|"")*+" )
  | (?P<name>    `(?:[^`]|``)*+` )
  | (?P<dollar>  \$[A-Za-z]*+\$ )
  | (?P<word>    \w++ )
  | (?P<other>   . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_UNENDED = {"'": "A string", '"': "A string", "`": "A quoted name"}


class PieceKind(Enum):
    STRING = "string"
    NAME = "name"
    WORD = "word"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Piece:
    """What stands between two blanks or comments; `other` is one character."""

    kind: PieceKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Cut:
    text: str
    end: int
    """Where the text after it begins."""


class UncutError(ValueError):
    """The text has no end where it needs one, or is too long. `at` is where that began."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


def cut_parenthesised(sql: str, open_at: int) -> Cut:
    """The text between the `(` at `open_at` and the `)` that closes it, without blanks around it."""
    depth = 0
    for piece in pieces(sql, open_at):
        if piece.start - open_at > EXPRESSION_CHARS_MAX + 1:
            break
        if piece.kind is not PieceKind.OTHER:
            continue
        depth += {"(": 1, ")": -1}.get(sql[piece.start], 0)
        if depth == 0:
            return _cut(sql, open_at, piece)
    else:
        raise UncutError("A parenthesis is not closed.", open_at)
    raise _too_long(open_at)


def last_pieces(sql: str, at: int, count: int) -> tuple[Piece, ...]:
    """The last pieces of the text from `at` on, `count` at most."""
    return tuple(deque(pieces(sql, at), maxlen=count))


def pieces(sql: str, at: int) -> Iterator[Piece]:
    """All pieces from `at` on, which is where one begins. Raises UncutError for what does not end."""
    while at < len(sql):
        match = _PIECE.match(sql, at)
        if match is None:
            raise UncutError("The text cannot be read.", at)
        start, at = at, match.end()
        match match.lastgroup:
            case "blank":
                continue
            case "comment":
                at = _comment_end(sql, start)
                continue
            case "dollar":
                at = _dollar_end(sql, start, match[0])
                kind = PieceKind.STRING
            case "other":
                if (what := _UNENDED.get(match[0])) is not None:
                    raise UncutError(f"{what} does not end.", start)
                kind = PieceKind.OTHER
            case group:
                kind = PieceKind(group)
        yield Piece(kind, start, at)


def _cut(sql: str, open_at: int, close: Piece) -> Cut:
    text = sql[open_at + 1 : close.start].strip()
    if not text:
        raise UncutError("Expected an expression between the parentheses.", close.start)
    if len(text) > EXPRESSION_CHARS_MAX:
        raise _too_long(open_at)
    return Cut(text, close.end)


def _too_long(at: int) -> UncutError:
    return UncutError(f"A policy's expression has at most {EXPRESSION_CHARS_MAX} characters.", at)


def _comment_end(sql: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise UncutError("A comment does not end.", start)


def _dollar_end(sql: str, start: int, tag: str) -> int:
    close = sql.find(tag, start + len(tag))
    if close < 0:
        raise UncutError("A string does not end.", start)
    return close + len(tag)

"""The words, names and strings of an administration statement. It knows no grammar: see `statements.py`.

Blanks and comments are those of Spark: `--` to the end of the line (a backslash at its end continues it) and
`/* … */`, which nest.
"""

import re
from dataclasses import dataclass, field
from enum import Enum

from bailiwick.errors import BailiwickError, Code, Position

NAME_CHARS_MAX = 128
STRING_CHARS_MAX = 2_048

_BLANK = re.compile(r"(?:\s|--(?:\\\n|[^\r\n])*+)*+")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_QUOTED = {
    "'": re.compile(r"'((?:[^']|'')*+)'"),
    '"': re.compile(r'"((?:[^"]|"")*+)"'),
    "`": re.compile(r"`((?:[^`]|``)*+)`"),
}


class Kind(Enum):
    """The value says it in an error message."""

    WORD = "a word"
    QUOTED_NAME = "a quoted name"
    STRING = "a string"
    OPEN = "'('"
    CLOSE = "')'"
    COMMA = "','"
    SEMICOLON = "';'"
    OTHER = "another character"
    END = "the end"


_PUNCTUATION = {"(": Kind.OPEN, ")": Kind.CLOSE, ",": Kind.COMMA, ";": Kind.SEMICOLON}


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    start: int
    text: str = field(default="", repr=False)

    def is_word(self, keyword: str) -> bool:
        return self.kind is Kind.WORD and self.text.upper() == keyword


class Lexer:
    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._at = 0

    def next(self) -> Token:
        """The next token; at the end, END for ever. A quote or comment that never ends is a SYNTAX_ERROR."""
        start = skip_blank(self._sql, self._at)
        if start is None:
            raise self.error("A comment does not end.", self._at)
        self._at = start
        if start == len(self._sql):
            return Token(Kind.END, start)
        character = self._sql[start]
        if character in _QUOTED:
            return self._quoted(character, start)
        word = _WORD.match(self._sql, start)
        if word is not None:
            self._at = word.end()
            return Token(Kind.WORD, start, self._bounded(word[0], NAME_CHARS_MAX, "A name", start))
        self._at += 1
        return Token(_PUNCTUATION.get(character, Kind.OTHER), start)

    def error(self, message: str, start: int) -> BailiwickError:
        before = self._sql[:start]
        position = Position(before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1)
        return BailiwickError(
            Code.SYNTAX_ERROR,
            f"{message} (line {position.line}, column {position.column})",
            position=position,
        )

    def _quoted(self, quote: str, start: int) -> Token:
        match = _QUOTED[quote].match(self._sql, start)
        if match is None:
            raise self.error("A quote does not end.", start)
        self._at = match.end()
        text = match[1].replace(quote * 2, quote)
        if quote == "'":
            return Token(Kind.STRING, start, self._bounded(text, STRING_CHARS_MAX, "A string", start))
        if not text:
            raise self.error("A name has at least one character.", start)
        return Token(Kind.QUOTED_NAME, start, self._bounded(text, NAME_CHARS_MAX, "A name", start))

    def _bounded(self, text: str, chars_max: int, what: str, start: int) -> str:
        if len(text) > chars_max:
            raise self.error(f"{what} has at most {chars_max} characters.", start)
        return text


def first_words(sql: str) -> tuple[str, str] | None:
    """The first two words in upper case, if the text begins with two words; cheap for any text."""
    words = []
    at = 0
    for _ in range(2):
        start = skip_blank(sql, at)
        word = _WORD.match(sql, start) if start is not None else None
        if word is None:
            return None
        # Whatever is longer than any keyword is none.
        words.append(word[0][:NAME_CHARS_MAX].upper())
        at = word.end()
    return words[0], words[1]


def skip_blank(sql: str, at: int) -> int | None:
    """Where the next token begins. None if a comment does not end."""
    while True:
        blank = _BLANK.match(sql, at)
        at = blank.end() if blank is not None else at
        if not sql.startswith("/*", at):
            return at
        depth = 0
        for edge in _COMMENT_EDGE.finditer(sql, at):
            depth += 1 if edge[0] == "/*" else -1
            if depth == 0:
                at = edge.end()
                break
        else:
            return None

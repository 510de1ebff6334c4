"""A query's text as a row of words, in which what stands in parentheses is one word. It knows no grammar."""

import re
from collections.abc import Collection
from dataclasses import dataclass

_WORD = re.compile(
    r"""/\*\+.*?\*/|/\*.*?\*/|--[^\n]*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\w+|\|>|\S""", re.DOTALL
)
_OPEN, _CLOSED = "([", ")]"


@dataclass(frozen=True, slots=True)
class Word:
    """`text` is in upper letters; a group in parentheses is written `(`."""

    text: str
    start: int
    stop: int


def words(text: str) -> list[Word]:
    """Comments are left out, hints are not."""
    found: list[Word] = []
    depth = 0
    for match in _WORD.finditer(text):
        said = match.group()
        if said.startswith("--") or (said.startswith("/*") and not said.startswith("/*+")):
            continue
        if said in _OPEN:
            if depth == 0:
                found.append(Word(said, match.start(), match.end()))
            depth += 1
        elif said in _CLOSED:
            depth -= 1
            if depth == 0:
                found[-1] = Word(found[-1].text, found[-1].start, match.end())
        elif depth == 0:
            found.append(Word(said.upper(), match.start(), match.end()))
    return found


class Reading:
    """A place in a text that moves on as words are taken."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = words(text)
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._words)

    def peek(self, ahead: int = 0) -> str:
        """The word that is `ahead` of the next one; empty past the end."""
        place = self._at + ahead
        return self._words[place].text if 0 <= place < len(self._words) else ""

    def take(self, *wanted: str) -> bool:
        """Whether these come next; then they are taken."""
        is_next = all(self.peek(ahead) == word for ahead, word in enumerate(wanted))
        self._at += len(wanted) if is_next else 0
        return is_next

    def one(self) -> str:
        """The next word as it is written; of a group, what stands inside."""
        word = self._words[self._at]
        self._at += 1
        written = self._text[word.start : word.stop]
        return written[1:-1].strip() if word.text == "(" else written

    def name(self) -> str:
        """A name with its dots."""
        parts = [self.one()]
        while self.take("."):
            parts.append(self.one())
        return ".".join(parts)

    def upto(self, stops: Collection[str]) -> str:
        """What is written up to one of `stops`, which stays; `IS DISTINCT FROM` is no FROM."""
        first = self._at
        while not self.is_at_end and not self._stands_at(stops):
            self._at += 1
        if first == self._at:
            return ""
        return self._text[self._words[first].start : self._words[self._at - 1].stop]

    def _stands_at(self, stops: Collection[str]) -> bool:
        word = self.peek()
        if word == "FROM" and self.peek(-1) == "DISTINCT" and self.peek(-2) in {"IS", "NOT"}:
            return False
        if word in {"LEFT", "RIGHT", "FULL"} and self.peek(1) not in {"JOIN", "OUTER", "SEMI", "ANTI"}:
            return False
        return word in stops

    def listed(self, stops: Collection[str]) -> list[str]:
        """What stands between commas, up to one of `stops`."""
        items = [self.upto({",", *stops})]
        while self.take(","):
            items.append(self.upto({",", *stops}))
        return items

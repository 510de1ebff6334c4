"""How entries hang together: each is bound by a hash to the one before it, so none can be changed in silence.

    hash = SHA-256(previous hash, newline, sequence, newline, canonical JSON of the entry), in lower-case hex

The first entry has the sequence 1 and 64 zeros before it. Canonical JSON has sorted keys, no blanks, whole
numbers only and nothing but ASCII: `jq -caS .entry` writes the same. Pure; nothing here reads or writes.

A chain proves that what it holds is what was written, in that order and without a hole. It cannot prove by
itself that its end is the end: for that a later place must be known from elsewhere, an `Anchor`. Nor can it
prove anything about somebody who may rewrite all of it and every anchor.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

from bailiwick.audit.entry import AuditEntry, Kind

GENESIS: Final = "0" * 64
_ANCHOR: Final = re.compile(r"(0|[1-9][0-9]{0,17}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in the chain, as it was once seen."""

    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.sequence}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """`12:ab34…` again. Raises ValueError."""
        form = _ANCHOR.fullmatch(text)
        if form is None:
            raise ValueError("an anchor is the number of an entry, a colon, and 64 hexadecimal digits")
        return cls(int(form[1]), form[2])


NOTHING: Final = Anchor(0, GENESIS)


@dataclass(frozen=True, slots=True)
class Link:
    """One entry in its place."""

    sequence: int
    previous: str
    hash: str
    text: str
    """The entry as canonical JSON."""

    @property
    def anchor(self) -> Anchor:
        return Anchor(self.sequence, self.hash)

    @property
    def entry(self) -> AuditEntry:
        """Raises ValueError where the text is no entry."""
        told = json.loads(self.text)
        if not isinstance(told, dict):
            raise ValueError("not an audit entry")
        return AuditEntry.from_object(told)

    def line(self) -> str:
        """As it is exported: one JSON object, without a line end."""
        return (
            f'{{"sequence":{self.sequence},"previous":"{self.previous}","hash":"{self.hash}",'
            f'"entry":{self.text}}}'
        )

    @classmethod
    def from_line(cls, line: str) -> Self:
        """An exported line again. Raises ValueError; whether the hash fits is for `Verifier` to say."""
        try:
            told = json.loads(line)
        except RecursionError:
            raise ValueError("not a line of an exported audit log") from None
        if not isinstance(told, dict) or told.keys() != {"sequence", "previous", "hash", "entry"}:
            raise ValueError("not a line of an exported audit log")
        sequence, previous, hashed = told["sequence"], told["previous"], told["hash"]
        if not (isinstance(sequence, int) and isinstance(previous, str) and isinstance(hashed, str)):
            raise ValueError("not a line of an exported audit log")
        return cls(sequence, previous, hashed, canonical(told["entry"]))


@dataclass(frozen=True, slots=True)
class Break:
    """The first place where something is wrong."""

    sequence: int
    why: str


@dataclass(frozen=True, slots=True)
class Verification:
    first: int
    """The number of the first entry; more than 1 for a part of a log."""
    count: int
    end: Anchor
    """The last entry that was looked at. Worth keeping elsewhere: it proves this much for ever."""
    broken: Break | None = None
    gaps: int = 0
    """Entries by which the log itself says that others are missing."""

    @property
    def is_sound(self) -> bool:
        return self.broken is None


def canonical(told: Any) -> str:
    """`told` in the one way to write it. Raises ValueError for a number that is not whole.

    >>> canonical({"b": ["é"], "a": 1})
    '{"a":1,"b":["\\\\u00e9"]}'
    """
    _refuse_fractions(told)
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    # The one ASCII character that writers of JSON disagree about.
    return text.replace("\x7f", "\\u007f")


def kept(entry: AuditEntry) -> str:
    """The entry as it is kept and hashed."""
    return canonical(entry.object())


def chain(texts: Iterable[str], after: Anchor = NOTHING) -> Iterator[Link]:
    """Each entry, as `kept` gives it, bound to the one before it."""
    for text in texts:
        sequence = after.sequence + 1
        link = Link(sequence, after.hash, chain_hash(after.hash, sequence, text), text)
        after = link.anchor
        yield link


def chain_hash(previous: str, sequence: int, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{sequence}\n{text}".encode()).hexdigest()


class Verifier:
    """Looks at one link after the other, from the first on, and remembers the first that does not hold.

    `anchors` are places known from elsewhere; each must be met. `is_part`: the first link may be any.
    """

    def __init__(self, anchors: Iterable[Anchor] = (), *, is_part: bool = False) -> None:
        self._anchors = {anchor.sequence: anchor.hash for anchor in anchors if anchor.sequence > 0}
        self._is_part = is_part
        self._end = NOTHING
        self._first = 0
        self._count = 0
        self._gaps = 0
        self._broken: Break | None = None

    @property
    def is_broken(self) -> bool:
        return self._broken is not None

    def look(self, link: Link) -> None:
        """Take the next link into account. After the first break nothing more is looked at."""
        if self._broken is not None:
            return
        if self._count == 0 and self._is_part and link.sequence > 1:
            self._end = Anchor(link.sequence - 1, link.previous)
        why = self._wrong(link)
        if why is not None:
            self.refuse(self._end.sequence + 1, why)
            return
        self._first = self._first or link.sequence
        self._count += 1
        self._end = link.anchor

    def refuse(self, sequence: int, why: str) -> None:
        """This entry does not hold, for a reason that links do not tell. The first break counts."""
        self._broken = self._broken or Break(sequence, why)

    def end(self) -> Verification:
        """What has been found, now that there are no more links."""
        if beyond := [sequence for sequence in self._anchors if sequence > self._end.sequence]:
            why = f"the log ends after entry {self._end.sequence}, and entry {max(beyond)} was seen before"
            self.refuse(self._end.sequence + 1, f"{why}: its end was cut off")
        return Verification(self._first, self._count, self._end, self._broken, self._gaps)

    def _wrong(self, link: Link) -> str | None:
        expected = self._end.sequence + 1
        if link.sequence != expected:
            return f"entry {expected} is missing or out of order: entry {link.sequence} stands in its place"
        if link.previous != self._end.hash:
            return "it does not follow the entry before it"
        if chain_hash(link.previous, link.sequence, link.text) != link.hash:
            return "its content is not what was hashed"
        if self._anchors.get(link.sequence, link.hash) != link.hash:
            return "another entry was seen in this place before: the log was rewritten"
        try:
            self._gaps += link.entry.kind is Kind.GAP
        except ValueError as error:
            return str(error)
        return None


def verify(links: Iterable[Link], anchors: Iterable[Anchor] = (), *, is_part: bool = False) -> Verification:
    """Whether the chain holds, and where it breaks first."""
    verifier = Verifier(anchors, is_part=is_part)
    for link in links:
        verifier.look(link)
    return verifier.end()


def _refuse_fractions(told: Any) -> None:
    match told:
        case float():
            raise ValueError("numbers are whole in an audit entry")
        case dict():
            for part in told.values():
                _refuse_fractions(part)
        case list():
            for part in told:
                _refuse_fractions(part)

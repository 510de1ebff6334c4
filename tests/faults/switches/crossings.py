"""Whether anything of one person has come to another: a row, a commit, a word of an error. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bailiwick.testing.lease_book import Entry, Happened
from faults.switches.people import FEW, NAMES, Ask, Kind, Row, right


@dataclass(frozen=True, slots=True)
class Said:
    """All that one person was given for what they asked."""

    ask: Ask
    rows: tuple[Row, ...] = ()
    """Also those of a result that broke off."""
    text: str = ""
    """Every word of an error, with its details; empty if there was none."""

    @property
    def is_answered(self) -> bool:
        return not self.text


@dataclass(frozen=True, slots=True)
class Kept:
    """A row of the table that all write to, as an administrator sees it."""

    mark: str
    row: Row


def crossings(
    said: Sequence[Said], book: Sequence[Entry], kept: Sequence[Kept], marks: dict[str, str]
) -> list[str]:
    """A sentence for each. `marks` tells whose every mark is that was ever used for writing."""
    return [*_heard(said), *_seen(said), *_committed(book), *_written(kept, marks)]


def _heard(said: Sequence[Said]) -> Iterator[str]:
    for one in said:
        everything = f"{one.text} {one.rows}"
        for other in NAMES:
            if other != one.ask.who and other in everything:
                yield f"{one.ask.who} was told of {other}: {everything[:300]}"


def _seen(said: Sequence[Said]) -> Iterator[str]:
    for one in said:
        if not one.ask.is_read:
            continue
        seen = [row[:3] for row in one.rows]
        if strange := set(seen) - right(one.ask.who):
            yield f"{one.ask.who} sees what is not theirs: {sorted(map(str, strange))[:3]}"
        wanted = FEW if one.ask.kind is Kind.FEW else len(right(one.ask.who))
        if len(set(seen)) != len(seen) or (one.is_answered and len(seen) != wanted):
            yield f"{one.ask.who} has {len(seen)} rows, of which {len(set(seen))} differ, instead of {wanted}"


def _committed(book: Sequence[Entry]) -> Iterator[str]:
    holders: dict[str, Entry] = {}
    for entry in book:
        match entry.what:
            case Happened.ENTERED:
                holders[entry.handle] = entry
            case Happened.LEFT:
                holders.pop(entry.handle, None)
            case Happened.CHANGED:
                held = holders.get(entry.handle)
                if held is None or (held.lease, held.who) != (entry.lease, entry.who):
                    holder = "nobody" if held is None else held.who
                    yield f"{entry.who} changed the catalog while {holder} held the session"


def _written(kept: Sequence[Kept], marks: dict[str, str]) -> Iterator[str]:
    by_mark: defaultdict[str, Counter[Row]] = defaultdict(Counter)
    for one in kept:
        by_mark[one.mark][one.row] += 1
    for mark, rows in by_mark.items():
        who = marks.get(mark, "nobody")
        # All of it, once: what came of another's rights would be other rows, or other words.
        if who not in NAMES or rows != Counter(right(who)):
            yield f"what {who} wrote as {mark} is not theirs: {len(rows)} rows, {[*rows][:2]}"


def switched(book: Sequence[Entry]) -> list[tuple[str, str]]:
    """Who of the three followed whom in the same session, without anyone between."""
    last: dict[str, str] = {}
    found = []
    for entry in book:
        if entry.what is Happened.ENTERED:
            pair = (last.get(entry.handle, ""), entry.who)
            if pair[0] != pair[1] and set(pair) <= set(NAMES):
                found.append(pair)
            last[entry.handle] = entry.who
    return found

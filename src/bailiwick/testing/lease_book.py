"""A gateway's leases, written down as they pass from one to the next; and ways to spoil them on purpose.

The book is a file beside a test's gates (`inside`). It says who was lent which session when, and under which
lease each change of the catalog was let through, in the order in which it happened: whatever the gateway's
own lock puts in order here is in that order there. What is sabotaged is a file, too, so that one gateway can
be honest and dishonest in turns.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from bailiwick.testing.inside import BOOK, Inside

_BOOK = "leases.jsonl"


class Happened(StrEnum):
    ENTERED = "entered"
    """The session was lent."""
    LEFT = "left"
    CHANGED = "changed"
    """A change of the catalog was let through, at the last place where it could have been refused."""


class Sabotage(StrEnum):
    ROWS = "rows"
    """A table is opened with what was decided for whoever had it opened before."""
    COMMITS = "commits"
    """A lease that has ended is as good as one that has not."""
    ERRORS = "errors"
    """One is told what went wrong for the one before."""


@dataclass(frozen=True, slots=True)
class Entry:
    what: Happened
    handle: str = field(repr=False)
    """Of the session; of a change, that under whose lease it was made."""
    lease: str
    who: str


class BookedInside(Inside):
    """The test's side: gates as ever, and what the book says."""

    def __init__(self, directory: Path, line_address: Callable[[], str]) -> None:
        super().__init__(directory, line_address)
        self._book = directory / _BOOK
        self._switches = {sabotage: _switch(directory, sabotage) for sabotage in Sabotage}

    @property
    def settings(self) -> dict[str, str]:
        return {**super().settings, BOOK: "1"}

    def entries(self) -> list[Entry]:
        try:
            text = self._book.read_text()
        except FileNotFoundError:
            return []
        told = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [Entry(Happened(one["what"]), one["handle"], one["lease"], one["who"]) for one in told]

    def begin_anew(self) -> None:
        """Forget what the book says. Nobody may hold a session."""
        self._book.unlink(missing_ok=True)

    def sabotage(self, sabotage: Sabotage) -> None:
        self._switches[sabotage].touch()

    def be_honest(self) -> None:
        for switch in self._switches.values():
            switch.unlink(missing_ok=True)


class _Book:
    """The gateway's side."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = threading.RLock()
        self.sessions: dict[str, str] = {}
        """By lease, also of those that have ended."""

    def note(self, entry: Entry) -> None:
        with self.lock, (self.directory / _BOOK).open("a") as file:
            file.write(json.dumps(asdict(entry)) + "\n")

    def is_sabotaged(self, sabotage: Sabotage) -> bool:
        return _switch(self.directory, sabotage).exists()


def install(directory: Path) -> None:
    """Called once, in the gateway, before anything of it runs."""
    book = _Book(directory)
    _watch_holders(book)
    _watch_changes(book)
    _spoil_stamps(book)
    _spoil_errors(book)


def _watch_holders(book: _Book) -> None:
    from bailiwick.engines.holders import Holders
    from bailiwick.identity.principal import Principal
    from bailiwick.ids import LeaseId
    from bailiwick.policy.access import Access

    enter, leave, holder = Holders.enter, Holders.leave, Holders.holder
    held: dict[str, tuple[LeaseId, Access]] = {}
    ended: dict[tuple[str, str], Access] = {}

    def entering(
        self: Holders, handle: str, lease: LeaseId, principal: Principal, *further: Any, **named: Any
    ) -> Access:
        with book.lock:
            access = enter(self, handle, lease, principal, *further, **named)
            held[handle] = (lease, access)
            book.sessions[lease] = handle
            book.note(Entry(Happened.ENTERED, handle, lease, principal.name))
            return access

    def leaving(self: Holders, handle: str, *further: Any, **named: Any) -> None:
        with book.lock:
            leave(self, handle, *further, **named)
            if handle in held:
                lease, access = held.pop(handle)
                ended[handle, lease] = access
                book.note(Entry(Happened.LEFT, handle, lease, access.principal.name))

    def holding(self: Holders, handle: str, lease: str) -> Access | None:
        found = holder(self, handle, lease)
        if found is None and book.is_sabotaged(Sabotage.COMMITS):
            return ended.get((handle, lease))
        return found

    _replace(Holders, enter=entering, leave=leaving, holder=holding)


def _watch_changes(book: _Book) -> None:
    from bailiwick.catalog.call import Answer, Call
    from bailiwick.catalog.calls import Calls

    change = Calls.change

    def watched(self: Calls, call: Call) -> Answer:
        def fence() -> Any:
            # Nobody leaves or enters between the decision and the note of it.
            with book.lock:
                witness = call.fence()
                session = book.sessions.get(call.lease, "")
                book.note(Entry(Happened.CHANGED, session, call.lease, call.principal.name))
                return witness

        return change(self, replace(call, fence=fence))

    _replace(Calls, change=watched)


def _spoil_stamps(book: _Book) -> None:
    from bailiwick.catalog.call import Call
    from bailiwick.catalog.stamping import Stamping
    from bailiwick.policy.decide import Decision, Table

    config = Stamping.config
    before: dict[str, tuple[str, Decision]] = {}

    def spoiled(
        self: Stamping, call: Call, table: Table, decision: Decision, prefixes: tuple[str, ...]
    ) -> dict[str, str]:
        who, theirs = before.get(table.uuid, (call.principal.name, decision))
        if not book.is_sabotaged(Sabotage.ROWS):
            before[table.uuid] = (call.principal.name, decision)
        elif who != call.principal.name:
            return config(self, call, table, theirs, prefixes)
        return config(self, call, table, decision, prefixes)

    _replace(Stamping, config=spoiled)


def _spoil_errors(book: _Book) -> None:
    from bailiwick.errors import BailiwickError
    from bailiwick.queries.running import Running

    fail = Running.fail
    before: dict[str, BailiwickError] = {}

    def spoiled(self: Running, error: BailiwickError, *, by_engine: bool = False) -> None:
        told = error
        if book.is_sabotaged(Sabotage.ERRORS):
            name = self.statement.principal.name
            told = next((one for who, one in before.items() if who != name), error)
        else:
            before[self.statement.principal.name] = error
        fail(self, told, by_engine=by_engine)

    _replace(Running, fail=spoiled)


def _switch(directory: Path, sabotage: Sabotage) -> Path:
    return directory / f"{sabotage}.sabotaged"


def _replace(changed: type, **functions: Callable[..., Any]) -> None:
    for name, function in functions.items():
        setattr(changed, name, function)

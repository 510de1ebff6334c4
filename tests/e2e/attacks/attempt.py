"""An attempt to see what one may not see, and what is permitted to come of it.

An attempt is statements that one person sends, in order, on one connection. Whatever they answer is searched
for hidden values. What is expected of the last one is said by how the attempt is made: `denied`, `absent`,
`gives` or `harmless`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from bailiwick.errors import Code
from bailiwick.testing.leaks import Outcome, Secrets, ask
from bailiwick.testing.policy_house import House

WORKERS = 3
DENIED = frozenset({Code.ACCESS_DENIED, Code.NOT_SUPPORTED})
ABSENT = frozenset({Code.TABLE_NOT_FOUND, Code.VIEW_NOT_FOUND, Code.SCHEMA_NOT_FOUND, Code.CATALOG_NOT_FOUND})
WRONG = frozenset(
    {
        *(Code.SYNTAX_ERROR, Code.SEMANTIC_ERROR, Code.TYPE_MISMATCH, Code.COLUMN_NOT_FOUND),
        *(Code.FUNCTION_NOT_FOUND, Code.INVALID_ARGUMENTS),
    }
)
IMPROPER = frozenset({Code.INTERNAL_ERROR, Code.CATALOG_ERROR})
"""No refusal: something broke."""


@dataclass(frozen=True, slots=True)
class Attempt:
    what: str
    statements: tuple[str, ...]
    person: str
    schema: str
    refused: frozenset[Code] = frozenset()
    rows: tuple[tuple[Any, ...], ...] | None = None
    parameters: tuple[Any, ...] | None = None

    @property
    def id(self) -> str:
        return self.what.replace(" ", "-")


def denied(what: str, *statements: str, person: str = "ana", schema: str = "house", **more: Any) -> Attempt:
    """Refused, because one may not."""
    return Attempt(what, statements, person, schema, DENIED, **more)


def absent(what: str, *statements: str, person: str = "ana", schema: str = "house", **more: Any) -> Attempt:
    """Refused, because there is no such thing as far as this person can tell."""
    return Attempt(what, statements, person, schema, ABSENT, **more)


def refused(what: str, *statements: str, person: str = "ana", schema: str = "house", **more: Any) -> Attempt:
    """Refused one way or another: it makes no sense, or one may not, or it is not there."""
    return Attempt(what, statements, person, schema, DENIED | ABSENT | WRONG, **more)


def gives(
    what: str,
    *statements: str,
    rows: Sequence[tuple[Any, ...]],
    person: str = "ana",
    schema: str = "house",
    **more: Any,
) -> Attempt:
    """Exactly these rows, in any order."""
    return Attempt(what, statements, person, schema, rows=tuple(rows), **more)


def harmless(what: str, *statements: str, person: str = "ana", schema: str = "house", **more: Any) -> Attempt:
    """Rows or a proper refusal, and nothing hidden in either."""
    return Attempt(what, statements, person, schema, **more)


@dataclass(slots=True)
class Ledger:
    """How the attempts ended, by family."""

    refused: Counter[str] = field(default_factory=Counter)
    permitted: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return self.refused.total() + self.permitted.total()

    def note(self, family: str, *, is_refused: bool) -> None:
        (self.refused if is_refused else self.permitted)[family] += 1

    def __str__(self) -> str:
        families = len({*self.refused, *self.permitted})
        return (
            f"{self.attempts} attempts in {families} families: {self.refused.total()} refused, "
            f"{self.permitted.total()} gave permitted answers only, {len(self.leaks)} leaks"
        )


@dataclass(slots=True)
class Attacker:
    """Makes attempts on a house and judges what comes of them."""

    house: House
    secrets: Secrets
    ledger: Ledger
    family: str
    connections: dict[tuple[str, str], Any]
    ahead: Mapping[Attempt, tuple[Outcome, ...]] = field(default_factory=dict)
    """What came of attempts that were made side by side before."""

    def connection(self, person: str, schema: str = "house") -> Any:
        """Kept between attempts: signing in is slow on purpose."""
        if (person, schema) not in self.connections:
            opened = self.house.connected(person, schema)
            self.connections[person, schema] = (opened.__enter__(), opened)
        return self.connections[person, schema][0]

    def judge(self, attempt: Attempt) -> Outcome:
        outcome = self._made(attempt)
        if attempt.rows is not None:
            assert outcome.code is None, f"refused what is permitted: {outcome.text}"
            assert sorted(outcome.rows, key=repr) == sorted(attempt.rows, key=repr)
        elif attempt.refused:
            assert outcome.code is not None, f"not refused: {outcome.text[:1000]}"
            assert outcome.code in attempt.refused, outcome.text
        assert outcome.code not in IMPROPER, f"broke instead of refusing: {outcome.text}"
        return outcome

    def _made(self, attempt: Attempt) -> Outcome:
        outcomes = self.ahead.get(attempt)
        if outcomes is None:
            connection = self.connection(attempt.person, attempt.schema)
            outcomes = tuple(made(self.house, connection, attempt))
        for outcome in outcomes:
            self.search(attempt.what, outcome.text)
        self.ledger.note(self.family, is_refused=outcomes[-1].is_refused)
        return outcomes[-1]

    def search(self, what: str, text: str) -> None:
        """Fails if anything hidden stands in `text`."""
        if found := self.secrets.found_in(text):
            self.ledger.leaks.append(f"{self.family}: {what}")
            raise AssertionError(f"LEAK by {what}: {sorted(set(found))[:10]} in {text[:2000]}")

    def noted(self, *, is_refused: bool) -> None:
        """One attempt that was not made of statements."""
        self.ledger.note(self.family, is_refused=is_refused)


def made(house: House, connection: Any, attempt: Attempt) -> Iterator[Outcome]:
    """What comes of each of its statements."""
    for statement in attempt.statements:
        yield ask(connection, house.filled_in(statement, "house"), attempt.parameters)


def made_side_by_side(house: House, attempts: Sequence[Attempt]) -> dict[Attempt, tuple[Outcome, ...]]:
    """For attempts that leave nothing behind: several at once, as many as engines can take."""

    def some(part: Sequence[Attempt]) -> dict[Attempt, tuple[Outcome, ...]]:
        with ExitStack() as stack:
            opened: dict[tuple[str, str], Any] = {}
            outcomes = {}
            for attempt in part:
                who = (attempt.person, attempt.schema)
                if who not in opened:
                    opened[who] = stack.enter_context(house.connected(*who))
                outcomes[attempt] = tuple(made(house, opened[who], attempt))
            return outcomes

    parts = [attempts[number::WORKERS] for number in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        return {attempt: outcomes for done in pool.map(some, parts) for attempt, outcomes in done.items()}

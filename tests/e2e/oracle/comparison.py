"""Asking the same of the house as the analyst and of the copy as its owner, and comparing every row.

Queries that give rows in no order are asked several at a time, as one statement: planning is most of their
cost. Where such a batch fails, or differs, its queries are asked one by one.
"""

import queue
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bailiwick.errors import Code
from bailiwick.testing.leaks import Outcome, Secrets, ask
from bailiwick.testing.policy_house import House
from oracle.queries import Generated

BATCH_MAX = 5
WORKERS = 4
_ALONE = frozenset({"failing", "change", "limit"})


@dataclass(frozen=True, slots=True)
class Difference:
    number: int
    statements: tuple[str, ...]
    because: str

    def __str__(self) -> str:
        return f"query {self.number}: {self.because}\n  " + "\n  ".join(self.statements)


@dataclass(slots=True)
class Tally:
    """What was seen. `shapes` counts the queries that gave rows."""

    compared: int = 0
    with_rows: int = 0
    failed_alike: Counter[Code] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    failures: list[Difference] = field(default_factory=list)
    """Of queries that were not meant to fail."""

    def __str__(self) -> str:
        failed = ", ".join(f"{count} {code}" for code, count in sorted(self.failed_alike.items())) or "none"
        return (
            f"{self.compared} queries compared, {self.with_rows} gave rows, "
            f"{self.failed_alike.total()} failed on both sides ({failed}), {len(self.differences)} differ"
        )


class Sides:
    """The two connections of one worker."""

    def __init__(self, house: House, restricted: Any, owner: Any, secrets: Secrets) -> None:
        self._house = house
        self._connections = {"house": restricted, "copy": owner}
        self._secrets = secrets

    def compare(self, batch: Sequence[Generated], tally: Tally) -> None:
        if len(batch) > 1 and self._agree_at_once(batch, tally):
            return
        for query in batch:
            self._compare_one(query, tally)

    def _agree_at_once(self, batch: Sequence[Generated], tally: Tally) -> bool:
        parts = [
            f"SELECT {place} AS place, to_json(struct(*), map('ignoreNullFields', 'false')) AS made "
            f"FROM ({query.statements[0]})"
            for place, query in enumerate(batch)
        ]
        mine, theirs = self._both((" UNION ALL ".join(parts),))
        if mine.is_refused or self._difference(mine, theirs, is_ordered=False):
            return False
        places = {place for place, _ in mine.rows}
        for place, query in enumerate(batch):
            _count(tally, query, has_rows=place in places)
        return True

    def _compare_one(self, query: Generated, tally: Tally) -> None:
        mine, theirs = self._both(query.statements)
        if because := self._difference(mine, theirs, is_ordered=query.is_ordered):
            tally.differences.append(Difference(query.number, query.statements, because))
        elif mine.code is not None:
            tally.failed_alike[mine.code] += 1
            if query.shape != "failing":
                tally.failures.append(Difference(query.number, query.statements, mine.text[:500]))
        _count(tally, query, has_rows=bool(mine.rows))

    def _both(self, statements: Sequence[str]) -> tuple[Outcome, Outcome]:
        return self._run("house", statements), self._run("copy", statements)

    def _run(self, schema: str, statements: Sequence[str]) -> Outcome:
        """The outcome of the last statement, or of the first that failed."""
        for statement in statements:
            outcome = ask(self._connections[schema], self._house.filled_in(statement, schema))
            if outcome.is_refused:
                break
        return outcome

    def _difference(self, mine: Outcome, theirs: Outcome, *, is_ordered: bool) -> str | None:
        if leaked := self._secrets.found_in(mine.text):
            return f"hidden values in the answer: {leaked[:5]}"
        if mine.table is None or theirs.table is None:
            same = mine.code == theirs.code
            return None if same else f"one failed otherwise:\n  {mine.text[:800]}\n  {theirs.text[:800]}"
        if _columns(mine) != _columns(theirs):
            return f"other columns: {_columns(mine)} and {_columns(theirs)}"
        ours, others = _written(mine, is_ordered=is_ordered), _written(theirs, is_ordered=is_ordered)
        if ours == others:
            return None
        only_ours, only_others = (
            list(Counter(ours) - Counter(others)),
            list(Counter(others) - Counter(ours)),
        )
        return (
            f"{len(ours)} and {len(others)} rows; "
            f"only restricted: {only_ours[:3]}, only owner: {only_others[:3]}"
        )


def _count(tally: Tally, query: Generated, *, has_rows: bool) -> None:
    tally.compared += 1
    if has_rows:
        tally.with_rows += 1
        tally.shapes[query.shape] += 1


def _columns(outcome: Outcome) -> list[tuple[str, str]]:
    assert outcome.table is not None
    return [(field.name, str(field.type).replace(" not null", "")) for field in outcome.table.schema]


def _written(outcome: Outcome, *, is_ordered: bool) -> list[str]:
    assert outcome.table is not None
    rows = [repr(tuple(row.values())) for row in outcome.table.to_pylist()]
    return rows if is_ordered else sorted(rows)


def batched(generated: Sequence[Generated]) -> Iterator[tuple[Generated, ...]]:
    batch: list[Generated] = []
    for query in generated:
        if query.shape in _ALONE:
            yield (query,)
            continue
        batch.append(query)
        if len(batch) == BATCH_MAX:
            yield tuple(batch)
            batch = []
    if batch:
        yield tuple(batch)


def compare(house: House, generated: Sequence[Generated], secrets: Secrets, workers: int = WORKERS) -> Tally:
    """All of them, by several connections at once."""
    work: queue.SimpleQueue[tuple[Generated, ...]] = queue.SimpleQueue()
    for batch in batched(generated):
        work.put(batch)
    tally = Tally()
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(_work, house, work, secrets) for _ in range(workers)]:
            _add(tally, done.result())
    return tally


def _work(house: House, work: "queue.SimpleQueue[tuple[Generated, ...]]", secrets: Secrets) -> Tally:
    tally = Tally()
    with _sides(house, secrets) as sides:
        while True:
            try:
                batch = work.get_nowait()
            except queue.Empty:
                return tally
            sides.compare(batch, tally)


@contextmanager
def _sides(house: House, secrets: Secrets) -> Iterator[Sides]:
    with house.connected("ana", "house") as restricted, house.connected("otto", "copy") as owner:
        yield Sides(house, restricted, owner, secrets)


def _add(tally: Tally, other: Tally) -> None:
    tally.compared += other.compared
    tally.with_rows += other.with_rows
    tally.failed_alike += other.failed_alike
    tally.shapes += other.shapes
    tally.differences += other.differences
    tally.failures += other.failures

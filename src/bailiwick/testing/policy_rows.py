"""The rows of the policy house: everything there is, and what of it one person may see.

Both come from the same Python values. What is permitted is made here, by hand, without Spark and without the
policy's own text, so that a mistake in enforcing a rule cannot hide behind the same mistake in expecting it.
Whatever must not be seen carries `VEILED` in its text or is a number of `VEILED_NUMBERS`.
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

VEIL = "VEILED"
VEILED_NUMBERS = range(9_021_000, 9_030_000)
EU_PEOPLE = range(1, 25)
OTHER_PEOPLE = range(100, 116)
ENTITLED = frozenset({1, 2, 3, 5, 8, 9, 11, 12, 14, 17, 20, 23, 101, 104, 300})
"""Whose orders the analyst may see: some of people that she may not see, one of nobody."""
CATEGORIES = ("open", "inner", "rare")
KINDS = ("click", "login", "sale")

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Veiled:
    """A row, and the same row for the analyst; None if she may not see it."""

    raw: Row
    permitted: Row | None


class Numbers:
    """Veiled numbers, each one once."""

    def __init__(self) -> None:
        self._next = VEILED_NUMBERS.start

    def take(self) -> int:
        self._next += 1
        return self._next


def hashed(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def people(numbers: Numbers, ids: Sequence[int], seed: int) -> list[Veiled]:
    rows = random.Random(seed)  # noqa: S311 - rows of a test
    return [_person(numbers, rows, id_) for id_ in ids]


def _person(numbers: Numbers, rows: random.Random, id_: int) -> Veiled:
    is_eu = id_ in EU_PEOPLE
    region = "EU" if is_eu else rows.choice(("US", "APAC", None))
    name = f"name-{id_ % 9}" if is_eu else f"{VEIL}-name-{id_}"
    salary = Decimal(numbers.take())
    score = rows.randrange(0, 40) / 4 if id_ % 7 else None
    born = date(1960, 1, 1) + timedelta(days=rows.randrange(0, 15_000))
    email = None if id_ % 6 == 0 else f"{VEIL}-{id_}@mail.example"
    ssn = f"{VEIL}-{id_:03}-{id_ % 5:02}"
    lat, lon = rows.randrange(-90, 90) / 2, rows.randrange(-180, 180) / 2
    city = f"{VEIL}-city-{id_ % 4}"
    tags = [f"tag-{number}" for number in range(id_ % 4)] if id_ % 8 else None
    phone = None if id_ % 5 == 0 else f"{VEIL}-phone-{id_}"
    manager = rows.choice((None, 1, 2, 3, 100, 101, id_))
    has_home = id_ % 9 != 0
    raw = (
        *(id_, name, email, ssn, region, salary, score, born),
        (city, (lat, lon)) if has_home else None,
        *(tags, phone, f"{VEIL}-note-{id_}", f"{VEIL}-badge-{id_}", manager),
    )
    permitted = (
        *(
            id_,
            name,
            hashed(email),
            f"***-{ssn[-2:]}",
            region,
            salary % 1000,
            score,
            born.replace(month=1, day=1),
        ),
        ("somewhere", (lat, lon)) if has_home else None,
        *(tags, hashed(phone), None, None, manager),
    )
    return Veiled(raw, permitted if is_eu else None)


def orders(numbers: Numbers, ids: Sequence[int], seed: int) -> list[Veiled]:
    rows = random.Random(seed)  # noqa: S311 - rows of a test
    return [_order(numbers, rows, id_) for id_ in ids]


def _order(numbers: Numbers, rows: random.Random, id_: int) -> Veiled:
    person = rows.choice((*EU_PEOPLE, *OTHER_PEOPLE, 300, 301))
    is_visible = person in ENTITLED
    amount = Decimal(rows.randrange(100, 90_000)) / 100 if is_visible else Decimal(numbers.take())
    placed = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=rows.randrange(0, 24 * 20))
    items = [(f"sku-{rows.randrange(0, 10)}", rows.randrange(1, 5)) for _ in range(rows.randrange(0, 4))]
    attributes = {"channel": rows.choice(("web", "shop")), **({"gift": "yes"} if id_ % 3 == 0 else {})}
    comment = f"{VEIL}-comment-{id_}" + "x" * (id_ % 5)
    status = rows.choice(("new", "paid", "sent", None)) if is_visible else f"{VEIL}-status"
    raw = (id_, person, rows.choice(("EU", "US")), amount, status, placed, items, attributes, comment)
    masked = (*raw[:-1], f"{len(comment)} characters")
    return Veiled(raw, masked if is_visible else None)


def products(numbers: Numbers) -> list[Veiled]:
    made = []
    for number in range(12):
        category, price = CATEGORIES[number % 3], Decimal(number * 250 + 99) / 100
        cost = Decimal(number * 100) / 100 if category == "open" else Decimal(numbers.take())
        raw = (f"sku-{number}", f"product {number % 5}", price, cost, category)
        made.append(Veiled(raw, (*raw[:3], cost if category == "open" else None, category)))
    return made


def events(numbers: Numbers, ids: Sequence[int], seed: int) -> list[Veiled]:
    rows = random.Random(seed)  # noqa: S311 - rows of a test
    return [_event(numbers, rows, id_) for id_ in ids]


def _event(numbers: Numbers, rows: random.Random, id_: int) -> Veiled:
    severity = rows.choice((1, 2, 3, 3, 4, 5, None))
    is_visible = severity is not None and severity <= 3
    weight = rows.randrange(0, 50) if is_visible else numbers.take()
    at = datetime(2026, 2, 1, tzinfo=UTC) + timedelta(minutes=rows.randrange(0, 60 * 24 * 5))
    payload = f"{VEIL}-payload-{id_ % 7:03}"
    raw = (id_, rows.choice((*EU_PEOPLE, *OTHER_PEOPLE)), rows.choice(KINDS), at, payload, severity, weight)
    masked = (*raw[:4], payload[-3:], *raw[5:])
    return Veiled(raw, masked if is_visible else None)


def regions() -> list[Veiled]:
    """Nobody is restricted here."""
    rows = (("EU", "Europe", 1), ("US", "States", 2), ("APAC", "Asia and Pacific", 3), ("AQ", None, None))
    return [Veiled(row, row) for row in rows]


def raw_of(rows: Sequence[Veiled]) -> list[Row]:
    return [row.raw for row in rows]


def permitted_of(rows: Sequence[Veiled]) -> list[Row]:
    return [row.permitted for row in rows if row.permitted is not None]


def literal(value: Any) -> str:
    """A Python value as Spark SQL; a tuple is a struct, whose field names the column it goes to has."""
    for kind, written in _WRITTEN:
        if isinstance(value, kind):
            return written(value)
    raise TypeError(f"no literal for {type(value).__name__}")


def values(rows: Sequence[Row]) -> str:
    """What stands after VALUES."""
    return ", ".join(f"({', '.join(literal(value) for value in row)})" for row in rows)


def _mapped(value: dict[Any, Any]) -> str:
    return f"map({', '.join(f'{literal(key)}, {literal(each)}' for key, each in value.items())})"


_WRITTEN: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (type(None), lambda _value: "NULL"),
    (bool, lambda value: "true" if value else "false"),
    (str, lambda value: f"'{value}'"),
    (int, str),
    (float, lambda value: f"{value!r}D"),
    (Decimal, lambda value: f"{value}BD"),
    (datetime, lambda value: f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"),
    (date, lambda value: f"DATE '{value.isoformat()}'"),
    (tuple, lambda value: f"struct({', '.join(literal(each) for each in value)})"),
    (list, lambda value: f"array({', '.join(literal(each) for each in value)})"),
    (dict, _mapped),
)

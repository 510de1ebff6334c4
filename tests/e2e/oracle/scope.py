"""What a generated expression may name: columns with their types, and where they come from."""

import random
from dataclasses import dataclass
from enum import StrEnum


class Type(StrEnum):
    """As much of Spark's types as choosing a function for a value needs."""

    INT = "INT"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    TEXT = "TEXT"
    DATE = "DATE"
    TIME = "TIME"
    BOOL = "BOOL"
    HOME = "HOME"
    TEXTS = "TEXTS"
    ITEMS = "ITEMS"
    MAP = "MAP"


SIMPLE = (Type.INT, Type.DECIMAL, Type.DOUBLE, Type.TEXT, Type.DATE, Type.TIME, Type.BOOL)
NUMBERS = (Type.INT, Type.DECIMAL, Type.DOUBLE)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    """As it is written in an expression, with its relation's alias."""
    type: Type


@dataclass(frozen=True, slots=True)
class Query:
    """A query that can stand in parentheses, and what it gives."""

    text: str
    columns: tuple[Column, ...]
    """Named without an alias."""


@dataclass(frozen=True, slots=True)
class Scope:
    columns: tuple[Column, ...]

    def of(self, *types: Type) -> list[Column]:
        return [column for column in self.columns if column.type in types]

    def has(self, *types: Type) -> bool:
        return bool(self.of(*types))

    def some(self, choice: random.Random, *types: Type) -> Column | None:
        found = self.of(*types)
        return choice.choice(found) if found else None

    def __add__(self, other: "Scope") -> "Scope":
        return Scope(self.columns + other.columns)


def aliased(columns: tuple[Column, ...], alias: str) -> Scope:
    """The columns of a relation as they are written where it is called `alias`."""
    return Scope(tuple(Column(f"{alias}.{column.name}", column.type) for column in columns))


I, D, F, T, A, S = Type.INT, Type.DECIMAL, Type.DOUBLE, Type.TEXT, Type.DATE, Type.TIME  # noqa: E741

TABLES: dict[str, tuple[Column, ...]] = {
    name: tuple(Column(column, type_) for column, type_ in columns)
    for name, columns in {
        "people": (
            *(("id", I), ("name", T), ("email", T), ("ssn", T), ("region", T), ("salary", D), ("score", F)),
            *(("born", A), ("home", Type.HOME), ("tags", Type.TEXTS), ("phone", T), ("notes", T)),
            *(("badge", T), ("manager", I)),
        ),
        "orders": (
            *(("id", I), ("person_id", I), ("region", T), ("amount", D), ("status", T), ("placed", S)),
            *(("items", Type.ITEMS), ("attributes", Type.MAP), ("comment", T)),
        ),
        "products": (("sku", T), ("title", T), ("price", D), ("cost", D), ("category", T)),
        "events": (
            *(("id", I), ("person_id", I), ("kind", T), ("at", S), ("payload", T), ("severity", I)),
            ("weight", I),
        ),
        "regions": (("code", T), ("title", T), ("rank", I)),
        "open_orders": (
            *(("id", I), ("person_id", I), ("amount", D), ("status", T), ("comment", T), ("name", T)),
            *(("salary", D), ("email", T)),
        ),
        "by_region": (("region", T), ("people", I), ("paid", D), ("last_ssn", T)),
        "over_view": (("person_id", I), ("named", I), ("said", T)),
    }.items()
}
VIEWS = frozenset({"open_orders", "by_region", "over_view"})
LINKS = {
    ("people", "orders"): ("id", "person_id"),
    ("people", "events"): ("id", "person_id"),
    ("orders", "events"): ("person_id", "person_id"),
    ("people", "regions"): ("region", "code"),
    ("orders", "regions"): ("region", "code"),
    ("people", "people"): ("manager", "id"),
    ("people", "open_orders"): ("id", "person_id"),
    ("orders", "over_view"): ("person_id", "person_id"),
    ("people", "by_region"): ("region", "region"),
    ("events", "events"): ("person_id", "person_id"),
}
"""Columns that join two tables sensibly."""
HISTORY = {"events": 3, "people": 2, "orders": 2, "products": 1}
"""How many versions there are to travel to."""

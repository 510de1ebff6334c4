"""What a stock client is asked to do: one function a case, known by its name.

A case takes a session and gives a value: a DataFrame, rows, or anything else that `encoding` can write down.
What it must give is what plain Spark gives for the same data. A case that the gateway refuses says with which
code, and why. These modules run inside the client's own environment: they import PySpark and nothing of ours.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Body = Callable[[Any], Any]
Version = tuple[int, int]
OLDEST: Version = (4, 0)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    body: Body
    since: Version = OLDEST
    """The first PySpark that has what it calls."""
    refused: str | None = None
    """The condition by which the gateway refuses, if it does."""
    calls: tuple[str, ...] = ()
    """What of PySpark it is about, for the list in the docs; where empty, that is shown elsewhere."""
    because: str = ""
    """Why it is refused, or does not work yet."""
    is_not_yet: bool = False
    is_ours: bool = False
    """Plain Spark has no such thing: the case itself says what is right, by giving True."""


CASES: dict[str, Case] = {}


def _add(body: Body, **more: Any) -> Body:
    group = body.__module__.rpartition(".")[2].removeprefix("cases_")
    name = f"{group}: {body.__name__.replace('_', ' ')}"
    if name in CASES:
        raise ValueError(f"two cases are called {name}")
    CASES[name] = Case(name, body, **more)
    return body


def case(body: Body) -> Body:
    """Must give what plain Spark gives."""
    return _add(body)


def since(major: int, minor: int) -> Callable[[Body], Body]:
    """The same, for what older clients do not have."""
    return lambda body: _add(body, since=(major, minor))


def ours(body: Body) -> Body:
    """Must give True; plain Spark is not asked."""
    return _add(body, is_ours=True)


def refused(
    code: str, *calls: str, because: str, since: Version = OLDEST, condition: str | None = None
) -> Callable[[Body], Body]:
    """Must be refused with the gateway's `code`, or with the condition that Spark has for it."""
    told = condition or f"BAILIWICK_{code}"
    return lambda body: _add(body, refused=told, calls=calls, because=because, since=since)


def not_yet(*calls: str, because: str, since: Version = OLDEST) -> Callable[[Body], Body]:
    """Works on plain Spark and not yet here. Fails if it works, so that nobody forgets to say so."""
    return lambda body: _add(body, is_not_yet=True, calls=calls, because=because, since=since)


def several(group: str, bodies: dict[str, Body], first: Version = OLDEST) -> None:
    """Cases as data."""
    for name, body in bodies.items():
        full = f"{group}: {name}"
        if full in CASES:
            raise ValueError(f"two cases are called {full}")
        CASES[full] = Case(full, body, since=first)

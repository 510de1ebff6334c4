"""The table beside this module (`spark_errors.toml`), read once and turned round for looking up.

It holds no judgement of its own: which code a failure has is written in the TOML file, in which order the
questions are asked is written in `spark_errors.py`.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from bailiwick.errors import Code

Prefixes = tuple[tuple[str, Code], ...]
"""The longest first."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A message that Spark sends without a condition and without a SQLSTATE."""

    text: re.Pattern[str]
    code: Code
    details: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    conditions: Mapping[str, Code]
    condition_prefixes: Prefixes
    sqlstates: Mapping[str, Code]
    exceptions: Mapping[str, Code]
    legacy: Mapping[str, Code]
    legacy_prefixes: Prefixes
    patterns: tuple[Pattern, ...]
    details: Mapping[str | None, Mapping[str, str]]

    def of_condition(self, condition: str) -> Code | None:
        """`A.B` is asked for first, then `A`, then the prefixes."""
        return _look_up(condition, self.conditions, self.condition_prefixes)

    def of_sqlstate(self, sqlstate: str) -> Code | None:
        """All five characters first, then the class of two."""
        return self.sqlstates.get(sqlstate) or self.sqlstates.get(sqlstate[:2])

    def of_exceptions(self, classes: Iterable[str]) -> Code | None:
        """`classes` runs from the most special to the most general; the first that is known decides."""
        return next((self.exceptions[name] for name in classes if name in self.exceptions), None)

    def of_legacy(self, condition: str) -> Code | None:
        return _look_up(condition, self.legacy, self.legacy_prefixes)

    def of_message(self, message: str) -> Pattern | None:
        return next((pattern for pattern in self.patterns if pattern.text.search(message)), None)

    def details_of(self, *names: str | None) -> dict[str, str]:
        """What the first of these names that has details has to say."""
        return next((dict(self.details[name]) for name in names if name in self.details), {})


def _look_up(condition: str, exact: Mapping[str, Code], prefixes: Prefixes) -> Code | None:
    known = exact.get(condition) or exact.get(condition.partition(".")[0])
    return known or next((code for prefix, code in prefixes if condition.startswith(prefix)), None)


@cache
def table() -> Table:
    """The one table. A mistake in it is found at import of the first failure's test, not in production."""
    text = resources.files(__package__).joinpath("spark_errors.toml").read_text(encoding="utf-8")
    return read(tomllib.loads(text))


def read(document: Mapping[str, Any]) -> Table:
    """Turn the document round. Raises ValueError for an entry that stands twice, or under no known code."""
    by_code = {Code(name): lists for name, lists in document.items() if name not in ("details", "patterns")}
    conditions, condition_prefixes = _inverted(by_code, "conditions")
    legacy, legacy_prefixes = _inverted(by_code, "legacy")
    sqlstates, _ = _inverted(by_code, "sqlstates")
    exceptions, _ = _inverted(by_code, "exceptions")
    return Table(
        conditions=conditions,
        condition_prefixes=condition_prefixes,
        sqlstates=sqlstates,
        exceptions=exceptions,
        legacy=legacy,
        legacy_prefixes=legacy_prefixes,
        patterns=tuple(
            Pattern(re.compile(entry["text"], re.MULTILINE), Code(entry["code"]), entry.get("details", {}))
            for entry in document.get("patterns", ())
        ),
        details=document.get("details", {}),
    )


def _inverted(by_code: Mapping[Code, Mapping[str, list[str]]], kind: str) -> tuple[dict[str, Code], Prefixes]:
    exact: dict[str, Code] = {}
    prefixes: dict[str, Code] = {}
    for code, lists in by_code.items():
        for name in lists.get(kind, ()):
            home, key = (prefixes, name[:-1]) if name.endswith("*") else (exact, name)
            if key in home:
                raise ValueError(f"{name} stands under {home[key]} and under {code}")
            home[key] = code
    longest_first = sorted(prefixes.items(), key=lambda entry: -len(entry[0]))
    return exact, tuple(longest_first)

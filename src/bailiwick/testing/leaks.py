"""Asking as a client does, and keeping every word of the answer to search it for what is hidden.

Hidden values are unmistakable (`policy_rows`): a veiled word, a number out of a range that nothing else uses,
and whatever a test adds that it learned of hidden things: names of files, snapshots, counts of rows. The
search also finds them turned round, in other cases and encoded, because a leak need not be polite.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.errors import Code
from bailiwick.testing.policy_rows import VEIL, VEILED_NUMBERS

_NUMBER = re.compile(r"(?<![0-9A-Za-z])[0-9]{7}(?![0-9A-Za-z])")
_COLUMN_ID = re.compile(r"(?<=\w)#[0-9]+L?\b")
"""Spark counts the columns of its plans (`amount#4711`): such a count is nobody's value."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one statement: rows, or the code of a failure; and all that was said."""

    table: pa.Table | None
    code: Code | None
    text: str
    message: str = ""
    """Of a failure; `text` has more than that."""

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Empty where it failed."""
        return [] if self.table is None else [tuple(row.values()) for row in self.table.to_pylist()]

    @property
    def is_refused(self) -> bool:
        return self.code is not None


def ask(connection: Any, sql: str, parameters: Sequence[Any] | None = None) -> Outcome:
    """Run `sql` on an ADBC connection. Whatever happens is an outcome."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return answered(cursor.fetch_arrow_table())
    except AdbcError as error:
        return refused(error)


def answered(table: pa.Table) -> Outcome:
    return Outcome(table, None, f"{table.schema.to_string()}\n{table.to_pylist()}")


def refused(error: AdbcError) -> Outcome:
    details = [
        part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in _parts(error)
    ]
    return Outcome(None, code_of(error), "\n".join([str(error), *details]), str(error))


def code_of(error: AdbcError) -> Code:
    """Our code, which the gateway sends beside the message. INTERNAL_ERROR if it sent none."""
    for name, value in error.details or ():
        known = name if isinstance(name, str) else name.decode()
        if known == "bailiwick-error-code":
            return Code(value.decode())
    return Code.INTERNAL_ERROR


def _parts(error: AdbcError) -> Iterable[Any]:
    return (part for detail in error.details or () for part in detail)


@dataclass(frozen=True, slots=True)
class Secrets:
    """What must stand in no answer. `more` are further words, such as the names of hidden files."""

    more: frozenset[str] = field(default_factory=frozenset)

    def found_in(self, text: str) -> list[str]:
        """Every secret in `text`, as it stands there."""
        folded = text.casefold()
        words = [word for word in _SPELLINGS if word in folded]
        words += [word for word in _ENCODINGS if word in text]
        uncounted = _COLUMN_ID.sub("", text)
        words += [word for word in self.more if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", uncounted)]
        numbers = [number for number in _NUMBER.findall(text) if int(number) in VEILED_NUMBERS]
        return [*words, *numbers]

    def with_more(self, words: Iterable[str]) -> "Secrets":
        return Secrets(self.more | frozenset(words))


def _encodings(word: str) -> tuple[str, ...]:
    """In base64, wherever in a longer text the word begins: the characters that depend on nothing else."""
    shifted = [base64.b64encode(bytes(shift) + word.encode()).decode() for shift in range(3)]
    return tuple(text[shift + bool(shift) :].rstrip("=")[:7] for shift, text in enumerate(shifted))


_SPELLINGS = tuple(text.casefold() for text in (VEIL, VEIL[::-1], VEIL.encode().hex()))
_ENCODINGS = _encodings(VEIL)

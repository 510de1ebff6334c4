r"""What one can tell the shell itself, `\d` and its like: the words, read to values. It runs nothing."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bailiwick.cli.failures import UsageProblem
from bailiwick.cli.query import Format

ROWS_LIMIT: Final = 1_000_000
_PART: Final = re.compile(r"`(?:[^`]|``)+`|[^\W\d]\w*|\d\w*")
_SHOWN_FORMATS: Final = (Format.TABLE, Format.CSV, Format.JSON)

HELP: Final = r"""A statement ends with a semicolon. Ctrl-C cancels what runs, Ctrl-D leaves.

  \d [PATTERN]             tables; with a table's name, its columns
  \dt [PATTERN]            tables
  \dn [PATTERN]            namespaces
  \l                       catalogs
  \format table|csv|json   how answers look
  \rows N                  most rows that are shown
  \timing [on|off]         how long each answer took
  \progress [on|off]       a bar while a query runs
  \?                       this
  \q                       leave

A pattern has * for any text and ? for any one character: \dt sales.o*
A statement that begins with a blank is not kept in the history, nor one with a password.
"""


@dataclass(frozen=True, slots=True)
class Quit:
    pass


@dataclass(frozen=True, slots=True)
class ShowHelp:
    pass


@dataclass(frozen=True, slots=True)
class ListCatalogs:
    pass


@dataclass(frozen=True, slots=True)
class ListNamespaces:
    pattern: str | None


@dataclass(frozen=True, slots=True)
class ListTables:
    pattern: str | None


@dataclass(frozen=True, slots=True)
class DescribeTable:
    name: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetFormat:
    format: Format


@dataclass(frozen=True, slots=True)
class SetRows:
    rows_max: int


@dataclass(frozen=True, slots=True)
class SwitchTiming:
    on: bool | None
    """None: the other way round."""


@dataclass(frozen=True, slots=True)
class SwitchProgress:
    on: bool | None


Order = (
    Quit
    | ShowHelp
    | ListCatalogs
    | ListNamespaces
    | ListTables
    | DescribeTable
    | SetFormat
    | SetRows
    | SwitchTiming
    | SwitchProgress
)


def read_order(line: str) -> Order:
    """The order that `line` is. Raises UsageProblem, with what to type instead."""
    word, _, argument = line.strip().rstrip(";").partition(" ")
    make = _ORDERS.get(word)
    if make is None:
        raise UsageProblem(f"there is no {word[:20]} here; \\? lists what there is")
    return make(word, argument.strip() or None)


def name_parts(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; a part in backticks may hold anything."""
    parts, at = [], 0
    while found := _PART.match(text, at):
        part = found[0]
        parts.append(part[1:-1].replace("``", "`") if part.startswith("`") else part)
        if found.end() == len(text):
            return tuple(parts)
        if text[found.end()] != ".":
            break
        at = found.end() + 1
    raise UsageProblem("a name looks like sales.orders; put `backticks` around parts with other characters")


def _alone(order: Order) -> Callable[[str, str | None], Order]:
    def make(word: str, argument: str | None) -> Order:
        if argument is not None:
            raise UsageProblem(f"{word} stands alone")
        return order

    return make


def _describe(_word: str, argument: str | None) -> Order:
    if argument is None or ("`" not in argument and ("*" in argument or "?" in argument)):
        return ListTables(argument)
    return DescribeTable(name_parts(argument))


def _format(word: str, argument: str | None) -> Order:
    for each in _SHOWN_FORMATS:
        if argument == each:
            return SetFormat(each)
    raise UsageProblem(f"{word} takes one of {', '.join(_SHOWN_FORMATS)}")


def _rows(word: str, argument: str | None) -> Order:
    if argument is None or not re.fullmatch(r"[0-9]{1,7}", argument) or not 1 <= int(argument) <= ROWS_LIMIT:
        raise UsageProblem(f"{word} takes a number from 1 to {ROWS_LIMIT}")
    return SetRows(int(argument))


def _switch(kind: type[SwitchTiming | SwitchProgress]) -> Callable[[str, str | None], Order]:
    def make(word: str, argument: str | None) -> Order:
        if argument not in (None, "on", "off"):
            raise UsageProblem(f"{word} takes on or off, or stands alone")
        return kind(None if argument is None else argument == "on")

    return make


_ORDERS: Final[dict[str, Callable[[str, str | None], Order]]] = {
    "\\q": _alone(Quit()),
    "\\?": _alone(ShowHelp()),
    "\\l": _alone(ListCatalogs()),
    "\\dn": lambda _word, pattern: ListNamespaces(pattern),
    "\\dt": lambda _word, pattern: ListTables(pattern),
    "\\d": _describe,
    "\\format": _format,
    "\\rows": _rows,
    "\\timing": _switch(SwitchTiming),
    "\\progress": _switch(SwitchProgress),
}

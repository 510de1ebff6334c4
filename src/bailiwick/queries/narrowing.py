"""What a statement over one system table does not need of it, so that nobody goes and fetches it.

A hint, never a filter: the sandbox still runs the whole statement. Where anything about the statement is not
plain (a join, a subquery, renamed columns) there is no hint.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bailiwick.queries.routing import SystemQuery, nodes_of

_BEYOND_COLUMNS = frozenset({"STAR", "POSITIONAL_REFERENCE"})


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Rows that differ in `equal`, and columns that are not `mentioned`, make no difference to the answer."""

    equal: Mapping[str, str] = field(default_factory=dict)
    """Texts that columns must have, by the columns' names in lower case."""
    mentioned: frozenset[str] | None = None
    """Every name that the statement uses; None if it may use any."""

    def allows(self, column: str, text: str) -> bool:
        return self.equal.get(column, text) == text

    def needs(self, column: str, columns: Sequence[str]) -> bool:
        """Whether this one of the table's columns matters. A name that is none of them may stand for all."""
        return self.mentioned is None or column in self.mentioned or not self.mentioned <= set(columns)


NOTHING_KNOWN = Narrowing()


def narrowing(query: SystemQuery, parameters: Sequence[Any] = ()) -> Narrowing:
    nodes = list(nodes_of(query.tree))
    select = query.tree["statements"][0]["node"]
    source = select.get("from_table") or {}
    tables = sum(node.get("type") == "BASE_TABLE" for node in nodes)
    is_plain = select.get("type") == "SELECT_NODE" and source.get("type") == "BASE_TABLE" and tables == 1
    if not is_plain or source.get("column_name_alias"):
        return NOTHING_KNOWN
    equal = dict(_equalities(select.get("where_clause"), parameters))
    if any(node.get("class") in _BEYOND_COLUMNS for node in nodes):
        return Narrowing(equal)
    return Narrowing(equal, frozenset(_column(node) for node in nodes if node.get("class") == "COLUMN_REF"))


def _equalities(condition: Any, parameters: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """What must hold for every row of the answer: the parts of an AND that compare a column with a text."""
    match condition:
        case {"type": "CONJUNCTION_AND", "children": children}:
            for child in children:
                yield from _equalities(child, parameters)
        case {"type": "COMPARE_EQUAL", "left": {"class": "COLUMN_REF"} as column, "right": value}:
            if (text := _text(value, parameters)) is not None:
                yield _column(column), text


def _column(node: Mapping[str, Any]) -> str:
    return str(node["column_names"][-1]).lower()


def _text(value: Any, parameters: Sequence[Any]) -> str | None:
    match value:
        case {"class": "CONSTANT", "literal": {"kind": "STRING", "text": str(text)}}:
            return text
        case {"class": "PARAMETER", "identifier": str(identifier)} if identifier.isdecimal():
            position = int(identifier) - 1
            bound = parameters[position] if 0 <= position < len(parameters) else None
            return bound if isinstance(bound, str) else None
    return None

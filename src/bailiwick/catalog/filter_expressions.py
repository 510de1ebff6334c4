"""Row filters as expressions of Iceberg, for engines that are not ours.

Only what means the same to every engine is translated: comparisons of whole numbers, equality of texts, dates
and booleans, IN, IS NULL, LIKE of a beginning, AND, OR, NOT, and the caller's own name. Anything else cannot
be handed out, and whoever asks for the table is refused. Spark knows three truth values and Iceberg two: so
each comparison says that there must be a value, and NOT is moved down to the comparisons before that.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from bailiwick.catalog.wire import Json
from bailiwick.policy.decide import Column

DEPTH_MAX: Final = 50
TEXT_LENGTH_MAX: Final = 8_192

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>-?\d{1,18})(?![\w.])
          |(?P<text>'[^'\\]*'(?!')|"[^"\\]*"(?!"))
          |(?P<name>`[^`]+`|[A-Za-z_]\w*)
          |(?P<mark><=|>=|<>|!=|==|[<>=(),.]))""",
    re.VERBOSE | re.ASCII,
)
_WORDS: Final = frozenset(
    ["and", "or", "not", "in", "is", "null", "like", "true", "false", "date", "between"]
)
_COMPARISONS: Final[Mapping[str, str]] = {
    "=": "eq",
    "==": "eq",
    "<>": "not-eq",
    "!=": "not-eq",
    "<": "lt",
    "<=": "lt-eq",
    ">": "gt",
    ">=": "gt-eq",
}
_OPPOSITE: Final[Mapping[str, str]] = {
    "eq": "not-eq",
    "not-eq": "eq",
    "lt": "gt-eq",
    "gt-eq": "lt",
    "gt": "lt-eq",
    "lt-eq": "gt",
    "in": "not-in",
    "not-in": "in",
    "starts-with": "not-starts-with",
    "is-null": "not-null",
    "not-null": "is-null",
}
_MIRRORED: Final[Mapping[str, str]] = {"lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq"}
_ORDERED_TYPES: Final = frozenset(["int", "long", "date"])
_KINDS: Final[Mapping[str, type]] = {"int": int, "long": int, "string": str, "boolean": bool, "date": date}


class InexpressibleError(ValueError):
    """The filter cannot be said in a way that every engine understands alike."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


def predicate(using: str, columns: tuple[Column, ...], user: str) -> Json | bool:
    """The filter as a predicate over field ids. Raises InexpressibleError."""
    parser = _Parser(list(_tokens(using)), columns, user)
    tree = parser.whole()
    return _rendered(tree, is_negated=False)


@dataclass(frozen=True, slots=True)
class _Test:
    kind: str
    column: Column
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class _Joined:
    kind: str
    parts: tuple["_Tree", ...]


_Tree = _Test | _Joined | bool


class _Parser:
    """Recursive descent: OR of ANDs of tests."""

    def __init__(self, tokens: list[_Token], columns: tuple[Column, ...], user: str) -> None:
        self._tokens = tokens
        self._columns = columns
        self._user = user
        self._at = 0
        self._depth = 0

    def whole(self) -> _Tree:
        tree = self._or()
        if self._at < len(self._tokens):
            raise InexpressibleError("there is more than one expression")
        return tree

    def _or(self) -> _Tree:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InexpressibleError("the expression is nested too deeply")
        parts = self._separated(self._and, "or")
        self._depth -= 1
        return parts[0] if len(parts) == 1 else _Joined("or", parts)

    def _and(self) -> _Tree:
        parts = self._separated(self._not, "and")
        return parts[0] if len(parts) == 1 else _Joined("and", parts)

    def _separated(self, part: Callable[[], _Tree], word: str) -> tuple[_Tree, ...]:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return tuple(parts)

    def _not(self) -> _Tree:
        negations = 0
        while self._take("not"):
            negations += 1
        tree = self._group() if self._take("(") else self._test()
        return _Joined("not", (tree,)) if negations % 2 else tree

    def _group(self) -> _Tree:
        tree = self._or()
        self._must("(", ")")
        return tree

    def _test(self) -> _Tree:
        left = self._operand()
        if isinstance(left, bool) and self._peek() not in _COMPARISONS:
            return left
        if isinstance(left, Column):
            return self._of_column(left)
        kind = _COMPARISONS.get(self._next())
        right = self._operand()
        if kind is None or not isinstance(right, Column):
            raise InexpressibleError("a comparison is of a column with a value")
        return _checked(_Test(_MIRRORED.get(kind, kind), right, (left,)))

    def _of_column(self, column: Column) -> _Tree:
        if self._take("is"):
            is_negated = self._take("not")
            self._must("is", "null")
            return _Test("not-null" if is_negated else "is-null", column)
        is_negated = self._take("not")
        if self._take("in"):
            return _negated(_checked(_Test("in", column, self._values())), is_negated)
        if self._take("like"):
            return _negated(_beginning(column, self._operand()), is_negated)
        if is_negated:
            raise InexpressibleError("NOT stands before something else")
        kind = _COMPARISONS.get(self._next())
        value = self._operand()
        if kind is None or isinstance(value, Column):
            raise InexpressibleError("a comparison is of a column with a value")
        return _checked(_Test(kind, column, (value,)))

    def _values(self) -> tuple[Any, ...]:
        self._must("in", "(")
        values = [self._operand()]
        while self._take(","):
            values.append(self._operand())
        self._must("in", ")")
        return tuple(values)

    def _operand(self) -> Any:
        token = self._token()
        word = token.text.lower()
        match token.kind:
            case "number":
                return int(token.text)
            case "text":
                return token.text[1:-1]
            case "name" if word in ("true", "false"):
                return word == "true"
            case "name" if word == "date" and self._peek_kind() == "text":
                return _date(self._token().text[1:-1])
            case "name" if word in ("current_user", "session_user", "user") and self._take("("):
                self._must("current_user", ")")
                return self._user
            case "name" if word not in _WORDS:
                return self._column(token.text)
            case _:
                raise InexpressibleError("a column or a value was expected")

    def _column(self, first: str) -> Column:
        parts = [first.strip("`")]
        while self._take("."):
            parts.append(self._token().text.strip("`"))
        name = ".".join(parts).lower()
        found = [column for column in self._columns if column.name.lower() == name]
        if len(found) != 1:
            raise InexpressibleError("a name is not that of one column")
        return found[0]

    def _token(self) -> _Token:
        if self._at >= len(self._tokens):
            raise InexpressibleError("the expression ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _next(self) -> str:
        return self._token().text

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _peek_kind(self) -> str:
        return self._tokens[self._at].kind if self._at < len(self._tokens) else ""

    def _take(self, text: str) -> bool:
        is_it = self._peek_kind() != "text" and self._peek().lower() == text
        self._at += is_it
        return is_it

    def _must(self, after: str, text: str) -> None:
        if not self._take(text):
            raise InexpressibleError(f"{text} was expected after {after}")


def _tokens(text: str) -> Iterator[_Token]:
    if len(text) > TEXT_LENGTH_MAX:
        raise InexpressibleError("the expression is too long")
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise InexpressibleError("the expression uses more than comparisons")
        at = match.end()
        yield _Token(match.lastgroup, match[match.lastgroup])


def _checked(test: _Test) -> _Test:
    """The test, if column and values are of one type and no engine sees their order differently."""
    kind = _KINDS.get(test.column.type)
    if kind is None or any(type(value) is not kind for value in test.values):
        raise InexpressibleError("a value is not of its column's type")
    if test.kind in ("lt", "lt-eq", "gt", "gt-eq") and test.column.type not in _ORDERED_TYPES:
        raise InexpressibleError("texts and booleans are not in the same order everywhere")
    return test


def _beginning(column: Column, pattern: Any) -> _Test:
    if column.type != "string" or not isinstance(pattern, str):
        raise InexpressibleError("LIKE is of a text")
    fixed = pattern.removesuffix("%")
    if fixed == pattern or not fixed or "%" in fixed or "_" in fixed:
        raise InexpressibleError("LIKE is of a beginning only")
    return _Test("starts-with", column, (fixed,))


def _negated(tree: _Tree, is_negated: bool) -> _Tree:
    return _Joined("not", (tree,)) if is_negated else tree


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InexpressibleError("a date is not one") from error


def _rendered(tree: _Tree, *, is_negated: bool) -> Json | bool:
    match tree:
        case bool():
            return tree != is_negated
        case _Joined("not", (inner,)):
            return _rendered(inner, is_negated=not is_negated)
        case _Joined(kind, parts):
            joined = {"and": "or", "or": "and"}[kind] if is_negated else kind
            rendered = [_rendered(part, is_negated=is_negated) for part in parts]
            return _folded(joined, rendered)
        case _Test():
            return _rendered_test(tree, _OPPOSITE[tree.kind] if is_negated else tree.kind)


def _folded(kind: str, parts: list[Json | bool]) -> Json | bool:
    whole = parts[-1]
    for part in reversed(parts[:-1]):
        whole = {"type": kind, "left": part, "right": whole}
    return whole


def _rendered_test(test: _Test, kind: str) -> Json:
    reference = {"type": "reference", "id": test.column.field_id}
    if kind in ("is-null", "not-null"):
        return {"type": kind, "child": reference}
    values = [value.isoformat() if isinstance(value, date) else value for value in test.values]
    if kind in ("in", "not-in"):
        compared: Json = {"type": kind, "child": reference, "values": values}
    else:
        compared = {"type": kind, "left": reference, "right": {"type": "literal", "value": values[0]}}
    return {"type": "and", "left": {"type": "not-null", "child": reference}, "right": compared}

"""Expressions of a given type over the columns in sight, as a seeded choice makes them.

They are deterministic: no value depends on the order of rows, and doubles are quarters, whose sums are exact.
"""

import random
from collections.abc import Callable

from oracle.scope import NUMBERS, SIMPLE, Scope, Type

DEPTH_MAX = 3
_TEXTS = ("EU", "US", "name-1", "name-3", "new", "paid", "click", "sku-3", "open", "x", "", "***-01", "001")
_ORDERED = (*NUMBERS, Type.TEXT, Type.DATE, Type.TIME)
_COMPARED = ("=", "<>", "<", "<=", ">", ">=", "<=>")


class Expressions:
    def __init__(self, choice: random.Random) -> None:
        self._choice = choice

    def any(self, scope: Scope, depth: int = 0) -> tuple[str, Type]:
        """Of one of the plain types, preferring those that the scope has columns of."""
        types = [column.type for column in scope.columns if column.type in SIMPLE]
        type_ = (
            self._choice.choice(types)
            if types and self._choice.random() < 0.8
            else self._choice.choice(SIMPLE)
        )
        return self.of(type_, scope, depth), type_

    def of(self, type_: Type, scope: Scope, depth: int = 0) -> str:
        column = scope.some(self._choice, type_)
        if column is not None and (depth >= DEPTH_MAX or self._choice.random() < 0.45):
            return column.name
        if depth >= DEPTH_MAX:
            return self.literal(type_)
        makers: dict[Type, Callable[[Scope, int], str]] = {
            Type.INT: self._int,
            Type.DECIMAL: self._decimal,
            Type.DOUBLE: self._double,
            Type.TEXT: self._text,
            Type.DATE: self._date,
            Type.TIME: self._time,
            Type.BOOL: self.predicate,
        }
        if type_ not in makers:
            raise KeyError(type_)
        return makers[type_](scope, depth + 1)

    def literal(self, type_: Type) -> str:
        number = self._choice.randrange(0, 40)
        return {
            Type.INT: str(number),
            Type.DECIMAL: f"{number}.50",
            Type.DOUBLE: f"{number / 4}D",
            Type.TEXT: f"'{self._choice.choice(_TEXTS)}'",
            Type.DATE: f"DATE '19{60 + number}-03-01'",
            Type.TIME: f"TIMESTAMP '2026-0{1 + number % 2}-0{1 + number % 7} 11:00:00'",
            Type.BOOL: self._choice.choice(("true", "false", "CAST(NULL AS BOOLEAN)")),
        }[type_]

    def predicate(self, scope: Scope, depth: int = 0) -> str:
        pick = self._choice.random()
        if depth < DEPTH_MAX and pick < 0.25:
            left, right = self.predicate(scope, depth + 1), self.predicate(scope, depth + 1)
            return self._choice.choice((f"({left} AND {right})", f"({left} OR {right})", f"(NOT {left})"))
        if pick < 0.35:
            return f"({self.any(scope, depth + 1)[0]} IS {self._choice.choice(('', 'NOT '))}NULL)"
        if pick < 0.45:
            text = self.of(Type.TEXT, scope, depth + 1)
            pattern = self._choice.choice(("%1", "name-%", "%s%", "_*%", "0%", "%EU%"))
            return f"({text} {self._choice.choice(('LIKE', 'NOT LIKE', 'ILIKE'))} '{pattern}')"
        type_ = self._comparable(scope)
        left = self.of(type_, scope, depth + 1)
        if pick < 0.55:
            values = ", ".join(self.literal(type_) for _ in range(3))
            return f"({left} {self._choice.choice(('IN', 'NOT IN'))} ({values}))"
        if pick < 0.62:
            return f"({left} NOT BETWEEN {self.literal(type_)} AND {self.of(type_, scope, depth + 1)})"
        right = self.literal(type_) if self._choice.random() < 0.6 else self.of(type_, scope, depth + 1)
        return f"({left} {self._choice.choice(_COMPARED)} {right})"

    def aggregate(self, scope: Scope) -> tuple[str, Type]:
        """An aggregate whose value does not depend on the order of rows."""
        pick = self._choice.random()
        if pick < 0.15:
            return f"count(*){self._only(scope)}", Type.INT
        if pick < 0.3:
            value, _ = self.any(scope, 1)
            return f"count({self._choice.choice(('', 'DISTINCT '))}{value}){self._only(scope)}", Type.INT
        if pick < 0.4:
            return f"bool_{self._choice.choice(('and', 'or'))}({self.predicate(scope, 2)})", Type.BOOL
        if pick < 0.5:
            return f"array_join(array_sort(collect_set({self.of(Type.TEXT, scope, 1)})), '|')", Type.TEXT
        if pick < 0.6:
            text = self.of(Type.TEXT, scope, 1)
            return f"array_join(sort_array(collect_list({text}), false), ',')", Type.TEXT
        if pick < 0.8:
            type_ = self._comparable(scope)
            return (
                f"{self._choice.choice(('min', 'max'))}({self.of(type_, scope, 1)}){self._only(scope)}",
                type_,
            )
        number = self._choice.choice(NUMBERS)
        value = self.of(number, scope, 2)
        if pick < 0.85:
            return f"CAST(round(avg({value}), 3) AS DOUBLE)", Type.DOUBLE
        if pick < 0.9:
            return f"max_by({self.of(Type.TEXT, scope, 2)}, struct({self._key(scope)}))", Type.TEXT
        return f"try_sum({value}){self._only(scope)}", number

    def _only(self, scope: Scope) -> str:
        return f" FILTER (WHERE {self.predicate(scope, 2)})" if self._choice.random() < 0.2 else ""

    def _key(self, scope: Scope) -> str:
        """Every plain column: equal keys mean equal rows, as far as the other columns go."""
        return ", ".join(column.name for column in scope.of(*SIMPLE)) or "1"

    def _comparable(self, scope: Scope) -> Type:
        types = [column.type for column in scope.columns if column.type in _ORDERED]
        return self._choice.choice(types) if types else Type.INT

    def _one(self, *made: str) -> str:
        return self._choice.choice(made)

    def _case(self, type_: Type, scope: Scope, depth: int) -> str:
        return (
            f"CASE WHEN {self.predicate(scope, depth + 1)} THEN {self.of(type_, scope, depth)} "
            f"ELSE {self.of(type_, scope, depth)} END"
        )

    def _int(self, scope: Scope, depth: int) -> str:
        made = [
            f"({self.of(Type.INT, scope, depth)} {self._one('+', '-', '%')} {self._choice.randrange(2, 9)})",
            f"coalesce({self.of(Type.INT, scope, depth)}, {self.literal(Type.INT)})",
            f"length({self.of(Type.TEXT, scope, depth)})",
            f"year({self.of(Type.DATE, scope, depth)})",
            f"abs(hash({self.any(scope, depth)[0]}) % 97)",
            f"CAST(floor({self.of(Type.DOUBLE, scope, depth)}) AS INT)",
            self._case(Type.INT, scope, depth),
        ]
        if column := scope.some(self._choice, Type.TEXTS, Type.ITEMS, Type.MAP):
            made += [f"size({column.name})"] * 3
        if column := scope.some(self._choice, Type.ITEMS):
            name = column.name
            made += [f"aggregate(transform({name}, i -> i.qty), 0, (a, b) -> a + b)", f"{name}[0].qty"][
                :1
            ] * 2
        return self._choice.choice(made)

    def _decimal(self, scope: Scope, depth: int) -> str:
        return self._one(
            f"CAST({self.of(Type.DECIMAL, scope, depth)} + {self.literal(Type.DECIMAL)} AS DECIMAL(20,2))",
            f"round({self.of(Type.DECIMAL, scope, depth)}, 0)",
            f"CAST({self.of(Type.INT, scope, depth)} AS DECIMAL(12,2))",
            f"try_divide({self.of(Type.DECIMAL, scope, depth)}, {self._choice.randrange(1, 5)})",
            self._case(Type.DECIMAL, scope, depth),
        )

    def _double(self, scope: Scope, depth: int) -> str:
        made = [
            f"({self.of(Type.DOUBLE, scope, depth)} / {self._one('2', '4')})",
            f"CAST({self.of(Type.INT, scope, depth)} AS DOUBLE)",
            f"nullif({self.of(Type.DOUBLE, scope, depth)}, {self.literal(Type.DOUBLE)})",
        ]
        if column := scope.some(self._choice, Type.HOME):
            made += [f"{column.name}.geo.lat", f"{column.name}.geo.lon"]
        return self._choice.choice(made)

    def _text(self, scope: Scope, depth: int) -> str:
        text = self.of(Type.TEXT, scope, depth)
        made = [
            f"concat({text}, '-', {self.of(Type.TEXT, scope, depth)})",
            f"{self._one('upper', 'lower', 'reverse', 'trim', 'md5')}({text})",
            f"substring({text}, {self._choice.randrange(1, 4)}, {self._choice.randrange(1, 6)})",
            f"coalesce({text}, {self.literal(Type.TEXT)})",
            f"CAST({self.any(scope, depth)[0]} AS STRING)",
            f"regexp_replace({text}, '[0-9]+', '#')",
            self._case(Type.TEXT, scope, depth),
        ]
        if column := scope.some(self._choice, Type.HOME):
            made += [f"{column.name}.city", f"to_json({column.name})"] * 2
        if column := scope.some(self._choice, Type.TEXTS):
            made += [f"array_join({column.name}, '+')", f"try_element_at({column.name}, 1)"]
        if column := scope.some(self._choice, Type.MAP):
            made += [f"{column.name}['channel']", f"array_join(array_sort(map_keys({column.name})), ' ')"]
        if column := scope.some(self._choice, Type.ITEMS):
            made += [f"array_join(transform({column.name}, i -> i.sku), '/')"]
        return self._choice.choice(made)

    def _date(self, scope: Scope, depth: int) -> str:
        return self._one(
            f"date_add({self.of(Type.DATE, scope, depth)}, {self._choice.randrange(0, 400)})",
            f"CAST({self.of(Type.TIME, scope, depth)} AS DATE)",
            f"coalesce({self.of(Type.DATE, scope, depth)}, {self.literal(Type.DATE)})",
        )

    def _time(self, scope: Scope, depth: int) -> str:
        return self._one(
            f"date_trunc('{self._one('DAY', 'HOUR', 'MONTH')}', {self.of(Type.TIME, scope, depth)})",
            f"({self.of(Type.TIME, scope, depth)} + INTERVAL '{self._choice.randrange(1, 40)}' HOUR)",
            f"CAST({self.of(Type.DATE, scope, depth)} AS TIMESTAMP)",
        )

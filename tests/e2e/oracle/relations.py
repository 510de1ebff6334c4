"""What may stand after FROM: tables of now and of then, views, subqueries, joins, laterals, pivots."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from oracle.expressions import Expressions
from oracle.scope import HISTORY, LINKS, SIMPLE, TABLES, VIEWS, Column, Query, Scope, Type, aliased

_BASES = ("people", "people", "orders", "orders", "events", "events", "products", "regions", *sorted(VIEWS))


@dataclass(frozen=True, slots=True)
class From:
    """The text after FROM, and what can be named because of it."""

    text: str
    scope: Scope


class Relations:
    """`subquery` makes a whole query, one level deeper."""

    def __init__(
        self, choice: random.Random, expressions: Expressions, subquery: Callable[[int], Query]
    ) -> None:
        self._choice = choice
        self._expressions = expressions
        self._subquery = subquery
        self._aliases = 0
        self.named: dict[str, Query] = {}
        """Queries of a WITH clause that may be read."""

    def alias(self) -> str:
        self._aliases += 1
        return f"r{self._aliases}"

    def base(self, table: str | None = None) -> From:
        """One table or view under an alias, sometimes an older version of it."""
        table = table or self._choice.choice(_BASES)
        alias = self.alias()
        return From(f"{self._version(table)} AS {alias}", aliased(TABLES[table], alias))

    def any(self, depth: int) -> From:
        pick = self._choice.random()
        if self.named and pick < 0.6:
            name = self._choice.choice(sorted(self.named))
            return self._called(name, self.named[name].columns)
        if depth < 2 and pick < 0.25:
            query = self._subquery(depth + 1)
            return self._called(f"({query.text})", query.columns)
        if pick < 0.3:
            return self._values()
        return self.base()

    def joined(self, depth: int) -> From:
        """Up to three relations, the first two by columns that belong together where there are such."""
        kind = self._choice.random()
        if kind < 0.45:
            left = self.any(depth)
            return self._with_lateral(left) if self._choice.random() < 0.15 else left
        if kind < 0.85:
            return self._linked()
        return self._loose(depth)

    def _called(self, text: str, columns: tuple[Column, ...]) -> From:
        alias = self.alias()
        return From(f"{text} AS {alias}", aliased(columns, alias))

    def _version(self, table: str) -> str:
        if table not in HISTORY or self._choice.random() > 0.2:
            return table
        number = self._choice.randrange(HISTORY[table])
        ways = [f"{table} VERSION AS OF {{snapshot_{table}_{number}}}"] * 2
        ways += [
            f"{table} TIMESTAMP AS OF '{{time_{table}_{number}}}'",
            f"{{schema}}.{table}.snapshot_id_{{snapshot_{table}_{number}}}",
        ]
        if table == "events":
            ways += ["events VERSION AS OF 'side'", "{schema}.events.branch_side"]
        if table == "people":
            ways += ["people VERSION AS OF 'hired'", "{schema}.people.tag_hired"]
        return self._choice.choice(ways)

    def _values(self) -> From:
        alias = self.alias()
        rows = "(1, 'EU', 1.5D), (2, 'US', 2.5D), (3, NULL, CAST(NULL AS DOUBLE)), (5, 'name-1', 0.25D)"
        columns = (Column("n", Type.INT), Column("word", Type.TEXT), Column("share", Type.DOUBLE))
        return From(f"(VALUES {rows}) AS {alias}(n, word, share)", aliased(columns, alias))

    def _linked(self) -> From:
        (left, right), (a, b) = self._choice.choice(sorted(LINKS.items()))
        first, second = self.base(left), self.base(right)
        if self._choice.random() < 0.5:
            first, second, a, b = second, first, b, a
        on = f"{_alias(first)}.{a} = {_alias(second)}.{b}"
        if self._choice.random() < 0.4:
            on = f"{on} AND {self._expressions.predicate(first.scope + second.scope, 2)}"
        how = self._choice.choice(
            ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
        )
        scope = first.scope if "SEMI" in how or "ANTI" in how else first.scope + second.scope
        joined = From(f"{first.text} {how} {second.text} ON {on}", scope)
        if self._choice.random() < 0.25 and scope.has(Type.TEXT):
            third = self.base("regions")
            text = scope.some(self._choice, Type.TEXT)
            on = f"{_alias(third)}.code = {text.name if text else 'NULL'}"
            return From(f"{joined.text} LEFT JOIN {third.text} ON {on}", scope + third.scope)
        return joined

    def _loose(self, depth: int) -> From:
        first, second = self.any(depth), self.any(depth)
        scope = first.scope + second.scope
        if self._choice.random() < 0.3:
            return From(f"{first.text} CROSS JOIN {second.text}", scope)
        on = self._expressions.predicate(scope, 1)
        return From(f"{first.text} {self._choice.choice(('JOIN', 'LEFT JOIN'))} {second.text} ON {on}", scope)

    def _with_lateral(self, left: From) -> From:
        alias = self.alias()
        if (items := left.scope.some(self._choice, Type.ITEMS)) is not None:
            columns = (Column("sku", Type.TEXT), Column("qty", Type.INT))
            outer = self._choice.choice(("", "OUTER "))
            text = f"{left.text} LATERAL VIEW {outer}inline({items.name}) {alias} AS sku, qty"
            return From(text, left.scope + aliased(columns, alias))
        if (texts := left.scope.some(self._choice, Type.TEXTS)) is not None:
            columns = (Column("place", Type.INT), Column("tag", Type.TEXT))
            text = f"{left.text}, LATERAL posexplode({texts.name}) AS {alias}(place, tag)"
            return From(text, left.scope + aliased(columns, alias))
        if (number := left.scope.some(self._choice, Type.INT)) is not None:
            inner = self.base(self._choice.choice(("orders", "events")))
            where = f"{_alias(inner)}.person_id = {number.name}"
            query = (
                f"SELECT count(*) AS times, max({_alias(inner)}.id) AS last FROM {inner.text} WHERE {where}"
            )
            columns = (Column("times", Type.INT), Column("last", Type.INT))
            return From(f"{left.text}, LATERAL ({query}) AS {alias}", left.scope + aliased(columns, alias))
        return left

    def pivot(self) -> From:
        """Rows of events turned into columns."""
        alias = self.alias()
        inner = f"(SELECT person_id, kind, weight FROM {self._version('events')})"
        pivoted = f"{inner} PIVOT (sum(weight) AS w, count(weight) AS n FOR kind IN ('click', 'sale'))"
        text = f"(SELECT * FROM {pivoted}) AS {alias}"
        columns = ("person_id", "click_w", "click_n", "sale_w", "sale_n")
        return From(text, aliased(tuple(Column(name, Type.INT) for name in columns), alias))

    def unpivot(self) -> From:
        """Columns of people turned into rows."""
        alias = self.alias()
        inner = f"(SELECT id, name, email, ssn, phone, notes, badge FROM {self._version('people')})"
        nulls = self._choice.choice(("INCLUDE NULLS ", "EXCLUDE NULLS ", ""))
        text = (
            f"{inner} UNPIVOT {nulls}(word FOR field IN (name, email, ssn, phone, notes, badge)) AS {alias}"
        )
        columns = (Column("id", Type.INT), Column("field", Type.TEXT), Column("word", Type.TEXT))
        return From(text, aliased(columns, alias))


def plain(scope: Scope) -> list[Column]:
    return scope.of(*SIMPLE)


def _alias(relation: From) -> str:
    return relation.scope.columns[0].name.split(".")[0]

"""Whole queries, made by a seed: the same seed gives the same texts everywhere."""

import random
from dataclasses import dataclass

from oracle.expressions import Expressions
from oracle.relations import From, Relations
from oracle.scope import SIMPLE, Column, Query, Scope, Type, aliased

COLUMNS_MAX = 5


@dataclass(frozen=True, slots=True)
class Generated:
    """Statements to run in order; the last one gives the rows."""

    number: int
    shape: str
    statements: tuple[str, ...]
    is_ordered: bool = False

    @property
    def is_one_query(self) -> bool:
        return len(self.statements) == 1


class Generator:
    """One query: use a new one for each number."""

    def __init__(self, seed: int, number: int) -> None:
        self._number = number
        self._own = f"{{own}}.made_{seed}_{number}"
        self._choice = random.Random(seed * 1_000_003 + number)
        self._expressions = Expressions(self._choice)
        self._relations = Relations(self._choice, self._expressions, self._body)

    def generate(self) -> Generated:
        shapes = {
            "select": 14, "aggregate": 14, "window": 8, "set": 8, "with": 10, "correlated": 12, "pivot": 3,
            "unpivot": 3, "pipe": 8, "whole": 5, "limit": 8, "change": 4, "failing": 2,
        }  # fmt: skip
        shape = self._choice.choices(list(shapes), list(shapes.values()))[0]
        match shape:
            case "change":
                return Generated(self._number, shape, self._change())
            case "limit":
                return Generated(self._number, shape, (self._limited(),), is_ordered=True)
            case _:
                return Generated(self._number, shape, (self._query(shape).text,))

    def _query(self, shape: str) -> Query:
        match shape:
            case "select":
                return self._select(self._relations.joined(0))
            case "aggregate":
                return self._aggregate(self._relations.joined(0))
            case "window":
                return self._window(self._relations.joined(0))
            case "set":
                return self._set()
            case "with":
                return self._with()
            case "correlated":
                return self._correlated()
            case "pivot":
                return self._body_of(self._relations.pivot())
            case "unpivot":
                return self._body_of(self._relations.unpivot())
            case "pipe":
                return self._pipe()
            case "whole":
                return self._whole()
            case "failing":
                return self._failing()
        raise KeyError(shape)

    def _body(self, depth: int) -> Query:
        return self._body_of(self._relations.joined(depth))

    def _body_of(self, relation: From) -> Query:
        pick = self._choice.random()
        if pick < 0.5:
            return self._select(relation)
        return self._aggregate(relation) if pick < 0.8 else self._window(relation)

    def _where(self, scope: Scope) -> str:
        return f" WHERE {self._expressions.predicate(scope)}" if self._choice.random() < 0.6 else ""

    def _select(self, relation: From, where: str | None = None) -> Query:
        chosen = [
            self._expressions.any(relation.scope) for _ in range(self._choice.randrange(1, COLUMNS_MAX))
        ]
        distinct = "DISTINCT " if self._choice.random() < 0.15 else ""
        listed, columns = _listed(chosen)
        where = self._where(relation.scope) if where is None else where
        return Query(f"SELECT {distinct}{listed} FROM {relation.text}{where}", columns)

    def _aggregate(self, relation: From) -> Query:
        scope = relation.scope
        keys = [self._expressions.any(scope, 2) for _ in range(self._choice.randrange(0, 3))]
        made = [self._expressions.aggregate(scope) for _ in range(self._choice.randrange(1, 4))]
        listed, columns = _listed([*keys, *made])
        text = f"SELECT {listed} FROM {relation.text}{self._where(scope)}"
        if keys:
            by = [str(number + 1) for number in range(len(keys))]
            text = f"{text} GROUP BY {self._grouping(by)}"
            if self._choice.random() < 0.25:
                conditions = ("count(*) > 1", "count(*) < 4", f"{made[0][0]} IS NOT NULL")
                text = f"{text} HAVING {self._choice.choice(conditions)}"
        return Query(text, columns)

    def _grouping(self, by: list[str]) -> str:
        pick = self._choice.random()
        if pick < 0.6:
            return ", ".join(by)
        if pick < 0.75:
            return f"ROLLUP ({', '.join(by)})"
        if pick < 0.9:
            return f"CUBE ({', '.join(by)})"
        return f"GROUPING SETS (({', '.join(by)}), ({by[0]}), ())"

    def _window(self, relation: From) -> Query:
        scope = relation.scope
        order = ", ".join(column.name for column in scope.of(*SIMPLE)) or "1"
        by = self._expressions.any(scope, 2)[0]
        number, text = self._expressions.of(Type.INT, scope, 2), self._expressions.of(Type.TEXT, scope, 2)
        over = f"OVER (PARTITION BY {by} ORDER BY {order})"
        frame = f"OVER (PARTITION BY {by} ORDER BY {order} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)"
        made = self._choice.sample(
            [
                (f"rank() {over}", Type.INT),
                (f"dense_rank() OVER (ORDER BY {by})", Type.INT),
                (f"try_sum({number}) {frame}", Type.INT),
                (f"count(*) OVER (PARTITION BY {by})", Type.INT),
                (f"max({text}) OVER (PARTITION BY {by})", Type.TEXT),
                (f"lag({text}) {over}", Type.TEXT),
                (f"first_value({number}) {over}", Type.INT),
                (f"CAST(round(percent_rank() {over}, 4) AS DOUBLE)", Type.DOUBLE),
            ],
            2,
        )
        listed, columns = _listed([self._expressions.any(scope, 2), *made])
        return Query(f"SELECT {listed} FROM {relation.text}{self._where(scope)}", columns)

    def _set(self) -> Query:
        types = [self._choice.choice((Type.INT, Type.TEXT, Type.TEXT, Type.DECIMAL)) for _ in range(2)]
        parts = []
        for _ in range(self._choice.randrange(2, 4)):
            relation = self._relations.joined(1)
            chosen = [
                (self._cast(self._expressions.of(type_, relation.scope, 1), type_), type_) for type_ in types
            ]
            listed, columns = _listed(chosen)
            parts.append(f"SELECT {listed} FROM {relation.text}{self._where(relation.scope)}")
        how = self._choice.choice(
            ("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
        )
        return Query(f" {how} ".join(f"({part})" for part in parts), columns)

    def _with(self) -> Query:
        names = []
        for number in range(self._choice.randrange(1, 3)):
            query = self._body(1)
            names.append(f"w{number} AS ({query.text})")
            self._relations.named[f"w{number}"] = query
        body = self._body_of(self._relations.joined(0))
        return Query(f"WITH {', '.join(names)} {body.text}", body.columns)

    def _correlated(self) -> Query:
        outer = self._relations.base(self._choice.choice(("people", "orders", "events", "open_orders")))
        inner = self._relations.base(self._choice.choice(("people", "orders", "events", "over_view")))
        mine, theirs = _person(outer), _person(inner)
        link = f"{theirs} = {mine}"
        extra = self._expressions.predicate(inner.scope, 2)
        column = self._choice.choice(inner.scope.of(*SIMPLE)).name
        number = inner.scope.some(self._choice, Type.INT, Type.DECIMAL)
        scalar = f"(SELECT max({column}) FROM {inner.text} WHERE {link})"
        exists = f"EXISTS (SELECT 1 FROM {inner.text} WHERE {link} AND {extra})"
        ways = (
            exists,
            f"NOT {exists}",
            f"{mine} IN (SELECT {theirs} FROM {inner.text} WHERE {extra})",
            f"{mine} NOT IN (SELECT {theirs} FROM {inner.text} WHERE {theirs} IS NOT NULL AND {extra})",
            f"{mine} > (SELECT avg({number.name if number else '1'}) FROM {inner.text} WHERE {extra})",
        )
        where = f" WHERE {self._choice.choice(ways)}"
        query = self._select(outer, where)
        if self._choice.random() < 0.4:
            listed, columns = _listed([(scalar, Type.TEXT), self._expressions.any(outer.scope)])
            return Query(f"SELECT {listed} FROM {outer.text}", columns)
        return query

    def _pipe(self) -> Query:
        relation = self._relations.base()
        scope, text = relation.scope, f"FROM {relation.text}"
        if self._choice.random() < 0.7:
            text = f"{text} |> WHERE {self._expressions.predicate(scope, 1)}"
        if self._choice.random() < 0.4:
            extended, type_ = self._expressions.any(scope, 1)
            text = f"{text} |> EXTEND {extended} AS extended"
            scope = Scope((*scope.columns, Column("extended", type_)))
        if self._choice.random() < 0.5:
            key, made = self._expressions.any(scope, 1), self._expressions.aggregate(scope)
            columns = (Column("c0", key[1]), Column("c1", made[1]))
            return Query(f"{text} |> AGGREGATE {made[0]} AS c1 GROUP BY {key[0]} AS c0", columns)
        listed, made_columns = _listed([self._expressions.any(scope, 1) for _ in range(3)])
        return Query(f"{text} |> SELECT {listed} |> DROP c1", (made_columns[0], made_columns[2]))

    def _whole(self) -> Query:
        """All columns of a table as they are, complex ones too."""
        relation = self._relations.base()
        return Query(f"SELECT * FROM {relation.text}{self._where(relation.scope)}", relation.scope.columns)

    def _limited(self) -> str:
        query = self._body(0)
        places = ", ".join(str(number + 1) for number in range(len(query.columns)))
        count, skipped = self._choice.randrange(1, 12), self._choice.randrange(0, 4)
        order = self._choice.choice(
            (places, ", ".join(f"{place} DESC NULLS LAST" for place in places.split(", ")))
        )
        return f"SELECT * FROM ({query.text}) ORDER BY {order} LIMIT {count} OFFSET {skipped}"

    def _failing(self) -> Query:
        """Something that some rows break, where every row is looked at."""
        relation = self._relations.base(self._choice.choice(("people", "orders", "events")))
        text, number = self._expressions.of(Type.TEXT, relation.scope, 2), relation.scope.of(Type.INT)[0].name
        value = self._choice.choice(
            (
                f"CAST({text} AS INT)",
                f"10 / ({number} - {self._choice.randrange(1, 20)})",
                f"array(1, 2, 3)[{number}]",
                f"CAST({text} AS DATE)",
            )
        )
        return Query(f"SELECT {number} AS c0, {value} AS c1 FROM {relation.text}", (Column("c0", Type.INT),))

    def _change(self) -> tuple[str, ...]:
        """Rows that go into a table of one's own."""
        own = self._own
        query, more = self._body(0), self._relations.base("people")
        renamed = ", ".join(f"{column.name} AS {column.name}" for column in query.columns)
        made = f"CREATE TABLE {own} AS SELECT {renamed} FROM ({query.text})"
        first = query.columns[0]
        other = self._expressions.literal(first.type)
        value = self._expressions.of(first.type, aliased(query.columns, "t"), 2)
        people = f"SELECT {more.scope.columns[0].name} FROM {more.text}{self._where(more.scope)}"
        changes = (
            f"INSERT INTO {own} SELECT * FROM ({query.text})",
            f"DELETE FROM {own} AS t WHERE length(CAST(t.c0 AS STRING)) IN ({people})",
            f"MERGE INTO {own} AS t USING ({people}) AS p "
            f"ON t.c0 IS NULL AND length(CAST(t.c0 AS STRING)) = 1 "
            f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (c0) VALUES ({other})",
            f"UPDATE {own} AS t SET c0 = {value} WHERE (SELECT count(*) FROM ({people})) > 5",
            f"INSERT OVERWRITE {own} SELECT * FROM ({query.text}) LIMIT 0",
        )
        return made, self._choice.choice(changes), f"SELECT * FROM {own}"

    def _cast(self, text: str, type_: Type) -> str:
        return {Type.INT: f"CAST({text} AS BIGINT)", Type.DECIMAL: f"CAST({text} AS DECIMAL(20,2))"}.get(
            type_, text
        )


def _listed(chosen: list[tuple[str, Type]]) -> tuple[str, tuple[Column, ...]]:
    listed = ", ".join(f"{text} AS c{number}" for number, (text, _) in enumerate(chosen))
    return listed, tuple(Column(f"c{number}", type_) for number, (_, type_) in enumerate(chosen))


def _person(relation: From) -> str:
    """The column that says which person a row is about."""
    names = [column.name for column in relation.scope.columns]
    return next((name for name in names if name.endswith(".person_id")), names[0])


def queries(seed: int, count: int) -> list[Generated]:
    return [Generator(seed, number).generate() for number in range(count)]

"""Takes the steps that `frame_form` describes, as calls of PySpark. Runs inside the client's environment."""

import contextlib
import io
import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as f

Named = dict[str, Any]


def built(spark: Any, steps: list[list[Any]], named: Named | None = None) -> Any:
    """The DataFrame that the steps make, or what the last of them gave instead of one."""
    known = dict(named or {})
    made: Any = None
    for kind, *arguments in steps:
        if kind == "with":
            known[arguments[0]] = built(spark, arguments[1], known)
        elif kind in _SOURCES:
            made = _SOURCES[kind](spark, known, *arguments)
        elif kind in _COMBINING:
            made = _COMBINING[kind](made, built(spark, arguments.pop(_OTHER[kind]), known), *arguments)
        elif kind == "generated":
            made = _generated(spark, made, *arguments)
        else:
            made = _STEPS[kind](made, *arguments)
    return made


def _table(spark: Any, known: Named, name: str, options: dict[str, str]) -> Any:
    if name in known:
        return known[name]
    if not options:
        return spark.table(name)
    return spark.read.options(**options).table(name)


def _numbers(spark: Any, known: Named, count: int) -> Any:
    return spark.range(count)


def _values(spark: Any, known: Named, rows: list[str]) -> Any:
    structs = ", ".join(f"struct({row})" for row in rows)
    return spark.range(1).select(f.expr(f"inline(array({structs}))"))


def _joined(frame: Any, other: Any, condition: Any, how: str) -> Any:
    if condition is None:
        return frame.crossJoin(other)
    return frame.join(other, f.expr(condition) if isinstance(condition, str) else condition, how)


def _in_a_set(frame: Any, other: Any, way: str) -> Any:
    return getattr(frame, way)(other)


def _generated(
    spark: Any, frame: Any, function: str, argument: str, alias: str | None, names: list[str]
) -> Any:
    """A generator over the rows to its left."""
    made = getattr(spark.tvf, function)(f.expr(argument).outer())
    made = made.toDF(*names) if names else made
    return frame.lateralJoin(made.alias(alias) if alias else made)


def _grouped(
    frame: Any,
    way: str,
    keys: list[int],
    sets: list[list[int]] | None,
    items: list[str],
    having: str | None,
) -> Any:
    # A number that is a key would be taken for a place, so keys are columns first.
    keyed = frame.select("*", *(f.expr(items[place]).alias(f"key{place}") for place in keys))
    by = {place: f.col(f"key{place}") for place in keys}
    counted = [f.expr(item).alias(f"c{place}") for place, item in enumerate(items) if place not in by]
    kept = [f.expr(having).alias("is_kept")] if having else []
    if sets is None:
        groups = getattr(keyed, way)(*by.values())
    else:
        groups = keyed.groupingSets([[by[place] for place in one] for one in sets], *by.values())
    made = groups.agg(*counted, *(kept or [f.lit(True).alias("is_kept")])).filter("is_kept")
    return made.select(*(by.get(place, f.col(f"c{place}")).alias(f"c{place}") for place in range(len(items))))


def _ordered(frame: Any, by: list[list[str]]) -> Any:
    columns = frame.columns
    named = [(f.col(columns[int(said) - 1]) if said.isdigit() else f.expr(said), way) for said, way in by]
    return frame.orderBy(*(getattr(column, way)() for column, way in named))


def _pivoted(frame: Any, column: str, values: list[str], aggregates: list[str]) -> Any:
    used = " ".join([column, *aggregates])
    return (
        frame.groupBy(*(name for name in frame.columns if name not in used))
        .pivot(column, values)
        .agg(*(f.expr(aggregate) for aggregate in aggregates))
    )


def _unpivoted(frame: Any, columns: list[str], field: str, value: str, keeps_nulls: bool) -> Any:
    kept = [name for name in frame.columns if name not in columns]
    made = frame.unpivot(kept, columns, field, value)
    return made if keeps_nulls else made.filter(f.col(value).isNotNull())


def _explained(frame: Any, mode: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        frame.explain(mode)
    return said.getvalue()


def _merged(frame: Any, table: str, alias: str, condition: str, changes: list[list[Any]]) -> Any:
    """A frame cannot give its target another name, so the text's own is put in its place."""

    def said(text: str) -> Any:
        return f.expr(re.sub(rf"\b{alias}\.", f"{table}.", text))

    writer = frame.mergeInto(table, said(condition))
    for when, condition_of, action, columns in changes:
        clause = getattr(writer, when)(*([said(condition_of)] if condition_of else []))
        given = [{name: said(value) for name, value in columns.items()}] if columns else []
        writer = getattr(clause, action)(*given)
    return writer.merge()


def _inserted(frame: Any, name: str, mode: str) -> None:
    frame.write.mode(mode).insertInto(name)


_SOURCES: dict[str, Callable[..., Any]] = {
    "table": _table,
    "range": _numbers,
    "values": _values,
}
_COMBINING: dict[str, Callable[..., Any]] = {
    "join": _joined,
    "set": _in_a_set,
    "lateral": lambda frame, other: frame.lateralJoin(other),
}
_OTHER = {"join": 0, "set": 1, "lateral": 0}
"""Which of the arguments are the steps of the other frame."""
_STEPS: dict[str, Callable[..., Any]] = {
    "alias": lambda frame, name: frame.alias(name),
    "where": lambda frame, text: frame.filter(f.expr(text)),
    "select": lambda frame, items: frame.select(*(f.expr(item) for item in items)),
    "distinct": lambda frame: frame.distinct(),
    "drop": lambda frame, names: frame.drop(*names),
    "renamed": lambda frame, names: frame.toDF(*names),
    "limit": lambda frame, count: frame.limit(count),
    "offset": lambda frame, count: frame.offset(count),
    "sample": lambda frame, share, seed: frame.sample(fraction=share, seed=seed),
    "group": _grouped,
    "order": _ordered,
    "pivot": _pivoted,
    "unpivot": _unpivoted,
    "explain": _explained,
    "create": lambda frame, name: frame.writeTo(name).create(),
    "insert": _inserted,
    "merge": _merged,
}  # fmt: skip

"""The DataFrame that a query's text means: steps for a client to take, or the reason why there are none.

It reads as much of SQL as the governance corpora use. What stands inside of an expression stays text, which a
client hands on by `expr`.
"""

import re
from typing import Any

from spark_connect.query_text import Reading

Step = list[Any]
Steps = list[Step]

_JOINS = {
    ("JOIN",): "inner",
    ("INNER", "JOIN"): "inner",
    ("LEFT", "JOIN"): "left",
    ("RIGHT", "JOIN"): "right",
    ("FULL", "JOIN"): "full",
    ("LEFT", "SEMI", "JOIN"): "left_semi",
    ("LEFT", "ANTI", "JOIN"): "left_anti",
    ("CROSS", "JOIN"): "cross",
}
_SETS = {
    ("UNION", "ALL"): ["union"],
    ("UNION",): ["union", "distinct"],
    ("EXCEPT", "ALL"): ["exceptAll"],
    ("EXCEPT",): ["subtract"],
    ("INTERSECT", "ALL"): ["intersectAll"],
    ("INTERSECT",): ["intersect"],
}
_VERSIONS = {
    ("VERSION", "AS", "OF"): "versionAsOf",
    ("FOR", "SYSTEM_VERSION", "AS", "OF"): "versionAsOf",
    ("TIMESTAMP", "AS", "OF"): "timestampAsOf",
    ("FOR", "SYSTEM_TIME", "AS", "OF"): "timestampAsOf",
}
_AFTER = frozenset({"ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "|>"})
_CLAUSES = frozenset({"WHERE", "GROUP", "HAVING", *_AFTER})
_JOINING = frozenset({"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "LATERAL", ",", "ON"})
_NO_ALIAS = frozenset({*_CLAUSES, *_JOINING, "USING", "PIVOT", "UNPIVOT", "TABLESAMPLE", "WITH", ""})
_ALIASED = re.compile(r"^(.*\S)\s+AS\s+(\w+)$", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_TEXT = re.compile(r"'([^']*)'")


class NoFrameError(Exception):
    """Says why the DataFrame API has no words for a text."""


def frame_of(text: str) -> Steps:
    reading = Reading(text.strip().rstrip(";"))
    steps = _query(reading)
    if not reading.is_at_end:
        raise NoFrameError(f"{reading.peek()} is said by SQL only")
    return steps


def _query(reading: Reading) -> Steps:
    steps: Steps = []
    if reading.take("WITH"):
        if reading.take("RECURSIVE"):
            raise NoFrameError("a recursive query is said by SQL only")
        steps.append(_named(reading))
        while reading.take(","):
            steps.append(_named(reading))
    steps += _term(reading)
    while (way := _taken(reading, _SETS)) is not None:
        steps.append(["set", way[0], _term(reading)])
        steps += [[more] for more in way[1:]]
    return steps + _ordered(reading)


def _named(reading: Reading) -> Step:
    name = reading.one()
    reading.take("AS")
    return ["with", name, frame_of(reading.one())]


def _taken(reading: Reading, ways: dict[tuple[str, ...], Any]) -> Any:
    return next((way for spelled, way in ways.items() if reading.take(*spelled)), None)


def _term(reading: Reading) -> Steps:
    if reading.peek() == "(":
        return frame_of(reading.one())
    if reading.take("TABLE"):
        return [["table", reading.name(), {}]]
    if reading.take("FROM"):
        return _piped(reading)
    if reading.take("SELECT"):
        return _selected(reading)
    raise NoFrameError(f"{reading.peek()} is said by SQL only")


def _selected(reading: Reading) -> Steps:
    if reading.peek().startswith("/*+"):
        raise NoFrameError("a hint that names relations is said by SQL only")
    is_distinct = reading.take("DISTINCT")
    items = reading.listed({"FROM", *_CLAUSES})
    steps = relation(reading) if reading.take("FROM") else [["range", 1]]
    if reading.take("WHERE"):
        steps.append(["where", reading.upto({"GROUP", "HAVING", *_AFTER})])
    if reading.take("GROUP", "BY"):
        steps.append(_grouped(reading, items))
    elif reading.peek() == "HAVING":
        raise NoFrameError("HAVING without groups is said by SQL only")
    else:
        steps.append(["select", items])
    return [*steps, ["distinct"]] if is_distinct else steps


def _grouped(reading: Reading, items: list[str]) -> Step:
    """`["group", way, keys, sets, items, having]`: keys are places in `items`."""
    way, sets = "groupBy", None
    if reading.take("ROLLUP"):
        way, places = "rollup", reading.one().split(",")
    elif reading.take("CUBE"):
        way, places = "cube", reading.one().split(",")
    elif reading.take("GROUPING", "SETS"):
        way = "groupingSets"
        sets = [[part for part in one.split(",") if part.strip()] for one in _groups(reading.one())]
        places = sets[0]
    else:
        places = reading.listed({"HAVING", *_AFTER})
    having = reading.upto(_AFTER) if reading.take("HAVING") else None
    keys = [_place(place, items) for place in places]
    among = [[_place(place, items) for place in one] for one in sets] if sets is not None else None
    return ["group", way, keys, among, [_unnamed(item) for item in items], having]


def _groups(text: str) -> list[str]:
    reading = Reading(text)
    found = [reading.one()]
    while reading.take(","):
        found.append(reading.one())
    return found


def _place(said: str, items: list[str]) -> int:
    said = said.strip()
    if _NUMBER.fullmatch(said):
        return int(said) - 1
    if said not in items:
        raise NoFrameError("groups that are not listed are said by SQL only")
    return items.index(said)


def _unnamed(item: str) -> str:
    match = _ALIASED.match(item)
    return match[1] if match else item


def _ordered(reading: Reading) -> Steps:
    steps: Steps = []
    if reading.take("ORDER", "BY"):
        steps.append(["order", [_direction(item) for item in reading.listed({"LIMIT", "OFFSET"})]])
    limit = _number(reading) if reading.take("LIMIT") else None
    if reading.take("OFFSET"):
        steps.append(["offset", _number(reading)])
    return steps if limit is None else [*steps, ["limit", limit]]


def _direction(item: str) -> list[str]:
    """What to order by, and the method of a column that says how."""
    for said, method in ((" DESC NULLS LAST", "desc_nulls_last"), (" DESC", "desc"), (" ASC", "asc")):
        if item.upper().endswith(said):
            return [item[: -len(said)], method]
    return [item, "asc"]


def _number(reading: Reading) -> int:
    if not _NUMBER.fullmatch(reading.peek()):
        raise NoFrameError("a limit that is computed is said by SQL only")
    return int(reading.one())


def relation(reading: Reading) -> Steps:
    steps = _primary(reading)
    while True:
        if reading.take(","):
            steps.append(_lateral(reading) if reading.take("LATERAL") else _joined(reading, "cross"))
        elif reading.take("LATERAL", "VIEW"):
            steps.append(_lateral_view(reading))
        elif reading.peek() == "NATURAL":
            raise NoFrameError("a natural join is said by SQL only")
        elif (how := _taken(reading, _JOINS)) is not None:
            steps.append(_lateral(reading) if reading.take("LATERAL") else _joined(reading, how))
        else:
            return steps


def _joined(reading: Reading, how: str) -> Step:
    other = _primary(reading)
    if reading.take("ON"):
        return ["join", other, reading.upto({*_JOINING, *_CLAUSES}), how]
    if reading.take("USING"):
        return ["join", other, [name.strip() for name in reading.one().split(",")], how]
    return ["join", other, None, "cross"]


def _lateral(reading: Reading) -> Step:
    if reading.peek() == "(":
        return ["lateral", [*frame_of(reading.one()), *_called(reading)]]
    function = reading.one()
    return ["generated", function, reading.one(), *_alias(reading)]


def _lateral_view(reading: Reading) -> Step:
    suffix = "_outer" if reading.take("OUTER") else ""
    function, argument, alias = reading.one(), reading.one(), reading.one()
    reading.take("AS")
    names = [name.strip() for name in reading.listed(_CLAUSES)]
    return ["generated", f"{function}{suffix}", argument, alias, names]


def _primary(reading: Reading) -> Steps:
    if reading.peek() == "(":
        inside = reading.one()
        steps = values(inside[6:]) if inside.upper().startswith("VALUES") else frame_of(inside)
        return [*steps, *_reshaped(reading), *_called(reading)]
    if reading.take("VALUES"):
        raise NoFrameError("VALUES without parentheses is said by SQL only")
    name = reading.name()
    if reading.peek() == "(":
        raise NoFrameError("a table function or a computed name is said by SQL only")
    return [["table", name, _options(reading)], *_reshaped(reading), *_called(reading)]


def _options(reading: Reading) -> dict[str, str]:
    if (key := _taken(reading, _VERSIONS)) is not None:
        value = reading.one()
        if not (_NUMBER.fullmatch(value) or _TEXT.fullmatch(value)):
            raise NoFrameError("a time that is computed is said by SQL only")
        return {key: value.strip("'")}
    if reading.peek() == "WITH" and reading.peek(1) == "(":
        reading.take("WITH")
        key, _, value = reading.one().partition("=")
        return {key.strip(" `"): value.strip(" '")}
    return {}


def _reshaped(reading: Reading) -> Steps:
    if reading.take("PIVOT"):
        inside = Reading(reading.one())
        aggregates = inside.listed({"FOR"})
        inside.take("FOR")
        column = inside.name()
        inside.take("IN")
        return [["pivot", column, [value.strip(" '") for value in inside.one().split(",")], aggregates]]
    if reading.take("UNPIVOT"):
        keeps_nulls = reading.take("INCLUDE", "NULLS")
        reading.take("EXCLUDE", "NULLS")
        inside = Reading(reading.one())
        value, _, field, _ = inside.one(), inside.take("FOR"), inside.one(), inside.take("IN")
        columns = [name.strip() for name in inside.one().split(",")]
        return [["unpivot", columns, field, value, keeps_nulls]]
    if reading.take("TABLESAMPLE"):
        return [_sampled(reading)]
    return []


def _sampled(reading: Reading) -> Step:
    count, unit = re.split(r"\s+", reading.one(), maxsplit=1)
    if unit.upper() == "ROWS":
        return ["limit", int(count)]
    if unit.upper() != "PERCENT":
        raise NoFrameError("a sample by buckets is said by SQL only")
    seed = int(reading.one()) if reading.take("REPEATABLE") else None
    return ["sample", float(count) / 100, seed]


def _called(reading: Reading) -> Steps:
    name, columns = _alias(reading)
    renamed: Steps = [["renamed", columns]] if columns else []
    return [*renamed, ["alias", name]] if name else renamed


def _alias(reading: Reading) -> tuple[str | None, list[str]]:
    """A name for a relation, and for its columns, if there are such."""
    if not reading.take("AS") and (reading.peek() in _NO_ALIAS or not reading.peek().isidentifier()):
        return None, []
    name = reading.one()
    columns = reading.one().split(",") if reading.peek() == "(" else []
    return name, [column.strip() for column in columns]


def values(text: str) -> Steps:
    return [["values", _groups(text)]]


def _piped(reading: Reading) -> Steps:
    steps = relation(reading)
    if reading.take("SELECT"):
        raise NoFrameError("FROM before SELECT is said by SQL only")
    while reading.take("|>"):
        if reading.take("WHERE"):
            steps.append(["where", reading.upto({"|>"})])
        elif reading.take("SELECT"):
            steps.append(["select", reading.listed({"|>"})])
        elif reading.take("EXTEND"):
            steps.append(["select", ["*", *reading.listed({"|>"})]])
        elif reading.take("DROP"):
            steps.append(["drop", reading.listed({"|>"})])
        elif reading.take("AGGREGATE"):
            steps.append(_aggregated(reading))
        elif (how := _taken(reading, _JOINS)) is not None:
            steps.append(_joined(reading, how))
        else:
            raise NoFrameError(f"{reading.peek()} in a pipe is said by SQL only")
    return steps


def _aggregated(reading: Reading) -> Step:
    aggregates = reading.listed({"GROUP", "|>"})
    keys = reading.listed({"|>"}) if reading.take("GROUP", "BY") else []
    items = [_unnamed(item) for item in (*keys, *aggregates)]
    return ["group", "groupBy", list(range(len(keys))), None, items, None]

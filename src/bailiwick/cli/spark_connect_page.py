"""The page that says what clients of Spark Connect may send, written from the verdicts of the door."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.connect.proto import base_pb2

from bailiwick.doors.spark_connect import values
from bailiwick.doors.spark_connect.rules import PACKAGE
from bailiwick.doors.spark_connect.unpacking import BOUNDS
from bailiwick.doors.spark_connect.verdicts import verdicts

_NOTICE: Final = (
    "<!-- Written by `make docs` from src/bailiwick/doors/spark_connect/verdicts.toml; edit that. -->"
)
_KINDS: Final = {
    "Relation": "rel_type",
    "Expression": "expr_type",
    "Command": "command_type",
    "Catalog": "cat_type",
    "AnalyzePlanRequest": "analyze",
}
"""Messages that are one of many things, with the oneof that says which."""


def spark_connect_page() -> str:
    options = verdicts().options
    return f"""{_NOTICE}
# What clients of Spark Connect may send

The gateway looks at every part of every request before an engine sees any of it. What is *allowed* here is
handed on: the guard inside the engine still judges functions and tables, and
[policies](../guides/policies.md) decide who may read or change what. What is *refused* ends in
`NOT_SUPPORTED`, with the reason below. The list is closed: a call, a message or a field that is not in it,
of this Spark or of a later one, is refused too.

## Calls

{_table(_call_rows())}

## Data frames

{_table(_kind_rows("Relation"))}

## Columns

Functions are judged inside the engine, by what they turn into: see the [threat model](../threat-model.md).

{_table(_kind_rows("Expression"))}

## Commands

{_table(_kind_rows("Command"))}

## Catalog

{_table(_kind_rows("Catalog"))}

## Analyses

{_table(_kind_rows("AnalyzePlanRequest"))}

## Refused inside of what is allowed

{_table(_inner_rows())}

## Options

| where | allowed |
|---|---|
| `spark.read.option(…).table` | {_names(options.read)} |
| `df.write.option`, `df.writeTo(…).option` | {_names(options.write)}, {_names(options.write_prefixes)}… |
| `df.write.format`, `df.writeTo(…).using` | {_names(options.formats - {""})}, or nothing |
| `df.writeTo(…).tableProperty` | all that the catalog allows, but {_names(options.refused_properties)} |
| metadata of columns | all but {_names(options.refused_column_marks)}, and what begins with `__` |

## Bounds

| what | at most |
|---|---|
| a plan that comes compressed, unpacked | {BOUNDS.plan_bytes_max >> 20} MiB |
| messages in one another (a call on a data frame makes two) | {BOUNDS.depth_max} |
| messages in a plan (a column or a literal makes two or three) | {BOUNDS.messages_max} |
| partitions in `repartition` and `range` | {values.PARTITIONS_MAX} |
| rows in `show` | {values.ROWS_SHOWN_MAX} |
| rows in `tail` | {values.ROWS_AT_THE_END_MAX} |
| tags of an operation, characters of a tag | {values.TAG_COUNT_MAX}, {values.TAG_LENGTH_MAX} |
"""


Row = tuple[str, str, str | None]
"""What it is, what PySpark calls it, and the name of the reason why it is refused, if it is."""


def _call_rows() -> Iterator[Row]:
    for method in _service().methods:
        yield method.name, verdicts().pyspark[method.name], None


def _kind_rows(name: str) -> Iterator[Row]:
    listed = verdicts().messages[name]
    for field in _message(name).oneofs_by_name[_KINDS[name]].fields:
        yield field.name, verdicts().pyspark[f"{name}.{field.name}"], listed.refused.get(field.name)


def _inner_rows() -> Iterator[Row]:
    for name, listed in verdicts().messages.items():
        for field, reason in listed.refused.items() if name not in _KINDS else ():
            yield f"{name}.{field}", verdicts().pyspark[f"{name}.{field}"], reason


def _table(rows: Iterator[Row]) -> str:
    lines = ["| kind | in PySpark | | why, and what to do instead |", "|---|---|---|---|"]
    for kind, called, reason in sorted(rows, key=lambda row: row[2] is not None):
        lines.append(f"| `{kind}` | {called} | {_verdict(reason)} |")
    return "\n".join(lines)


def _verdict(reason: str | None) -> str:
    if reason is None:
        return "allowed |"
    why = verdicts().reasons[reason]
    return f"refused | {why.because} {why.instead}"


def _names(names: frozenset[str] | Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _service() -> Any:
    return base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"]


def _message(name: str) -> Any:
    return base_pb2.DESCRIPTOR.pool.FindMessageTypeByName(PACKAGE + name)

"""The standard ways to mask a column, as Spark SQL.

They are the actions of Iceberg's read restrictions (REST catalog specification), so that another engine which
is told an action's name shows the same values. Each keeps the column's type, and not each fits every type. In
the SQL, `value` stands for the column.

As the standard has it: a text of at most four characters is not hidden by show-first-4 and show-last-4; only
mask-to-fixed-value hides that there was no value. Not here: sha-256-query-local, whose salt is the query's.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from bailiwick.errors import BailiwickError, Code

NULL = "CASE WHEN false THEN value END"
"""Nothing, in the type of the column, whatever that is."""

FIXED_BYTES_MAX = 1_024

_ALIASES: Mapping[str, str] = MappingProxyType(
    {"hash": "sha-256-global", "redact": "mask-to-fixed-value", "null": "replace-with-null"}
)
_TYPE = re.compile(r"(?P<name>[a-z_]+)\s*(?:[(\[]\s*(?P<first>\d+)\s*(?:,\s*(?P<second>\d+)\s*)?[)\]])?")


def standard_name(action: str) -> str:
    """What the standard calls it: people may write `show_last_4`, `hash`, `redact`, `null`.

    >>> standard_name("hash")
    'sha-256-global'
    """
    name = action.lower().replace("_", "-")
    return _ALIASES.get(name, name)


@lru_cache(maxsize=1_024)
def sql(action: str, iceberg_type: str) -> str:
    """The expression that shows a column of this type as `action` says. Refuses what does not fit."""
    name = check(action)
    kind = _TYPE.fullmatch(iceberg_type.strip().lower())
    expression = ACTIONS[name](kind) if kind is not None or name == "replace-with-null" else None
    if expression is None:
        raise BailiwickError(
            Code.TYPE_MISMATCH,
            f"Action '{action[:100]}' does not fit a column of type {iceberg_type[:100]}: "
            f"it is for {_FITS[name]}.",
            details={"reason": "type", "kind": "mask"},
        )
    return expression


def sql_or_null(action: str, iceberg_type: str | None) -> str:
    """The same, but nothing is shown of what the action does not fit or whose type is not known."""
    if iceberg_type is None:
        return NULL
    try:
        return sql(action, iceberg_type)
    except BailiwickError:
        return NULL


def check(action: str) -> str:
    """The standard name of an action that exists. Refuses others."""
    name = standard_name(action)
    if name not in ACTIONS:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"There is no mask action '{action[:100]}'. The actions are: "
            f"{', '.join(sorted((*ACTIONS, *_ALIASES)))}.",
            details={"reason": "unknown", "kind": "action"},
        )
    return name


_Kind = re.Match[str] | None


def _null(_kind: _Kind) -> str:
    return NULL


def _alphanum(text: str) -> str:
    return f"regexp_replace(regexp_replace({text}, '[^0-9(),.@-]', 'x'), '[0-9]', 'n')"


def _mask_alphanum(kind: _Kind) -> str | None:
    return _alphanum("value") if _named(kind) == "string" else None


def _show_first(kind: _Kind) -> str | None:
    shown = f"concat(left(value, 4), {_alphanum('substring(value, 5)')})"
    return shown if _named(kind) == "string" else None


def _show_last(kind: _Kind) -> str | None:
    shown = f"concat({_alphanum('left(value, length(value) - 4)')}, right(value, 4))"
    return shown if _named(kind) == "string" else None


def _truncated_to(unit: str) -> Callable[[_Kind], str | None]:
    def truncated(kind: _Kind) -> str | None:
        match _named(kind):
            case "date":
                return f"trunc(value, '{unit}')"
            case "timestamp":
                return f"CAST(trunc(CAST(value AS DATE), '{unit}') AS TIMESTAMP_NTZ)"
            case "timestamptz":
                return f"date_trunc('{unit}', value)"
            case _:
                return None

    return truncated


def _hash(kind: _Kind) -> str | None:
    match _named(kind):
        case "string":
            return "sha2(CAST(value AS BINARY), 256)"
        case "binary":
            return "unhex(sha2(value, 256))"
        case "int":
            # The standard hashes the little-endian bytes and reads a number from the first ones of the
            # digest. They are read as the upper half of eight bytes and shifted down, which keeps the sign.
            digits = _swapped("lpad(hex(value & 4294967295L), 8, '0')", 4)
            hashed = f"sha2(unhex({digits}), 256)"
            number = f"CAST(conv(concat({_swapped(hashed, 4)}, '00000000'), 16, -10) AS BIGINT)"
            return f"CAST(shiftright({number}, 32) AS INT)"
        case "long":
            digits = _swapped("lpad(hex(value), 16, '0')", 8)
            hashed = f"sha2(unhex({digits}), 256)"
            return f"CAST(conv({_swapped(hashed, 8)}, 16, -10) AS BIGINT)"
        case _:
            return None


def _swapped(hexadecimal: str, length_bytes: int) -> str:
    """The first bytes in the opposite order: all digits turned around, then those of each byte once more."""
    return f"regexp_replace(reverse(left({hexadecimal}, {2 * length_bytes})), '(.)(.)', '$2$1')"


_FIXED: Mapping[str, str] = MappingProxyType(
    {
        "boolean": "false",
        "int": "CAST(0 AS INT)",
        "long": "CAST(0 AS BIGINT)",
        "float": "CAST(0 AS FLOAT)",
        "double": "CAST(0 AS DOUBLE)",
        "string": "'XXXXXXXX'",
        "date": "DATE '1970-01-01'",
        "timestamp": "TIMESTAMP_NTZ '1970-01-01 00:00:00'",
        "timestamptz": "timestamp_seconds(0)",
        "uuid": "'00000000-0000-0000-0000-000000000000'",
        "binary": "X''",
    }
)


def _fixed_value(kind: _Kind) -> str | None:
    if kind is None:
        return None
    first, second = kind["first"], kind["second"]
    if kind["name"] == "decimal" and first and second:
        return f"CAST(0 AS DECIMAL({int(first)}, {int(second)}))"
    if kind["name"] == "fixed" and first and int(first) <= FIXED_BYTES_MAX:
        return f"X'{'00' * int(first)}'"
    return _FIXED.get(_named(kind))


def _named(kind: _Kind) -> str:
    """The name of a type without parameters."""
    return kind["name"] if kind is not None and kind["first"] is None else ""


ACTIONS: Mapping[str, Callable[[_Kind], str | None]] = MappingProxyType(
    {
        "mask-alphanum": _mask_alphanum,
        "mask-to-fixed-value": _fixed_value,
        "replace-with-null": _null,
        "sha-256-global": _hash,
        "show-first-4": _show_first,
        "show-last-4": _show_last,
        "truncate-to-month": _truncated_to("MONTH"),
        "truncate-to-year": _truncated_to("YEAR"),
    }
)
_FITS: Mapping[str, str] = MappingProxyType(
    {
        "mask-alphanum": "string",
        "mask-to-fixed-value": "simple types other than time and timestamps of nanoseconds",
        "replace-with-null": "all types",
        "sha-256-global": "string, int, long and binary",
        "show-first-4": "string",
        "show-last-4": "string",
        "truncate-to-month": "date, timestamp and timestamptz",
        "truncate-to-year": "date, timestamp and timestamptz",
    }
)

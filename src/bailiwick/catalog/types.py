"""Iceberg's primitive types and transforms, as the texts that stand for them in metadata.

An allow-list: a type or transform that is not here would make a table that some reader cannot open.
"""

import re
import uuid
from decimal import Decimal, InvalidOperation
from typing import Any

VARIANT = "variant"
UNKNOWN = "unknown"

_PLAIN_TYPES = frozenset(
    [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "binary",
        "variant",
        "unknown",
        "geometry",
        "geography",
    ]
)
_TYPES_OF_V3 = frozenset({"timestamp_ns", "timestamptz_ns", VARIANT, UNKNOWN, "geometry", "geography"})
_FIXED = re.compile(r"fixed\[(\d{1,9})\]\Z")
_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)\Z")
_GEO = re.compile(r"(geometry|geography)\([^()]{0,200}\)\Z")
_EDGES = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})

_PARAMETRISED = re.compile(r"(bucket|truncate)\[(\d{1,9})\]\Z")
_TIMESTAMPS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DATES = _TIMESTAMPS | {"date"}
_SOURCES = {
    "identity": _PLAIN_TYPES - {VARIANT, "geometry", "geography"} | {"fixed", "decimal"},
    "bucket": _DATES | {"int", "long", "time", "string", "binary", "uuid", "fixed", "decimal"},
    "truncate": frozenset({"int", "long", "string", "binary", "decimal"}),
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _TIMESTAMPS,
}

_DATE_TEXT = r"[+-]?\d{4,9}-\d\d-\d\d"
_TIME_TEXT = r"\d\d:\d\d(:\d\d(\.\d{1,9})?)?"
_DEFAULT_TEXTS = {
    "date": re.compile(_DATE_TEXT + r"\Z"),
    "time": re.compile(_TIME_TEXT + r"\Z"),
    "timestamp": re.compile(f"{_DATE_TEXT}T{_TIME_TEXT}" + r"\Z"),
    "timestamptz": re.compile(f"{_DATE_TEXT}T{_TIME_TEXT}" + r"\+00:00\Z"),
    "binary": re.compile(r"([0-9a-fA-F]{2})*\Z"),
}
_DEFAULT_TEXTS["timestamp_ns"] = _DEFAULT_TEXTS["timestamp"]
_DEFAULT_TEXTS["timestamptz_ns"] = _DEFAULT_TEXTS["timestamptz"]
_INTEGER_BITS = {"int": 31, "long": 63}


def kind_of(text: str) -> str:
    """The type without its parameters, such as `decimal`. Raises ValueError for what is no primitive type."""
    if text in _PLAIN_TYPES:
        return text
    if (fixed := _FIXED.match(text)) and int(fixed[1]) > 0:
        return "fixed"
    if (
        (decimal := _DECIMAL.match(text))
        and 1 <= int(decimal[1]) <= 38
        and int(decimal[2]) <= int(decimal[1])
    ):
        return "decimal"
    if (geo := _GEO.match(text)) and _geo_is_known(geo[1], text):
        return geo[1]
    raise ValueError(f"unknown type {text[:60]!r}")


def format_version_of(text: str) -> int:
    """The first table format that has this type."""
    return 3 if kind_of(text) in _TYPES_OF_V3 else 1


def check_transform(transform: str) -> None:
    """Raises ValueError for a transform that nobody knows."""
    if transform not in _SOURCES and transform != "void" and not _PARAMETRISED.match(transform):
        raise ValueError(f"unknown transform {transform[:60]!r}")
    parameter = _PARAMETRISED.match(transform)
    if parameter and int(parameter[2]) == 0:
        raise ValueError(f"transform {transform} needs a positive number")


def transforms(transform: str, source: str) -> bool:
    """Whether `transform` can be taken of a column of the primitive type `source`."""
    name = transform.partition("[")[0]
    return name == "void" or kind_of(source) in _SOURCES[name]


def check_default(text: str, value: Any) -> None:
    """Raises ValueError if `value`, as JSON, is no value of the primitive type `text`."""
    if value is not None and not _is_value(text, kind_of(text), value):
        raise ValueError(f"a default is not of type {text}")


def _is_value(text: str, kind: str, value: Any) -> bool:
    match kind:
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = 1 << _INTEGER_BITS[kind]
            return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
        case "float" | "double":
            return isinstance(value, float)
        case "string":
            return isinstance(value, str)
        case "decimal":
            return isinstance(value, str) and _is_decimal(value, text)
        case "uuid":
            return isinstance(value, str) and len(value) == 36 and _is_uuid(value)
        case "fixed":
            length = int(text[len("fixed[") : -1])
            return _matches("binary", value) and len(value) == 2 * length
        case _:
            # Variant, unknown and geometry have no default but null.
            return _matches(kind, value)


def _matches(kind: str, value: Any) -> bool:
    pattern = _DEFAULT_TEXTS.get(kind)
    return pattern is not None and isinstance(value, str) and pattern.match(value) is not None


def _is_decimal(value: str, text: str) -> bool:
    precision, scale = (int(number) for number in text[len("decimal(") : -1].split(","))
    try:
        _, digits, exponent = Decimal(value).as_tuple()
    except InvalidOperation:
        return False
    return exponent == -scale and len(digits) <= precision


def _is_uuid(value: str) -> bool:
    try:
        uuid.UUID(value)
    except ValueError:
        return False
    return True


def _geo_is_known(kind: str, text: str) -> bool:
    _, comma, edges = text[len(kind) + 1 : -1].partition(",")
    return not comma or (kind == "geography" and edges.strip().lower() in _EDGES)

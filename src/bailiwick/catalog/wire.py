"""JSON in and out: strict when reading, the same bytes for the same value when writing."""

import json
import math
from typing import Any, NoReturn

from bailiwick.catalog.refusals import BadRequestError, CatalogError

Json = dict[str, Any]
"""A JSON object, not interpreted: fields that nobody knows pass through."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def parsed(data: bytes) -> Any:
    """The value of `data`. Raises BadRequestError for what is not JSON by the letter of the standard."""
    try:
        return json.loads(data, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise BadRequestError("the body is not valid JSON", cause_text=str(error)) from error


def parsed_object(data: bytes) -> Json:
    """As `parsed`, of a JSON object; nothing at all is an empty one."""
    if not data:
        return {}
    value = parsed(data)
    if not isinstance(value, dict):
        raise BadRequestError("the body must be a JSON object")
    return value


def rendered(value: Any) -> bytes:
    """Compact ASCII, so that any text, however odd, survives."""
    return _encode(value).encode("ascii")


def error_body(error: CatalogError) -> bytes:
    """The protocol's error model."""
    return rendered({"error": {"message": error.message, "type": error.type_name, "code": error.status}})


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return number

"""Values and failures as JSON that says what they are: `1`, `1.0`, `Decimal('1')` and `True` all differ.

Runs inside the client's environment.
"""

import datetime
import decimal
import json
import math
from typing import Any

_PLAIN = (bool, int, str, type(None))


def encoded(value: Any) -> Any:
    """JSON for `value`. A DataFrame is collected, its rows in an order that depends on them only."""
    name = type(value).__name__
    if isinstance(value, _PLAIN) and type(value) in _PLAIN:
        return value
    if isinstance(value, float) and type(value) is float:
        return {"float": repr(value)} if not math.isfinite(value) else value
    if hasattr(value, "collect") and hasattr(value, "sparkSession"):
        rows = [encoded(row) for row in value.collect()]
        return {"rows": sorted(rows, key=json.dumps)}
    if name == "Row":
        return {"row": [[field, encoded(value[place])] for place, field in enumerate(_fields(value))]}
    if name == "Table" and hasattr(value, "to_pylist"):
        return {"arrow": _arrow_schema(value), "rows": [encoded(row) for row in value.to_pylist()]}
    if name in {"DataFrame", "Series"} and hasattr(value, "to_dict"):
        return _pandas(value)
    if isinstance(value, list | tuple):
        return {"tuple" if type(value) is tuple else name: [encoded(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[encoded(key), encoded(part)] for key, part in value.items()]}
    if isinstance(value, bytes | bytearray):
        return {name: bytes(value).hex()}
    if isinstance(value, datetime.date | datetime.time):
        return {name: value.isoformat()}
    if isinstance(value, datetime.timedelta | decimal.Decimal):
        return {name: str(value)}
    if hasattr(value, "jsonValue"):
        return {name: value.jsonValue()}
    if hasattr(value, "_asdict"):
        return {name: encoded(value._asdict())}
    return {name: str(value)}


def failure(error: Any) -> dict[str, Any]:
    """All that a PySpark exception tells of itself and what people's programs may ask it for."""
    told: dict[str, Any] = {"class": type(error).__name__, "message": str(error)}
    if hasattr(error, "getCondition"):
        told["condition"] = error.getCondition()
        told["sqlstate"] = error.getSqlState()
        told["parameters"] = error.getMessageParameters()
        told["contexts"] = [_context(context) for context in error.getQueryContext() or []]
    return told


def _context(context: Any) -> dict[str, Any]:
    kind = context.contextType().name
    if kind != "SQL":
        return {"kind": kind, "fragment": context.fragment()}
    return {
        "kind": kind,
        "fragment": context.fragment(),
        "start": context.startIndex(),
        "stop": context.stopIndex(),
        "object": [context.objectType(), context.objectName()],
    }


def _fields(row: Any) -> list[str]:
    return list(getattr(row, "__fields__", [str(place) for place in range(len(row))]))


def _arrow_schema(table: Any) -> list[list[str]]:
    return [[field.name, str(field.type), field.nullable] for field in table.schema]


def _pandas(value: Any) -> Any:
    frame = value.to_frame() if type(value).__name__ == "Series" else value
    rows = [[encoded(_scalar(part)) for part in row] for row in frame.itertuples(index=False, name=None)]
    return {"pandas": [[name, str(kind)] for name, kind in frame.dtypes.items()], "rows": rows}


def _scalar(value: Any) -> Any:
    """A numpy value as Python's own."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    return value

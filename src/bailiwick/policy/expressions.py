"""What a rule's expression is, as Spark says: the port behind which it is checked, and what must come out.

The engine checks with the code that enforces (it resolves against the table's own columns and built-in
functions only, other tables in full); what types a filter or a mask may have is decided here.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy import spelling

VALUE = "value"
"""What a mask on a tag calls the column."""


class ExpressionKind(StrEnum):
    FILTER = "filter"
    MASK = "mask"


@dataclass(frozen=True, slots=True)
class Checked:
    columns: tuple[str, ...] = ()
    """Of the table, dotted for fields of structs."""
    tables: tuple[str, ...] = ()
    """Full names of what its subqueries read."""
    functions: tuple[str, ...] = ()
    type: str = "boolean"
    """Spark's simple string, e.g. `decimal(10,2)`."""


class ExpressionCheck(Protocol):
    async def check(
        self,
        table: tuple[str, ...] | None,
        kind: ExpressionKind,
        column: str | None,
        sql: str,
        value_type: str | None,
    ) -> Checked:
        """What `sql` is on `table`, or for a mask on a tag, what it is with `value` of this Iceberg type.

        `table` has all parts of its name; `column` is the masked one. Raises BailiwickError with a clear
        message for what does not parse or resolve, uses a function that is not allowed, or names another
        table other than in full. Nothing is read and nothing is kept.
        """


def require_boolean(checked: Checked, name: str) -> None:
    if checked.type.lower() != "boolean":
        raise BailiwickError(
            Code.TYPE_MISMATCH,
            f"Row filter {name} must be true or false for each row, but its expression is of type "
            f"{checked.type[:200]}.",
            details={"reason": "type", "kind": "row_filter"},
        )


def require_fit(checked: Checked, iceberg_type: str, name: str, column: str) -> None:
    """Refuse a mask whose values are not of the column's type and do not always become it unharmed."""
    wanted = spark_type(iceberg_type)
    if wanted is None or fits(checked.type.lower(), wanted):
        return
    raise BailiwickError(
        Code.TYPE_MISMATCH,
        f"Mask {name} gives {checked.type[:200]}, but column {spelling.written((column,))} is {wanted}: "
        f"a mask keeps the column's type. CAST the expression to {wanted.upper()}, or mask with an action.",
        details={"reason": "type", "kind": "mask"},
    )


def spark_type(iceberg_type: str) -> str | None:
    """What Spark calls a simple type of Iceberg's; None for nested ones, which Spark compares itself.

    >>> spark_type("decimal(10, 2)")
    'decimal(10,2)'
    """
    text = iceberg_type.strip().lower().replace(" ", "")
    if text.startswith("decimal("):
        return text
    if text.startswith("fixed["):
        return "binary"
    return _SPARK_TYPES.get(text)


def fits(given: str, wanted: str) -> bool:
    """Whether every value of type `given` is one of `wanted`, both by Spark's names."""
    if given in (wanted, "void") or wanted in _WIDER.get(given, ()):
        return True
    if (into := _DECIMAL.fullmatch(wanted)) is None:
        return False
    precision, scale = int(into[1]), int(into[2])
    if (of := _DECIMAL.fullmatch(given.replace(" ", ""))) is not None:
        return int(of[2]) <= scale and int(of[1]) - int(of[2]) <= precision - scale
    return given in _DIGITS and _DIGITS[given] <= precision - scale


_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_SPARK_TYPES: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "uuid": "string",
    "binary": "binary",
    "variant": "variant",
}
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
    "date": ("timestamp", "timestamp_ntz"),
}

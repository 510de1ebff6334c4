"""A write of whole rows: where they come from, and where they go.

The rows are either at hand, as Arrow, or in a table that the engine can read. Columns go by their names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class WriteMode(StrEnum):
    APPEND = "append"
    """To a table that is there."""
    CREATE = "create"
    """A table that must not be there yet."""
    REPLACE = "replace"
    """A table that must be there: its rows and columns become these, its history stays."""
    CREATE_OR_REPLACE = "create_or_replace"


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows as one Arrow IPC stream. Spark holds all of them in memory at once."""

    data: bytes


@dataclass(frozen=True, slots=True)
class TableRows:
    """All rows of a table."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """Write `rows` to `table` in one commit. `properties` are those of a table that is made."""

    table: tuple[str, ...]
    mode: WriteMode
    rows: ArrowRows | TableRows
    properties: Mapping[str, str] = field(default_factory=dict)

"""What is asked about, and what is answered: a table as policy sees it, and the decision about it.

Values only. `decide.py` makes decisions; the facade puts them into stamps; the guard enforces them.
"""

from dataclasses import dataclass
from enum import StrEnum

from bailiwick.names import TableName
from bailiwick.policy import spelling
from bailiwick.policy.model import BoundColumn, Privilege


class TableKind(StrEnum):
    TABLE = "table"
    VIEW = "view"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table as it is now. Fields of structs have dots in their names; `type` is Iceberg's."""

    field_id: int
    name: str
    former_names: frozenset[str] = frozenset()
    type: str = "string"


@dataclass(frozen=True, slots=True)
class Table:
    catalog: str
    name: TableName
    uuid: str
    columns: tuple[Column, ...] = ()
    former_names: frozenset[TableName] = frozenset()
    kind: TableKind = TableKind.TABLE

    @property
    def names(self) -> tuple[TableName, ...]:
        return (self.name, *sorted(self.former_names - {self.name}))

    def __str__(self) -> str:
        return spelling.written((self.catalog, *self.name.parts))


@dataclass(frozen=True, slots=True)
class AppliedFilter:
    """Only rows for which `using` is true. A column's field id is given where it is this table's."""

    name: str
    using: str
    columns: tuple[BoundColumn, ...] = ()
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AppliedMask:
    """What is shown instead of a column: the one with `field_id`, and any that has one of `names`.

    A column whose field id is named by a mask gets that one; names are for columns that no mask names by id.
    With `is_value`, the name `value` in the expression stands for the column itself. A name in `names` may
    differ from a column's in case.
    """

    name: str
    using: str
    field_id: int | None
    names: frozenset[str]
    tables: tuple[str, ...] = ()
    columns: tuple[BoundColumn, ...] = ()
    is_value: bool = False
    action: str | None = None
    """The standard action that `using` spells out, for engines that know it by name."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`because` says why, in sentences; where it is not allowed, the first one says what is missing."""

    allowed: bool
    because: tuple[str, ...] = ()
    is_visible: bool = False
    privileges: frozenset[Privilege] = frozenset()
    filters: tuple[AppliedFilter, ...] = ()
    masks: tuple[AppliedMask, ...] = ()

    @property
    def is_restricted(self) -> bool:
        """Whether something of the table is hidden from this principal."""
        return bool(self.filters or self.masks)

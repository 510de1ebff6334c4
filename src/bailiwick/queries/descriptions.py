"""What Spark said about statements, kept as long as it stays true.

An answer depends on the text, on what names and quotes in it mean, on its parameters, on who asks and what
they may see, and on the catalog; the versions of policy and catalog are part of the key, so any change makes
the old answers unreachable. Statements that reach into catalogs of which no version is known are not kept.
Only whole answers are kept, never failures; the verdict is made anew each time.

Parameters count with their values, not only with their types: `SELECT ?` names its column after the value,
and the digits of a decimal result depend on those of a literal.
"""

from collections import OrderedDict
from dataclasses import dataclass

from bailiwick.engines.description import Description
from bailiwick.engines.parameters import ParameterValue, size_bytes
from bailiwick.identity.principal import Principal
from bailiwick.queries.statement import Statement
from bailiwick.queries.verdict import CATALOGS

ENTRIES_MAX = 2000
BYTES_MAX = 32 << 20
TEXT_CHARACTERS_MAX = 32_768
"""A longer statement is hardly one that comes again."""
PARAMETER_BYTES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Key:
    sql: str
    parameters: tuple[ParameterValue, ...]
    catalog: str
    namespace: tuple[str, ...]
    time_zone: str
    double_quoted_identifiers: bool
    principal: Principal
    policy_version: int
    catalog_version: int

    @classmethod
    def of(cls, statement: Statement, policy_version: int, catalog_version: int) -> "Key":
        return cls(
            statement.sql,
            statement.parameters,
            statement.catalog,
            statement.namespace,
            statement.time_zone,
            statement.double_quoted_identifiers,
            statement.principal,
            policy_version,
            catalog_version,
        )


class Descriptions:
    """The last descriptions, up to a number of them and up to a size."""

    def __init__(self, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: OrderedDict[Key, Description] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Key) -> Description | None:
        description = self._entries.get(key)
        if description is not None:
            self._entries.move_to_end(key)
        return description

    def keep(self, key: Key, description: Description) -> None:
        """Remember an answer that was given while the catalog's version was the key's, from begin to end."""
        if len(key.sql) > TEXT_CHARACTERS_MAX or not description.catalogs <= CATALOGS:
            return
        if description.dynamic_names or size_bytes(key.parameters) > PARAMETER_BYTES_MAX:
            return
        if (replaced := self._entries.pop(key, None)) is not None:
            self._bytes -= _weight_bytes(key, replaced)
        self._entries[key] = description
        self._bytes += _weight_bytes(key, description)
        while len(self._entries) > self._entries_max or self._bytes > self._bytes_max:
            self._bytes -= _weight_bytes(*self._entries.popitem(last=False))


def _weight_bytes(key: Key, description: Description) -> int:
    """About what an entry holds: mostly its text, its schema and the names in it."""
    names = sum(map(len, (*description.reads, *description.writes, *description.functions)))
    return (
        1024 + 2 * len(key.sql) + 2 * size_bytes(key.parameters) + len(description.schema or b"") + 2 * names
    )

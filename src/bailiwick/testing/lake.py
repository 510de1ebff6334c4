"""Looking at the lake with two strangers' eyes: ADBC for statements, PyIceberg for the files they leave.

PyIceberg reads the metadata file that the catalog points to now, by its own rules and without asking the
gateway, so what it accepts is Iceberg and not merely what our own reader takes for it.
"""

from dataclasses import dataclass
from typing import Any

from pyiceberg.table import StaticTable


@dataclass(frozen=True, slots=True)
class Lake:
    """Statements by one ADBC connection, in one namespace of their own."""

    connection: Any
    namespace: str

    def table(self, name: str) -> str:
        return f"{self.namespace}.{name}"

    def run(self, sql: str) -> int:
        """Run `sql` and give the count of rows it changed; -1 where the gateway cannot tell."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return int(cursor.rowcount)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    def value(self, sql: str) -> Any:
        """The only value of the only row."""
        ((value,),) = self.rows(sql)
        return value

    def metadata_path(self, table: str) -> str:
        """The newest metadata file: Iceberg lists it as the last of its log."""
        entries = f"SELECT file FROM {table}.metadata_log_entries ORDER BY timestamp DESC, file DESC LIMIT 1"  # noqa: S608
        return str(self.value(entries))

    def iceberg(self, table: str) -> StaticTable:
        """The table as PyIceberg reads it."""
        return StaticTable.from_metadata(self.metadata_path(table))

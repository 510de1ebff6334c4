"""The gateway's own tables inside a client's plan: their rows are put where their names stand.

So `spark.table("system.runtime.queries")` works like any other table, also joined with tables of the lake.
The rows are those of the moment in which the plan was sent, and those that its author may see.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from bailiwick.doors.spark_connect.answers import local_relation
from bailiwick.doors.spark_connect.findings import TableRead
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.queries.routing import CATALOG, INFORMATION_SCHEMA, LAKE, SystemName


class OwnTables(Protocol):
    @property
    def schemas(self) -> Mapping[SystemName, pa.Schema]: ...

    async def rows(self, name: SystemName, principal: Principal) -> pa.Table: ...


async def put_own_rows(reads: Iterable[TableRead], tables: OwnTables, principal: Principal) -> None:
    """Replace what is ours among `reads`. TABLE_NOT_FOUND for a name of ours that means nothing."""
    rows: dict[SystemName, Any] = {}
    for read in reads:
        name = own_name(read.name)
        if name is None:
            continue
        if name not in tables.schemas:
            raise BailiwickError(Code.TABLE_NOT_FOUND, f"There is no table {'.'.join(name)}.")
        if name not in rows:
            rows[name] = local_relation(_plain(await tables.rows(name, principal)))
        read.put(rows[name].local_relation, name)


def own_name(text: str) -> SystemName | None:
    """Which of our tables a name means; None if it is not ours."""
    parts = [part.strip("`").lower() for part in text.split(".")]
    match parts:
        case [catalog, schema, table] if catalog == CATALOG:
            return CATALOG, schema, table
        case [catalog, schema, table] if (catalog, schema) == (LAKE, INFORMATION_SCHEMA):
            return LAKE, INFORMATION_SCHEMA, table
        case [schema, table] if schema == INFORMATION_SCHEMA:
            return LAKE, INFORMATION_SCHEMA, table
    return None


def _plain(table: pa.Table) -> pa.Table:
    """Without types that Spark does not take from Arrow: dictionaries."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)

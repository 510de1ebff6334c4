"""A real engine whose sessions are lent to anybody under any policies, to see what the guard enforces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest

from bailiwick.engines.engine import Batch, EngineSession
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import new_operation_id
from bailiwick.policy.access import Access
from bailiwick.policy.model import (
    BoundColumn,
    ColumnTags,
    Grant,
    Grantee,
    Mask,
    Policies,
    Privilege,
    RowFilter,
    Securable,
)
from bailiwick.testing.engine import ADMINISTRATOR, RunningEngine

ORDERS = "lake.sales.orders"
SETUP = (
    "CREATE NAMESPACE lake.sales",
    f"CREATE TABLE {ORDERS} (id BIGINT NOT NULL, region STRING NOT NULL, owner STRING, ssn STRING,"
    " amount DECIMAL(10, 2), addr STRUCT<city: STRING, zip: STRUCT<a: STRING, b: INT>>)",
    f"INSERT INTO {ORDERS} VALUES"
    " (1, 'EU', 'anna', '111-11-1111', 1.5,"
    " named_struct('city', 'Bern', 'zip', named_struct('a', 'x', 'b', 1))),"
    " (2, 'US', 'bob', '222-22-2222', 2.5,"
    " named_struct('city', 'Boston', 'zip', named_struct('a', 'y', 'b', 2))),"
    " (3, 'EU', 'carl', '333-33-3333', 3.5, null)",
    "CREATE TABLE lake.sales.open (id BIGINT, note STRING)",
    "INSERT INTO lake.sales.open VALUES (1, 'a'), (2, 'b')",
    "CREATE TABLE lake.sales.allowed (who STRING, region STRING)",
    "INSERT INTO lake.sales.allowed VALUES ('anna', 'EU'), ('bob', 'US')",
    f"CREATE VIEW lake.sales.seen AS SELECT id, region, ssn FROM {ORDERS}",
)

_ANALYSTS = frozenset({Grantee.role("analyst")})


def row_filter(using: str, *columns: str, name: str = "some_rows", tables: tuple[str, ...] = ()) -> RowFilter:
    bound = tuple(BoundColumn(column) for column in columns)
    return RowFilter(name, Securable.parse(ORDERS), _ANALYSTS, frozenset(), using, bound, tables)


EU_ONLY = row_filter("region = 'EU'", "region", name="eu_only")


def mask(column: str, using: str, *columns: str, name: str = "hide") -> Mask:
    bound = tuple(BoundColumn(each) for each in columns)
    on = Securable.parse(ORDERS)
    return Mask(name, on, BoundColumn(column), None, _ANALYSTS, frozenset(), using, columns=bound)


LAST_FOUR = mask("ssn", "concat('***', right(ssn, 4))", "ssn", name="last_four")


def tag_mask(using: str) -> Mask:
    return Mask("by_tag", None, None, "pii", _ANALYSTS, frozenset(), using)


def tagged(column: str) -> ColumnTags:
    return ColumnTags(Securable.parse(ORDERS), BoundColumn(column), frozenset({"pii"}))


def anna(
    *rules: RowFilter | Mask | ColumnTags,
    privileges: Sequence[Privilege] = (Privilege.SELECT,),
    tables: Sequence[str] = ("orders", "open", "seen"),
) -> Access:
    """An analyst called anna, on whose tables these rules hold."""
    grants = tuple(
        Grant(f"{table}-{each}", Grantee.role("analyst"), Securable.parse(f"lake.sales.{table}"), each)
        for table in tables
        for each in privileges
    )
    policies = Policies(
        1,
        grants=grants,
        filters=tuple(rule for rule in rules if isinstance(rule, RowFilter)),
        masks=tuple(rule for rule in rules if isinstance(rule, Mask)),
        tags=tuple(rule for rule in rules if isinstance(rule, ColumnTags)),
    )
    return Access(Principal("anna", frozenset({"analyst"})), policies)


WRITER = (Privilege.SELECT, Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE)


@dataclass(frozen=True, slots=True)
class GuardedLake:
    running: RunningEngine
    session: EngineSession

    async def rows(self, sql: str, access: Access = ADMINISTRATOR, **settings: Any) -> list[tuple[Any, ...]]:
        tables = await self.tables(sql, access, **settings)
        return [tuple(row) for table in tables for row in zip(*_values(table), strict=True)]

    async def tables(self, sql: str, access: Access = ADMINISTRATOR, **settings: Any) -> list[pa.Table]:
        """The same as Spark sends it, in its batches."""
        lease = self.running.leases.give(self.session, access)
        settings.setdefault("principal", access.principal.name)
        events = self.session.execute(sql, operation=new_operation_id(), lease=lease, **settings)
        streams = [event.data async for event in events if isinstance(event, Batch)]
        return [pa.ipc.open_stream(stream).read_all() for stream in streams]

    async def refusal(self, sql: str, access: Access = ADMINISTRATOR, **settings: Any) -> str:
        """The reason for which it is refused."""
        with pytest.raises(BailiwickError) as caught:
            await self.rows(sql, access, **settings)
        assert caught.value.code is Code.ACCESS_DENIED, caught.value
        return caught.value.details["reason"]


def _values(table: pa.Table) -> list[list[Any]]:
    return [column.to_pylist() for column in table.columns]


async def guarded_lake(running: RunningEngine) -> GuardedLake:
    """In an engine whose lake is empty."""
    lake = GuardedLake(running, await running.session())
    for statement in SETUP:
        await lake.rows(statement)
    return lake

"""A file is applied as statements are: bound, checked, all or nothing; and what holds is a file again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from policy_desk import ADMIN, AUDITOR, ORDERS, Desk, opened_desk

from bailiwick.errors import Code
from bailiwick.identity.statements import quoted_string
from bailiwick.policy.model import BoundColumn

HOUSE = """
[[role]]
name = "analyst"
members = ["user:ann"]

[[grant]]
to = ["role:analyst"]
on = "lake.sales.orders"
privileges = ["select"]

[[grant]]
to = ["user:bob"]
on = "lake.sales.*"
privileges = ["insert"]

[[row_filter]]
name = "eu_only"
on = "lake.sales.orders"
for = ["role:analyst"]
using = "region = 'EU'"

[[tag]]
on = "lake.sales.orders"
column = "id"
tags = ["number"]

[[mask]]
name = "numbers"
tag = "number"
for = ["role:analyst"]
using = "value"

[[row_filter]]
name = "later"
on = "lake.sales.planned"
for = ["role:analyst"]
using = "nobody checks this yet"
"""


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened_desk(tmp_path) as opened:
        yield opened


def apply(text: str, *, dry_run: bool = False) -> str:
    return f"APPLY POLICY {quoted_string(text)}" + (" DRY RUN" if dry_run else "")


async def test_a_file_is_bound_and_checked_as_statements_are(desk: Desk) -> None:
    changes = [row["change"] for row in await desk.run(apply(HOUSE))]
    assert "created role analyst" in changes
    assert "granted select on table lake.sales.orders to role:analyst" in changes
    policies = desk.store.current
    eu_only, later = sorted(policies.filters, key=lambda rule: rule.name)
    assert (eu_only.on.uuid, eu_only.columns) == (ORDERS.uuid, (BoundColumn("region", 2),))
    assert later.on.uuid is None
    assert policies.tags[0].column == BoundColumn("id", 1)
    assert {each.on.uuid for each in policies.grants} == {ORDERS.uuid, None}


async def test_applying_the_same_file_again_changes_nothing(desk: Desk) -> None:
    await desk.run(apply(HOUSE))
    version = desk.store.current.version
    assert await desk.run(apply(HOUSE)) == []
    assert desk.store.current.version == version


async def test_a_dry_run_tells_and_changes_nothing(desk: Desk) -> None:
    told = await desk.run(apply(HOUSE, dry_run=True))
    assert desk.store.current.version == 0
    assert told == await desk.run(apply(HOUSE))


async def test_what_the_file_does_not_say_goes(desk: Desk) -> None:
    await desk.run(apply(HOUSE))
    changes = [row["change"] for row in await desk.run(apply('[[role]]\nname = "analyst"'))]
    assert "dropped row filter eu_only on table lake.sales.orders" in changes
    assert desk.store.current.filters == ()
    assert desk.store.current.grants == ()


async def test_what_holds_is_a_file_that_changes_nothing(desk: Desk) -> None:
    await desk.run(apply(HOUSE))
    (row,) = await desk.run("SHOW POLICY FILE", AUDITOR)
    assert "eu_only" in str(row["file"])
    assert await desk.run(apply(str(row["file"]))) == []


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("region = 'EU'", "nonsense", Code.SEMANTIC_ERROR, "Row filter eu_only on lake.sales.orders: "),
        ("region = 'EU'", "'x'", Code.TYPE_MISMATCH, "must be true or false"),
        ('column = "id"', 'column = "none"', Code.COLUMN_NOT_FOUND, "none"),
        ('using = "value"', 'using = "sha2(value, 256)"', Code.TYPE_MISMATCH, "does not fit column id"),
        ('on = "lake.sales.*"', 'on = "pond.sales.*"', Code.CATALOG_NOT_FOUND, "no catalog for pond"),
        ("lake.sales.planned", "lake.sales.totals", Code.NOT_SUPPORTED, "is a view"),
        ("[[role]]", "[[roll]]", Code.INVALID_ARGUMENTS, "roll"),
    ],
)
async def test_what_is_wrong_in_a_file_refuses_all_of_it(
    desk: Desk, old: str, new: str, code: Code, message: str
) -> None:
    assert old in HOUSE
    for dry_run in (True, False):
        error = await desk.refused(apply(HOUSE.replace(old, new), dry_run=dry_run))
        assert error.code is code
        assert message in error.message


async def test_a_rule_of_a_file_is_bound_when_its_table_comes(desk: Desk) -> None:
    await desk.run(apply(HOUSE))
    planned = next(rule.on.table_name for rule in desk.store.current.filters if rule.name == "later")
    desk.store.table_created("lake", planned, "uuid-planned", ADMIN)
    assert {rule.on.uuid for rule in desk.store.current.filters} == {ORDERS.uuid, "uuid-planned"}

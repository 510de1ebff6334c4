"""Filters, masks and tags are checked when they are defined, and bound to uuid and field ids."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from policy_desk import COLUMNS, ORDERS, Desk, opened_desk

from bailiwick.errors import Code
from bailiwick.policy.decision import Column
from bailiwick.policy.expressions import ExpressionKind
from bailiwick.policy.model import BoundColumn, Grantee, Mask, RowFilter

FILTER = "ROW FILTER eu_only ON TABLE orders FOR ROLE analyst EXCEPT USER bob USING"
MASK = "MASK hide ON TABLE orders COLUMN {} FOR ROLE analyst"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened_desk(tmp_path) as opened:
        await opened.run("CREATE ROLE analyst")
        yield opened


def the_filter(desk: Desk) -> RowFilter:
    (rule,) = desk.store.current.filters
    return rule


def the_mask(desk: Desk) -> Mask:
    (mask,) = desk.store.current.masks
    return mask


async def test_a_filter_is_bound_to_the_table_and_to_the_columns_it_reads(desk: Desk) -> None:
    await desk.run(f"CREATE {FILTER} (REGION = 'US')")
    rule = the_filter(desk)
    assert (rule.on.uuid, str(rule.on)) == (ORDERS.uuid, "lake.sales.orders")
    assert rule.columns == (BoundColumn("region", 2),)
    assert rule.using == "REGION = 'US'"
    assert rule.applies_to == {Grantee.role("analyst")}
    assert rule.exempt == {Grantee.user("bob")}
    assert desk.spark.asked == [(("lake", "sales", "orders"), ExpressionKind.FILTER, None, None)]


async def test_the_tables_of_a_subquery_are_kept(desk: Desk) -> None:
    await desk.run(f"CREATE {FILTER} (region IN (SELECT r FROM lake.crm.people))")
    assert the_filter(desk).tables == ("lake.crm.people",)


async def test_replacing_needs_to_be_said(desk: Desk) -> None:
    await desk.run(f"CREATE {FILTER} (region = 'EU')")
    assert "exists already" in (await desk.refused(f"CREATE {FILTER} (REGION = 'US')")).message
    await desk.run(f"CREATE OR REPLACE {FILTER} (REGION = 'US')")
    assert the_filter(desk).using == "REGION = 'US'"


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        (f"CREATE {FILTER} (nonsense)", Code.SEMANTIC_ERROR, "not there"),
        (f"CREATE {FILTER} (sha2(email, 256))", Code.TYPE_MISMATCH, "must be true or false"),
        ("CREATE ROW FILTER f ON TABLE nothing FOR ROLE analyst USING (x)", Code.TABLE_NOT_FOUND, "nothing"),
        ("CREATE ROW FILTER f ON TABLE totals FOR ROLE analyst USING (x)", Code.NOT_SUPPORTED, "is a view"),
        (
            "CREATE ROW FILTER f ON TABLE orders FOR ROLE chef USING (region = 'EU')",
            Code.INVALID_ARGUMENTS,
            "no role 'chef'",
        ),
        (f"CREATE {MASK.format('id')} USING (sha2(email, 256))", Code.TYPE_MISMATCH, "CAST .* BIGINT"),
        (f"CREATE {MASK.format('nothing')} USING ('x')", Code.COLUMN_NOT_FOUND, "nothing is not in"),
        (f"CREATE {MASK.format('email')} ACTION 'blur'", Code.INVALID_ARGUMENTS, "no mask action 'blur'"),
        (f"CREATE {MASK.format('id')} ACTION 'show_last_4'", Code.TYPE_MISMATCH, "does not fit"),
        ("CREATE MASK m ON TAG pii FOR ROLE analyst ACTION 'blur'", Code.INVALID_ARGUMENTS, "blur"),
        ("CREATE MASK m ON TAG pii FOR ROLE analyst USING (nonsense)", Code.SEMANTIC_ERROR, "not there"),
        ("ALTER TABLE orders ALTER COLUMN x SET TAGS ('pii')", Code.COLUMN_NOT_FOUND, "x is not in"),
        ("ALTER TABLE totals ALTER COLUMN id SET TAGS ('pii')", Code.NOT_SUPPORTED, "is a view"),
        ("DROP ROW FILTER f ON TABLE orders", Code.INVALID_ARGUMENTS, "no row filter 'f'"),
        ("DROP MASK m ON TABLE orders", Code.INVALID_ARGUMENTS, "no mask 'm'"),
        ("DROP MASK m ON TAG pii", Code.INVALID_ARGUMENTS, "no mask 'm'"),
        ("CLEAR POLICY ON TABLE orders", Code.INVALID_ARGUMENTS, "no rules"),
    ],
)
async def test_what_cannot_be_enforced_is_refused_when_it_is_defined(
    desk: Desk, sql: str, code: Code, message: str
) -> None:
    error = await desk.refused(sql)
    assert error.code is code
    with pytest.raises(Exception, match=message):
        raise error


async def test_a_mask_is_bound_to_its_column(desk: Desk) -> None:
    await desk.run(f"CREATE {MASK.format('EMAIL')} USING (sha2(email, 256)) PRIORITY 3")
    mask = the_mask(desk)
    assert mask.column == BoundColumn("email", 3)
    assert mask.columns == (BoundColumn("email", 3),)
    assert (mask.using, mask.action, mask.priority) == ("sha2(email, 256)", None, 3)
    assert desk.spark.asked == [(("lake", "sales", "orders"), ExpressionKind.MASK, "email", "string")]


async def test_a_mask_may_be_on_a_field_of_a_struct(desk: Desk) -> None:
    await desk.run(f"CREATE {MASK.format('home.street')} ACTION 'hash'")
    assert the_mask(desk).column == BoundColumn("home.street", 5)
    assert desk.spark.asked == []


async def test_two_masks_that_could_meet_need_priorities(desk: Desk) -> None:
    await desk.run(f"CREATE {MASK.format('email')} ACTION 'hash'")
    second = "CREATE MASK other ON TABLE orders COLUMN email FOR USER bob ACTION 'null'"
    assert (await desk.refused(second)).code is Code.INVALID_ARGUMENTS
    await desk.run(f"CREATE OR REPLACE {MASK.format('email')} ACTION 'hash' PRIORITY 1")
    await desk.run(f"{second} PRIORITY 2")


async def test_a_mask_on_a_tag_must_fit_each_column_that_carries_it(desk: Desk) -> None:
    await desk.run("ALTER TABLE orders ALTER COLUMN email SET TAGS ('pii')")
    await desk.run("ALTER TABLE orders ALTER COLUMN id SET TAGS ('pii')")
    error = await desk.refused("CREATE MASK pii ON TAG pii FOR ROLE analyst USING (sha2(value, 256))")
    assert error.code is Code.TYPE_MISMATCH
    assert "does not fit column id" in error.message
    await desk.run("CREATE MASK pii ON TAG pii FOR ROLE analyst USING (value)")
    assert {asked[3] for asked in desk.spark.asked} == {"string", "long"}
    assert the_mask(desk).tag == "pii"


async def test_a_column_takes_a_tag_only_if_its_masks_fit(desk: Desk) -> None:
    await desk.run("CREATE MASK pii ON TAG pii FOR ROLE analyst USING (sha2(value, 256))")
    error = await desk.refused("ALTER TABLE orders ALTER COLUMN id SET TAGS ('pii')")
    assert error.code is Code.TYPE_MISMATCH
    await desk.run("ALTER TABLE orders ALTER COLUMN email SET TAGS ('pii', 'vip')")
    (tagged,) = desk.store.current.tags
    assert (tagged.column, tagged.tags) == (BoundColumn("email", 3), frozenset({"pii", "vip"}))
    await desk.run("ALTER TABLE orders ALTER COLUMN email UNSET TAGS ('pii')")
    assert desk.store.current.tags[0].tags == {"vip"}


async def test_a_nested_column_is_masked_by_a_tag_with_an_action_only(desk: Desk) -> None:
    await desk.run("CREATE MASK pii ON TAG pii FOR ROLE analyst USING (value)")
    error = await desk.refused("ALTER TABLE orders ALTER COLUMN home SET TAGS ('pii')")
    assert (error.code, "ACTION 'null'" in error.message) == (Code.NOT_SUPPORTED, True)
    await desk.run("CREATE OR REPLACE MASK pii ON TAG pii FOR ROLE analyst ACTION 'null'")
    await desk.run("ALTER TABLE orders ALTER COLUMN home SET TAGS ('pii')")


async def test_a_tag_is_taken_from_a_column_that_went_by_the_name_it_had(desk: Desk) -> None:
    await desk.run("ALTER TABLE orders ALTER COLUMN email SET TAGS ('pii')")
    desk.catalog.add(replace(ORDERS, columns=COLUMNS[:2]))
    await desk.run("ALTER TABLE orders ALTER COLUMN email UNSET TAGS ('pii')")
    assert desk.store.current.tags == ()


async def test_rules_are_dropped_by_name_and_place(desk: Desk) -> None:
    await desk.run(f"CREATE {FILTER} (region = 'EU')")
    await desk.run(f"CREATE {MASK.format('email')} ACTION 'hash'")
    await desk.run("CREATE MASK pii ON TAG pii FOR ROLE analyst ACTION 'null'")
    await desk.run("DROP ROW FILTER eu_only ON TABLE orders")
    await desk.run("DROP MASK hide ON TABLE lake.sales.orders")
    await desk.run("DROP MASK pii ON TAG pii")
    assert (desk.store.current.filters, desk.store.current.masks) == ((), ())
    await desk.run("DROP ROW FILTER IF EXISTS eu_only ON TABLE orders")
    await desk.run("DROP MASK IF EXISTS hide ON TABLE orders")
    await desk.run("DROP MASK IF EXISTS pii ON TAG pii")


async def test_rules_of_a_table_that_went_wait_until_an_admin_clears_them(desk: Desk) -> None:
    await desk.run(f"CREATE {FILTER} (region = 'EU')")
    await desk.run(f"CREATE {MASK.format('email')} ACTION 'hash'")
    desk.catalog.add(replace(ORDERS, uuid="uuid-new", columns=(Column(1, "email"),)))
    shown = await desk.run("SHOW POLICIES ON TABLE orders")
    assert [row["name"] for row in shown] == ["hide", "eu_only"]
    await desk.run("CLEAR POLICY ON TABLE orders")
    assert (desk.store.current.filters, desk.store.current.masks) == ((), ())


async def test_a_rule_of_a_table_that_went_can_be_dropped(desk: Desk) -> None:
    await desk.run(f"CREATE {FILTER} (region = 'EU')")
    desk.catalog.tables.clear()
    await desk.run("DROP ROW FILTER eu_only ON TABLE orders")
    assert desk.store.current.filters == ()

"""What stays in a session of one's own, in a real Spark: views, and nothing else."""

from dataclasses import replace

import pytest
from guarded_lake import ORDERS, WRITER, anna, row_filter
from pyspark.sql.connect import proto

from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import new_operation_id
from dedicated.house import (
    ANNA,
    BRACKETED,
    OTTO,
    RESTRICTED,
    SEEN,
    Client,
    DedicatedHouse,
    command,
    sql,
    table,
    view,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


async def test_a_view_of_a_data_frame_is_there_for_later_operations(client: Client) -> None:
    await client.run(view("v", table(ORDERS)), makes_view=True)
    await client.run(view("w", sql("SELECT * FROM v WHERE id > 0")), makes_view=True)

    for name in ("v", "w"):
        assert sorted(await client.run(sql(f"SELECT id, ssn FROM {name}"))) == SEEN
        joined = f"SELECT a.id, b.ssn FROM {name} a JOIN {name} b USING (id) JOIN {ORDERS} o USING (id)"
        assert sorted(await client.run(sql(joined))) == SEEN
        assert sorted((row[0], row[3]) for row in await client.run(table(name))) == SEEN


async def test_a_view_shows_what_was_committed_since(house: DedicatedHouse, client: Client) -> None:
    await client.run(view("v", table("lake.sales.open")), makes_view=True)
    before = await client.run(sql("SELECT count(*) FROM v"))
    await house.administer("INSERT INTO lake.sales.open VALUES (77, 'new')")
    try:
        assert await client.run(sql("SELECT count(*) FROM v")) == [(before[0][0] + 1,)]
    finally:
        await house.administer("DELETE FROM lake.sales.open WHERE id = 77")


async def test_a_view_of_a_rule_with_a_query_holds(house: DedicatedHouse, client: Client) -> None:
    entitled = row_filter(
        "EXISTS (SELECT 1 FROM lake.sales.allowed a WHERE a.who = current_user()"
        " AND a.region = orders.region)",
        "region",
        name="entitled",
        tables=("lake.sales.allowed",),
    )
    house.enact(replace(anna(entitled).policies, version=5))
    client.own.renew_standing(ANNA)
    await client.run(view("v", table(ORDERS)), makes_view=True)
    assert sorted(await client.run(sql("SELECT id FROM v"))) == [(1,), (3,)]
    assert sorted(await client.run(sql("SELECT a.id FROM v a JOIN v b USING (id)"))) == [(1,), (3,)]


async def test_a_view_obeys_the_policy_that_holds_when_it_is_read(
    house: DedicatedHouse, client: Client
) -> None:
    await client.run(view("v", table(ORDERS)), makes_view=True)
    us_only = row_filter("region = 'US'", "region", name="us_only")
    house.enact(replace(anna(us_only, BRACKETED).policies, version=2))

    assert await client.run(sql("SELECT id, ssn FROM v")) == [(2, "<2222>")]
    house.enact(replace(anna(tables=("open",)).policies, version=3))
    with pytest.raises(BailiwickError) as caught:
        await client.run(sql("SELECT id, ssn FROM v"))
    assert caught.value.code in (Code.TABLE_NOT_FOUND, Code.ACCESS_DENIED)


async def test_a_view_of_a_version_is_read_under_the_standing_lease_until_that_is_renewed(
    client: Client,
) -> None:
    before = sql(f"SELECT id, ssn FROM {ORDERS} TIMESTAMP AS OF now()")
    await client.run(view("v", before), makes_view=True)
    assert sorted(await client.run(sql("SELECT id, ssn FROM v"))) == SEEN
    assert sorted(await client.run(sql("SELECT a.id, b.ssn FROM v a JOIN v b USING (id)"))) == SEEN

    client.own.renew_standing(ANNA)
    assert await client.refusal(sql("SELECT id, ssn FROM v")) == "unstamped"
    await client.run(view("v", before), makes_view=True)
    assert sorted(await client.run(table("v"))) == SEEN

    await client.run(view("w", before))
    assert await client.refusal(sql("SELECT id FROM w")) == "unstamped"


async def test_writing_through_a_view_takes_the_right_to_write_its_table(
    house: DedicatedHouse, client: Client
) -> None:
    await client.run(view("v", table("lake.sales.open")), makes_view=True)
    insert = sql("INSERT INTO v VALUES (98, 'x')")
    assert await client.refusal(insert) == "privilege"
    house.enact(replace(anna(privileges=WRITER).policies, version=3))
    await client.run(insert)
    assert await house.administer("SELECT note FROM lake.sales.open WHERE id = 98") == [("x",)]


async def test_a_view_of_a_version_cannot_be_written_through(house: DedicatedHouse, client: Client) -> None:
    house.enact(replace(anna(privileges=WRITER).policies, version=4))
    client.own.renew_standing(ANNA)
    pinned = sql("SELECT * FROM lake.sales.open TIMESTAMP AS OF now()")
    await client.run(view("v", pinned), makes_view=True)
    with pytest.raises(BailiwickError):
        await client.run(sql("INSERT INTO v VALUES (95, 'x')"))
    assert await house.administer("SELECT count(*) FROM lake.sales.open WHERE id = 95") == [(0,)]


@pytest.mark.parametrize("of", [f"SELECT * FROM {ORDERS}", f"SELECT * FROM {ORDERS} TIMESTAMP AS OF now()"])
async def test_the_plan_of_a_view_does_not_tell_rules(client: Client, of: str) -> None:
    await client.run(view("v", sql(of)), makes_view=True)
    request = proto.AnalyzePlanRequest()
    request.explain.plan.CopyFrom(table("v"))
    request.explain.explain_mode = proto.AnalyzePlanRequest.Explain.ExplainMode.EXPLAIN_MODE_EXTENDED
    told = (await client.analyse(request)).explain.explain_string
    told += str(await client.run(sql("EXPLAIN EXTENDED SELECT * FROM v")))
    assert "<policy eu_only>" in told
    assert "'EU'" not in told
    assert "= EU" not in told
    assert "right(" not in told


async def test_temporary_views_of_statements_come_and_go(client: Client) -> None:
    await client.run(command(f"CREATE OR REPLACE TEMP VIEW few AS SELECT id, ssn FROM {ORDERS}"))
    assert sorted(await client.run(table("few"))) == SEEN
    assert await client.run(command("DESCRIBE few")) == [("id", "bigint", None), ("ssn", "string", None)]
    await client.run(command("DROP VIEW few"))
    with pytest.raises(BailiwickError) as caught:
        await client.run(table("few"))
    assert caught.value.code is Code.TABLE_NOT_FOUND


@pytest.mark.parametrize(
    "text",
    [
        "CREATE GLOBAL TEMP VIEW shared AS SELECT 1",
        "CREATE TEMP VIEW files USING parquet OPTIONS (path '/tmp/x')",
        "SET spark.sql.ansi.enabled = false",
        "CACHE TABLE lake.sales.open",
        "DECLARE VARIABLE x INT DEFAULT 1",
        "CREATE TEMPORARY FUNCTION f AS 'x.Y'",
        "ADD JAR '/tmp/x.jar'",
    ],
)
async def test_other_things_are_left_behind_in_no_session(client: Client, text: str) -> None:
    assert await client.refusal(command(text)) == "not_allowed"


async def test_a_global_view_of_a_data_frame_is_refused(client: Client) -> None:
    plan = view("everybodys", table(ORDERS), is_global=True)
    assert await client.refusal(plan, makes_view=True) == "not_allowed"


async def test_a_shared_session_keeps_no_views(house: DedicatedHouse) -> None:
    house.enact(RESTRICTED)
    for plan in (view("v", table(ORDERS)), command("CREATE TEMP VIEW w AS SELECT 1")):
        async with house.pool.lease(ANNA) as lease:
            responses = lease.session.execute_plan(plan, operation=new_operation_id(), lease=lease.id)
            with pytest.raises(BailiwickError) as caught:
                [_ async for _ in responses]
        assert caught.value.details["reason"] == "not_allowed"


async def test_nobody_else_finds_what_was_left_in_a_session(house: DedicatedHouse, client: Client) -> None:
    await client.run(view("v", table(ORDERS)), makes_view=True)
    own = await house.dedicated.dedicate(OTTO)
    try:
        with pytest.raises(BailiwickError) as caught:
            await Client(own, OTTO).run(table("v"), standing=client.own.standing)
        assert caught.value.code is Code.TABLE_NOT_FOUND
    finally:
        await own.close()

"""Sessions of one's own in a real Spark: what runs in them, and what is told of plans."""

import asyncio
from dataclasses import replace

import pytest
from guarded_lake import ORDERS, WRITER, anna
from pyspark.sql.connect import proto

from bailiwick.engines.description import Kind
from bailiwick.engines.engine import EngineLost
from bailiwick.engines.spark_refusal import SparkRefusal
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import new_operation_id
from dedicated.house import (
    ANNA,
    SEEN,
    Client,
    DedicatedHouse,
    call,
    command,
    sql,
    sql_with_frame,
    table,
    view,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


async def test_operations_run_side_by_side_and_one_that_is_left_ends_alone(client: Client) -> None:
    async with client.lease() as staying:
        async with client.lease() as leaving:
            endless = asyncio.create_task(
                client.run_under(leaving, sql("SELECT sum(id) FROM range(0, 1000000000000, 1, 1)"))
            )
            brief = asyncio.create_task(
                client.run_under(staying, sql("SELECT count(*) FROM range(0, 500000000, 1, 1) WHERE id >= 0"))
            )
            assert await client.run_under(leaving, call("current_user")) == [("anna",)]
        with pytest.raises(BailiwickError) as cancelled:
            await endless
        assert cancelled.value.code is Code.QUERY_CANCELLED
        assert await brief == [(500_000_000,)]
    assert not client.own.is_lost


async def test_a_data_frame_is_governed_as_a_statement_is(client: Client) -> None:
    assert sorted((row[0], row[3]) for row in await client.run(table(ORDERS))) == SEEN
    assert await client.run(call("current_user", "session_user")) == [("anna", "anna")]
    assert await client.run(sql("SELECT current_user()")) == [("anna",)]


async def test_a_plan_is_analysed_for_the_one_who_asks(client: Client) -> None:
    request = proto.AnalyzePlanRequest()
    request.schema.plan.CopyFrom(table(ORDERS))
    fields = (await client.analyse(request)).schema.schema.struct.fields
    assert [field.name for field in fields] == ["id", "region", "owner", "ssn", "amount", "addr"]

    request = proto.AnalyzePlanRequest()
    request.tree_string.plan.CopyFrom(table("lake.sales.open"))
    assert "|-- note: string" in (await client.analyse(request)).tree_string.tree_string

    request = proto.AnalyzePlanRequest()
    request.is_local.plan.CopyFrom(table(ORDERS))
    assert (await client.analyse(request)).is_local.is_local is False

    request = proto.AnalyzePlanRequest()
    request.ddl_parse.ddl_string = "a INT, b STRING"
    assert len((await client.analyse(request)).ddl_parse.parsed.struct.fields) == 2


async def test_a_deep_plan_is_analysed_as_it_is_run(client: Client) -> None:
    plan = table("lake.sales.open")
    for number in range(300):
        outer = proto.Plan()
        outer.root.with_columns.input.CopyFrom(plan.root)
        alias = outer.root.with_columns.aliases.add(name=[f"c{number % 5}"])
        alias.expr.literal.integer = number
        plan = outer
    request = proto.AnalyzePlanRequest()
    request.schema.plan.CopyFrom(plan)
    assert len((await client.analyse(request)).schema.schema.struct.fields) == 7
    assert (await client.run(plan))[0][2:] == (295, 296, 297, 298, 299)


async def test_equal_plans_are_known_to_be_so(client: Client) -> None:
    request = proto.AnalyzePlanRequest()
    request.same_semantics.target_plan.CopyFrom(table(ORDERS))
    request.same_semantics.other_plan.CopyFrom(table(ORDERS))
    assert (await client.analyse(request)).same_semantics.result

    request = proto.AnalyzePlanRequest()
    request.semantic_hash.plan.CopyFrom(table(ORDERS))
    hashed = (await client.analyse(request)).semantic_hash.result
    assert (await client.analyse(request)).semantic_hash.result == hashed


@pytest.mark.parametrize("mode", ["SIMPLE", "EXTENDED", "FORMATTED"])
async def test_an_explanation_names_rules_and_does_not_tell_them(client: Client, mode: str) -> None:
    request = proto.AnalyzePlanRequest()
    request.explain.plan.CopyFrom(table(ORDERS))
    request.explain.explain_mode = proto.AnalyzePlanRequest.Explain.ExplainMode.Value(f"EXPLAIN_MODE_{mode}")
    told = (await client.analyse(request)).explain.explain_string
    assert "<policy eu_only>" in told
    assert "EU" not in told.replace("<policy eu_only>", "")
    assert "right(" not in told


@pytest.mark.parametrize("mode", ["CODEGEN", "COST"])
async def test_an_explanation_that_would_tell_too_much_is_refused(client: Client, mode: str) -> None:
    request = proto.AnalyzePlanRequest()
    request.explain.plan.CopyFrom(table(ORDERS))
    request.explain.explain_mode = proto.AnalyzePlanRequest.Explain.ExplainMode.Value(f"EXPLAIN_MODE_{mode}")
    with pytest.raises(BailiwickError, match="would tell too much"):
        await client.analyse(request)


async def test_what_makes_no_sense_is_refused_as_spark_refuses_it(client: Client) -> None:
    request = proto.AnalyzePlanRequest()
    request.explain.plan.CopyFrom(sql(f"SELECT nothing FROM {ORDERS}"))
    with pytest.raises(SparkRefusal) as caught:
        await client.analyse(request)
    assert caught.value.code is Code.COLUMN_NOT_FOUND
    answer = caught.value.spark
    assert answer.metadata["errorClass"] == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert answer.errors[0].spark_throwable.query_contexts[0].fragment == "nothing"
    assert "org.apache.spark.sql.AnalysisException" in answer.metadata["classes"]


async def test_kinds_of_analysis_that_would_do_something_are_refused(client: Client) -> None:
    request = proto.AnalyzePlanRequest()
    request.persist.relation.CopyFrom(table(ORDERS).root)
    with pytest.raises(BailiwickError) as caught:
        await client.analyse(request)
    assert caught.value.details["reason"] == "not_allowed"


async def test_analysing_a_command_does_not_carry_it_out(house: DedicatedHouse, client: Client) -> None:
    house.enact(anna(privileges=WRITER).policies)
    request = proto.AnalyzePlanRequest()
    request.schema.plan.CopyFrom(sql("INSERT INTO lake.sales.open VALUES (99, 'z')"))
    await client.analyse(request)
    assert await house.administer("SELECT count(*) FROM lake.sales.open WHERE id = 99") == [(0,)]


async def test_a_statement_may_name_a_data_frame(client: Client) -> None:
    plan = sql_with_frame("SELECT id, ssn FROM mine WHERE id > 1", "mine", table(ORDERS))
    relation = [
        response.sql_command_result.relation
        for response in await _responses(client, plan)
        if response.HasField("sql_command_result")
    ]
    query = proto.Plan()
    query.root.CopyFrom(relation[0])
    assert await client.run(query) == [(3, "<3333>")]


async def _responses(client: Client, plan: proto.Plan) -> list[proto.ExecutePlanResponse]:
    async with client.lease() as lease:
        responses = client.own.session.execute_plan(
            plan, operation=new_operation_id(), lease=lease.id, standing=client.own.standing
        )
        return [response async for response in responses]


async def test_what_a_statement_is_can_be_told_from_its_text(client: Client) -> None:
    async def kind(text: str) -> tuple[Kind, tuple[str, ...]]:
        async with client.lease() as lease:
            parsed = await client.own.session.parse(
                text, lease=lease.id, timeout_s=60, standing=client.own.standing
            )
        return parsed.kind, parsed.reads

    assert await kind(f"SELECT * FROM {ORDERS} WHERE id = :id") == (Kind.READ, (ORDERS,))
    assert await kind("INSERT INTO lake.sales.open SELECT * FROM mine") == (Kind.CHANGE, ("lake.mine",))
    assert (await kind("SHOW TABLES IN lake.sales"))[0] is Kind.SHOWS
    await client.run(view("v", table(ORDERS)), makes_view=True)
    async with client.lease() as lease:
        described = await client.own.session.describe(
            "SELECT * FROM v", lease=lease.id, timeout_s=60, standing=client.own.standing
        )
    assert described.catalogs == {"lake"}
    assert (await kind("USE lake.sales"))[0] is Kind.OWN
    assert (await kind("CREATE TEMP VIEW x AS SELECT 1"))[0] is Kind.OWN
    assert (await kind("CREATE GLOBAL TEMP VIEW x AS SELECT 1"))[0] is Kind.SESSION
    assert (await kind("SET spark.sql.ansi.enabled = false"))[0] is Kind.SESSION
    assert (await kind("BEGIN SELECT 1; END"))[0] is Kind.SESSION


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO lake.sales.open VALUES (97, 'x')",
        "EXECUTE IMMEDIATE \"INSERT INTO lake.sales.open VALUES (97, 'x')\"",
        "DROP TABLE lake.sales.open",
        "CREATE TEMP VIEW x AS SELECT 1",
        "USE lake.sales",
    ],
)
async def test_what_was_taken_for_a_query_and_is_none_does_not_begin(
    house: DedicatedHouse, client: Client, text: str
) -> None:
    house.enact(replace(anna(privileges=WRITER).policies, version=4))
    assert await client.refusal(command(text), reads_only=True) == "changes"
    assert await house.administer("SELECT count(*) FROM lake.sales.open WHERE id = 97") == [(0,)]
    assert await client.run(command("SELECT 1"), reads_only=True) == []
    assert await client.run(sql("SHOW CURRENT NAMESPACE"), reads_only=True) != []


async def test_a_late_operation_of_a_closed_session_commits_nothing(house: DedicatedHouse) -> None:
    house.enact(anna(privileges=WRITER).policies)
    own = await house.dedicated.dedicate(ANNA)
    client = Client(own, ANNA)
    async with own.lease(ANNA) as lease:
        slow = sql(
            "INSERT INTO lake.sales.open SELECT id, 'late' FROM range(0, 3000000000, 1, 1)"
            " WHERE id % 1000000000 = 1"
        )
        writing = asyncio.create_task(client.run_under(lease, slow))
        assert await client.run_under(lease, sql("SELECT 1")) == [(1,)]
        await own.close()
        with pytest.raises((BailiwickError, EngineLost)):
            await writing
    assert await house.administer("SELECT count(*) FROM lake.sales.open WHERE note = 'late'") == [(0,)]


async def test_an_operation_whose_lease_was_left_commits_nothing_while_its_session_lives(
    house: DedicatedHouse, client: Client
) -> None:
    house.enact(anna(privileges=WRITER).policies)
    async with client.lease() as lease:
        late = lease.id
    responses = client.own.session.execute_plan(
        sql("INSERT INTO lake.sales.open VALUES (96, 'late')"),
        operation=new_operation_id(),
        lease=late,
        standing=client.own.standing,
    )
    with pytest.raises(BailiwickError):
        [_ async for _ in responses]
    assert await house.administer("SELECT count(*) FROM lake.sales.open WHERE id = 96") == [(0,)]


async def test_tags_of_a_person_are_never_taken_for_ours(client: Client) -> None:
    tags = ("C", "x_Tag_C", f"L{client.own.standing}", "Pcm9vdA", "a,b")
    assert await client.run(call("current_user"), user_tags=tags) == [("anna",)]
    procedure = sql("CALL lake.system.remove_orphan_files(table => 'sales.open')")
    assert await client.refusal(procedure, user_tags=tags) == "not_allowed"


async def test_what_is_observed_is_of_the_rows_that_are_seen(client: Client) -> None:
    plan = proto.Plan()
    plan.root.collect_metrics.input.CopyFrom(table(ORDERS).root)
    plan.root.collect_metrics.name = "seen"
    counted = plan.root.collect_metrics.metrics.add().alias
    counted.name.append("n")
    counted.expr.unresolved_function.function_name = "count"
    counted.expr.unresolved_function.arguments.add().literal.integer = 1
    responses = await _responses(client, plan)
    observed = [metric for response in responses for metric in response.observed_metrics]
    assert [metric.values[0].long for metric in observed] == [2]


async def test_settings_of_the_session_can_be_read_and_set(client: Client) -> None:
    change = proto.ConfigRequest.Operation()
    change.set.pairs.add(key="spark.sql.session.timeZone", value="Europe/Zurich")
    await client.own.session.config(change)
    question = proto.ConfigRequest.Operation()
    question.get.keys.append("spark.sql.session.timeZone")
    told = await client.own.session.config(question)
    assert [(pair.key, pair.value) for pair in told.pairs] == [
        ("spark.sql.session.timeZone", "Europe/Zurich")
    ]


async def test_the_catalog_of_a_session_lists_what_its_owner_may_see(client: Client) -> None:
    await client.run(command("USE lake.sales"))
    listed = proto.Plan()
    listed.root.catalog.list_tables.SetInParent()
    names = {row[0] for row in await client.run(listed)}
    # Spark names no temporary views beside the tables of a catalog like ours.
    assert {"orders", "open"} <= names
    assert "allowed" not in names
    current = proto.Plan()
    current.root.catalog.current_database.SetInParent()
    assert await client.run(current) == [("sales",)]
    assert sorted((row[0], row[3]) for row in await client.run(table("orders"))) == SEEN

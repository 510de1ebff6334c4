"""Sessions with code of their client's: where they live, what moves with them, and whose they cannot be."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from connect_house import (
    ConnectHouse,
    condition,
    connect_house,
    error_info,
    kinds,
    refused,
    sql_plan,
    table_plan,
    view_plan,
)
from pyspark.sql.connect import proto
from query_house import ANN, RITA, Script

from bailiwick.doors.spark_connect.config import SparkConnectConfig
from bailiwick.engines.description import Description, Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.placement import Placement
from bailiwick.fleet.report import TRUSTED
from bailiwick.fleet.schedule import Work
from bailiwick.identity.abilities import may_run_code
from bailiwick.identity.principal import Principal

CODE_ROLE = "writer"


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[ConnectHouse]:
    async with connect_house(tmp_path, SparkConnectConfig(user_code_roles=(CODE_ROLE,))) as made:
        yield made


def code_plan() -> Any:
    plan = table_plan()
    relation = proto.Relation()
    relation.map_partitions.input.CopyFrom(plan.root)
    relation.map_partitions.func.python_udf.command = b"code"
    plan.root.CopyFrom(relation)
    return plan


def function_plan(name: str, command: bytes = b"code") -> Any:
    plan = proto.Plan()
    plan.command.register_function.function_name = name
    plan.command.register_function.python_udf.command = command
    return plan


def test_code_is_for_the_roles_that_are_named_and_never_on_behalf_of_others() -> None:
    assert may_run_code(ANN, {CODE_ROLE})
    assert not may_run_code(RITA, {CODE_ROLE})
    assert not may_run_code(ANN, ())
    assert not may_run_code(Principal(ANN.name, ANN.roles, actor="bot"), {CODE_ROLE})


async def test_code_runs_on_an_engine_for_it_and_in_a_session_of_its_clients_own(door: ConnectHouse) -> None:
    assert kinds(await door.client().run(code_plan()))[-1] == "result_complete"
    assert [made.engine_class for made in door.desk.made] == [TRUSTED]
    assert door.desk.lent == 0


async def test_who_may_not_is_refused_and_reaches_no_engine(door: ConnectHouse) -> None:
    for plan in (code_plan(), function_plan("f")):
        error = await refused(door.client(token="rita").run(plan))
        assert condition(error) == "BAILIWICK_NOT_SUPPORTED"
        assert "user_code_roles" in str(error.details())
    assert (door.desk.made, door.desk.lent) == ([], 0)


async def test_one_who_acts_for_somebody_who_may_is_refused(tmp_path: Path) -> None:
    async with connect_house(tmp_path, SparkConnectConfig(user_code_roles=("reader",))) as door:
        assert kinds(await door.client(token="rita").run(code_plan()))[-1] == "result_complete"
        error = await refused(door.client(subject="rita").run(code_plan()))
        assert condition(error) == "BAILIWICK_NOT_SUPPORTED"


async def test_a_session_moves_with_its_first_code_and_takes_along_what_it_has(door: ConnectHouse) -> None:
    client = door.client()
    await client.set("spark.sql.shuffle.partitions", "7")
    await client.run(view_plan("v"))
    await client.run(code_plan())
    before, now = door.desk.made
    assert (before.engine_class, now.engine_class) == (None, TRUSTED)
    assert before.is_retired
    again, code = door.desk.ran[-2:]
    assert again[0].command.create_dataframe_view.name == "v"
    assert again[1]["standing"] == code[1]["standing"] == now.standing
    await client.run(table_plan())
    assert len(door.desk.made) == 2


async def test_a_plan_with_code_is_analysed_there_too(door: ConnectHouse) -> None:
    client, analysis = door.client(), proto.AnalyzePlanRequest.TreeString()
    analysis.plan.CopyFrom(code_plan())
    answer = await client.call("AnalyzePlan", proto.AnalyzePlanRequest, tree_string=analysis)
    assert answer.tree_string.tree_string == "a tree"
    assert [made.engine_class for made in door.desk.made] == [TRUSTED]


async def test_functions_are_made_again_on_another_engine_in_their_order(door: ConnectHouse) -> None:
    client = door.client()
    for plan in (
        function_plan("f", b"1"),
        view_plan("v"),
        function_plan("F", b"2"),
        function_plan("F", b"3"),
    ):
        await client.run(plan)
    door.desk.made[0].is_lost = True
    door.desk.ran.clear()
    await client.run(table_plan())
    steps = [plan.command for plan, _ in door.desk.ran[:-1]]
    made = [step.register_function.python_udf.command or step.create_dataframe_view.name for step in steps]
    # The view may hold what the function was at first.
    assert made == [b"1", "v", b"3"]


async def test_queries_with_a_function_of_the_session_are_asked_there(door: ConnectHouse) -> None:
    door.desk.engine.scripts["SELECT f(1)"] = Script(description=Description(Kind.READ, "Project"))
    client = door.client()
    await client.run(function_plan("f"))
    await client.run(sql_plan("SELECT f(1)"))
    assert (door.desk.lent, len(door.desk.made)) == (0, 1)


async def test_a_function_that_was_not_made_is_not_made_again(door: ConnectHouse) -> None:
    client = door.client()
    door.desk.answers = [[BailiwickError(Code.EXECUTION_FAILED, "no")]]
    await refused(client.run(function_plan("f")))
    door.desk.made[0].is_lost = True
    door.desk.ran.clear()
    await client.run(table_plan())
    assert len(door.desk.ran) == 1


async def test_who_loses_the_right_loses_the_session_too(door: ConnectHouse) -> None:
    client = door.client()
    await client.run(function_plan("f"))
    session = next(iter(door.door.sessions))
    assert door.door.sessions.placed(session, ANN, Work(placement=Placement.LOCAL)) == Work(
        placement=Placement.REQUIRE, engine_class=TRUSTED
    )
    with pytest.raises(BailiwickError, match="may not any more") as caught:
        door.door.sessions.placed(session, Principal(ANN.name, frozenset({"reader"})), Work())
    assert caught.value.code is Code.ACCESS_DENIED


async def test_what_code_raises_is_pysparks_own_exception(door: ConnectHouse) -> None:
    failure = BailiwickError(Code.EXECUTION_FAILED, "ValueError: 7", details={"reason": "user_code"})
    door.desk.answers = [[failure]]
    error = await refused(door.client().run(code_plan()))
    assert error_info(error).reason == "org.apache.spark.api.python.PythonException"
    assert "ValueError: 7" in str(error.details())

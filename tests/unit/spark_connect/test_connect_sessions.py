"""Operations and sessions by their protobuf: taken up again, interrupted, given up, made again elsewhere."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from connect_house import (
    Client,
    ConnectHouse,
    condition,
    connect_house,
    error_info,
    kinds,
    operation_id,
    refused,
    rows_response,
    sql_plan,
    table_plan,
    view_plan,
)
from pyspark.sql.connect import proto
from query_house import ANN, Script, eventually

from bailiwick.doors.spark_connect.config import SparkConnectConfig
from bailiwick.doors.spark_connect.door import Caller
from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import EngineLost
from bailiwick.errors import BailiwickError, Code


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[ConnectHouse]:
    async with connect_house(tmp_path) as made:
        yield made


async def test_what_would_stay_behind_in_a_session_that_others_share_is_refused(door: ConnectHouse) -> None:
    door.desk.engine.scripts["DECLARE x INT"] = Script(kind=Kind.SESSION)
    error = await refused(door.client().run(sql_plan("DECLARE x INT")))
    assert condition(error) == "BAILIWICK_NOT_SUPPORTED"


async def test_an_operation_of_another_user_cannot_be_read_interrupted_or_released(
    door: ConnectHouse,
) -> None:
    gate, name = asyncio.Event(), operation_id()
    ann = door.client()
    door.desk.answers = [[gate, rows_response()]]
    reading = asyncio.create_task(ann.run(table_plan(), operation_id=name, tags=["mine"]))
    await eventually(lambda: bool(door.desk.ran))
    rita = door.client(token="rita", session_id=ann.session_id)
    stolen = rita.reattach(name)
    assert "SESSION_CHANGED" in condition(await refused(stolen.read()))
    everything = proto.InterruptRequest.INTERRUPT_TYPE_ALL
    answer = await rita.call("Interrupt", proto.InterruptRequest, interrupt_type=everything)
    assert not answer.interrupted_ids
    await rita.call(
        "ReleaseExecute",
        proto.ReleaseExecuteRequest,
        operation_id=name,
        release_all=proto.ReleaseExecuteRequest.ReleaseAll(),
    )
    gate.set()
    assert kinds(await reading)[-1] == "result_complete"


async def test_a_broken_stream_is_taken_up_behind_the_last_response(door: ConnectHouse) -> None:
    gate, name = asyncio.Event(), operation_id()
    client = door.client()
    door.desk.answers = [[rows_response(), gate, rows_response()]]
    call = client.execute(table_plan(), operation_id=name)
    first = await call.read()
    call.cancel()
    gate.set()
    rest = [response async for response in client.reattach(name, first.response_id)]
    assert kinds(rest) == ["arrow_batch", "result_complete"]
    again = [response async for response in client.reattach(name, first.response_id)]
    assert [response.response_id for response in again] == [response.response_id for response in rest]
    assert len(door.desk.ran) == 1


async def test_a_long_stream_ends_and_is_taken_up(tmp_path: Path) -> None:
    gate, name = asyncio.Event(), operation_id()
    async with connect_house(tmp_path, SparkConnectConfig(stream_s=0.001)) as door:
        door.desk.answers = [[rows_response(), gate, rows_response()]]
        client = door.client()
        first = await client.run(table_plan(), operation_id=name)
        assert kinds(first) == ["arrow_batch"]
        gate.set()
        seen = list(first)
        while kinds(seen)[-1] != "result_complete":
            seen += [response async for response in client.reattach(name, seen[-1].response_id)]
        assert kinds(seen) == ["arrow_batch", "arrow_batch", "result_complete"]


async def test_what_was_released_is_gone_and_never_runs_again(door: ConnectHouse) -> None:
    name, client = operation_id(), door.client()
    await client.run(table_plan(), operation_id=name)
    await client.call(
        "ReleaseExecute",
        proto.ReleaseExecuteRequest,
        operation_id=name,
        release_all=proto.ReleaseExecuteRequest.ReleaseAll(),
    )
    assert "OPERATION_ABANDONED" in condition(await refused(client.reattach(name).read()))
    assert "OPERATION_ABANDONED" in condition(await refused(client.run(table_plan(), operation_id=name)))
    assert len(door.desk.ran) == 1


async def test_an_operation_that_never_came_is_not_found(door: ConnectHouse) -> None:
    client = door.client()
    await client.run(table_plan())
    assert "OPERATION_NOT_FOUND" in condition(await refused(client.reattach(operation_id()).read()))


async def test_the_same_operation_sent_twice_runs_once_and_another_under_its_name_not_at_all(
    door: ConnectHouse,
) -> None:
    name, client = operation_id(), door.client()
    first = await client.run(table_plan(), operation_id=name)
    again = await client.run(table_plan(), operation_id=name)
    assert [each.response_id for each in again] == [each.response_id for each in first]
    other = await refused(client.run(table_plan("sales.other"), operation_id=name))
    assert condition(other) == "INVALID_HANDLE.OPERATION_ALREADY_EXISTS"
    assert len(door.desk.ran) == 1


@pytest.mark.parametrize("how", ["all", "tag", "operation"])
async def test_an_interrupt_ends_the_operation_as_spark_says_it(door: ConnectHouse, how: str) -> None:
    name, client = operation_id(), door.client()
    door.desk.answers = [[asyncio.Event()]]
    reading = asyncio.create_task(client.run(table_plan(), operation_id=name, tags=["slow"]))
    await eventually(lambda: bool(door.desk.ran))
    types = proto.InterruptRequest
    fields: dict[str, Any] = {
        "all": {"interrupt_type": types.INTERRUPT_TYPE_ALL},
        "tag": {"interrupt_type": types.INTERRUPT_TYPE_TAG, "operation_tag": "slow"},
        "operation": {"interrupt_type": types.INTERRUPT_TYPE_OPERATION_ID, "operation_id": name},
    }[how]
    answer = await client.call("Interrupt", proto.InterruptRequest, **fields)
    assert list(answer.interrupted_ids) == [name]
    assert condition(await refused(reading)) == "OPERATION_CANCELED"
    assert (await door.house.recorded()).state.value == "cancelled"


async def test_an_operation_that_is_interrupted_before_its_first_step_ends(door: ConnectHouse) -> None:
    caller, client = Caller(ANN, "loopback"), door.client()
    request = client.request(proto.ExecutePlanRequest, plan=table_plan()).SerializeToString()
    everything = client.request(
        proto.InterruptRequest, interrupt_type=proto.InterruptRequest.INTERRUPT_TYPE_ALL
    )
    screened = await door.door.screened_plan(caller, request)
    session = door.door.session(caller, client.session_id, None)
    operation = door.door.execute(caller, session, screened, request)
    assert await door.door.interrupt(caller, session, everything) == [operation.id]
    async with asyncio.timeout(5):
        with pytest.raises(BailiwickError, match="interrupted by ann"):
            await anext(door.door.responses(session, operation))


async def test_a_client_that_cannot_come_back_ends_its_operation_by_leaving(door: ConnectHouse) -> None:
    door.desk.answers = [[rows_response(), asyncio.Event()]]
    call = door.client().execute(table_plan())
    await call.read()
    (operation,) = (each for session in door.door.sessions for each in session.operations)
    call.cancel()
    await eventually(lambda: operation.task is not None and operation.task.done())
    assert not any(session.is_busy for session in door.door.sessions)
    assert (await door.house.recorded()).state.value == "cancelled"


async def test_a_client_that_stays_away_is_given_up(tmp_path: Path) -> None:
    async with connect_house(tmp_path, SparkConnectConfig(detach_s=0.01)) as door:
        door.desk.answers = [[rows_response(), asyncio.Event()]]
        call = door.client().execute(table_plan(), operation_id=operation_id())
        await call.read()
        call.cancel()
        (session,) = door.door.sessions
        await eventually(lambda: not session.in_use)
        await asyncio.sleep(0.02)
        door.door.sessions.sweep()
        await eventually(lambda: not session.is_busy)


async def test_a_lost_engine_is_replaced_before_the_first_answer(door: ConnectHouse) -> None:
    client = door.client()
    await client.set("spark.sql.shuffle.partitions", "7")
    await client.run(view_plan("v"))
    door.desk.made[0].is_lost = True
    responses = await client.run(table_plan())
    assert kinds(responses)[-1] == "result_complete"
    assert len(door.desk.made) == 2
    assert [pair.key for each in door.desk.configured for pair in each.set.pairs][-1].endswith("partitions")
    assert [told["makes_view"] for _, told in door.desk.ran] == [True, True, False]


async def test_a_read_whose_engine_dies_is_tried_again_and_a_change_is_not(door: ConnectHouse) -> None:
    door.desk.engine.scripts["DROP TABLE t"] = Script(description=Description(Kind.CHANGE, "DropTable"))
    client = door.client()
    door.desk.answers = [[EngineLost("gone")], [rows_response()], [EngineLost("gone")]]
    assert kinds(await client.run(table_plan()))[-1] == "result_complete"
    error = await refused(client.run(sql_plan("DROP TABLE t")))
    assert condition(error) == "BAILIWICK_EXECUTION_FAILED"
    assert len(door.desk.ran) == 3


async def test_an_engine_that_dies_while_a_turn_on_it_is_waited_for_is_passed_over(
    door: ConnectHouse,
) -> None:
    door.desk.engine.scripts["DROP TABLE t"] = Script(description=Description(Kind.CHANGE, "DropTable"))
    client = door.client()
    await client.differ()
    await client.run(sql_plan("SELECT 1"))
    door.desk.made[0].dies_under_waiters = True
    assert kinds(await client.run(table_plan()))[-1] == "result_complete"
    assert len(door.desk.made) == 2
    # Nothing of a change has run by then, either.
    await client.run(sql_plan("DROP TABLE t"))
    door.desk.made[1].dies_under_waiters = True
    assert kinds(await client.run(sql_plan("DROP TABLE t")))[-1] == "result_complete"
    assert len(door.desk.ran) == 3


async def test_what_is_only_asked_of_an_engine_that_dies_is_asked_of_the_next(door: ConnectHouse) -> None:
    client = door.client()
    await client.differ()
    await client.run(table_plan())
    door.desk.made[0].dies_under_waiters = True
    assert kinds(await client.run(sql_plan("SELECT 1"))) == ["sql_command_result", "result_complete"]
    door.desk.made[1].dies_under_waiters = True
    tree = proto.AnalyzePlanRequest.TreeString(plan=table_plan())
    assert (await client.call("AnalyzePlan", proto.AnalyzePlanRequest, tree_string=tree)).tree_string
    assert [one.is_closed for one in door.desk.made] == [True, True, False]


async def test_an_engine_that_leaves_keeps_what_runs_in_the_session_to_its_end(door: ConnectHouse) -> None:
    gate, client = asyncio.Event(), door.client()
    await client.differ()
    door.desk.answers = [[rows_response(), gate, rows_response()]]
    reading = asyncio.create_task(client.run(table_plan()))
    await eventually(lambda: bool(door.desk.ran))
    leaving = door.desk.made[0]
    leaving.is_lost = True
    assert kinds(await client.run(table_plan()))[-1] == "result_complete"
    assert len(door.desk.made) == 2
    assert not leaving.is_closed
    gate.set()
    assert kinds(await reading) == ["arrow_batch", "arrow_batch", "result_complete"]
    await eventually(lambda: leaving.is_closed)


async def test_views_are_made_anew_when_policies_change(door: ConnectHouse) -> None:
    client = door.client()
    await client.run(view_plan("v"))
    door.desk.made[0].is_current = False
    await client.run(table_plan("v"))
    assert [told["makes_view"] for _, told in door.desk.ran] == [True, True, False]
    assert len(door.desk.made) == 1


async def test_a_session_that_ended_is_not_begun_again_behind_its_clients_back(door: ConnectHouse) -> None:
    client = door.client()
    await client.differ()
    (first, *_) = await client.run(table_plan())
    await client.call("ReleaseSession", proto.ReleaseSessionRequest)
    assert door.desk.made[0].is_closed
    assert "SESSION_CLOSED" in condition(await refused(client.run(table_plan())))
    client.observed = first.server_side_session_id
    assert "SESSION_C" in condition(await refused(client.run(table_plan())))


async def test_a_session_that_the_gateway_does_not_know_has_changed(door: ConnectHouse) -> None:
    client = Client(door.client().stub, observed=str(uuid.uuid4()))
    assert "SESSION_CHANGED" in condition(await refused(client.run(table_plan())))


async def test_an_idle_session_makes_room_on_the_engine_and_is_made_again(door: ConnectHouse) -> None:
    door.desk.room = 1
    one, other = door.client(), door.client()
    for client in (one, other):
        await client.differ()
        await client.run(table_plan())
    assert door.desk.made[0].is_closed
    await one.run(table_plan())
    assert len(door.desk.made) == 3


async def test_what_others_left_in_an_engine_session_is_undone_before_it_is_used(door: ConnectHouse) -> None:
    for number, plan in enumerate((table_plan(), view_plan("v")), start=1):
        await door.client().run(plan)
        assert door.desk.engine.used == [("lake", ())] * number
        assert door.desk.engine.locales == [("UTC", False)] * number
    assert (door.desk.lent, len(door.desk.made)) == (1, 1)


async def test_what_only_reads_is_done_anywhere_until_the_session_is_unlike_others(
    door: ConnectHouse,
) -> None:
    door.desk.engine.scripts["SHOW VIEWS"] = Script(description=Description(Kind.SHOWS, "ShowViews"))
    door.desk.confs["spark.sql.ansi.enabled"] = "true"
    client = door.client()
    await client.run(table_plan())
    await client.run(sql_plan("SELECT 1"))
    tree = proto.AnalyzePlanRequest.TreeString(plan=table_plan())
    await client.call("AnalyzePlan", proto.AnalyzePlanRequest, tree_string=tree)
    assert await client.get("spark.sql.ansi.enabled") == {"spark.sql.ansi.enabled": "true"}
    assert (door.desk.lent, door.desk.made) == (4, [])
    assert {told["standing"] for _, told in (*door.desk.ran, *door.desk.analysed)} == {None}
    assert all(told["reads_only"] for _, told in door.desk.ran)
    await client.run(sql_plan("SHOW VIEWS"))
    await client.run(table_plan())
    (own,) = door.desk.made
    assert (door.desk.lent, door.desk.ran[-1][1]["standing"]) == (4, own.standing)
    assert not door.desk.ran[-1][1]["reads_only"]


async def test_a_text_that_mentions_frames_is_run_in_a_session_of_its_own(door: ConnectHouse) -> None:
    plan = proto.Plan()
    plan.root.with_relations.root.sql.query = "SELECT * FROM a"
    alias = plan.root.with_relations.references.add().subquery_alias
    alias.alias = "a"
    alias.input.read.named_table.unparsed_identifier = "sales.orders"
    await door.client().run(plan)
    (own,) = door.desk.made
    assert door.desk.ran[-1][1]["standing"] == own.standing


async def test_a_session_that_is_nobodys_own_and_dies_is_passed_over(door: ConnectHouse) -> None:
    for plan in (table_plan(), sql_plan("SELECT 1")):
        door.desk.dying = 1
        assert kinds(await door.client().run(plan))[-1] == "result_complete"
    assert door.desk.lent == 2


async def test_a_view_that_cannot_be_made_again_on_another_engine_is_named(door: ConnectHouse) -> None:
    client = door.client()
    await client.run(view_plan("v"))
    door.desk.made[0].is_lost = True
    door.desk.answers = [[BailiwickError(Code.TABLE_NOT_FOUND, "There is no table sales.orders.")]]
    error = await refused(client.run(table_plan()))
    assert condition(error) == "INVALID_HANDLE.SESSION_CHANGED"
    assert "v could not be made again" in str(error.details())
    # PySpark has closed itself by then: asked for details, it would raise that, and not the error.
    assert "errorId" not in error_info(error).metadata


async def test_a_view_that_policies_do_not_allow_any_more_is_gone_and_the_session_goes_on(
    door: ConnectHouse,
) -> None:
    client = door.client()
    await client.run(view_plan("v"))
    door.desk.made[0].is_current = False
    door.desk.answers = [[BailiwickError(Code.TABLE_NOT_FOUND, "There is no table sales.orders.")], []]
    error = await refused(client.run(table_plan()))
    assert "The temporary view v is gone" in str(error.details())
    assert kinds(await client.run(table_plan()))[-1] == "result_complete"
    assert len(door.desk.made) == 1


async def test_who_waits_for_a_place_hears_of_it(door: ConnectHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiwick.doors.spark_connect.door.WAITING_EVERY_S", 0.01)
    door.desk.opening = asyncio.Event()
    call = aiter(door.client().execute(table_plan(), operation_id=operation_id()))
    waiting = [await anext(call), await anext(call)]
    assert kinds(waiting) == ["execution_progress"] * 2
    # Of progress without tasks PySpark tells its user nothing.
    assert {stage.num_tasks for each in waiting for stage in each.execution_progress.stages} == {1}
    door.desk.opening.set()
    rest = [response async for response in call]
    assert kinds(rest)[-2:] == ["arrow_batch", "result_complete"]


async def test_an_idle_session_ends_and_its_client_is_told_to_make_another(tmp_path: Path) -> None:
    async with connect_house(tmp_path, SparkConnectConfig(idle_s=0.001, engine_idle_s=0.001)) as door:
        client = door.client()
        (first, *_) = await client.run(view_plan("v"))
        client.observed = first.server_side_session_id
        await eventually(lambda: len(door.door.sessions) == 0 and door.desk.made[0].is_closed)
        assert condition(await refused(client.run(table_plan()))) == "INVALID_HANDLE.SESSION_CHANGED"

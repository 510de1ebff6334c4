"""What becomes of those who read or change something when the gateway is asked to end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from connect_house import (
    ConnectHouse,
    condition,
    connect_house,
    kinds,
    operation_id,
    refused,
    rows_response,
    sql_plan,
    table_plan,
)
from query_house import Script, eventually

from bailiwick.doors.spark_connect.config import SparkConnectConfig
from bailiwick.engines.description import Kind


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[ConnectHouse]:
    async with connect_house(tmp_path) as made:
        yield made


async def test_who_has_not_read_to_the_end_when_the_gateway_stops_is_told_and_does_not_ask_again(
    door: ConnectHouse,
) -> None:
    door.desk.answers = [[rows_response(), asyncio.Event()]]
    call = door.client().execute(table_plan(), operation_id=operation_id())
    await call.read()
    await door.door.drain(0.01)
    error = await refused(call.read())
    assert condition(error) == "BAILIWICK_CIRCUIT_BREAKER_OPEN"
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "RetryInfo" not in str(error.trailing_metadata())


async def test_who_changes_something_when_the_gateway_stops_is_told_that_it_may_have_happened(
    door: ConnectHouse,
) -> None:
    door.desk.engine.scripts["INSERT INTO t VALUES (1)"] = Script(kind=Kind.CHANGE)
    door.desk.answers = [[asyncio.Event()]]
    writing = asyncio.create_task(
        door.client().run(sql_plan("INSERT INTO t VALUES (1)"), operation_id=operation_id())
    )
    await eventually(lambda: bool(door.desk.ran))
    await asyncio.gather(door.house.service.drain(0.01), door.door.drain(0.01))
    error = await refused(writing)
    assert condition(error) == "BAILIWICK_CIRCUIT_BREAKER_OPEN"
    assert "may have been carried out" in str(error.details())
    assert "RetryInfo" not in str(error.trailing_metadata())


async def test_a_gateway_that_stops_waits_for_nobody_who_has_read_everything(door: ConnectHouse) -> None:
    await door.client().run(table_plan(), operation_id=operation_id())
    await asyncio.wait_for(door.door.drain(60.0), 5.0)


async def test_a_gateway_that_stops_waits_for_who_is_between_two_streams(tmp_path: Path) -> None:
    gate, name = asyncio.Event(), operation_id()
    async with connect_house(tmp_path, SparkConnectConfig(stream_s=0.001)) as door:
        door.desk.answers = [[rows_response(), gate, rows_response()]]
        client = door.client()
        seen = await client.run(table_plan(), operation_id=name)
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            draining = tasks.create_task(door.door.drain(60.0))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not draining.done()
            gate.set()
            while kinds(seen)[-1] != "result_complete":
                seen += [response async for response in client.reattach(name, seen[-1].response_id)]
        assert kinds(seen) == ["arrow_batch", "arrow_batch", "result_complete"]

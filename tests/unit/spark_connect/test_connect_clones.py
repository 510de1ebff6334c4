"""CloneSession: a session that begins as another one is, and is its owner's like any other."""

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
    refused,
    table_plan,
    view_plan,
)
from pyspark.sql.connect import proto

from bailiwick.doors.spark_connect import recipe
from bailiwick.doors.spark_connect.config import SparkConnectConfig

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[ConnectHouse]:
    async with connect_house(tmp_path) as made:
        yield made


@pytest.fixture
def client(door: ConnectHouse) -> Client:
    return door.client()


async def cloned(client: Client, name: str | None = None) -> Client:
    response = await clone(client, name)
    return Client(client.stub, client.token, response.new_session_id, observed=observed(response))


async def clone(client: Client, name: str | None = None) -> Any:
    return await client.call("CloneSession", proto.CloneSessionRequest, new_session_id=name)


def observed(response: Any) -> str:
    return str(response.new_server_side_session_id)


async def test_it_begins_with_what_the_other_has_and_goes_its_own_way(
    door: ConnectHouse, client: Client
) -> None:
    await client.set(PARTITIONS, "7")
    await client.run(view_plan("v"))
    other = await cloned(client)
    await client.set(PARTITIONS, "3")
    await other.run(table_plan("v"))
    assert await other.get(PARTITIONS) == {PARTITIONS: "7"}
    assert await client.get(PARTITIONS) == {PARTITIONS: "3"}
    # The view is made again, under the policies of now.
    assert [told["makes_view"] for _, told in door.desk.ran] == [True, True, False]
    assert len(door.desk.made) == 2


async def test_one_of_a_plain_session_costs_no_engine_anything(door: ConnectHouse, client: Client) -> None:
    await client.run(table_plan())
    other = await cloned(client)
    await other.run(table_plan())
    assert (door.desk.lent, door.desk.made) == (2, [])


async def test_it_is_called_as_its_client_says_or_gets_a_name(client: Client) -> None:
    name = str(uuid.uuid4()).upper()
    response = await clone(client, name)
    assert (response.session_id, response.new_session_id) == (client.session_id, name)
    assert len({response.server_side_session_id, response.new_server_side_session_id}) == 2
    given = (await clone(client)).new_session_id
    assert str(uuid.UUID(given)) == given


async def test_a_name_that_is_taken_or_closed_or_none_is_refused(client: Client) -> None:
    taken, closed = str(uuid.uuid4()), str(uuid.uuid4())
    await clone(client, taken)
    await clone(client, closed)
    await Client(client.stub, session_id=closed).call("ReleaseSession", proto.ReleaseSessionRequest)
    for name, kind in (
        (taken, "TARGET_SESSION_ID_ALREADY_EXISTS"),
        (client.session_id, "TARGET_SESSION_ID_ALREADY_EXISTS"),
        (closed, "TARGET_SESSION_ID_ALREADY_CLOSED"),
        ("mine", "TARGET_SESSION_ID_FORMAT"),
    ):
        error = await refused(clone(client, name))
        assert condition(error) == f"INVALID_CLONE_SESSION_REQUEST.{kind}"
        assert error_info(error).metadata["sqlState"] == "42K04"


async def test_somebody_else_s_session_is_not_cloned(door: ConnectHouse, client: Client) -> None:
    await client.set(PARTITIONS, "7")
    rita = door.client(token="rita", session_id=client.session_id)
    other = await cloned(rita)
    assert await other.get(PARTITIONS) == {}
    # Nor is a name taken by that: the same one is another session for each.
    await cloned(client, other.session_id)


async def test_one_that_has_ended_is_not_cloned(client: Client) -> None:
    await client.run(table_plan())
    await client.call("ReleaseSession", proto.ReleaseSessionRequest)
    assert condition(await refused(clone(client))) == "INVALID_HANDLE.SESSION_CLOSED"


async def test_what_cannot_be_made_again_cannot_be_cloned(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "STEPS_MAX", 1)
    await client.run(view_plan("v"))
    await client.run(view_plan("w"))
    error = await refused(clone(client))
    assert condition(error) == "BAILIWICK_RESOURCE_EXHAUSTED"
    assert "more temporary views and functions than can be made again" in str(error.details())


async def test_clones_count_as_sessions(tmp_path: Path) -> None:
    async with connect_house(tmp_path, SparkConnectConfig(sessions_per_user_max=2)) as door:
        client = door.client()
        for _ in range(3):
            await clone(client)
        assert len(door.door.sessions) == 2
        # The one that was cloned was in use, so the others made room.
        await client.run(table_plan())

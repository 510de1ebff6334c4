"""Rows that clients send ahead of their plans: what is kept for whom, and what reaches the engine."""

import hashlib
import zlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from connect_house import Client, ConnectHouse, condition, connect_house, refused
from pyspark.sql.connect import proto
from query_house import eventually

from bailiwick.doors.spark_connect import service
from bailiwick.doors.spark_connect.config import SparkConnectConfig

MIB = 1 << 20
ROWS = pa.table({"n": pa.array(range(1000), pa.int64())})


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def noise(size_bytes: int, seed: int = 0) -> bytes:
    return bytes([seed]) * size_bytes


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def name(data: bytes) -> str:
    return f"cache/{digest(data)}"


def chunk(data: bytes, crc: int | None = None) -> Any:
    return proto.AddArtifactsRequest.ArtifactChunk(data=data, crc=zlib.crc32(data) if crc is None else crc)


def in_batch(*pieces: bytes, crc: int | None = None) -> Any:
    """One message."""
    request = proto.AddArtifactsRequest()
    for piece in pieces:
        request.batch.artifacts.add(name=name(piece), data=chunk(piece, crc))
    return request


def in_chunks(
    piece: bytes, chunk_bytes: int = 700, total: int | None = None, count: int | None = None
) -> Any:
    """Several messages, as stock clients send what is more than 32 KiB."""
    chunks = [chunk(piece[at : at + chunk_bytes]) for at in range(0, len(piece), chunk_bytes)]
    first = proto.AddArtifactsRequest.BeginChunkedArtifact(
        name=name(piece),
        total_bytes=len(piece) if total is None else total,
        num_chunks=len(chunks) if count is None else count,
        initial_chunk=chunks[0],
    )
    return [
        proto.AddArtifactsRequest(begin_chunk=first),
        *(proto.AddArtifactsRequest(chunk=each) for each in chunks[1:]),
    ]


async def bring(client: Client, requests: Sequence[Any]) -> Any:
    for request in requests:
        request.session_id = request.session_id or client.session_id
    return await client.stub.AddArtifacts(iter(requests), metadata=client.metadata)


async def kept(client: Client, *pieces: bytes) -> list[bool]:
    names = [name(piece) for piece in pieces]
    response = await client.call("ArtifactStatus", proto.ArtifactStatusesRequest, names=names)
    return [response.statuses[each].exists for each in names]


def pieces_plan(*data: bytes, schema: bytes | None = None) -> Any:
    plan = proto.Plan()
    mentioned = plan.root.chunked_cached_local_relation
    mentioned.dataHashes.extend(map(digest, data))
    if schema is not None:
        mentioned.schemaHash = digest(schema)
    return plan


def whole_plan(relation: bytes) -> Any:
    plan = proto.Plan()
    plan.root.limit.input.cached_local_relation.hash = digest(relation)
    plan.root.limit.limit = 5
    return plan


def is_not_kept(error: Any) -> bool:
    return condition(error) == "BAILIWICK_INVALID_ARGUMENTS" and "not kept here" in str(error.details())


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[ConnectHouse]:
    config = SparkConnectConfig(brought_bytes_per_plan_max=2 * MIB, brought_bytes_per_user_max=3 * MIB)
    async with connect_house(tmp_path, config) as made:
        yield made


@pytest.fixture
def client(door: ConnectHouse) -> Client:
    return door.client()


async def test_rows_are_put_where_a_plan_mentions_them(door: ConnectHouse, client: Client) -> None:
    first, second, schema = stream(ROWS.slice(0, 400)), stream(ROWS.slice(400)), b"n BIGINT"
    answer = await bring(client, [in_batch(schema, second), *in_chunks(first)])
    assert [(each.name, each.is_crc_successful) for each in answer.artifacts] == [
        (name(each), True) for each in (schema, second, first)
    ]
    assert answer.session_id == client.session_id
    assert await kept(client, first, second, schema) == [True] * 3
    await client.run(pieces_plan(first, second, schema=schema))
    plan, _ = door.desk.ran[0]
    assert read(plan.root.local_relation.data) == ROWS
    assert plan.root.local_relation.schema == "n BIGINT"
    assert not plan.root.HasField("chunked_cached_local_relation")


async def test_clients_of_4_0_send_the_whole_relation(door: ConnectHouse, client: Client) -> None:
    relation = proto.LocalRelation(data=stream(ROWS), schema="n BIGINT").SerializeToString()
    await bring(client, [in_batch(relation)])
    await client.run(whole_plan(relation))
    plan, _ = door.desk.ran[0]
    assert read(plan.root.limit.input.local_relation.data) == ROWS
    assert plan.root.limit.limit == 5


async def test_analysis_sees_the_rows(door: ConnectHouse, client: Client) -> None:
    data = stream(ROWS)
    await bring(client, [in_batch(data)])
    analysis = proto.AnalyzePlanRequest.TreeString(plan=pieces_plan(data))
    await client.call("AnalyzePlan", proto.AnalyzePlanRequest, tree_string=analysis)
    request, _ = door.desk.analysed[0]
    assert read(request.tree_string.plan.root.local_relation.data) == ROWS


async def test_what_was_not_brought_is_told_before_any_engine_is_asked(
    door: ConnectHouse, client: Client
) -> None:
    data = stream(ROWS)
    error = await refused(client.run(pieces_plan(data)))
    assert is_not_kept(error)
    analysis = proto.AnalyzePlanRequest.Schema(plan=pieces_plan(data))
    error = await refused(client.call("AnalyzePlan", proto.AnalyzePlanRequest, schema=analysis))
    assert is_not_kept(error)
    assert not door.desk.ran
    assert not door.desk.analysed


async def test_rows_are_of_the_session_that_brought_them(door: ConnectHouse, client: Client) -> None:
    data = stream(ROWS)
    await bring(client, [in_batch(data)])
    strangers = (door.client(), door.client(token="rita", session_id=client.session_id))
    for stranger in strangers:
        assert await kept(stranger, data) == [False]
        assert is_not_kept(await refused(stranger.run(pieces_plan(data))))


async def test_a_view_of_brought_rows_is_made_again_where_its_session_goes(
    door: ConnectHouse, client: Client
) -> None:
    data = stream(ROWS)
    await bring(client, [in_batch(data)])
    plan = proto.Plan()
    view = plan.command.create_dataframe_view
    view.name, view.replace = "v", True
    view.input.CopyFrom(pieces_plan(data).root)
    await client.run(plan)
    door.desk.made[0].is_lost = True
    table = proto.Plan()
    table.root.read.named_table.unparsed_identifier = "v"
    await client.run(table)
    made = [ran.command.create_dataframe_view.input for ran, _ in door.desk.ran[:2]]
    assert [read(each.local_relation.data) for each in made] == [ROWS, ROWS]


async def test_what_came_broken_is_not_kept(client: Client) -> None:
    data = stream(ROWS)
    answer = await bring(client, [in_batch(data, crc=1)])
    assert [each.is_crc_successful for each in answer.artifacts] == [False]
    assert await kept(client, data) == [False]


def misnamed() -> Any:
    request = in_batch(b"this")
    request.batch.artifacts[0].name = name(b"that")
    return [request]


def of_two_sessions() -> Any:
    requests = [in_batch(b"this"), in_batch(b"that")]
    requests[1].session_id = "99999999-2222-4333-8444-555555555555"
    return requests


SENT_WRONGLY = {
    "nothing": list,
    "other bytes than its name says": misnamed,
    "fewer bytes than announced": lambda: in_chunks(noise(2000), total=2001),
    "more bytes than announced": lambda: in_chunks(noise(2000), total=1999),
    "fewer chunks than announced": lambda: in_chunks(noise(2000), count=9),
    "chunks for ever": lambda: in_chunks(noise(2000), count=2001),
    "no chunks": lambda: in_chunks(noise(2000), count=0),
    "less than no bytes": lambda: in_chunks(noise(2000), total=-1),
    "a chunk of nothing": lambda: in_chunks(noise(2000))[1:],
    "more chunks than announced": lambda: [*in_chunks(noise(2000)), *in_chunks(noise(2000))[1:]],
    "one in the midst of another": lambda: [*in_chunks(noise(2000))[:1], in_batch(noise(20))],
    "the end in its midst": lambda: in_chunks(noise(2000))[:2],
    "pieces of two sessions": of_two_sessions,
}


@pytest.mark.parametrize("sent", SENT_WRONGLY.values(), ids=SENT_WRONGLY)
async def test_what_is_sent_wrongly_is_refused_and_leaves_nothing(
    door: ConnectHouse, client: Client, sent: Any
) -> None:
    error = await refused(bring(client, sent()))
    assert condition(error) == "BAILIWICK_INVALID_ARGUMENTS"
    for session in door.door.sessions:
        session.brought_rows.close()
    assert door.house.spool.held_bytes == 0


@pytest.mark.parametrize(
    "other", ["pyfiles/x.py", "jars/x.jar", "forward_to_fs/etc/x", "cache/x", "cache/../x"]
)
async def test_what_is_not_rows_is_refused(client: Client, other: str) -> None:
    request = in_batch(b"import os")
    request.batch.artifacts[0].name = other
    error = await refused(bring(client, [request]))
    assert condition(error) == "BAILIWICK_NOT_SUPPORTED"
    assert f"{other} is not supported. It would bring files or classes" in str(error.details())


NO_ROWS = {
    "noise": (noise(2000),),
    "compressed": (stream(ROWS, "zstd"),),
    "of different columns": (stream(ROWS), stream(ROWS.rename_columns(["m"]))),
}


@pytest.mark.parametrize("pieces", NO_ROWS.values(), ids=NO_ROWS)
async def test_what_turns_out_to_be_no_rows_reaches_no_engine(
    door: ConnectHouse, client: Client, pieces: tuple[bytes, ...]
) -> None:
    await bring(client, [in_batch(*pieces)])
    error = await refused(client.run(pieces_plan(*pieces)))
    assert condition(error) in ("BAILIWICK_PARSE_ERROR", "BAILIWICK_INVALID_ARGUMENTS")
    assert not door.desk.ran


@pytest.mark.parametrize("schema", [b"\xff\xfe", b'{"type": "udt", "class": "x"}'])
async def test_their_schema_is_held_to_the_same_rules_as_in_a_plan(
    door: ConnectHouse, client: Client, schema: bytes
) -> None:
    data = stream(ROWS)
    await bring(client, [in_batch(data, schema)])
    error = await refused(client.run(pieces_plan(data, schema=schema)))
    assert condition(error) in ("BAILIWICK_PARSE_ERROR", "BAILIWICK_NOT_SUPPORTED")
    assert not door.desk.ran


async def test_what_was_not_used_for_longest_makes_room(client: Client) -> None:
    pieces = [noise(MIB, seed) for seed in range(4)]
    for piece in pieces[:3]:
        await bring(client, [in_batch(piece)])
    # Mentioned, and so used, though it turns out to be no rows.
    await refused(client.run(pieces_plan(pieces[0])))
    await bring(client, [in_batch(pieces[3])])
    assert await kept(client, *pieces) == [True, False, True, True]


async def test_no_plan_brings_too_many_rows(door: ConnectHouse, client: Client) -> None:
    pieces = [noise(MIB, seed) for seed in range(4)]
    for piece in pieces:
        await bring(client, [in_batch(piece)])
    for mentioned in (pieces, pieces[1:], [pieces[1]] * 3):
        error = await refused(client.run(pieces_plan(*mentioned)))
        # Also when the first of them had to go for the last.
        assert condition(error) == "BAILIWICK_RESOURCE_EXHAUSTED"
    error = await refused(bring(client, in_chunks(noise(2 * MIB + 1), MIB)))
    assert condition(error) == "BAILIWICK_RESOURCE_EXHAUSTED"
    assert not door.desk.ran


async def test_one_user_s_rows_leave_room_for_the_others(door: ConnectHouse, client: Client) -> None:
    for seed in range(3):
        await bring(client, [in_batch(noise(MIB, seed))])
    full = door.client()
    error = await refused(bring(full, [in_batch(noise(MIB))]))
    assert condition(error) == "BAILIWICK_RESOURCE_EXHAUSTED"
    await bring(door.client(token="rita"), [in_batch(noise(MIB))])


async def test_the_room_is_given_back_with_the_session(door: ConnectHouse, client: Client) -> None:
    for seed in range(3):
        await bring(client, [in_batch(noise(MIB, seed))])
    assert door.house.spool.held_bytes == 3 * MIB
    await client.call("ReleaseSession", proto.ReleaseSessionRequest)
    assert door.house.spool.held_bytes == 0
    await bring(door.client(), [in_batch(noise(MIB))])


async def test_a_clone_keeps_the_rows_when_the_other_session_ends(door: ConnectHouse, client: Client) -> None:
    data = stream(ROWS)
    await bring(client, [in_batch(data), in_batch(noise(MIB))])
    held_bytes = door.house.spool.held_bytes
    answer = await client.call("CloneSession", proto.CloneSessionRequest)
    clone = door.client(session_id=answer.new_session_id)
    assert door.house.spool.held_bytes == held_bytes
    await client.call("ReleaseSession", proto.ReleaseSessionRequest)
    assert await kept(clone, data) == [True]
    await clone.run(pieces_plan(data))
    assert read(door.desk.ran[-1][0].root.local_relation.data) == ROWS
    await clone.call("ReleaseSession", proto.ReleaseSessionRequest)
    assert door.house.spool.held_bytes == 0


async def test_the_same_rows_again_take_no_more_room(door: ConnectHouse, client: Client) -> None:
    for _ in range(5):
        await bring(client, [in_batch(noise(MIB), noise(MIB))])
    assert door.house.spool.held_bytes == MIB


async def test_who_holds_a_place_and_sends_nothing_loses_it(
    door: ConnectHouse, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "SENT_WITHIN_S", 0.2)
    first = in_chunks(noise(2000))[0]
    first.session_id = client.session_id
    call = client.stub.AddArtifacts(metadata=client.metadata)
    await call.write(first)
    assert condition(await refused(call)) == "BAILIWICK_QUERY_TIMEOUT"
    assert door.house.spool.held_bytes == 0


async def test_a_client_that_leaves_in_the_midst_leaves_nothing(door: ConnectHouse, client: Client) -> None:
    first = in_chunks(noise(2000))[0]
    first.session_id = client.session_id
    call = client.stub.AddArtifacts(metadata=client.metadata)
    await call.write(first)
    await eventually(lambda: door.house.spool.held_bytes == 2000)
    call.cancel()
    await eventually(lambda: door.house.spool.held_bytes == 0)

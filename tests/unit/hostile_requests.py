"""Requests of Spark Connect that no client would send: too deep, too large, or broken at random."""

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql.connect import proto
from spark_connect_messages import SESSION, paths, put, reaching

from bailiwick.doors.spark_connect.rules import PACKAGE

MIB = 1 << 20
LIMIT = proto.Relation.DESCRIPTOR.fields_by_name["limit"].number
INPUT = proto.Limit.DESCRIPTOR.fields_by_name["input"].number
ROOT = proto.Plan.DESCRIPTOR.fields_by_name["root"].number
PLAN = proto.ExecutePlanRequest.DESCRIPTOR.fields_by_name["plan"].number
SESSION_ID = proto.ExecutePlanRequest.DESCRIPTOR.fields_by_name["session_id"].number


def delimited(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def nested(levels: int) -> bytes:
    """A relation in a limit in a limit … The client's own library would not write as many."""
    data = proto.Relation(range=proto.Range(end=1)).SerializeToString()
    for _ in range(levels):
        data = delimited(LIMIT, delimited(INPUT, data))
    return bytes(data)


def request_of(relation: bytes) -> bytes:
    return delimited(SESSION_ID, SESSION.encode()) + delimited(PLAN, delimited(ROOT, relation))


def zstd(pieces: int, piece: bytes = bytes(MIB)) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        for _ in range(pieces):
            out.write(piece)
    return bytes(sink.getvalue())


def compressed(data: bytes, kind: Any = proto.Plan.CompressedOperation.OP_TYPE_RELATION) -> bytes:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    request.plan.compressed_operation.data = data
    request.plan.compressed_operation.op_type = kind
    request.plan.compressed_operation.compression_codec = proto.CompressionCodec.COMPRESSION_CODEC_ZSTD
    return bytes(request.SerializeToString())


def flip(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def insert(data: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(data))
    data[at:at] = chance.randbytes(chance.randint(1, 8))


def cut(data: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(data))
    del data[at : at + chance.randint(1, 16)]


def double(data: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(data))
    data[at:at] = data[at : at + chance.randint(1, 64)]


def swap(data: bytearray, chance: random.Random) -> None:
    if data:
        one, other = chance.randrange(len(data)), chance.randrange(len(data))
        data[one], data[other] = data[other], data[one]


MUTATIONS: list[Callable[[bytearray, random.Random], None]] = [flip, insert, cut, double, swap]


def seeds(chance: random.Random) -> list[Any]:
    """A request for each kind of message, with a few of its fields filled."""
    made = []
    for name in paths():
        reached = reaching(name)
        kind: Any = proto.base_pb2.DESCRIPTOR.pool.FindMessageTypeByName(PACKAGE + name)
        for field in chance.sample(list(kind.fields), min(3, len(kind.fields))):
            put(reached.message, field)
        made.append(reached.request)
    return made


def mutated(whole: bytes, chance: random.Random) -> bytes:
    data = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        chance.choice(MUTATIONS)(data, chance)
    return bytes(data)


def messages_in(message: Any) -> list[Any]:
    found, waiting = [], [message]
    while waiting:
        one = waiting.pop()
        found.append(one)
        for field, value in one.ListFields():
            if field.message_type is not None and not field.message_type.GetOptions().map_entry:
                waiting.extend(value if field.is_repeated else [value])
    return found


def grown(chance: random.Random) -> Any:
    """A request that protobuf reads, with parts anywhere in it that have no business there."""
    request = reaching(chance.choice(list(paths()))).request
    for _ in range(chance.randint(1, 30)):
        message = chance.choice(messages_in(request))
        fields = list(message.DESCRIPTOR.fields)
        if fields:
            put(message, chance.choice(fields))
    return request

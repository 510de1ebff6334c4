"""Rows that a plan only mentions, by the digests of their bytes, and how they come to stand in it. Pure.

Clients of Spark 4.1 mention the pieces of an Arrow stream and, where they say one, of a schema; those of 4.0
one piece, which is the whole relation that would stand in the plan.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import Message
from pyspark.sql.connect import proto

from bailiwick.doors.spark_connect import screen
from bailiwick.doors.spark_connect.unpacking import parse
from bailiwick.errors import BailiwickError, Code
from bailiwick.results.batches import FrameKind, MalformedStreamError, frames

M = TypeVar("M", bound=Message)
Read = Callable[[str], bytes]
"""Gives the bytes of a piece by its digest."""

_WHOLE: Final = "cached_local_relation"
_PIECES: Final = "chunked_cached_local_relation"


def digests_in(message: Message) -> list[str]:
    """Of all rows that are mentioned in it, each as often as it is mentioned."""
    return [digest for relation in _mentions(message) for digest in _digests(relation)]


def with_rows(message: M, read: Read) -> M:
    """A copy in which the rows stand. PARSE_ERROR if they are none."""
    whole = type(message)()
    whole.CopyFrom(message)
    for relation in list(_mentions(whole)):
        relation.local_relation.CopyFrom(_rows(relation, read))
    return whole


def _mentions(message: Message) -> Iterator[Any]:
    """Relations that mention rows, wherever they stand in it."""
    waiting: list[Any] = [message]
    while waiting:
        each = waiting.pop()
        if isinstance(each, proto.Relation) and each.WhichOneof("rel_type") in (_WHOLE, _PIECES):
            yield each
            continue
        for field, value in each.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                if field.message_type.fields_by_name["value"].message_type is not None:
                    waiting += value.values()
            elif field.is_repeated:
                waiting += value
            else:
                waiting.append(value)


def _digests(relation: Any) -> list[str]:
    if relation.HasField(_WHOLE):
        return [relation.cached_local_relation.hash]
    pieces = relation.chunked_cached_local_relation
    return [*([pieces.schemaHash] if pieces.HasField("schemaHash") else []), *pieces.dataHashes]


def _rows(relation: Any, read: Read) -> proto.LocalRelation:
    if relation.HasField(_WHOLE):
        rows = parse(proto.LocalRelation, read(relation.cached_local_relation.hash))
    else:
        mentioned = relation.chunked_cached_local_relation
        rows = proto.LocalRelation(data=_joined([read(digest) for digest in mentioned.dataHashes]))
        if mentioned.HasField("schemaHash"):
            rows.schema = _text(read(mentioned.schemaHash))
    # They are held to the same rules as if they had stood in the plan from the beginning.
    screen.local_relation(rows)
    return rows


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BailiwickError(Code.PARSE_ERROR, "The schema of a frame's rows is no text.") from error


def _joined(streams: Sequence[bytes]) -> bytes:
    """One Arrow stream with the batches of all, which must have the same schema."""
    parts: list[bytes] = []
    try:
        for stream in streams:
            for frame in frames(stream):
                encapsulated = frame.encapsulated()
                if frame.kind is not FrameKind.SCHEMA or not parts:
                    parts.append(encapsulated)
                elif encapsulated != parts[0]:
                    raise BailiwickError(Code.PARSE_ERROR, "Rows of one frame have different columns.")
    except MalformedStreamError as error:
        raise BailiwickError(Code.PARSE_ERROR, "The rows of a frame are not an Arrow stream.") from error
    return b"".join(parts)

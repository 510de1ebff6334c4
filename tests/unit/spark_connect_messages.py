"""Requests of Spark Connect that reach a given kind of message, built along the installed descriptors."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from pyspark.sql.connect import proto

from bailiwick.doors.spark_connect import screen
from bailiwick.doors.spark_connect.rules import PACKAGE
from bailiwick.doors.spark_connect.verdicts import verdicts
from bailiwick.errors import USER_CODE

SESSION = "11111111-2222-4333-8444-555555555555"
OPERATION = "66666666-7777-4888-8999-aaaaaaaaaaaa"

JUDGES: dict[str, Callable[[bytes], Any]] = {
    "ExecutePlanRequest": screen.execute,
    "AnalyzePlanRequest": screen.analyse,
    "ConfigRequest": screen.config,
    "InterruptRequest": screen.interrupt,
    "ReattachExecuteRequest": screen.reattach,
    "ReleaseExecuteRequest": screen.release,
    "ReleaseSessionRequest": screen.release_session,
    "FetchErrorDetailsRequest": screen.fetch_error_details,
    "ArtifactStatusesRequest": screen.artifact_statuses,
    "AddArtifactsRequest": screen.add_artifacts,
    "CloneSessionRequest": screen.clone_session,
}
Path = tuple[FieldDescriptor, ...]


@dataclass
class Reached:
    """A request, and the message in it that was looked for."""

    request: Any
    message: Any

    def judge(self, *, may_run_code: bool = True) -> Any:
        judge = JUDGES[self.request.DESCRIPTOR.name]
        if judge in (screen.execute, screen.analyse):
            judge = partial(judge, may_run_code=may_run_code)
        return judge(self.request.SerializeToString())


def name_of(kind: Any) -> str:
    return str(kind.full_name).removeprefix(PACKAGE)


def inside(field: Any) -> Any:
    """The kind of message that a field holds, or None. A map holds its values."""
    kind = field.message_type
    is_map = kind is not None and kind.GetOptions().map_entry
    return kind.fields_by_name["value"].message_type if is_map else kind


@cache
def paths() -> dict[str, tuple[str, Path]]:
    """For each kind of message that somebody may send: which request it is in, and by which fields."""
    found: dict[str, tuple[str, Path]] = {}
    waiting: deque[tuple[Any, str, Path]] = deque(
        (getattr(proto, request).DESCRIPTOR, request, ()) for request in JUDGES
    )
    while waiting:
        kind, request, path = waiting.popleft()
        if name_of(kind) in found:
            continue
        found[name_of(kind)] = (request, path)
        listed = verdicts().messages[name_of(kind)]
        for field in kind.fields:
            # What was compressed is unpacked before anything is looked at.
            is_refused = listed.refused.get(field.name, USER_CODE) != USER_CODE
            if not is_refused and field.name != "compressed_operation":
                child = inside(field)
                if child is not None:
                    waiting.append((child, request, (*path, field)))
    return found


def reaching(name: str) -> Reached:
    request_name, path = paths()[name]
    request = getattr(proto, request_name)()
    complete(request)
    message = request
    for field in path:
        message = step(message, field)
    return Reached(request, message)


def complete(request: Any) -> None:
    """What a request must have, besides what is looked at."""
    for field in request.DESCRIPTOR.fields:
        if field.name in ("session_id", "operation_id") and request.DESCRIPTOR.name != "InterruptRequest":
            setattr(request, field.name, SESSION if field.name == "session_id" else OPERATION)
    match request.DESCRIPTOR.name:
        case "ExecutePlanRequest":
            request.plan.root.range.end = 1
        case "AnalyzePlanRequest":
            request.spark_version.SetInParent()
        case "ConfigRequest":
            request.operation.get.SetInParent()
        case "AddArtifactsRequest":
            request.batch.SetInParent()
        case "InterruptRequest":
            request.session_id = SESSION
        case "FetchErrorDetailsRequest":
            request.error_id = "e"


def step(message: Any, field: Any) -> Any:
    """Into the field, which is made if it is not there."""
    value = getattr(message, field.name)
    if field.message_type.GetOptions().map_entry:
        return value["key"]
    if field.is_repeated:
        return value.add()
    value.SetInParent()
    match field.message_type.name:
        case "WriteOperation":
            value.table.table_name = "t"
        case "CachedLocalRelation":
            value.hash = "d"
        case "ChunkedCachedLocalRelation":
            value.dataHashes.append("d")
    return value


def put(message: Any, field: FieldDescriptor) -> None:
    """Something, whatever it is, in a field."""
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if inside(field) is None:
            value["key"] = "value"
        else:
            value["key"].SetInParent()
    elif field.message_type is not None:
        value.add() if field.is_repeated else value.SetInParent()
    elif field.is_repeated:
        value.append("x" if field.type == FieldDescriptor.TYPE_STRING else 1)
    elif field.type == FieldDescriptor.TYPE_BYTES:
        setattr(message, field.name, b"x")
    else:
        values = {FieldDescriptor.TYPE_STRING: "x", FieldDescriptor.TYPE_BOOL: True}
        setattr(message, field.name, values.get(field.type, 1))


def refused_fields() -> list[tuple[str, str, str]]:
    """Message, field and the name of the reason."""
    return [
        (name, field, reason)
        for name, listed in verdicts().messages.items()
        for field, reason in listed.refused.items()
    ]
